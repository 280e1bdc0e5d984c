"""Spans out of protobuf's wire format, without building the parts that are not kept.

Field numbers are those of opentelemetry/proto/collector/trace/v1 and trace/v1. As the format
demands, unknown fields are skipped, and the last one of a single field counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from app.api.otlp.fields import LONGEST_SERVICE, SERVICE_NAME, Bad, ReadingBudget, link_of, span
from app.stored.spans import MOST_LINKS, Refusal, Span, SpanLink
from model.otlp import field, varint
from model.texts import storable

# A field's value: a number, or where bytes begin and end.
_Value: TypeAlias = "int | tuple[int, int]"

_VARINT, _FIXED64, _BYTES, _START_GROUP, _END_GROUP, _FIXED32 = range(6)
_LONGEST_VARINT = 10


def read(body: bytes, work: ReadingBudget) -> Iterator[Span | Refusal]:
    return _Message(body, work).spans()


def answer(refused: int, message: str) -> bytes:
    if not refused:
        return b""
    return field(1, b"\x08" + varint(refused) + field(2, message.encode()))


def status(message: str) -> bytes:
    return field(2, message.encode())


class _Message:
    """A request's bytes, and the parts of them that may still be looked at."""

    def __init__(self, body: bytes, work: ReadingBudget) -> None:
        self._body = body
        self._work = work

    def spans(self) -> Iterator[Span | Refusal]:
        for resource in self._parts(1, 0, len(self._body)):
            yield from self._of_resource(*resource)

    def _of_resource(self, begin: int, end: int) -> Iterator[Span | Refusal]:
        service = None
        scopes = []  # a resource may stand behind its spans
        for number, value in self._fields(begin, end):
            if isinstance(value, int):
                continue
            if number == 1:
                service = self._service(*value)
            elif number == 2:
                scopes.append(value)
        for scope in scopes:
            for span_part in self._parts(2, *scope):
                self._work.span()
                self._work.grant(1)
                yield self._span(*span_part, service)

    def _span(self, begin: int, end: int, service: str | None) -> Span | Refusal:
        ids = {1: b"", 2: b"", 4: b""}
        numbers = {6: 0, 7: 0, 8: 0, 16: 0}
        links: list[SpanLink | None] = []
        for number, value in self._fields(begin, end):
            if isinstance(value, int):
                if number in numbers:
                    numbers[number] = value
            elif number in ids:
                ids[number] = self._head(value, 17)
            elif number == 13 and len(links) <= MOST_LINKS:
                links.append(self._link(*value))
        times = numbers[7], numbers[8]
        return span(ids[1], ids[2], ids[4], numbers[16], numbers[6], times, service, links)

    def _link(self, begin: int, end: int) -> SpanLink | None:
        trace_id = span_id = b""
        flags = 0
        for number, value in self._fields(begin, end):
            if isinstance(value, int):
                flags = value if number == 6 else flags
            elif number == 1:
                trace_id = self._head(value, 17)
            elif number == 2:
                span_id = self._head(value, 17)
        return link_of(trace_id, span_id, flags)

    def _service(self, begin: int, end: int) -> str | None:
        for attribute in self._parts(1, begin, end):
            key, text = b"", None
            for of_attribute, part in self._fields(*attribute):
                if isinstance(part, int):
                    continue
                if of_attribute == 1:
                    key = self._head(part, len(SERVICE_NAME) + 1)
                elif of_attribute == 2:
                    text = part
            if key == SERVICE_NAME.encode() and text is not None:
                return self._text(*text)
        return None

    def _text(self, begin: int, end: int) -> str | None:
        for part in self._parts(1, begin, end):
            return storable(self._head(part, 4 * LONGEST_SERVICE))[:LONGEST_SERVICE] or None
        return None

    def _head(self, part: tuple[int, int], limit: int) -> bytes:
        """The first bytes of a field: none of the fields in question is longer."""
        return self._body[part[0] : min(part[1], part[0] + limit)]

    def _parts(self, field: int, begin: int, end: int) -> Iterator[tuple[int, int]]:
        """The span of bytes of each field of this number."""
        for number, value in self._fields(begin, end):
            if number == field and not isinstance(value, int):
                yield value

    def _fields(self, position: int, end: int) -> Iterator[tuple[int, _Value]]:
        body = self._body
        while position < end:
            self._work.parts(1, "fields")
            tag, position = _number(body, position, end)
            number, kind = tag >> 3, tag & 7
            if not number:
                raise Bad(f"a field without a number before byte {position}")
            if kind == _VARINT:
                value, position = _number(body, position, end)
                yield number, value
            elif kind == _BYTES:
                size, position = _number(body, position, end)
                begin, position = position, position + size
                if position > end:
                    raise Bad(f"a field ends beyond its message, after byte {begin}")
                yield number, (begin, position)
            elif kind in (_FIXED64, _FIXED32):
                begin, position = position, position + (8 if kind == _FIXED64 else 4)
                if position > end:
                    raise Bad(f"a field ends beyond its message, after byte {begin}")
                yield number, int.from_bytes(body[begin:position], "little")
            else:  # groups left the format long ago, and none of these messages ever had one
                raise Bad(f"a field of an unknown kind before byte {position}")


def _number(body: bytes, begin: int, end: int) -> tuple[int, int]:
    """A number of variable length, and its end."""
    value = shift = 0
    for position in range(begin, min(end, begin + _LONGEST_VARINT)):
        byte = body[position]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, position + 1
        shift += 7
    raise Bad(f"a number that does not end, from byte {begin}")
