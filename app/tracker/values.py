"""Bodies of AMQP 1.0 messages that are values, as text.

A client of AMQP 1.0 sends bytes (a data section) or a value: text, a number, a map, a list. The
firehose speaks AMQP 0.9.1 and shows a value as it was encoded, with the property `type` saying
`amqp-1.0`: a text of five letters as nine bytes that are no UTF-8. Here text becomes itself, bytes
become themselves, and everything else JSON. Matching goes by what the broker showed: the number 7
and the text "7" are two messages.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable
from datetime import UTC, datetime
from struct import Struct
from struct import error as StructError
from typing import Any, Final, TypeAlias

import msgspec
from msgspec.structs import replace

from app.tracker.records import Record

AMQP_1_0: Final = "amqp-1.0"
MOST_DEPTH = 64
MOST_BYTES = 1_000_000  # a larger body stays as it is
MOST_VALUES = 2_000  # of one body, which take some 2 ms; one with more stays as it is

_SEQUENCE, _VALUE, _FOOTER = 0x76, 0x77, 0x78
_TEXT = {0xA1: 1, 0xA3: 1, 0xB1: 4, 0xB3: 4}  # strings and symbols, and the size of their length
_BYTES = {0xA0: 1, 0xB0: 4}
_ARRAYS = {0xE0: 1, 0xF0: 4}
_LISTS = {0xC0: 1, 0xD0: 4}
_MAPS = {0xC1: 1, 0xD1: 4}
_CONSTANTS: dict[int, Any] = {0x40: None, 0x41: True, 0x42: False, 0x43: 0, 0x44: 0, 0x45: []}

_to_json = msgspec.json.Encoder().encode

Read: TypeAlias = tuple[Any, int]  # a value, and its end


class _NotAValueError(ValueError):
    """Bytes that are no AMQP 1.0 value."""


def readable(record: Record) -> Record:
    """A record with a readable body, if that is an AMQP 1.0 value; else the record itself."""
    if record.properties.get("type") != AMQP_1_0:
        return record
    body = as_text(record.body)
    return record if body is None else replace(record, body=body, sha256=b"")


def as_text(body: bytes) -> bytes | None:
    """The value of an AMQP 1.0 body as UTF-8 text, JSON or plain bytes; None if there is none."""
    if len(body) > MOST_BYTES:
        return None
    try:
        values = _TableReader(body).sections()
        if len(values) == 1 and isinstance(values[0], bytes):
            return values[0]
        if len(values) == 1 and isinstance(values[0], str):
            return values[0].encode()
        return _to_json(_json(values[0] if len(values) == 1 else values))
    except (_NotAValueError, StructError, IndexError, ValueError, OverflowError, RecursionError):
        return None


class _TableReader:
    """Reads a body's values, `MOST_VALUES` at most, and no more than it has bytes.

    Not every value takes room: an array of four billion nulls has fifteen bytes.
    """

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._budget = min(MOST_VALUES, len(body))

    def sections(self) -> list[Any]:
        """The sections' values; those of sequences are one list."""
        body, position = self._body, 0
        values: list[Any] = []
        sequence: list[Any] = []
        while position < len(body):
            code, position = self._descriptor(position)
            if code == _FOOTER:
                break
            value, position = self._read(position, 0)
            if code == _SEQUENCE and isinstance(value, list):
                if not sequence:
                    values.append(sequence)
                sequence += value
            elif code == _VALUE and not values:
                values.append(value)
            else:
                raise _NotAValueError("a section of another kind")
        if not values:
            raise _NotAValueError("no section")
        return values

    def _descriptor(self, position: int) -> tuple[int, int]:
        if self._body[position] != 0:
            raise _NotAValueError("no section")
        code, position = self._read(position + 1, 0)
        if type(code) is not int:
            raise _NotAValueError("a section with a name")
        return code, position

    def _read(self, position: int, depth: int) -> Read:
        if self._body[position] == 0:  # described: its name is left out
            if depth > MOST_DEPTH:
                raise _NotAValueError("nested too deep")
            _, position = self._read(position + 1, depth + 1)
            return self._read(position, depth + 1)
        return self._of_code(self._body[position], position + 1, depth)

    def _of_code(self, code: int, position: int, depth: int) -> Read:
        self._budget -= 1
        if self._budget < 0:
            raise _NotAValueError("too many values")
        if code in _CONSTANTS:
            return _CONSTANTS[code], position
        if code in _FIXED:
            size, convert = _FIXED[code]
            return convert(self._cut(position, size)), position + size
        if code in _TEXT or code in _BYTES:
            width = _TEXT.get(code) or _BYTES[code]
            end = position + width + int.from_bytes(self._cut(position, width), "big")
            raw = self._cut(position + width, end - position - width)
            return (raw.decode() if code in _TEXT else raw), end
        if depth > MOST_DEPTH:
            raise _NotAValueError("nested too deep")
        if code in _ARRAYS:
            return self._array(position, _ARRAYS[code], depth)
        if code not in _LISTS and code not in _MAPS:
            raise _NotAValueError("an unknown type")
        width = _LISTS.get(code) or _MAPS[code]
        count = int.from_bytes(self._cut(position + width, width), "big")
        position += 2 * width
        values = []
        for _ in range(count):
            value, position = self._read(position, depth + 1)
            values.append(value)
        if code in _LISTS:
            return values, position
        return _map(values), position

    def _array(self, position: int, width: int, depth: int) -> Read:
        count = int.from_bytes(self._cut(position + width, width), "big")
        position += 2 * width
        if self._body[position] == 0:
            _, position = self._read(position + 1, depth + 1)
        code = self._body[position]
        position += 1
        values = []
        for _ in range(count):
            value, position = self._of_code(code, position, depth + 1)
            values.append(value)
        return values, position

    def _cut(self, position: int, size: int) -> bytes:
        if position + size > len(self._body):
            raise _NotAValueError("a length points behind the end")
        return self._body[position : position + size]


