"""Clients at another place: connections to a broker that come from an address of their own."""

from __future__ import annotations

import asyncio
import contextlib
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit, urlunsplit


@asynccontextmanager
async def relayed(url: str, place: str) -> AsyncIterator[str]:
    """The URL of a port that leads to a broker's, whose connections come from this address."""
    parts = urlsplit(url)

    async def relay(reader: StreamReader, writer: StreamWriter) -> None:
        there = await asyncio.open_connection(
            parts.hostname, parts.port or 5672, local_addr=(place, 0)
        )
        await asyncio.gather(_pass(reader, there[1]), _pass(there[0], writer))

    server = await asyncio.start_server(relay, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    credentials = parts.netloc.rpartition("@")[0]
    async with server:
        netloc = f"{credentials}@127.0.0.1:{port}" if credentials else f"127.0.0.1:{port}"
        yield urlunsplit(parts._replace(netloc=netloc))


async def _pass(reader: StreamReader, writer: StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    with contextlib.suppress(OSError):
        writer.close()
