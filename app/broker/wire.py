"""AMQP field tables as they come off the wire, decoded late and whatever they contain.

Why not the client library's own decoder: whoever published the traced message chose what is in a
trace message's header table. pamqp decodes it while it reads the frame, and a table nested a
thousand deep, a key that is not UTF-8 or a date beyond the year 9999 raises there, which closes the
*connection*; the message is requeued, and kills the next one. Here a broken table is an
`UnreadableTableError` of that message alone, and values come out JSON-safe in one pass without
copying slices (half of pamqp's time on our tables).

Types as RabbitMQ writes them: https://www.rabbitmq.com/amqp-0-9-1-errata (section 3).
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable
from struct import Struct
from struct import error as StructError
from typing import Any, TypeAlias

import pamqp.decode

# Deep enough for anything a person nests, shallow enough to stay clear of Python's own limit.
MAX_DEPTH = 64


class UnreadableTableError(ValueError):
    """Bytes that are not a field table, or are one nested deeper than `MAX_DEPTH`."""


Reader: TypeAlias = Callable[[bytes, int, int], tuple[Any, int]]

_UINT32 = Struct(">I").unpack_from
_FLAGS = Struct(">H").unpack_from
_FLAGS_AT = 12  # after class, weight and the body's size

# A property's place among the flags. Before each are those of higher bits: short texts but for the
# headers, two single bytes, and a time.
_HEADERS, _USER_ID = 13, 4
_BYTES = {12: 1, 11: 1, 6: 8}  # delivery mode, priority, timestamp


def _fixed(code: str, convert: Callable[[Any], Any] | None = None) -> Reader:
    struct = Struct(">" + code)
    unpack, size = struct.unpack_from, struct.size

    def read(data: bytes, at: int, depth: int) -> tuple[Any, int]:
        value = unpack(data, at)[0]
        return (convert(value) if convert else value), at + size

    return read


def _float(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)  # JSON has no NaN and no infinity


def _slice(data: bytes, at: int) -> tuple[bytes, int]:
    start = at + 4
    end = start + _UINT32(data, at)[0]
    if end > len(data):
        raise UnreadableTableError("a length points behind the end")
    return data[start:end], end


def _text(data: bytes, at: int, depth: int) -> tuple[str, int]:
    raw, end = _slice(data, at)
    try:
        return raw.decode(), end
    except UnicodeDecodeError:
        return raw.decode("utf-8", "backslashreplace"), end


def _bytes(data: bytes, at: int, depth: int) -> tuple[dict[str, str], int]:
    raw, end = _slice(data, at)
    return {"base64": base64.b64encode(raw).decode()}, end


def _decimal(data: bytes, at: int, depth: int) -> tuple[str, int]:
    scale = data[at]
    digits = str(int.from_bytes(data[at + 1 : at + 5], "big", signed=True))
    return f"{digits}e-{scale}" if scale else digits, at + 5


def _void(data: bytes, at: int, depth: int) -> tuple[None, int]:
    return None, at


def _array(data: bytes, at: int, depth: int) -> tuple[list[Any], int]:
    end = _end_of(data, at, depth)
    at += 4
    values = []
    while at < end:
        value, at = _READERS[data[at]](data, at + 1, depth + 1)
        values.append(value)
    if at != end:
        raise UnreadableTableError("an array's last value runs over its end")
    return values, at


def _table(data: bytes, at: int, depth: int) -> tuple[dict[str, Any], int]:
    end = _end_of(data, at, depth)
    at += 4
    values: dict[str, Any] = {}
    while at < end:
        start = at + 1
        at = start + data[at]
        key = data[start:at].decode("utf-8", "backslashreplace")
        values[key], at = _READERS[data[at]](data, at + 1, depth + 1)
    if at != end:
        raise UnreadableTableError("a table's last value runs over its end")
    return values, end


def _end_of(data: bytes, at: int, depth: int) -> int:
    if depth > MAX_DEPTH:
        raise UnreadableTableError(f"nested deeper than {MAX_DEPTH}")
    end: int = at + 4 + _UINT32(data, at)[0]
    if end > len(data):
        raise UnreadableTableError("a length points behind the end")
    return end


_READERS: dict[int, Reader] = {
    ord("t"): _fixed("B", bool),
    ord("b"): _fixed("b"),
    ord("B"): _fixed("B"),
    ord("s"): _fixed("h"),
    ord("u"): _fixed("H"),
    ord("I"): _fixed("i"),
    ord("i"): _fixed("I"),
    ord("l"): _fixed("q"),
    ord("L"): _fixed("q"),
    ord("f"): _fixed("f", _float),
    ord("d"): _fixed("d", _float),
    ord("D"): _decimal,
    ord("S"): _text,
    ord("A"): _array,
    ord("T"): _fixed("Q"),  # seconds since the epoch, of any size, so it stays a number
    ord("F"): _table,
    ord("V"): _void,
    ord("x"): _bytes,
}


def decode_table(data: bytes, at: int = 0) -> dict[str, Any]:
    """Decode the field table at an offset into JSON-safe values.

    Byte arrays become ``{"base64": …}``, decimals text, times seconds; text that is not UTF-8
    keeps its odd bytes as ``\\xhh``.

    :raises UnreadableTableError: for bytes that are not a table, or are nested too deep.
    """
    try:
        return _table(data, at, 0)[0]
    except (IndexError, KeyError, StructError) as error:
        raise UnreadableTableError(f"not a field table: {error!r}") from error


def decode_headers(header: bytes) -> dict[str, Any]:
    """Decode the ``headers`` property of a content header; empty if there is none.

    ``header`` is the payload of a header frame. Other properties are ignored.

    :raises UnreadableTableError: for bytes that are not a content header, or not a table in one.
    """
    at = _place_of(_HEADERS, header)
    return {} if at is None else decode_table(header, at)


def user_of(header: bytes) -> str | None:
    """Decode the ``user_id`` property of a content header: who published, as the broker checks.

    :raises UnreadableTableError: for bytes that are not a content header.
    """
    at = _place_of(_USER_ID, header)
    return None if at is None else _short_text(header[at:])[1]


def _place_of(wanted: int, header: bytes) -> int | None:
    """Find where a property is, None if it is not there."""
    try:
        flags = _FLAGS(header, _FLAGS_AT)[0]
        if not flags >> wanted & 1:
            return None
        at: int = _FLAGS_AT + 2
        for bit in range(15, wanted, -1):
            if flags >> bit & 1:
                if bit == _HEADERS:
                    at += 4 + _UINT32(header, at)[0]
                else:
                    at += _BYTES.get(bit) or 1 + header[at]
        header[at]  # it must be there
    except (IndexError, StructError) as error:
        raise UnreadableTableError(f"not a content header: {error!r}") from error
    return at


def _short_text(data: bytes) -> tuple[int, str]:
    end = data[0] + 1
    return end, data[1:end].decode("utf-8", "backslashreplace")


def install_tolerant_names() -> None:
    """Make pamqp decode short strings leniently, in this process.

    This works because the library looks the decoder up in its module. A name may be any bytes, and
    appears in the broker's reason for closing, cut at 255 bytes wherever that is.
    """
    pamqp.decode.METHODS["shortstr"] = _short_text
