"""Applications at work for some seconds, in a process of their own, for `bench.overhead`.

    python -m bench.traffic AMQP_URL QUEUE classic|quorum CLIENTS BODY_BYTES SECONDS

Each client has a queue, a connection that publishes to it with confirms, and one that consumes and
acknowledges each message. Up to IN_FLIGHT publishes wait for their confirms, over all clients or
one for each, whichever is more: the load is what the broker lets through. A library that makes each
frame anew takes a core, and would be the limit; here publishes are made before, and of what comes
only confirms and delivery tags are read.
"""

from __future__ import annotations

import asyncio
import struct
import subprocess
import sys
import time
from typing import Any, Self, TypeVar, cast

import msgspec
import uvloop
from pamqp import commands, header
from pamqp.frame import marshal
from yarl import URL

from app.broker.firehose import TRACE_EXCHANGE
from app.broker.trace_queue import QueueBounds
from tools.frames import BODY, DELIVER, HEAD, METHOD, frame
from tools.servers import Broker

IN_FLIGHT = 32
PREFETCH = 200
WARM_SHARE = 0.2  # of the seconds; connections, caches and a trace's first batches are not counted
DRAIN_SECONDS, CHILD_SECONDS = 20.0, 180
ID = b"%012d"  # of a message: the one thing that differs between those of one client
MOST_FRAME = 131_072

_GREETING = b"AMQP\x00\x00\x09\x01"
_CHANNEL = 1
_CONFIRM = bytes([0, 60, 0, 80])
_CLOSE = (bytes([0, 10, 0, 50]), bytes([0, 20, 0, 40]))  # of a connection, and of a channel
_ACK = struct.Struct(">4sQB")

Role = TypeVar("Role", bound="_Connection")


class Traffic(msgspec.Struct, frozen=True):
    """Figures of applications: messages/s; times in ms; ``busy`` is this process's share of a core.

    Near 1 the load generator itself was the limit.
    """

    rate: float
    consumed: float
    confirm_p50: float
    confirm_p99: float
    busy: float


class _Period(msgspec.Struct, frozen=True):
    """When publishing is counted, and ends (s)."""

    begin: float
    end: float

    @classmethod
    def of(cls, seconds: float) -> Self:
        now = time.perf_counter()
        return cls(now + seconds * WARM_SHARE, now + seconds)


class _Connection(asyncio.Protocol):
    """A connection with one channel, which reads methods and skips everything else."""

    def __init__(self) -> None:
        self._rest, self._skipped = b"", 0
        self._answer: tuple[bytes, asyncio.Future[None]] | None = None

    @classmethod
    async def open(cls: type[Role], url: str) -> Role:
        parts = URL(url)
        loop = asyncio.get_running_loop()
        _, self = await loop.create_connection(cls, parts.host or "", parts.port or 0)
        await self._ask(_GREETING, (10, 10))
        login = f"\0{parts.user}\0{parts.password}"
        await self.call(commands.Connection.StartOk({}, "PLAIN", login, "en_US"), (10, 30), 0)
        self._send(commands.Connection.TuneOk(2_047, MOST_FRAME, 0), 0)
        await self.call(commands.Connection.Open(parts.path.removeprefix("/")), (10, 41), 0)
        await self.call(commands.Channel.Open(), (20, 11))
        return self

    async def call(self, method: Any, answer: tuple[int, int], channel: int = _CHANNEL) -> None:
        """Send a method, and wait for the one with these numbers of class and method."""
        await self._ask(marshal(method, channel), answer)

    def close(self) -> None:
        self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's has another base

    def data_received(self, data: bytes) -> None:
        skipped = min(self._skipped, len(data))
        self._skipped -= skipped
        if self._rest or skipped:
            data = self._rest + data[skipped:]
        at, end, self._rest = 0, len(data), b""
        while end - at >= HEAD.size:
            kind, _, size = HEAD.unpack_from(data, at)
            begin, after = at + HEAD.size, at + HEAD.size + size + 1
            if after > end and kind != METHOD:
                self._skipped = after - end
                break
            if after > end:
                self._rest = data[at:]
                break
            if kind == METHOD:
                self._read(data[begin : after - 1])
            at = after
        else:
            self._rest = data[at:]
        self._respond()

    def _send(self, method: Any, channel: int = _CHANNEL) -> None:
        self._transport.write(marshal(method, channel))

    async def _ask(self, data: bytes, answer: tuple[int, int]) -> None:
        future = asyncio.get_running_loop().create_future()
        self._answer = struct.pack(">HH", *answer), future
        self._transport.write(data)
        await asyncio.wait_for(future, DRAIN_SECONDS)

    def _read(self, method: bytes) -> None:
        if method[:4] in _CLOSE:
            raise ConnectionError(method[7:].decode(errors="replace"))
        if self._answer is not None and method[:4] == self._answer[0]:
            self._answer[1].set_result(None)
            self._answer = None

    def _respond(self) -> None:
        """Answer what the broker sent at once."""


