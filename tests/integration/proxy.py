"""A TCP proxy that holds up, forgets and cuts connections."""

from __future__ import annotations

import asyncio
import contextlib
from asyncio import StreamReader, StreamWriter, Transport
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Self


class Proxy:
    """Forwards to a port of this machine.

    While ``up`` or ``down`` is cleared nothing passes from the client or to it, on any connection;
    what is held up is lost by a cut.
    """

    def __init__(self, target: int) -> None:
        self._target = target
        self._transports: set[Transport] = set()
        self.up = asyncio.Event()
        self.down = asyncio.Event()
        self.port = 0
        self.release()

    @classmethod
    @asynccontextmanager
    async def to(cls, target: int) -> AsyncIterator[Self]:
        """Run one."""
        proxy = cls(target)
        server = await asyncio.start_server(proxy._serve, "127.0.0.1", 0)
        proxy.port = server.sockets[0].getsockname()[1]
        try:
            yield proxy
        finally:
            server.close()
            proxy.cut()

    def hold(self) -> None:
        """Let nothing pass either way: all connections are half-open."""
        self.up.clear()
        self.down.clear()

    def release(self) -> None:
        """Let everything pass."""
        self.up.set()
        self.down.set()

    def cut(self) -> None:
        """Break all connections off."""
        for transport in self._transports:
            transport.abort()
        self._transports.clear()

    async def _serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        await self.up.wait()
        with contextlib.suppress(OSError):
            theirs, ours = await asyncio.open_connection("127.0.0.1", self._target)
            both = {writer.transport, ours.transport}
            self._transports |= both  # type: ignore[arg-type]  # WriteTransports, of sockets
            pumps = [
                asyncio.create_task(_pump(reader, ours, self.up)),
                asyncio.create_task(_pump(theirs, writer, self.down)),
            ]
            try:
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for pump in pumps:
                    pump.cancel()
                for transport in both:
                    transport.abort()
                self._transports -= both  # type: ignore[operator]


async def _pump(reader: StreamReader, writer: StreamWriter, passes: asyncio.Event) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65_536):
            await passes.wait()
            writer.write(data)
            await writer.drain()
