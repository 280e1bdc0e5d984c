"""Requests out of protobuf's wire format, without building what is not kept.

Unknown fields are skipped, as the format has it; of a field that may be there once the last one
counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from app.api.otlp.as_json import (
    LONGEST_SERVICE,
    REQUEST,
    SPAN,
    Bad,
    Id,
    Number,
    ReadingBudget,
    kept,
)
from app.stored.spans import Refusal, Span
from model.texts import storable

# A field's value: a number, or where bytes begin and end.
_Value: TypeAlias = "int | tuple[int, int]"

_VARINT, _FIXED64, _BYTES, _START_GROUP, _END_GROUP, _FIXED32 = range(6)
_LONGEST_VARINT = 10


_LONGEST_ID = 17  # and so none


def read(body: bytes, work: ReadingBudget) -> Iterator[Span | Refusal]:
    return kept(_Reader(body, work).message(REQUEST, 0, len(body)))


def answer(refused: int, message: str) -> bytes:
    if not refused:
        return b""
    return _field(1, b"\x08" + _varint(refused) + _field(2, message.encode()))


def status(message: str) -> bytes:
    return _field(2, message.encode())


def _field(number: int, value: bytes) -> bytes:
    return bytes([number << 3 | _BYTES]) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


class _Reader:
    """A request's bytes, and how much of them may still be looked at."""

    def __init__(self, body: bytes, work: ReadingBudget) -> None:
        self._body = body
        self._work = work

    def message(self, kind: Any, begin: int, end: int) -> Any:
        """The message that some bytes are."""
        if kind is SPAN:
            self._work.spans(1)
            self._work.grant(1)
        found = kind()
        for number, value in self._fields(begin, end):
            name, its = kind.members.get(number, ("", None))
            if isinstance(value, int):
                if its is Number:
                    setattr(found, name, value)
            elif its is Id:
                setattr(found, name, self._some(value, _LONGEST_ID).hex())
            elif its is str:
                setattr(found, name, storable(self._some(value, 4 * LONGEST_SERVICE)))
            elif isinstance(its, list):
                setattr(found, name, many := getattr(found, name) or [])
                many.append(self.message(its[0], *value))
            elif isinstance(its, type):
                setattr(found, name, self.message(its, *value))
        return found

    def _some(self, part: tuple[int, int], most: int) -> bytes:
        """The first of a field's bytes: whatever is longer is none of what is looked for."""
        return self._body[part[0] : min(part[1], part[0] + most)]

    def _fields(self, at: int, end: int) -> Iterator[tuple[int, _Value]]:
        body = self._body
        while at < end:
            self._work.parts(1, "fields")
            tag, at = _number(body, at, end)
            number, kind = tag >> 3, tag & 7
            if not number:
                raise Bad(f"a field without a number before byte {at}")
            if kind == _VARINT:
                value, at = _number(body, at, end)
                yield number, value
            elif kind == _BYTES:
                size, at = _number(body, at, end)
                begin, at = at, at + size
                if at > end:
                    raise Bad(f"a field ends beyond its message, after byte {begin}")
                yield number, (begin, at)
            elif kind in (_FIXED64, _FIXED32):
                begin, at = at, at + (8 if kind == _FIXED64 else 4)
                if at > end:
                    raise Bad(f"a field ends beyond its message, after byte {begin}")
                yield number, int.from_bytes(body[begin:at], "little")
            else:  # groups are long gone from the format, and none of these messages has had any
                raise Bad(f"a field of an unknown kind before byte {at}")


def _number(body: bytes, at: int, end: int) -> tuple[int, int]:
    """A number of variable length, and where it ends."""
    value = shift = 0
    for place in range(at, min(end, at + _LONGEST_VARINT)):
        byte = body[place]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, place + 1
        shift += 7
    raise Bad(f"a number that does not end, from byte {at}")