class _Publisher(_Connection):
    """Publishes to a queue with confirms, until a period ends."""

    async def publish(self, queue: str, window: int, body: int, period: _Period) -> int:
        """Keep up to ``window`` publishes unconfirmed; returns how many were confirmed."""
        await self.call(commands.Confirm.Select(), (85, 11))
        self._before, self._behind = _message(queue, body).split(ID % 0)
        self._period, self._window = period, window
        self._count = self._low = 0
        self._open: dict[int, float] = {}  # when by tag
        self.confirms: list[float] = []  # s
        self._done = asyncio.get_running_loop().create_future()
        self._respond()
        await asyncio.wait_for(self._done, period.end - time.perf_counter() + DRAIN_SECONDS)
        return self._count

    def _read(self, method: bytes) -> None:
        if not method.startswith(_CONFIRM):
            super()._read(method)
            return
        _, tag, multiple = _ACK.unpack(method)
        now = time.perf_counter()
        for each in range(self._low + 1, tag + 1) if multiple else (tag,):
            began = self._open.pop(each, None)
            if began is not None and self._period.begin <= began < self._period.end:
                self.confirms.append(now - began)
        self._low = tag if multiple else self._low

    def _respond(self) -> None:
        if not hasattr(self, "_done"):
            return
        now = time.perf_counter()
        if now >= self._period.end:
            if not self._open and not self._done.done():
                self._done.set_result(None)
            return
        messages: list[bytes] = []
        for _ in range(self._window - len(self._open)):
            self._count += 1
            messages += self._before, ID % self._count, self._behind
            self._open[self._count] = now
        if messages:
            self._transport.write(b"".join(messages))


class _Consumer(_Connection):
    """Takes what comes from a queue and acknowledges each message."""

    async def consume(self, queue: str, period: _Period) -> None:
        self._period, self._acks = period, list[bytes]()
        self.count = self.counted = 0
        await self.call(commands.Basic.Qos(0, PREFETCH, False), (60, 11))
        await self.call(commands.Basic.Consume(queue=queue, consumer_tag="c"), (60, 21))

    def _read(self, method: bytes) -> None:
        if not method.startswith(DELIVER):
            super()._read(method)
            return
        at = 5 + method[4]  # behind the consumer's tag
        ack = struct.pack(">4s8sB", _CONFIRM, method[at : at + 8], False)
        self._acks.append(frame(METHOD, _CHANNEL, ack))

    def _respond(self) -> None:
        if acks := getattr(self, "_acks", None):
            self._transport.write(b"".join(acks))
            self.count += len(acks)
            if self._period.begin <= time.perf_counter() < self._period.end:
                self.counted += len(acks)
            acks.clear()


