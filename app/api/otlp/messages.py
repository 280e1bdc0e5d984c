"""Spans out of a request's body, in protobuf's wire format or JSON, and what is answered to it.

Both forms are read into the same messages, without building what is not kept: ids are bytes, or
hexadecimal in JSON, and numbers may be text there. An id or a number that is none costs its span,
not the request.
"""

from __future__ import annotations

import binascii
from collections.abc import Iterator
from typing import Any, TypeAlias

import msgspec

from app.stored.spans import MOST_LINKS, Refusal, Span, SpanKind, SpanLink
from model.texts import storable

_SERVICE_NAME = "service.name"
_LONGEST_SERVICE = 256  # characters
_LONGEST_NUMBER = 20  # digits of 2**64

# Of `flags`: whether it is known that a parent, or a link, is another process's; and whether it is.
_KNOWN, _IS_REMOTE = 0x100, 0x200

_KINDS = {kind.name.upper(): kind for kind in SpanKind}
_Number: TypeAlias = "int | str | None"
# A field's value: a number, or where bytes begin and end.
_Wire: TypeAlias = "int | tuple[int, int]"

_VARINT, _FIXED64, _BYTES, _START_GROUP, _END_GROUP, _FIXED32 = range(6)
_LONGEST_VARINT = 10


class _Fields(msgspec.Struct, rename="camel"):
    """A message; fields of other names are ignored."""


class _Link(_Fields):
    trace_id: str | None = None
    span_id: str | None = None
    flags: _Number = None


class _Span(_Fields):
    trace_id: str | None = None
    span_id: str | None = None
    parent_span_id: str | None = None
    flags: _Number = None
    kind: _Number = None
    start_time_unix_nano: _Number = None
    end_time_unix_nano: _Number = None
    links: list[_Link] | None = None


class _OtlpScope(_Fields):
    spans: list[_Span] | None = None


class _Value(_Fields):
    string_value: str | None = None


class _Attribute(_Fields):
    key: str | None = None
    value: _Value | None = None


class _OtlpResource(_Fields):
    attributes: list[_Attribute] | None = None


class _OfResource(_Fields):
    resource: _OtlpResource | None = None
    scope_spans: list[_OtlpScope] | None = None


class _Request(_Fields):
    resource_spans: list[_OfResource] | None = None


# By their numbers in protobuf the fields of each message that are kept, and their types; in a list
# is what may be there many times (opentelemetry/proto/collector/trace/v1, trace/v1, common/v1).
_FIELDS: dict[type, dict[int, tuple[str, Any]]] = {
    _Request: {1: ("resource_spans", [_OfResource])},
    _OfResource: {1: ("resource", _OtlpResource), 2: ("scope_spans", [_OtlpScope])},
    _OtlpResource: {1: ("attributes", [_Attribute])},
    _Attribute: {1: ("key", str), 2: ("value", _Value)},
    _Value: {1: ("string_value", str)},
    _OtlpScope: {2: ("spans", [_Span])},
    _Span: {
        1: ("trace_id", bytes),
        2: ("span_id", bytes),
        4: ("parent_span_id", bytes),
        6: ("kind", int),
        7: ("start_time_unix_nano", int),
        8: ("end_time_unix_nano", int),
        13: ("links", [_Link]),
        16: ("flags", int),
    },
    _Link: {1: ("trace_id", bytes), 2: ("span_id", bytes), 6: ("flags", int)},
}


class Bad(Exception):
    """A body that cannot be read; the text says where it goes wrong."""


class TooManyError(Exception):
    """More of what the text names than a request may have."""


class ReadingBudget:
    """The work on a request: spans, and the parts that they consist of, as allowed and as done.

    A part is a field of protobuf or an object of JSON. Each takes time whatever it says, so a
    request has them for the spans that it brings, and is counted by both.
    """

    _PARTS, _PARTS_OF_SPAN = 10_000, 64
    _BYTES_OF_SPAN = 4_096

    def __init__(self, most: int) -> None:
        self.most = most
        self._spans = 0
        self._granted = self._left = self._PARTS
        self.size = 0  # bytes of the unpacked body

    def span(self) -> None:
        self._spans += 1
        if self._spans > self.most:
            raise TooManyError("spans")

    def grant(self, spans: int) -> None:
        """Allow the parts of so many spans, which the request seems to bring."""
        parts = self._PARTS_OF_SPAN * min(spans, self.most)
        self._granted += parts
        self._left += parts

    def parts(self, count: int, what: str) -> None:
        """Count parts before they are read; raises `TooManyError`, which says what they are."""
        if count > self._left:
            raise TooManyError(what)
        self._left -= count

    @property
    def cost(self) -> float:
        """The number of ordinary spans that would have taken as long."""
        parts = (self._granted - self._left) / self._PARTS_OF_SPAN
        return max(1, self._spans, parts, self.size / self._BYTES_OF_SPAN)


_decode = msgspec.json.Decoder(_Request).decode


def read_json(body: bytes, work: ReadingBudget) -> Iterator[Span | Refusal]:
    # An object takes many times the memory of `{}`. Each span has this field, and links do.
    work.grant(body.count(b'"spanId"'))
    work.parts(body.count(b"{"), "objects")
    try:
        request = _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Bad(str(error)[:200]) from None
    for each in _spans(request):
        work.span()
        yield each


def read_protobuf(body: bytes, work: ReadingBudget) -> Iterator[Span | Refusal]:
    """Unknown fields are skipped, and of a field that may be there once the last one counts."""
    return _spans(_message(_Request, body, 0, len(body), work))


