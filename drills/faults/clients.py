"""Clients that record what they do, each with a vector clock that travels in the messages.

Each connection is sequential and has one channel. A worker takes one message at a time and
publishes only while it holds one, so the broker's trace of it has the order that it saw itself. A
source only publishes. Every publish is confirmed before anything else is done.

After a cut a client connects again, and is somebody else from then on, with a clock that starts
at nothing: that is what the policy ``channel`` makes of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from abc import ABC, abstractmethod
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import aiormq
from aiormq.abc import AbstractChannel, DeliveredMessage
from aiormq.connection import TCPTransportFactory
from pamqp.commands import Basic
from pamqp.common import FieldTable
from yarl import URL

from drills.clocks import Clock
from drills.faults.history import History, Key
from model.words import EventType

PAIRS = "drill.pairs"  # each of its keys leads to two queues
ENDS = "drill.ends"  # leads nowhere: marks the end of a trial
HOPS = 2  # how many times a source's message is answered
TO_A_PAIR = 0.3  # the share of publishes
CONNECT_SECONDS = 10.0
CONFIRM_SECONDS = 20.0
AGAIN_SECONDS = 0.3  # until the next attempt to connect
IDLE_SECONDS = 1.0  # without an event: the workers have emptied their queues
EMPTY_SECONDS = 15.0

ERRORS = (aiormq.AMQPError, aiormq.exceptions.ChannelInvalidStateError, OSError, TimeoutError)


class Sockets(TCPTransportFactory):
    """Opens a socket, and notes the name that the broker has for the connection."""

    name = ""

    async def create(self, url: URL, **kwargs: Any) -> tuple[StreamReader, StreamWriter]:
        """Open it (the client library's factory method)."""
        reader, writer = await super().create(url, **kwargs)
        ours, theirs = writer.get_extra_info("sockname"), writer.get_extra_info("peername")
        self.name = f"{ours[0]}:{ours[1]} -> {theirs[0]}:{theirs[1]}"
        return reader, writer


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[tuple[aiormq.abc.AbstractConnection, str]]:
    """A connection, and the broker's name for it."""
    sockets = Sockets()
    async with asyncio.timeout(CONNECT_SECONDS):
        connection = await aiormq.connect(url, transport_factory=sockets)
    try:
        yield connection, sockets.name
    finally:
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await connection.close()
        except ERRORS:
            pass


class Client(ABC):
    """One program, which connects again as long as it lives."""

    def __init__(self, name: str, url: str, history: History, queues: Sequence[str]) -> None:
        self.name = name
        self._url = url
        self._history = history
        self._queues = queues
        self._random = random.Random(name)
        self._body = b""
        self._who = ""
        self._connection = ""
        self._clock: Clock = {}
        self._lives = 0

    async def live(self, body: bytes) -> None:
        """Work until cancelled; ``body`` is what its messages say."""
        self._body = body
        while True:
            try:
                async with connected(self._url) as (connection, name):
                    self._lives += 1
                    self._who, self._connection = f"{self.name}.{self._lives}", name
                    self._clock = {}
                    channel = await connection.channel(publisher_confirms=True)
                    await self._work(channel)
            except ERRORS:
                pass
            await asyncio.sleep(AGAIN_SECONDS)

    @abstractmethod
    async def _work(self, channel: AbstractChannel) -> None:
        """Do what there is to do on a new connection, until that is lost."""

    async def _publish(self, channel: AbstractChannel, hops: int) -> None:
        exchange, key = "", self._random.choice(self._queues)
        if self._random.random() < TO_A_PAIR:
            exchange = PAIRS
        await self._send(channel, exchange, key, hops)

    async def _send(self, channel: AbstractChannel, exchange: str, key: str, hops: int) -> None:
        self._tick()
        message = f"{self._who}/{self._clock[self._who]}"
        made = Key(EventType.published, message)
        self._history.note(made, self._who, self._clock)
        self._history.unsure.add(made)
        headers: FieldTable = {"clock": json.dumps(self._clock), "hops": hops}
        # Refused by a full queue: the broker traced it before.
        with contextlib.suppress(aiormq.exceptions.DeliveryError):
            await channel.basic_publish(
                self._body,
                exchange=exchange,
                routing_key=key,
                properties=Basic.Properties(message_id=message, headers=headers),
                timeout=CONFIRM_SECONDS,
            )
        self._history.unsure.discard(made)

    def _tick(self) -> None:
        self._clock[self._who] = self._clock.get(self._who, 0) + 1


class Source(Client):
    """Publishes every ``pause`` seconds."""

    def __init__(
        self, name: str, url: str, history: History, queues: Sequence[str], pause: float
    ) -> None:
        super().__init__(name, url, history, queues)
        self._pause = pause

    async def _work(self, channel: AbstractChannel) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            await self._publish(channel, HOPS)
            due = max(due + self._pause, loop.time())
            await asyncio.sleep(due - loop.time())


class Worker(Client):
    """Takes what is in a queue of its own, one message at a time, and answers it."""

    def __init__(
        self, name: str, url: str, history: History, queues: Sequence[str], queue: str
    ) -> None:
        super().__init__(name, url, history, queues)
        self._queue = queue
        self.taken = 0

    async def _work(self, channel: AbstractChannel) -> None:
        await channel.basic_qos(prefetch_count=1)
        await declare(channel, self._queue, self._queues)
        arrived: asyncio.Queue[DeliveredMessage] = asyncio.Queue()
        await channel.basic_consume(self._queue, arrived.put)
        while True:
            taking = asyncio.ensure_future(arrived.get())
            lost = asyncio.ensure_future(asyncio.shield(channel.connection.closing))
            try:
                await asyncio.wait((taking, lost), return_when=asyncio.FIRST_COMPLETED)
                if not taking.done():
                    return
                await self._take(channel, taking.result())
            finally:
                for each in (taking, lost):
                    each.cancel()
                await asyncio.gather(taking, lost, return_exceptions=True)

    async def _take(self, channel: AbstractChannel, message: DeliveredMessage) -> None:
        self.taken += 1
        properties = message.header.properties
        told = properties.headers or {}
        for who, count in json.loads(str(told["clock"])).items():
            self._clock[who] = max(count, self._clock.get(who, 0))
        self._tick()
        key = Key(EventType.received, str(properties.message_id), self._queue, self._connection)
        self._history.note(key, self._who, self._clock)
        hops = told["hops"]
        if isinstance(hops, int) and hops > 0:
            await self._publish(channel, hops - 1)
        await channel.basic_ack(message.delivery_tag or 0)


class Ender(Client):
    """Publishes what nobody receives: once that is stored, so is everything before it."""

    async def _work(self, channel: AbstractChannel) -> None:
        await channel.exchange_declare(exchange=ENDS, exchange_type="fanout", durable=True)
        while True:
            await self._send(channel, ENDS, "", 0)
            await asyncio.sleep(AGAIN_SECONDS)


async def declare(channel: AbstractChannel, queue: str, queues: Sequence[str]) -> None:
    """Declare a worker's queue, and bind it with its own key and its neighbour's."""
    await channel.exchange_declare(exchange=PAIRS, exchange_type="direct", durable=True)
    await channel.queue_declare(queue, durable=True)
    place = queues.index(queue)
    for key in (queues[place], queues[place - 1]):
        await channel.queue_bind(queue, PAIRS, routing_key=key)


class Clients:
    """Sources and workers on some nodes of a broker; ``urls`` are theirs."""

    def __init__(
        self,
        urls: Sequence[str],
        *,
        pause: float,
        body: bytes,
        sources: int = 2,
        workers: int = 4,
        prefix: str = "drill",
    ) -> None:
        self.history = History()
        self.queues = [f"{prefix}.{n}" for n in range(workers)]
        self.urls = urls
        self._body = body
        self._sources = [
            Source(f"source{n}", urls[n % len(urls)], self.history, self.queues, pause)
            for n in range(sources)
        ]
        self._workers = [
            Worker(f"worker{n}", urls[n % len(urls)], self.history, self.queues, queue)
            for n, queue in enumerate(self.queues)
        ]
        self._publishing: list[asyncio.Task[None]] = []
        self._taking: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Declare the queues, and begin."""
        for worker, queue in enumerate(self.queues):
            async with connected(self.urls[worker % len(self.urls)]) as (connection, _):
                await declare(await connection.channel(), queue, self.queues)
        self.receive()
        self.publish()

    def publish(self) -> None:
        """Have the sources publish."""
        self._publishing = [asyncio.create_task(each.live(self._body)) for each in self._sources]

    def receive(self) -> None:
        """Have the workers receive."""
        self._taking = [asyncio.create_task(each.live(self._body)) for each in self._workers]

    async def hold(self) -> None:
        """Have the sources stop, and the workers empty their queues."""
        await _ended(self._publishing)
        before, still = -1, 0.0
        for _ in range(int(EMPTY_SECONDS / 0.1)):
            now = len(self.history)
            still = still + 0.1 if now == before else 0.0
            before = now
            if still >= IDLE_SECONDS:
                return
            await asyncio.sleep(0.1)

    async def rest(self) -> None:
        """Have the workers stop as well; what is in the queues stays there."""
        await _ended(self._taking)

    async def stop(self) -> None:
        """Stop everybody, once the queues are empty."""
        await self.hold()
        await self.rest()

    async def stop_at_once(self) -> None:
        """Stop everybody; what is on its way stays where it is."""
        await _ended(self._publishing)
        await self.rest()


async def _ended(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    tasks.clear()
