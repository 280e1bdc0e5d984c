"""Trace messages' headers, read in plain Python: what the compiled reader is compared with."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable
from hashlib import sha256
from struct import Struct
from struct import error as StructError
from typing import Any, TypeAlias

from app.broker.deliveries import channel_of
from app.broker.firehose import MOST_CHANNELS
from app.tracker.records import LARGE, Deliver, Publish, Record
from model.texts import storable

MAX_DEPTH = 64

Reader: TypeAlias = Callable[[bytes, int, int], tuple[Any, int]]

_UINT32 = Struct(">I").unpack_from
_FLAGS = Struct(">H").unpack_from
_FLAGS_AT = 12  # after class, weight and the body's size

# A property's place among the flags. Before each are those of higher bits: short texts but for the
# headers, two single bytes, and a time.
_HEADERS = 13
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
        raise ValueError("a length points behind the end")
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
        raise ValueError("an array's last value runs over its end")
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
        raise ValueError("a table's last value runs over its end")
    return values, end


def _end_of(data: bytes, at: int, depth: int) -> int:
    if depth > MAX_DEPTH:
        raise ValueError(f"nested deeper than {MAX_DEPTH}")
    end: int = at + 4 + _UINT32(data, at)[0]
    if end > len(data):
        raise ValueError("a length points behind the end")
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
    """Decode the field table at an offset."""
    try:
        return _table(data, at, 0)[0]
    except (IndexError, KeyError, StructError) as error:
        raise ValueError("not a field table") from error


def decode_headers(header: bytes) -> dict[str, Any]:
    """Decode the ``headers`` property of a content header; empty if there is none."""
    at = _place_of(_HEADERS, header)
    return {} if at is None else decode_table(header, at)


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
        raise ValueError(f"not a content header: {error!r}") from error
    return at


def read_record(routing_key: str, header: bytes, body: bytes, digest: bytes = b"") -> Record | None:
    """The record that a trace message is; None of another kind. Raises `ValueError`."""
    kind, _, name = routing_key.partition(".")
    if kind not in ("publish", "deliver"):
        return None
    is_publish = kind == "publish"
    node, connection, number, user, *rest, last = _fields(header, is_publish)
    channel = channel_of(node, connection, number, user)
    if len(body) > LARGE and not digest:
        digest = sha256(body).digest()
    exchange, keys, properties = rest
    if is_publish:
        return Publish(channel, exchange, keys, last, properties, body, digest)
    return Deliver(channel, exchange, keys, storable(name), bool(last), properties, body, digest)


def _fields(header: bytes, is_publish: bool) -> tuple[Any, ...]:
    table = decode_headers(header)
    properties = table.get("properties", {})
    if not isinstance(properties, dict):
        raise ValueError("properties")  # noqa: TRY004 - as for all that cannot be read
    return (
        _name(table, "node"),
        _name(table, "connection"),
        _whole(table, "channel", MOST_CHANNELS),
        _name(table, "user"),
        _name(table, "exchange_name"),
        _names(table, "routing_keys"),
        properties,
        _names(table, "routed_queues") if is_publish else _whole(table, "redelivered", 1),
    )


def _name(table: dict[str, Any], header: str) -> str:
    value = table.get(header)
    if not isinstance(value, str):
        raise ValueError(header)  # noqa: TRY004 - as for all that cannot be read
    return storable(value)


def _whole(table: dict[str, Any], header: str, most: int) -> int:
    value = table.get(header)
    if type(value) is not int or not 0 <= value <= most:
        raise ValueError(header)
    return value


def _names(table: dict[str, Any], header: str) -> tuple[str, ...]:
    values = table.get(header)
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise ValueError(header)
    return tuple(map(storable, values))
