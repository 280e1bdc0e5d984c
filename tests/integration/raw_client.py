"""A publisher that puts bytes on the wire that no client library would."""

from __future__ import annotations

import asyncio
import struct
from types import TracebackType
from typing import Self
from urllib.parse import unquote, urlsplit

import pamqp.frame
from pamqp import commands
from pamqp.header import ProtocolHeader

_HEADERS = 1 << 13


def table(*entries: bytes) -> bytes:
    """A field table of entries that are already encoded."""
    content = b"".join(entries)
    return struct.pack(">I", len(content)) + content


def entry(key: bytes, kind: bytes, value: bytes) -> bytes:
    """One entry of a field table."""
    return bytes([len(key)]) + key + kind + value


def text(value: bytes) -> bytes:
    """A long string."""
    return struct.pack(">I", len(value)) + value


def nested(levels: int) -> bytes:
    """A table in a table in a table."""
    inner = table()
    for _ in range(levels):
        inner = table(entry(b"a", b"F", inner))
    return inner


class RawPublisher:
    """One connection with one channel, written by hand."""

    def __init__(self, url: str) -> None:
        self._parts = urlsplit(url)

    async def __aenter__(self) -> Self:
        host, port = self._parts.hostname, self._parts.port
        self._reader, self._writer = await asyncio.open_connection(host, port)
        self._writer.write(ProtocolHeader().marshal())
        await self._expect(commands.Connection.Start)
        secret = f"\0{self._parts.username}\0{self._parts.password}"
        self._send(commands.Connection.StartOk({}, "PLAIN", secret, "en_US"), 0)
        await self._expect(commands.Connection.Tune)
        self._send(commands.Connection.TuneOk(1, 131_072, 0), 0)
        self._send(commands.Connection.Open(unquote(self._parts.path[1:])), 0)
        await self._expect(commands.Connection.OpenOk)
        self._send(commands.Channel.Open(), 1)
        await self._expect(commands.Channel.OpenOk)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._send(commands.Channel.Close(200, "", 0, 0), 1)
        await self._expect(commands.Channel.CloseOk)  # so everything before it has been read
        self._writer.close()
        await self._writer.wait_closed()

    def publish(self, exchange: bytes, key: bytes, headers: bytes, body: bytes) -> None:
        """Publish with a header table given as its bytes."""
        method = struct.pack(">HHH", 60, 40, 0)
        method += bytes([len(exchange)]) + exchange + bytes([len(key)]) + key + b"\0"
        properties = struct.pack(">HHQH", 60, 0, len(body), _HEADERS) + headers
        frames = [(1, method), (2, properties), *([(3, body)] if body else [])]
        for kind, payload in frames:
            self._writer.write(struct.pack(">BHI", kind, 1, len(payload)) + payload + b"\xce")

    def _send(self, method: object, channel: int) -> None:
        self._writer.write(pamqp.frame.marshal(method, channel))  # type: ignore[arg-type]

    async def _expect(self, kind: type) -> None:
        async with asyncio.timeout(10):
            head = await self._reader.readexactly(7)
            length = struct.unpack(">I", head[3:])[0]
            _, _, found = pamqp.frame.unmarshal(head + await self._reader.readexactly(length + 1))
        if not isinstance(found, kind):
            raise TypeError(f"expected {kind.__name__}, the broker sent {dict(found)}")
