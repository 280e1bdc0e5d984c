"""The consumer of one virtual host's firehose: a durable queue of our own, acknowledged by batch.

The client's robust (self-reconnecting) connection is not used: after a cut the tracker must go
back to its checkpoint before the first redelivered message, so a cut is an `OutageError` here and
the trace's supervisor begins anew.

Messages are taken from aiormq's channel, below aio-pika's own message object: nothing of that
object is needed, and making one costs as much as stamping the event.
"""

from __future__ import annotations

import asyncio
import time
from asyncio import StreamReader, StreamWriter
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any
from urllib.parse import quote

import aio_pika
import aiormq.exceptions
from aio_pika.abc import AbstractConnection
from aiormq.abc import AbstractChannel as Channel
from aiormq.abc import DeliveredMessage
from aiormq.connection import TCPTransportFactory, TLSTransportFactory, TransportFactory
from pamqp.commands import Basic
from pamqp.common import FieldTable
from yarl import URL

from app.broker.firehose import TRACE_EXCHANGE, parse
from app.broker.wire import LateContentHeader, install_tolerant_decoding
from app.errors import OutageError
from app.tracker import Record, Unreadable

TRACE_QUEUE = "itc.trace"
CONNECT_SECONDS = 10.0
# A batch of large bodies is closed early; it is in memory several times while it is stored.
BATCH_BYTES = 16 * 1024 * 1024

_CONNECTION_ERRORS = (
    aiormq.exceptions.AMQPError,
    aiormq.exceptions.ChannelInvalidStateError,
    OSError,
    TimeoutError,
)

install_tolerant_decoding()


class Received:
    """One trace message as it came: when (µs), under which delivery tag, and what it says."""

    __slots__ = ("at", "message", "redelivered", "tag")

    def __init__(self, tag: int, at: int, redelivered: bool, message: Record | Unreadable) -> None:
        self.tag = tag
        self.at = at
        self.redelivered = redelivered
        self.message = message


