"""A proxy for TCP that behaves as networks do: it forgets connections, cuts them, is slow."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

CHUNK = 64 * 1024
AT_ONCE = 1_000  # chunks that may wait on their way
ACK = b"\x00\x3c\x00\x50"  # AMQP's basic.ack: class 60, method 80


class _Link:
    """One connection through the proxy."""

    def __init__(self, client: StreamWriter, server: StreamWriter) -> None:
        self.client = client
        self.server = server
        self.is_stalled = False

    def cut(self) -> None:
        """Reset both sides."""
        for writer in (self.client, self.server):
            own = writer.get_extra_info("socket")
            with contextlib.suppress(OSError):
                own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()


class Proxy:
    """Forwards what connects to its port to an address, where it comes from ``place``.

    ``delay`` (seconds) is how long what a client sends is on its way, from ``delayed`` on: the
    first chunk for which that is true, and whatever follows it within that time.
    ``is_partitioned``: nothing gets through, and no connection breaks. ``on_sent`` sees what
    clients send, after it was forwarded, and says whether the connection is to be cut then.
    """

    def __init__(self, url: str, place: str | None = None) -> None:
        self._target = urlsplit(url)
        self._local = place and (place, 0)
        self._links: set[_Link] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.delay = 0.0
        self.delayed: Callable[[bytes], bool] = bool
        self.is_partitioned = False
        self.on_sent: Callable[[bytes], bool] | None = None
        self.taken = 0  # connections, ever
        self.port = 0
        self.port_there = 0  # of the last connection, as the other side sees it

    @property
    def url(self) -> str:
        """The same address through it."""
        credentials, separator, _ = self._target.netloc.rpartition("@")
        netloc = f"{credentials}{separator}127.0.0.1:{self.port}"
        return self._target._replace(netloc=netloc).geturl()

    def stall(self) -> None:
        """Forget the connections that there are: they neither work nor break. New ones work."""
        for link in self._links:
            link.is_stalled = True

    def cut(self) -> int:
        """Reset all connections; returns how many there were."""
        links = list(self._links)
        for link in links:
            link.cut()
        return len(links)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Proxy]:
        """Listen on a free port while the block runs."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            self._server.close()
            self.cut()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accept(self, reader: StreamReader, writer: StreamWriter) -> None:
        task = asyncio.create_task(self._take(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _take(self, reader: StreamReader, writer: StreamWriter) -> None:
        try:
            there = self._target.hostname, self._target.port or 5672
            theirs, server = await asyncio.open_connection(*there, local_addr=self._local)
        except OSError:
            writer.transport.abort()
            return
        self.taken += 1
        self.port_there = server.get_extra_info("sockname")[1]
        link = _Link(writer, server)
        self._links.add(link)
        ways = [
            asyncio.create_task(self._up(link, reader, server)),
            asyncio.create_task(self._pump(link, theirs, writer)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._links.discard(link)
            link.cut()
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)

    async def _pump(self, link: _Link, reader: StreamReader, writer: StreamWriter) -> None:
        while data := await reader.read(CHUNK):
            await self._passable(link)
            writer.write(data)
            await writer.drain()

    async def _up(self, link: _Link, reader: StreamReader, writer: StreamWriter) -> None:
        """Forward what a client sends, later if it is to be delayed."""
        loop = asyncio.get_running_loop()
        due_chunks: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(AT_ONCE)

        async def forward() -> None:
            while True:
                due, data = await due_chunks.get()
                if due > loop.time():
                    await asyncio.sleep(due - loop.time())
                await self._passable(link)
                writer.write(data)
                await writer.drain()
                if self.on_sent is not None and self.on_sent(data):
                    link.cut()

        forwarding = asyncio.create_task(forward())
        last_due = 0.0
        try:
            while data := await reader.read(CHUNK):
                now = loop.time()
                if self.delay and self.delayed(data):
                    last_due = now + self.delay
                await due_chunks.put((max(now, last_due), data))
                if forwarding.done():
                    forwarding.result()
        finally:
            forwarding.cancel()
            await asyncio.gather(forwarding, return_exceptions=True)

    async def _passable(self, link: _Link) -> None:
        while self.is_partitioned or link.is_stalled:  # noqa: ASYNC110 - of two, and rare
            await asyncio.sleep(0.02)


def is_ack(data: bytes) -> bool:
    """Tell whether bytes for a broker hold an acknowledgement."""
    return ACK in data
