"""A connection that reads no more than fits, and knows what the broker calls it.

The prefetch bounds how many trace messages are on their way to us, not how large they are: 4,000
bodies of 10 MB are 40 GB. AMQP has a bound in bytes that RabbitMQ does not implement, so the
socket is left unread while enough is in memory, and TCP holds the broker back.
"""

from __future__ import annotations

import asyncio
from asyncio import StreamReader, StreamWriter
from typing import Any, cast

import aio_pika
from aiormq.connection import TCPTransportFactory, TLSTransportFactory, TransportFactory
from yarl import URL


class Gate:
    """Open, or closed to reading."""

    def __init__(self) -> None:
        self._open = asyncio.Event()
        self._open.set()

    def set_open(self, is_open: bool) -> None:
        """Open or close it."""
        if is_open:
            self._open.set()
        else:
            self._open.clear()

    async def passed(self) -> None:
        """Wait until it is open."""
        if not self._open.is_set():
            await self._open.wait()


class GatedReader:
    """A stream reader, as far as the client library uses it, behind a gate."""

    def __init__(self, reader: StreamReader, gate: Gate) -> None:
        self._reader = reader
        self._gate = gate

    def at_eof(self) -> bool:
        """Whether nothing more can come."""
        return self._reader.at_eof()

    async def readexactly(self, count: int) -> bytes:
        """Read so many bytes, once the gate is open."""
        await self._gate.passed()
        return await self._reader.readexactly(count)

    async def read(self, count: int = -1) -> bytes:
        """Read up to so many bytes, once the gate is open."""
        await self._gate.passed()
        return await self._reader.read(count)


class GatedConnection(aio_pika.Connection):
    """A connection that knows the broker's name for it, as trace messages have it.

    Seen from the broker: our socket's address, then its own. Behind a NAT it differs, and then
    our own events are traced like anybody's; there are next to none.
    """

    def __init__(self, url: URL, **kwargs: Any) -> None:
        super().__init__(url, **kwargs)
        tls = url.scheme == "amqps"
        self._sockets: TransportFactory = TLSTransportFactory() if tls else TCPTransportFactory()
        self.broker_name = ""
        self.gate = Gate()
        self.kwargs["transport_factory"] = self

    async def create(self, url: URL, **kwargs: Any) -> tuple[StreamReader, StreamWriter]:
        """Open the transport, and note its addresses (the client library's factory method)."""
        reader, writer = await self._sockets.create(url, **kwargs)
        ours, theirs = writer.get_extra_info("sockname"), writer.get_extra_info("peername")
        self.broker_name = f"{ours[0]}:{ours[1]} -> {theirs[0]}:{theirs[1]}"
        return cast("StreamReader", GatedReader(reader, self.gate)), writer
