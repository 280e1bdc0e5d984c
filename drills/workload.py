"""Clients that keep vector clocks of their own, to judge the service's.

Each worker is sequential: one connection with one channel, prefetch 1, one message at a time. It
counts its own events, publishes and deliveries, and sends its clock along in a header. So its
clocks are the definition of causality, made without the service and without its theory.

The topology is random: direct, fanout, topic and headers exchanges, the default one, one exchange
bound to another, and an alternate exchange for what no binding of the first takes.

With hearsay the clients are at two places, and their messages name causes by rules that are built
in, most of them messages of which the client heard by no message (`drills.hearsay`).
"""

from __future__ import annotations

import asyncio
import json
import random
from contextlib import AsyncExitStack

import aio_pika
from aio_pika import ExchangeType, Message
from aio_pika.abc import (
    AbstractChannel,
    AbstractExchange,
    AbstractIncomingMessage,
    AbstractQueue,
    HeadersType,
)
from pamqp.common import FieldTable

from drills.clocks import Clock
from drills.hearsay import PLACES, Hearsay, Told, trace_header
from drills.relay import relayed
from model.event import Event
from model.words import EventType

EXCHANGES = {
    "direct": ExchangeType.DIRECT,
    "fanout": ExchangeType.FANOUT,
    "topic": ExchangeType.TOPIC,
    "headers": ExchangeType.HEADERS,
}
SPARED = "direct with an alternate"  # what no binding matches goes to the fanout exchange
KEYS = ("a.one", "a.two", "b.one")
NOWHERE = "nowhere"  # no queue has this name


class Worker:
    """One participant, at a place; with ``hearsay`` its messages name causes."""

    def __init__(
        self,
        name: str,
        channel: AbstractChannel,
        queues: list[str],
        place: str,
        hearsay: Hearsay | None,
    ) -> None:
        self.name = name
        self._place = place
        self._hearsay = hearsay
        self._channel = channel
        self._queues = queues
        self._untold: list[Told] = []
        self.clock: Clock = {}
        self._messages = 0

    async def act(self, random_: random.Random, history: dict[str, Clock]) -> None:
        """Publish or take a message, at random, and note the clock of that event."""
        untold, self._untold = self._untold, []
        if random_.random() < 0.45:
            await self._publish(random_, history)
        else:
            await self._take(random_.choice(self._queues), history)
        for told in untold:  # the broker has answered since
            if self._hearsay:
                self._hearsay.tell(told)

    async def _publish(self, random_: random.Random, history: dict[str, Clock]) -> None:
        self._messages += 1
        cause = self._hearsay and self._hearsay.cause(random_, self.name, self._place)
        for clock in cause.clocks if cause else ():
            self._join(clock)
        self._tick()
        identity = f"{self.name}/{self._messages}"
        history[f"published {identity}"] = dict(self.clock)
        headers: HeadersType = {"colour": random_.choice(("red", "blue"))}
        headers["clock"] = json.dumps(self.clock)
        message = Message(b"work", message_id=identity, headers=headers)
        name = random_.choice(["", SPARED, *EXCHANGES])
        key = random_.choice(self._queues if name == "" else KEYS)
        if self._hearsay:
            message.headers |= {**(cause.headers if cause else {}), **trace_header(random_)}
            if cause and cause.routing_key is not None:
                name, key, message.correlation_id = "", cause.routing_key, cause.correlation_id
            elif name == "":
                message.correlation_id = identity
                message.reply_to = random_.choice([each for each in self._queues if each != key])
                key = NOWHERE if random_.random() < 0.2 else key
        exchange: AbstractExchange = self._channel.default_exchange
        if name:
            exchange = await self._channel.get_exchange(name, ensure=False)
        await exchange.publish(message, key, mandatory=False)
        if self._hearsay and key == NOWHERE:
            told = Told(identity, self.name, dict(self.clock), message.reply_to)
            self._hearsay.tell(told)

    async def _take(self, queue: str, history: dict[str, Clock]) -> None:
        there: AbstractQueue = await self._channel.get_queue(queue, ensure=False)
        message = await there.get(fail=False)
        if message is None:
            return
        published = json.loads(str(message.headers["clock"]))
        self._join(published)
        self._tick()
        history[f"received {message.message_id} {queue}"] = dict(self.clock)
        await message.ack()
        if message.exchange == "":  # the only copy
            self._untold.append(self._handed(message, published))

    def _handed(self, message: AbstractIncomingMessage, published: Clock) -> Told:
        identity = str(message.message_id)
        publisher = identity.partition("/")[0]
        clock = dict(self.clock)
        return Told(identity, publisher, published, message.reply_to, self._place, clock)

    def _join(self, clock: Clock) -> None:
        for who, count in clock.items():
            self.clock[who] = max(count, self.clock.get(who, 0))

    def _tick(self) -> None:
        self.clock[self.name] = self.clock.get(self.name, 0) + 1


async def work(
    url: str, seed: int, workers: int, actions: int, hearsay: Hearsay | None = None
) -> dict[str, Clock]:
    """Run a random workload; returns each event's clock by its `event_name`.

    With ``hearsay`` messages name causes; the broker must be at this machine's loopback then.
    """
    random_ = random.Random(seed)
    history: dict[str, Clock] = {}
    async with AsyncExitStack() as stack:
        urls = {PLACES[0]: url}
        if hearsay is not None:
            urls[PLACES[1]] = await stack.enter_async_context(relayed(url, PLACES[1]))
        places = [[*urls][number % len(urls)] for number in range(workers)]
        channels = []
        for place in places:
            connection = await stack.enter_async_context(await aio_pika.connect(urls[place]))
            channels.append(await connection.channel())
        queues = await _topology(channels[0], random_)
        everyone = [
            Worker(f"w{n}", channel, queues, place, hearsay)
            for n, (channel, place) in enumerate(zip(channels, places, strict=True))
        ]

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
