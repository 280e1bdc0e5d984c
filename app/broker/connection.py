"""A connection that diverts its deliveries, and reads no more than fits.

The client library opens it and talks; what it reads passes through a `Diversion`, which takes the
deliveries out and hands them to the consumer. The prefetch bounds the number of trace messages on
their way to us, not their size: 32,000 bodies of 10 MB are 320 GB. RabbitMQ does not implement
AMQP's bound in bytes, so we stop reading the socket while enough is in memory, and TCP holds the
broker back.
"""

from __future__ import annotations

import asyncio
import re
from asyncio import StreamReader, StreamWriter
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Any, cast

import aio_pika
import aiormq
import pamqp.constants
import pamqp.decode
from aio_pika.abc import UnderlayConnection
from aiormq.abc import AbstractChannel, AbstractConnection
from aiormq.connection import TCPTransportFactory, TLSTransportFactory, TransportFactory
from aiormq.exceptions import AMQPChannelError
from yarl import URL

from app.broker._wire import DeliverySplitter
from app.broker.deliveries import HEARTBEAT_FRAME, Arrival
from app.broker.outages import CONNECTION_ERRORS, BrokerAddress, outages
from model.texts import text_of

CONNECT_SECONDS = 10.0
# The library considers a connection dead if it reads nothing from it, and the broker sends no
# heartbeats while it sends deliveries.
SIGN_OF_LIFE_SECONDS = 1.0
# The broker sends a heartbeat every half of this. Without any it counts as dead after 1.3 times
# this, which the library notices within another half: at most some 20 s after the last byte.
HEARTBEAT_SECONDS = 10
MOST_SILENCE = 1.3
# Longest wait for a closed connection: its other end may be gone.
CLOSE_SECONDS = 3.0
# Parameters of a URL's query: the heartbeat, and certificates of TLS for both sides.
USABLE = {"heartbeat", "cafile", "capath", "cadata", "certfile", "keyfile", "no_verify_ssl"}


def _short_text(data: bytes) -> tuple[int, str]:
    """Decode a short string, leniently: pamqp's own fails over the reason for closing.

    A name in it may be any bytes, and the whole is cut at 255 bytes, perhaps within a character.
    """
    end = data[0] + 1
    return end, text_of(data[1:end])


pamqp.decode.METHODS["shortstr"] = _short_text  # the library looks it up there
# The broker takes a queue's name of any characters; the library asks for no other than ASCII ones.
pamqp.constants.DOMAIN_REGEX["queue-name"] = re.compile(".*", re.DOTALL)


class Diversion(asyncio.Protocol):
    """The receiving side of a connection: passes all but deliveries on to the client library.

    It stands between the transport and the protocol that the library reads from, so that a read
    with nothing but deliveries wakes no task.
    """

    def __init__(self, transport: asyncio.Transport, splitter: DeliverySplitter) -> None:
        """Take the place of the ``transport``'s protocol, and pass on to that one."""
        self.transport = transport
        self._splitter = splitter
        self._library = cast("asyncio.Protocol", transport.get_protocol())
        self._is_paused = self._has_heard = False
        transport.set_protocol(self)
        self._show_life()

    def data_received(self, data: bytes) -> None:
        self._has_heard = True
        if passed := self._splitter.feed(data):
            self._library.data_received(passed)

    def eof_received(self) -> bool | None:
        self._next_sign.cancel()
        return self._library.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._next_sign.cancel()
        self._library.connection_lost(exc)

    def pause_writing(self) -> None:
        self._library.pause_writing()

    def resume_writing(self) -> None:
        self._library.resume_writing()

    def pause(self) -> None:
        """Receive nothing more for now.

        Over TLS uvloop loses the broker's last bytes if the broker closes the connection meanwhile.
        """
        self._is_paused = True
        self.transport.pause_reading()

    def resume(self) -> None:
        """Go on receiving."""
        if self._is_paused:
            self._is_paused = False
            self.transport.resume_reading()

    def _show_life(self) -> None:
        if self._splitter.is_diverting and (self._is_paused or self._has_heard):
            self._library.data_received(HEARTBEAT_FRAME)  # before it are whole frames
        self._has_heard = False
        loop = asyncio.get_running_loop()
        self._next_sign = loop.call_later(SIGN_OF_LIFE_SECONDS, self._show_life)


class _HeartbeatConnection(aiormq.Connection):
    """The client library's innermost connection, with a shorter silence for death."""

    HEARTBEAT_GRACE_MULTIPLIER = MOST_SILENCE  # type: ignore[assignment]  # only multiplied by

    async def channel(self, *args: Any, **kwargs: Any) -> AbstractChannel:
        """Open a channel; a closed connection is an error of the library's, no `RuntimeError`.

        The broker may close one at any time, for instance over a frame for a channel that it has
        closed.
        """
        await self.connected.wait()
        if self.is_closed:
            raise aiormq.exceptions.ChannelInvalidStateError("the connection is closed")
        return await super().channel(*args, **kwargs)