class TraceStream:
    """What the broker sends us of one virtual host, in batches."""

    def __init__(self, channel: Channel, queue: str, own_connection: str) -> None:
        """Wrap an open channel; ``own_connection`` is the broker's name of our connection."""
        self._channel = channel
        self._queue = queue
        self._own_connection = own_connection
        self._waiting: deque[tuple[int, DeliveredMessage]] = deque()
        self._arrived = asyncio.Event()
        self._lost: str | None = None
        self.queue_is_new = False
        self.queued_before = 0  # messages that were in the queue when it was opened

    async def batch(self, most: int, linger: float) -> list[Received]:
        """Wait for messages and return up to ``most`` of them.

        Returns what there is once ``linger`` seconds have passed with fewer, which may be none at
        all. Our own connection's events are not among them, but their place is: a batch's last
        tag covers them.

        :raises OutageError: when the connection is gone and nothing is left to return.
        """
        if len(self._waiting) < most and self._lost is None:
            await self._fill(most, linger)
        if not self._waiting and self._lost is not None:
            raise OutageError(self._lost)
        return self._take(most)

    async def acknowledge(self, tag: int) -> None:
        """Acknowledge everything up to a delivery tag."""
        try:
            await self._channel.basic_ack(tag, multiple=True, wait=False)
        except _CONNECTION_ERRORS as error:
            raise OutageError(self._lost or "the broker's connection was lost") from error

    async def ready_messages(self) -> int:
        """How many messages the queue still holds for us, delivered ones not counted."""
        try:
            declared = await self._channel.queue_declare(self._queue, passive=True)
        except _CONNECTION_ERRORS as error:
            raise OutageError(self._lost or "the broker's connection was lost") from error
        return declared.message_count or 0

    @property
    def buffered(self) -> int:
        """How many messages have arrived and were not taken yet."""
        return len(self._waiting)

    def lose(self, reason: str) -> None:
        """Note that nothing more will come, and why."""
        if self._lost is None:
            self._lost = reason
        self._arrived.set()

    async def on_message(self, message: DeliveredMessage) -> None:
        """Take a delivery in; called by the channel in the queue's order."""
        self._waiting.append((time.time_ns() // 1000, message))
        self._arrived.set()

    async def _fill(self, most: int, linger: float) -> None:
        """Wait until ``most`` messages are there, the linger is over, or the connection is lost."""
        deadline = asyncio.get_running_loop().time() + linger
        while len(self._waiting) < most and self._lost is None:
            self._arrived.clear()
            try:
                async with asyncio.timeout_at(deadline):
                    await self._arrived.wait()
            except TimeoutError:
                return

    def _take(self, most: int) -> list[Received]:
        batch: list[Received] = []
        size = 0
        while self._waiting and len(batch) < most and size < BATCH_BYTES:
            at, raw = self._waiting.popleft()
            received = self._parsed(at, raw)
            size += len(raw.body)
            batch.append(received)
        return batch

    def _parsed(self, at: int, raw: DeliveredMessage) -> Received:
        delivery, header = raw.delivery, raw.header
        if not isinstance(delivery, Basic.Deliver) or not isinstance(header, LateContentHeader):
            raise TypeError("a consumer is given deliveries with late headers")
        message = parse(delivery.routing_key or "", header.headers, raw.body, at)
        return Received(delivery.delivery_tag or 0, at, bool(delivery.redelivered), message)

    def is_own(self, message: Record | Unreadable) -> bool:
        """Whether a trace message tells of our own connection."""
        return (
            not isinstance(message, Unreadable)
            and message.channel.connection == self._own_connection
        )


class _Connection(aio_pika.Connection):
    """A connection that knows the broker's name for it, as trace messages have it.

    Seen from the broker: our socket's address, then its own. Behind a NAT it differs, and then
    our own events are traced like anybody's; there are next to none.
    """

    def __init__(self, url: URL, **kwargs: Any) -> None:
        super().__init__(url, **kwargs)
        tls = url.scheme == "amqps"
        self._sockets: TransportFactory = TLSTransportFactory() if tls else TCPTransportFactory()
        self.broker_name = ""
        self.kwargs["transport_factory"] = self

    async def create(self, url: URL, **kwargs: Any) -> tuple[StreamReader, StreamWriter]:
        """Open the transport, and note its addresses (the client library's factory method)."""
        reader, writer = await self._sockets.create(url, **kwargs)
        ours, theirs = writer.get_extra_info("sockname"), writer.get_extra_info("peername")
        self.broker_name = f"{ours[0]}:{ours[1]} -> {theirs[0]}:{theirs[1]}"
        return reader, writer


class Firehose:
    """Opens streams: one connection to the broker for each trace."""

    def __init__(self, amqp_url: str, *, queue_max_bytes: int, queue: str = TRACE_QUEUE) -> None:
        """Use the account in ``amqp_url``; its path is ignored.

        Two services that trace the same virtual host need two names of ``queue``.
        """
        self._url = URL(amqp_url)
        self.queue = queue
        self._queue_max_bytes = queue_max_bytes

    @asynccontextmanager
    async def open(self, vhost: str, prefetch: int, quorum: bool) -> AsyncIterator[TraceStream]:
        """Declare, bind and consume the trace queue of a virtual host.

        A queue that exists is used as it is; ``quorum`` is for a new one, and right where the
        broker is a cluster: it outlives the node it was made on.

        :raises OutageError: when the broker cannot be reached, or refuses.
        """
        connection = await self._connect(vhost)
        try:
            with _outages():
                stream = await self._consume(connection, prefetch, quorum)
            yield stream
        finally:
            await _close(connection)

    async def delete_queue(self, vhost: str) -> None:
        """Delete the trace queue of a virtual host, with what it holds."""
        connection = await self._connect(vhost)
        try:
            with _outages():
                channel = await connection.channel(publisher_confirms=False)
                await channel.queue_delete(self.queue)
        finally:
            await _close(connection)

    async def _connect(self, vhost: str) -> _Connection:
        with _outages():
            return await aio_pika.connect(
                self._url.with_path("/" + quote(vhost, safe=""), encoded=True),
                timeout=CONNECT_SECONDS,
                client_properties={"connection_name": "rabbitmq-itc"},
                connection_class=_Connection,
            )

    async def _consume(self, connection: _Connection, prefetch: int, quorum: bool) -> TraceStream:
        queued = await _count_queued(connection, self.queue)
        channel = await connection.channel(publisher_confirms=False)
        if queued is None:
            await channel.declare_queue(self.queue, durable=True, arguments=self._arguments(quorum))
        await channel.set_qos(prefetch_count=prefetch)
        raw = await channel.get_underlay_channel()
        await raw.queue_bind(self.queue, TRACE_EXCHANGE, routing_key="#")
        stream = TraceStream(raw, self.queue, connection.broker_name)
        stream.queued_before = queued or 0
        stream.queue_is_new = queued is None
        channel.close_callbacks.add(lambda _, error: stream.lose(_loss(error)))
        connection.close_callbacks.add(lambda _, error: stream.lose(_loss(error)))
        raw.on_consumer_cancel_callbacks.add(
            lambda _: stream.lose(f"the broker ended our consumer: is {self.queue} deleted?")
        )
        await raw.basic_consume(self.queue, stream.on_message)
        return stream

    def _arguments(self, quorum: bool) -> FieldTable:
        arguments: FieldTable = {"x-max-length-bytes": self._queue_max_bytes}
        if quorum:
            # 4.x drops a message after twenty redeliveries; each of ours may be one.
            arguments |= {"x-queue-type": "quorum", "x-delivery-limit": 2**31 - 1}
        return arguments


async def _count_queued(connection: AbstractConnection, name: str) -> int | None:
    """Return how many messages the trace queue holds, None where there is no queue."""
    probe = await connection.channel(publisher_confirms=False)
    try:
        queue = await probe.declare_queue(name, passive=True)
    except aiormq.exceptions.ChannelNotFoundEntity:
        return None  # and the broker has closed the channel
    await probe.close()
    return queue.declaration_result.message_count or 0


def _loss(error: BaseException | None) -> str:
    return f"the broker's connection was lost: {_words(error)}" if error else "connection closed"


def _words(error: BaseException) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__


@contextmanager
def _outages() -> Iterator[None]:
    try:
        yield
    except _CONNECTION_ERRORS as error:
        raise OutageError(f"the broker cannot be used: {_words(error)}") from error


async def _close(connection: AbstractConnection) -> None:
    # A connection that is already gone has nothing left to say.
    with suppress(*_CONNECTION_ERRORS):
        await connection.close()