def _message(queue: str, size: int) -> bytes:
    """A publish of text, with the queue's name and the first `ID` as its message id."""
    message_id = f"{queue}-{(ID % 0).decode()}"
    properties = commands.Basic.Properties(message_id=message_id, content_type="text/plain")
    method = commands.Basic.Publish(routing_key=queue)
    parts = [
        marshal(each, _CHANNEL) for each in (method, header.ContentHeader(0, size, properties))
    ]
    most = MOST_FRAME - HEAD.size - 1
    parts += [frame(BODY, _CHANNEL, b"x" * min(most, size - at)) for at in range(0, size, most)]
    return b"".join(parts)


async def traffic(
    url: str, queue: str, kind: str, clients: int, body: int, seconds: float
) -> Traffic:
    """Work for some seconds; say what was seen after the warm-up."""
    names = [f"{queue}.{kind}.{number}" for number in range(clients)]
    publishers = await asyncio.gather(*(_Publisher.open(url) for _ in names))
    consumers = await asyncio.gather(*(_Consumer.open(url) for _ in names))
    for publisher, name in zip(publishers, names, strict=True):
        declared = commands.Queue.Declare(
            queue=name, durable=True, arguments={"x-queue-type": kind}
        )
        await publisher.call(declared, (50, 11))
    period, used = _Period.of(seconds), time.process_time()
    started = time.perf_counter()
    for consumer, name in zip(consumers, names, strict=True):
        await consumer.consume(name, period)
    window = max(1, IN_FLIGHT // clients)
    working = zip(publishers, names, strict=True)
    counts = await asyncio.gather(
        *(publisher.publish(name, window, body, period) for publisher, name in working)
    )
    async with asyncio.timeout(DRAIN_SECONDS):
        while sum(consumer.count for consumer in consumers) < sum(counts):  # noqa: ASYNC110 - each counts for itself
            await asyncio.sleep(0.005)
    busy = (time.process_time() - used) / (time.perf_counter() - started)
    for connection in (*publishers, *consumers):
        connection.close()
    confirms = sorted(time for publisher in publishers for time in publisher.confirms)
    counted = period.end - period.begin
    return Traffic(
        rate=len(confirms) / counted,
        consumed=sum(consumer.counted for consumer in consumers) / counted,
        confirm_p50=_at(confirms, 0.5),
        confirm_p99=_at(confirms, 0.99),
        busy=busy,
    )


def _at(times: list[float], share: float) -> float:
    """A quantile, in milliseconds."""
    return times[int(share * (len(times) - 1))] * 1000


def at_work(url: str, kind: str, clients: int, body: int, seconds: float) -> Traffic:
    """Have applications work in a process of their own."""
    arguments = map(str, (url, "bench", kind, clients, body, seconds))
    command = [sys.executable, "-m", "bench.traffic", *arguments]
    child = subprocess.run(command, check=True, stdout=subprocess.PIPE, timeout=CHILD_SECONDS)
    return msgspec.json.decode(child.stdout, type=Traffic)


def bind_unread(broker: Broker, vhost: str, queue: str) -> None:
    """Bind a trace queue with the service's bounds, which nobody reads."""
    bounds = QueueBounds()
    most = {"x-max-length-bytes": bounds.bytes, "x-max-length": bounds.messages}
    broker.api("PUT", "queues", vhost, queue, json={"durable": True, "arguments": most})
    bind(broker, vhost, queue, "#")


def bind(broker: Broker, vhost: str, queue: str, key: str) -> None:
    """Bind a queue to the trace exchange."""
    place = ("bindings", vhost, "e", TRACE_EXCHANGE, "q", queue)
    broker.api("POST", *place, json={"routing_key": key})


def main() -> None:
    """Work as the arguments say; print what was seen as JSON."""
    url, queue, kind, clients, body, seconds = sys.argv[1:]
    seen = uvloop.run(traffic(url, queue, kind, int(clients), int(body), float(seconds)))
    sys.stdout.write(msgspec.json.encode(seen).decode() + "\n")


if __name__ == "__main__":
    main()