def _map(values: list[Any]) -> dict[str, Any]:
    """A map, whose keys that are no text become JSON."""
    return dict(zip(map(_key, values[::2]), values[1::2], strict=True))


def _key(key: Any) -> str:
    if isinstance(key, str):
        return key
    if isinstance(key, list | dict):  # as text within text each level would double the next one's
        raise _NotAValueError("a key of several values")
    return _to_json(_json(key)).decode()


def _json(value: Any) -> Any:
    """A value for JSON: bytes as text if they are UTF-8, else in base64."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return {"base64": base64.b64encode(value).decode()}
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, list):
        return [_json(element) for element in value]
    if isinstance(value, dict):
        return {key: _json(element) for key, element in value.items()}
    return value


def _unpack(form: str) -> Callable[[bytes], Any]:
    unpack = Struct(">" + form).unpack
    return lambda raw: unpack(raw)[0]


def _time(raw: bytes) -> Any:
    milliseconds = int.from_bytes(raw, "big", signed=True)
    if not _FIRST <= milliseconds < _END:
        return milliseconds
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat()


_FIRST, _END = -62_135_596_800_000, 253_402_300_800_000  # of the years that a date may have


def _uuid(raw: bytes) -> str:
    text = raw.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


_FIXED: dict[int, tuple[int, Callable[[bytes], Any]]] = {
    0x50: (1, _unpack("B")),
    0x51: (1, _unpack("b")),
    0x52: (1, _unpack("B")),
    0x53: (1, _unpack("B")),
    0x54: (1, _unpack("b")),
    0x55: (1, _unpack("b")),
    0x56: (1, _unpack("?")),
    0x60: (2, _unpack("H")),
    0x61: (2, _unpack("h")),
    0x70: (4, _unpack("I")),
    0x71: (4, _unpack("i")),
    0x72: (4, _unpack("f")),
    0x73: (4, lambda raw: raw.decode("utf-32-be")),
    0x74: (4, lambda raw: {"decimal": raw.hex()}),
    0x80: (8, _unpack("Q")),
    0x81: (8, _unpack("q")),
    0x82: (8, _unpack("d")),
    0x83: (8, _time),
    0x84: (8, lambda raw: {"decimal": raw.hex()}),
    0x94: (16, lambda raw: {"decimal": raw.hex()}),
    0x98: (16, _uuid),
}