class NamedUnderlay(UnderlayConnection):
    """The client library's inner connection, to a virtual host of any name.

    The library decodes the name in the URL twice: it would enter ``a/b`` for ``a%2Fb``.
    """

    @classmethod
    async def make_connection(
        cls,
        url: URL,
        timeout: float | int | None = None,  # noqa: ASYNC109 - the library's signature
        *,
        vhost: str = "/",
        **kwargs: Any,
    ) -> AbstractConnection:
        connection = _HeartbeatConnection(url, **kwargs)
        connection.vhost = vhost
        async with asyncio.timeout(timeout):
            await connection.connect()
        await connection.ready()
        return connection


class VhostConnection(aio_pika.Connection):
    """A connection to a virtual host, whatever its name."""

    def __init__(self, url: URL, vhost: str, **kwargs: Any) -> None:
        """Prepare it for ``vhost``; the URL's own path is ignored, and so is most of its query."""
        query = {"heartbeat": str(HEARTBEAT_SECONDS)}
        query |= {name: value for name, value in url.query.items() if name in USABLE}
        super().__init__(url.with_path("/").with_query(query), **kwargs)
        self._vhost = vhost

    async def leave(self) -> None:
        """Close it, or break it off if that takes long; it may be gone already."""
        # The library does not always let a cancelled close go.
        closing = asyncio.create_task(self.close())
        try:
            await asyncio.wait({closing}, timeout=CLOSE_SECONDS)
        finally:
            self._break_off()
        with suppress(*CONNECTION_ERRORS):
            if closing.done():
                closing.result()

    def _break_off(self) -> None:
        """End a close that still waits."""

    async def connect(self, timeout: float | int | None = None) -> None:  # noqa: ASYNC109 - theirs
        self.transport = await NamedUnderlay.connect(
            self.url, self._on_connection_close, timeout, vhost=self._vhost, **self.kwargs
        )
        await self._on_connected()


class TraceConnection(VhostConnection):
    """A connection whose deliveries on one channel are diverted."""

    def __init__(self, url: URL, vhost: str, **kwargs: Any) -> None:
        super().__init__(url, vhost, **kwargs)
        tls = url.scheme == "amqps"
        self._sockets: TransportFactory = TLSTransportFactory() if tls else TCPTransportFactory()
        self._diversion: Diversion | None = None
        self._splitter = DeliverySplitter()
        self.kwargs["transport_factory"] = self

    async def create(self, url: URL, **kwargs: Any) -> tuple[StreamReader, StreamWriter]:
        reader, writer = await self._sockets.create(url, **kwargs)
        self._diversion = Diversion(cast("asyncio.Transport", writer.transport), self._splitter)
        return reader, writer

    async def leave(self) -> None:
        self.resume()  # the broker's closing frames are read too
        await super().leave()

    def pause(self) -> None:
        """Read nothing more from the socket for now."""
        if self._diversion is not None:
            self._diversion.pause()

    def resume(self) -> None:
        """Go on reading."""
        if self._diversion is not None:
            self._diversion.resume()

    def _break_off(self) -> None:
        if self._diversion is not None:
            self._diversion.transport.abort()

    @property
    def broker_version(self) -> tuple[int, ...]:
        """The broker's version, as far as it is in numbers: (3, 10, 8)."""
        if self.transport is None:
            return ()
        version = str(self.transport.connection.server_properties.get("version", ""))
        return tuple(map(int, re.findall(r"\d+", version)[:3]))

    def divert(self, channel: int, take: Callable[[list[Arrival]], None]) -> None:
        """Pass the deliveries on a channel to ``take``, in order, instead of to the library."""
        self._splitter.divert(channel, take)


async def log_in(amqp_url: str, vhost: str, seconds: float) -> None:
    """Connect to a virtual host and disconnect.

    Raises `VirtualHostError` if the account is valid but may not enter this virtual host, otherwise
    `OutageError`, which says what went wrong and never shows the password.
    """
    url = URL(amqp_url)
    with outages(BrokerAddress.of(url, vhost)):
        connection = VhostConnection(url, vhost)
        await connection.connect(timeout=seconds)
        await connection.leave()


async def ready_in(amqp_url: str, vhost: str, queues: Collection[str]) -> Mapping[str, int]:
    """The number of messages ready in each of some queues; without those that do not say.

    As of this moment: the management API's are some seconds old. A passive declaration needs no
    rights. Raises `OutageError`.
    """
    url = URL(amqp_url)
    lengths: dict[str, int] = {}
    with outages(BrokerAddress.of(url, vhost)):
        connection = VhostConnection(url, vhost)
        await connection.connect(timeout=CONNECT_SECONDS)
        try:
            for queue in queues:
                channel = await connection.channel(publisher_confirms=False)
                raw = await channel.get_underlay_channel()
                try:
                    declared = await raw.queue_declare(queue, passive=True, timeout=CONNECT_SECONDS)
                except AMQPChannelError:  # it is gone, or exclusive
                    continue
                lengths[queue] = declared.message_count or 0
        finally:
            await connection.leave()
    return lengths