def _spans(request: _Request) -> Iterator[Span | Refusal]:
    """The spans of a request, or why one is refused."""
    for of_resource in request.resource_spans or ():
        service = _service(of_resource.resource)
        for scope in of_resource.scope_spans or ():
            for each in scope.spans or ():
                try:
                    yield _span_of(each, service)
                except ValueError:
                    yield Refusal.invalid


def _span_of(given: _Span, service: str | None) -> Span | Refusal:
    context, parent_id = _context(given), _octets(given.parent_span_id)
    begin, end = _number(given.start_time_unix_nano), _number(given.end_time_unix_nano)
    kind, is_remote = _kind(given.kind), _is_remote(given.flags)
    if context is None or len(parent_id) not in (0, 8) or not 0 < begin <= end:
        return Refusal.invalid
    links = given.links or ()
    if len(links) > MOST_LINKS:
        return Refusal.too_many_links
    parent = context[:16] + parent_id if any(parent_id) else None
    named = {_context(one): _is_remote(one.flags) for one in links}  # each once
    return Span(
        context,
        None if parent == context else parent,
        is_remote,
        kind,
        begin // 1_000,
        end // 1_000,
        service,
        # A link without ids says nothing, and a span's link to itself neither.
        tuple(SpanLink(of, to) for of, to in named.items() if of is not None and of != context),
    )


def _context(of: _Span | _Link) -> bytes | None:
    """A span's context; None if its ids are none."""
    trace_id, span_id = _octets(of.trace_id), _octets(of.span_id)
    are_ids = (len(trace_id), len(span_id)) == (16, 8) and any(trace_id) and any(span_id)
    return trace_id + span_id if are_ids else None


def _octets(text: str | bytes | None) -> bytes:
    return text if isinstance(text, bytes) else binascii.unhexlify(text or "")


def _is_remote(flags: _Number) -> bool | None:
    """Tell whether a parent or a link is another process's, None where the flags do not say."""
    bits = _number(flags)
    return bool(bits & _IS_REMOTE) if bits & _KNOWN else None


def _kind(given: _Number) -> SpanKind:
    name = given.removeprefix("SPAN_KIND_") if isinstance(given, str) else None
    if name in _KINDS:
        return _KINDS[name]
    number = _number(given)
    return SpanKind(number) if number < len(SpanKind) else SpanKind.unspecified


def _number(given: _Number) -> int:
    if isinstance(given, str):
        if not given.isascii() or not given.isdecimal() or len(given) > _LONGEST_NUMBER:
            raise ValueError("no number")
        given = int(given)
    if not 0 <= (given or 0) < 2**64:
        raise ValueError("no number of 64 bits")
    return given or 0


def _service(resource: _OtlpResource | None) -> str | None:
    for attribute in (resource and resource.attributes) or ():
        if attribute.key == _SERVICE_NAME and attribute.value is not None:
            name = attribute.value.string_value or ""
            return storable(name)[:_LONGEST_SERVICE] or None
    return None


def _message(kind: Any, body: bytes, at: int, end: int, work: ReadingBudget) -> Any:
    """A message of this kind, from the bytes between these two."""
    found: dict[str, Any] = {}
    for number, value in _raw_fields(body, at, end, work):
        name, of = _FIELDS[kind].get(number, ("", None))
        if of is None or isinstance(value, int) is not (of is int):
            continue
        if isinstance(value, int):
            found[name] = value
        elif of is bytes:
            found[name] = body[slice(*value)]
        elif of is str:  # what is longer is none of what is looked for
            found[name] = storable(body[slice(*value)][: 4 * _LONGEST_SERVICE])
        elif isinstance(of, list):
            if of == [_Span]:
                work.span()
                work.grant(1)
            found.setdefault(name, []).append(_message(of[0], body, *value, work))
        else:
            found[name] = _message(of, body, *value, work)
    return kind(**found)


def _raw_fields(body: bytes, at: int, end: int, work: ReadingBudget) -> Iterator[tuple[int, _Wire]]:
    while at < end:
        work.parts(1, "fields")
        tag, at = _varint_at(body, at, end)
        number, kind = tag >> 3, tag & 7
        if not number:
            raise Bad(f"a field without a number before byte {at}")
        if kind == _VARINT:
            value, at = _varint_at(body, at, end)
            yield number, value
            continue
        if kind == _BYTES:
            size, at = _varint_at(body, at, end)
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
        else:  # groups are long gone from the format, and none of these messages has had any
            raise Bad(f"a field of an unknown kind before byte {at}")
        begin, at = at, at + size
        if at > end:
            raise Bad(f"a field ends beyond its message, after byte {begin}")
        yield number, (begin, at) if kind == _BYTES else int.from_bytes(body[begin:at], "little")


def _varint_at(body: bytes, at: int, end: int) -> tuple[int, int]:
    """A number of variable length, and where it ends."""
    value = shift = 0
    for place in range(at, min(end, at + _LONGEST_VARINT)):
        byte = body[place]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, place + 1
        shift += 7
    raise Bad(f"a number that does not end, from byte {at}")


def answer_in_json(refused: int, message: str) -> bytes:
    said = {"partialSuccess": {"rejectedSpans": str(refused), "errorMessage": message}}
    return msgspec.json.encode(said if refused else {})


def answer_in_protobuf(refused: int, message: str) -> bytes:
    if not refused:
        return b""
    return _field(1, b"\x08" + _varint(refused) + _field(2, message.encode()))


def status_in_protobuf(message: str) -> bytes:
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
