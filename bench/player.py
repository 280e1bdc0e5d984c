"""A broker that has its deliveries ready: how fast the service is if the broker costs nothing.

A RabbitMQ on the same cores takes as much of them as the service does. So trace messages that it
once delivered are replayed here to every consumer, for each connection from the first one on.
Prefetch and acknowledgements count as usual; everything else goes to a RabbitMQ behind this, which
has nothing to deliver.
"""

from __future__ import annotations

import asyncio
import functools
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from struct import Struct
from typing import TypeAlias

from yarl import URL

from app.broker.connection import TraceConnection
from app.broker.deliveries import Arrival
from app.broker.diverted import refuse_delivery
from app.broker.firehose import TRACE_EXCHANGE
from tools.frames import BODY, DELIVER, HEAD, HEADER, METHOD, frame
from tools.servers import Broker

MOST_FRAME = 131_072  # bytes, as brokers have it
GREETING_BYTES = 8  # what a client sends before any frame
_QOS, _CONSUME_OK, _ACK = (bytes([0, 60, 0, method]) for method in (10, 21, 80))
_PREFETCH = Struct(">4xIH").unpack_from
_TAG = Struct(">4xQ").unpack_from

Look: TypeAlias = Callable[[int, bytes], bool]  # channel, payload of a method; whether it goes on


async def recorded(broker: Broker, vhost: str, queue: str, count: int) -> list[Arrival]:
    """Record this many deliveries of a queue, which keeps them."""
    taken: list[Arrival] = []
    done = asyncio.Event()

    def take(deliveries: list[Arrival]) -> None:
        taken.extend(deliveries)
        if len(taken) >= count:
            done.set()

    connection = TraceConnection(URL(broker.amqp_url("/")), vhost)
    await connection.connect()
    async with connection:
        channel = await connection.channel(publisher_confirms=False)
        raw = await channel.get_underlay_channel()
        connection.divert(raw.number, take)
        await raw.basic_consume(queue, refuse_delivery)
        await done.wait()
    return taken[:count]


@asynccontextmanager
async def playing(broker: Broker, consumer: str, what: Sequence[Arrival]) -> AsyncIterator[str]:
    """Play deliveries to each connection that consumes; yields the address to connect to.

    ``consumer`` is its consumer tag.
    """

    @functools.cache
    def frames(channel: int) -> list[bytes]:
        return [_as_sent(channel, consumer.encode(), tag, each) for tag, each in enumerate(what, 1)]

    async def meet(reader: StreamReader, writer: StreamWriter) -> None:
        behind = URL(broker.amqp_url("/"))
        broker_reader, broker_writer = await asyncio.open_connection(behind.host, behind.port)
        try:
            broker_writer.write(await reader.readexactly(GREETING_BYTES))
        except asyncio.IncompleteReadError:  # a client that only tries whether it is let in
            broker_writer.close()
            return
        stage = _Stage(frames, writer)
        await asyncio.gather(
            _pass_on(reader, broker_writer, stage.asked),
            _pass_on(broker_reader, writer, stage.answered),
        )

    server = await asyncio.start_server(meet, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        yield str(URL(broker.amqp_url("/")).with_port(port))


class _Stage:
    """One connection's part of what is played, and its progress."""

    def __init__(self, frames: Callable[[int], list[bytes]], writer: StreamWriter) -> None:
        self._frames = frames
        self._writer = writer
        self._prefetch = 0
        self._played = self._acknowledged = 0

    def asked(self, channel: int, method: bytes) -> bool:
        """Look at what the client sends; acknowledgements are not passed to the broker."""
        if method.startswith(_QOS):
            self._prefetch = _PREFETCH(method)[1]
        if not method.startswith(_ACK):
            return True
        self._acknowledged = _TAG(method)[0]
        self._play(channel)
        return False

    def answered(self, channel: int, method: bytes) -> bool:
        """Look at what the broker sends; playing starts when it accepts the consumer."""
        if method.startswith(_CONSUME_OK):
            asyncio.get_running_loop().call_soon(self._play, channel)
        return True

    def _play(self, channel: int) -> None:
        until = self._acknowledged + self._prefetch
        self._writer.write(b"".join(self._frames(channel)[self._played : until]))
        self._played = until


async def _pass_on(reader: StreamReader, writer: StreamWriter, look: Look) -> None:
    """Pass frames on until there are no more."""
    with suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            head = await reader.readexactly(HEAD.size)
            kind, channel, size = HEAD.unpack(head)
            rest = await reader.readexactly(size + 1)
            if kind != METHOD or look(channel, rest):
                writer.write(head + rest)
    writer.close()


def _as_sent(channel: int, consumer: bytes, tag: int, delivery: Arrival) -> bytes:
    method = b"".join(
        (
            DELIVER,
            _short(consumer),
            tag.to_bytes(8, "big"),
            bytes([delivery.redelivered]),
            _short(TRACE_EXCHANGE.encode()),
            _short(delivery.routing_key.encode()),
        )
    )
    body, most = delivery.body, MOST_FRAME - HEAD.size - 1
    parts = [(METHOD, method), (HEADER, delivery.header)]
    parts += [(BODY, body[at : at + most]) for at in range(0, len(body), most)]
    return b"".join(frame(kind, channel, payload) for kind, payload in parts)


def _short(text: bytes) -> bytes:
    return bytes([len(text)]) + text
