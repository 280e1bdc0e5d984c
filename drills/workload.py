"""Clients that keep vector clocks of their own, to judge the service's.

Each worker is sequential: one connection with one channel, prefetch 1, one message at a time. It
counts its own events, publishes and deliveries, and sends its clock along in a header. So its
clocks are the definition of causality, made without the service and without its theory.

The topology is random: direct, fanout, topic and headers exchanges, the default one, one exchange
bound to another, and an alternate exchange for what no binding of the first takes.
"""

from __future__ import annotations

import asyncio
import json
import random
from contextlib import AsyncExitStack
from typing import TypeAlias

import aio_pika
from aio_pika import ExchangeType, Message
from aio_pika.abc import AbstractChannel, AbstractExchange, AbstractQueue
from pamqp.common import FieldTable

from model.event import Event
from model.words import EventType

Clock: TypeAlias = dict[str, int]
EXCHANGES = {
    "direct": ExchangeType.DIRECT,
    "fanout": ExchangeType.FANOUT,
    "topic": ExchangeType.TOPIC,
    "headers": ExchangeType.HEADERS,
}
SPARED = "direct with an alternate"  # what no binding matches goes to the fanout exchange
KEYS = ("a.one", "a.two", "b.one")


class Worker:
    """One participant."""

    def __init__(self, name: str, channel: AbstractChannel, queues: list[str]) -> None:
        self.name = name
        self._channel = channel
        self._queues = queues
        self.clock: Clock = {}
        self._messages = 0

    async def act(self, random_: random.Random, history: dict[str, Clock]) -> None:
        """Publish or take a message, at random, and note the clock of that event."""
        if random_.random() < 0.45:
            await self._publish(random_, history)
        else:
            await self._take(random_.choice(self._queues), history)

    async def _publish(self, random_: random.Random, history: dict[str, Clock]) -> None:
        self._messages += 1
        self._tick()
        identity = f"{self.name}/{self._messages}"
        history[f"published {identity}"] = dict(self.clock)
        message = Message(
            b"work",
            message_id=identity,
            headers={"clock": json.dumps(self.clock), "colour": random_.choice(("red", "blue"))},
        )
        name = random_.choice(["", SPARED, *EXCHANGES])
        key = random_.choice(self._queues if name == "" else KEYS)
        exchange: AbstractExchange = self._channel.default_exchange
        if name:
            exchange = await self._channel.get_exchange(name, ensure=False)
        await exchange.publish(message, key, mandatory=False)

    async def _take(self, queue: str, history: dict[str, Clock]) -> None:
        there: AbstractQueue = await self._channel.get_queue(queue, ensure=False)
        message = await there.get(fail=False)
        if message is None:
            return
        for who, count in json.loads(str(message.headers["clock"])).items():
            self.clock[who] = max(count, self.clock.get(who, 0))
        self._tick()
        history[f"received {message.message_id} {queue}"] = dict(self.clock)
        await message.ack()

    def _tick(self) -> None:
        self.clock[self.name] = self.clock.get(self.name, 0) + 1


async def work(url: str, seed: int, workers: int, actions: int) -> dict[str, Clock]:
    """Run a random workload; returns each event's clock by its `event_name`."""
    random_ = random.Random(seed)
    history: dict[str, Clock] = {}
    async with AsyncExitStack() as stack:
        channels = []
        for _ in range(workers):
            connection = await stack.enter_async_context(await aio_pika.connect(url))
            channels.append(await connection.channel())
        queues = await _topology(channels[0], random_)
        everyone = [Worker(f"w{n}", channel, queues) for n, channel in enumerate(channels)]

        async def life(worker: Worker) -> None:
            for _ in range(actions):
                await worker.act(random_, history)

        await asyncio.gather(*map(life, everyone))
    return history


async def _topology(channel: AbstractChannel, random_: random.Random) -> list[str]:
    names = [f"q{n}" for n in range(random_.randint(3, 8))]
    exchanges = [await channel.declare_exchange(n, kind) for n, kind in EXCHANGES.items()]
    spare: FieldTable = {"alternate-exchange": "fanout"}
    exchanges.append(await channel.declare_exchange(SPARED, ExchangeType.DIRECT, arguments=spare))
    source, target = random_.sample(exchanges, 2)
    await target.bind(source, random_.choice(KEYS))
    for name in names:
        queue = await channel.declare_queue(name)
        for exchange in random_.sample(exchanges, random_.randint(1, len(exchanges))):
            await queue.bind(
                exchange,
                random_.choice(("#", "a.*")) if exchange.name == "topic" else random_.choice(KEYS),
                arguments={"x-match": "all", "colour": random_.choice(("red", "blue"))},
            )
    return names


def event_name(event: Event) -> str:
    """A stored event's name in the clients' history."""
    identity = (event.properties or {})["message_id"]
    if event.type is EventType.published:
        return f"published {identity}"
    return f"received {identity} {event.queue}"


def relation(a: Clock, b: Clock) -> str:
    """How two events are related by the clients' clocks."""
    behind = all(count <= b.get(who, 0) for who, count in a.items())
    ahead = all(count <= a.get(who, 0) for who, count in b.items())
    if behind and ahead:
        return "equal"
    return "before" if behind else "after" if ahead else "concurrent"
