"""Clients of MQTT and AMQP 1.0, of which the tests need one frame or the other.

A publisher of each, and a reader of AMQP 1.0. They speak as guest to the virtual host that they are
given, wait for every answer, and fail on anything unexpected.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from app.tracker import values

SECONDS = 20.0

# ---- MQTT 5 and 3.1.1 (OASIS standards, section 2 and 3) -----------------------------------------

_CONNECT, _CONNACK, _PUBLISH, _PUBACK, _SUBSCRIBE, _DISCONNECT = 0x10, 0x20, 0x30, 0x40, 0x80, 0xE0
_USER_PROPERTY = 0x26
# Those with a number of 4 bytes or of 1, with text, and with bytes.
_MQTT_PROPERTIES = {
    "payload_format": (0x01, "B"),
    "expiry": (0x02, "I"),
    "content_type": (0x03, "text"),
    "response_topic": (0x08, "text"),
    "correlation_data": (0x09, "text"),
}


def _length(number: int) -> bytes:
    out = bytearray()
    while True:
        number, seven = divmod(number, 128)
        out.append(seven | (0x80 if number else 0))
        if not number:
            return bytes(out)


def _counted(text: str | bytes) -> bytes:
    raw = text.encode() if isinstance(text, str) else text
    return struct.pack(">H", len(raw)) + raw


def _mqtt_properties(user: list[tuple[str, str]], given: dict[str, Any]) -> bytes:
    out = b"".join(
        bytes([_USER_PROPERTY]) + _counted(name) + _counted(value) for name, value in user
    )
    for name, value in given.items():
        code, kind = _MQTT_PROPERTIES[name]
        out += bytes([code]) + (
            _counted(value) if kind == "text" else struct.pack(">" + kind, value)
        )
    return _length(len(out)) + out


async def mqtt_publish(
    port: int,
    vhost: str,
    topic: str,
    body: bytes,
    *,
    qos: int = 1,
    user: list[tuple[str, str]] | None = None,
    **properties: Any,
) -> None:
    """Publish one message by MQTT 5, with properties and user properties."""
    async with asyncio.timeout(SECONDS):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        hello = _counted("MQTT") + bytes([5, 0xC2]) + struct.pack(">H", 60) + b"\0"
        hello += _counted("publisher") + _counted(f"{vhost}:guest") + _counted("guest")
        writer.write(bytes([_CONNECT]) + _length(len(hello)) + hello)
        kind, answer = await _mqtt_packet(reader)
        assert (kind, answer[1]) == (_CONNACK, 0), answer
        packet = _counted(topic) + (struct.pack(">H", 1) if qos else b"")
        packet += _mqtt_properties(user or [], properties) + body
        writer.write(bytes([_PUBLISH | qos << 1]) + _length(len(packet)) + packet)
        if qos:
            kind, answer = await _mqtt_packet(reader)
            assert kind == _PUBACK, answer
            assert answer[2:3] in (b"", b"\0"), answer
        writer.write(bytes([_DISCONNECT, 0]))
        await writer.drain()
        await reader.read()  # the broker closes once it has read everything
        writer.close()


async def mqtt_retain(port: int, vhost: str, topic: str, body: bytes) -> None:
    """Publish one message by MQTT 3.1.1, for the broker to keep."""
    async with _mqtt_3(port, vhost, "keeper") as (reader, writer):
        packet = _counted(topic) + struct.pack(">H", 1) + body
        writer.write(bytes([_PUBLISH | 0b011]) + _length(len(packet)) + packet)
        kind, _ = await _mqtt_packet(reader)
        assert kind == _PUBACK


async def mqtt_take(port: int, vhost: str, topic: str) -> bytes:
    """Subscribe by MQTT 3.1.1; returns the body of the first message."""
    async with _mqtt_3(port, vhost, "subscriber") as (reader, writer):
        packet = struct.pack(">H", 1) + _counted(topic) + b"\1"
        writer.write(bytes([_SUBSCRIBE | 0b10]) + _length(len(packet)) + packet)
        while True:
            kind, content = await _mqtt_packet(reader)
            if kind == _PUBLISH:
                return content[2 + len(topic.encode()) + 2 :]


@asynccontextmanager
async def _mqtt_3(
    port: int, vhost: str, name: str
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    async with asyncio.timeout(SECONDS):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        hello = _counted("MQTT") + bytes([4, 0xC2]) + struct.pack(">H", 60)
        hello += _counted(name) + _counted(f"{vhost}:guest") + _counted("guest")
        writer.write(bytes([_CONNECT]) + _length(len(hello)) + hello)
        kind, answer = await _mqtt_packet(reader)
        assert (kind, answer[1]) == (_CONNACK, 0), answer
        yield reader, writer
        writer.write(bytes([_DISCONNECT, 0]))
        await writer.drain()
        await reader.read()
        writer.close()


async def _mqtt_packet(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    kind = (await reader.readexactly(1))[0]
    size = shift = 0
    while True:
        byte = (await reader.readexactly(1))[0]
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return kind & 0xF0, await reader.readexactly(size)


# ---- AMQP 1.0 (OASIS standard, parts 1 and 2) ---------------------------------------------------

NULL, TRUE, FALSE = b"\x40", b"\x41", b"\x42"
_OPEN, _BEGIN, _ATTACH, _FLOW, _TRANSFER, _DISPOSITION = range(0x10, 0x16)
_CLOSE = 0x18
_SASL_INIT, _SASL_OUTCOME = 0x41, 0x44
_SOURCE, _TARGET, _ACCEPTED, _MODIFIED = 0x28, 0x29, 0x24, 0x27
HEADER, ANNOTATIONS, PROPERTIES, APPLICATION, DATA, VALUE = 0x70, 0x72, 0x73, 0x74, 0x75, 0x77


def uint(number: int) -> bytes:
    return b"\x70" + struct.pack(">I", number)


def text(value: str) -> bytes:
    raw = value.encode()
    return b"\xb1" + struct.pack(">I", len(raw)) + raw


def symbol(value: str) -> bytes:
    return b"\xb3" + struct.pack(">I", len(value)) + value.encode()


def binary(raw: bytes) -> bytes:
    return b"\xb0" + struct.pack(">I", len(raw)) + raw


def listed(*items: bytes) -> bytes:
    inside = b"".join(items)
    return b"\xd0" + struct.pack(">II", len(inside) + 4, len(items)) + inside


def mapped(*pairs: tuple[bytes, bytes]) -> bytes:
    inside = b"".join(key + value for key, value in pairs)
    return b"\xd1" + struct.pack(">II", len(inside) + 4, 2 * len(pairs)) + inside


def fields(frame: bytes) -> list[Any]:
    """What a frame says, without what follows behind it."""
    said, _ = values._TableReader(frame)._read(0, 0)
    return list(said)


def section(code: int, value: bytes) -> bytes:
    return b"\0\x53" + bytes([code]) + value


def modified(*annotations: tuple[bytes, bytes], undeliverable: bool = False) -> bytes:
    """The outcome of a delivery that failed, with what the consumer adds to the message."""
    flag = TRUE if undeliverable else FALSE
    return section(_MODIFIED, listed(TRUE, flag, mapped(*annotations)))


class Amqp10:
    """A connection with one session, as guest."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._first = 0  # the number of the first transfer to us

    @classmethod
    async def connect(cls, port: int, vhost: str) -> Amqp10:
        async with asyncio.timeout(SECONDS):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            self = cls(reader, writer)
            await self._protocol(3)
            await self._frame(1)  # which mechanisms there are
            self._send(1, _SASL_INIT, symbol("PLAIN"), binary(b"\0guest\0guest"))
            code, outcome = await self._frame(1)
            assert code == _SASL_OUTCOME, code
            assert b"\x50\x00" in outcome, outcome
            await self._protocol(0)
            self._send(0, _OPEN, text("tests"), text(f"vhost:{vhost}"))
            self._send(0, _BEGIN, NULL, uint(0), uint(1000), uint(1000))
            self._first = fields(await self._until(_BEGIN))[1]
        return self

    async def send(self, queue: str, message: bytes) -> None:
        """Send an encoded message to a queue, and wait until the broker has accepted it."""
        async with asyncio.timeout(SECONDS):
            target = section(_TARGET, listed(text(f"/queues/{queue}")))
            source = section(_SOURCE, listed(text("here")))
            start = uint(0)
            self._send(
                0,
                _ATTACH,
                text("out"),
                uint(0),
                FALSE,
                NULL,
                NULL,
                source,
                target,
                NULL,
                NULL,
                start,
            )
            await self._until(_FLOW)
            self._send(0, _TRANSFER, uint(0), uint(0), binary(b"1"), uint(0), FALSE, after=message)
            state = await self._until(_DISPOSITION)
            assert b"\0\x53" + bytes([_ACCEPTED]) in state, state

    async def take(self, queue: str, *, stream: bool = False, outcome: bytes = b"") -> bytes:
        """Take one message from a queue, or read the first one of a stream; its transfer frame.

        It is accepted, or settled with another ``outcome``.
        """
        async with asyncio.timeout(SECONDS):
            name = "rabbitmq:stream-offset-spec"
            first = mapped((symbol(name), b"\0" + symbol(name) + text("first")))
            more = [NULL] * 6 + [first] if stream else []
            source = section(_SOURCE, listed(text(f"/queues/{queue}"), *more))
            target = section(_TARGET, listed(text("here")))
            self._send(0, _ATTACH, text("in"), uint(1), TRUE, NULL, NULL, source, target)
            count = uint(fields(await self._until(_ATTACH))[9])
            window = uint(1000)
            self._send(
                0, _FLOW, uint(self._first), window, uint(0), window, uint(1), count, uint(1)
            )
            found = await self._until(_TRANSFER)
            delivery = uint(fields(found)[1])
            outcome = outcome or section(_ACCEPTED, listed())
            self._send(0, _DISPOSITION, TRUE, delivery, delivery, TRUE, outcome)
            return found

    async def close(self) -> None:
        async with asyncio.timeout(SECONDS):
            self._send(0, _CLOSE)
            await self._until(_CLOSE)
            self._writer.close()

    async def _protocol(self, number: int) -> None:
        hello = b"AMQP" + bytes([number, 1, 0, 0])
        self._writer.write(hello)
        assert await self._reader.readexactly(8) == hello

    def _send(self, kind: int, code: int, *fields: bytes, after: bytes = b"") -> None:
        body = section(code, listed(*fields)) + after
        self._writer.write(struct.pack(">IBBH", len(body) + 8, 2, kind, 0) + body)

    async def _frame(self, kind: int) -> tuple[int, bytes]:
        size, offset, its, _ = struct.unpack(">IBBH", await self._reader.readexactly(8))
        body = (await self._reader.readexactly(size - 8))[4 * (offset - 2) :]
        assert its == kind
        return (body[2] if body else -1), body

    async def _until(self, wanted: int) -> bytes:
        while True:
            code, body = await self._frame(0)
            if code == wanted:
                return body
            assert code in (-1, _OPEN, _BEGIN, _ATTACH, _FLOW, _DISPOSITION), body
