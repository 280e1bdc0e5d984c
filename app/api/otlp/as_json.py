"""A request as far as it is looked at, in either form; out of JSON; and the spans in it.

The members are those of opentelemetry/proto/collector/trace/v1 and trace/v1 that say what is kept,
as the JSON has them: ids in hexadecimal, numbers perhaps as text. Others are passed over.
"""

from __future__ import annotations

import binascii
from collections.abc import Iterator
from types import GenericAlias
from typing import Annotated, Any, TypeAlias

import msgspec

from app.stored.spans import MOST_LINKS, Refusal, Span, SpanKind, SpanLink
from model.texts import storable

SERVICE_NAME = "service.name"
LONGEST_SERVICE = 256  # characters

# Of `flags`: whether it is known that a parent, or a link, is another process's; and whether it is.
_KNOWN, _IS_REMOTE = 0x100, 0x200

_KINDS = {int(kind): kind for kind in SpanKind}
_LONGEST_NUMBER = 20  # digits of 2**64

Number: TypeAlias = int | str
Id: TypeAlias = Annotated[str, msgspec.Meta(description="Hexadecimal.")]


def _message(name: str, **members: tuple[int, Any]) -> Any:
    """A message with these members, by number and type in protobuf, a list for repeated ones.

    ``members`` of its class has them, and the instances by their names, None for what is not there.
    """
    types = {
        each: GenericAlias(list, tuple(its)) if isinstance(its, list) else its
        for each, (_, its) in members.items()
    }
    fields = [(each, its | None, None) for each, its in types.items()]
    by_number = {number: (each, its) for each, (number, its) in members.items()}
    return msgspec.defstruct(name, fields, rename="camel", namespace={"members": by_number})


LINK = _message("Link", trace_id=(1, Id), span_id=(2, Id), flags=(6, Number))
SPAN = _message(
    "Span",
    trace_id=(1, Id),
    span_id=(2, Id),
    parent_span_id=(4, Id),
    links=(13, [LINK]),
    kind=(6, Number),
    flags=(16, Number),
    start_time_unix_nano=(7, Number),
    end_time_unix_nano=(8, Number),
)
_SCOPE = _message("Scope", spans=(2, [SPAN]))
_ATTRIBUTE = _message("Attribute", key=(1, str), value=(2, _message("Text", string_value=(1, str))))
_RESOURCE = _message("Resource", attributes=(1, [_ATTRIBUTE]))
_OF_RESOURCE = _message("ResourceSpans", resource=(1, _RESOURCE), scope_spans=(2, [_SCOPE]))
REQUEST = _message("Request", resource_spans=(1, [_OF_RESOURCE]))


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

    def spans(self, count: int) -> None:
        self._spans += count
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


_decode = msgspec.json.Decoder(REQUEST).decode
_encode = msgspec.json.Encoder().encode


def read(body: bytes, work: ReadingBudget) -> Iterator[Span | Refusal]:
    # An object takes many times the memory of `{}`. Each span has this field, and links do.
    work.grant(body.count(b'"spanId"'))
    work.parts(body.count(b"{"), "objects")
    try:
        request = _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Bad(str(error)[:200]) from None
    work.spans(sum(1 for each in request.resource_spans or () for _ in _spans(each)))
    return kept(request)


def answer(refused: int, message: str) -> bytes:
    if not refused:
        return b"{}"
    return _encode({"partialSuccess": {"rejectedSpans": str(refused), "errorMessage": message}})


def kept(request: Any) -> Iterator[Span | Refusal]:
    """The spans of a request, and of those that are refused why."""
    for of_resource in request.resource_spans or ():
        service = _service(of_resource.resource)
        for given in _spans(of_resource):
            try:
                many = len(given.links or ()) > MOST_LINKS
                yield Refusal.too_many_links if many else _span(given, service)
            except ValueError:
                yield Refusal.invalid


def _spans(of_resource: Any) -> Iterator[Any]:
    return (each for scope in of_resource.scope_spans or () for each in scope.spans or ())


def _span(given: Any, service: str | None) -> Span:
    """A span as it is kept; raises `ValueError` for one that is none."""
    begin, end = _number(given.start_time_unix_nano), _number(given.end_time_unix_nano)
    context, flags = _context(given), _number(given.flags)
    parent_id = _octets(given.parent_span_id)
    if context is None or len(parent_id) not in (0, 8) or not 0 < begin <= end:
        raise ValueError("no span")
    parent = context[:16] + parent_id if any(parent_id) else None
    links = [
        SpanLink(its, _remote(_number(one.flags)))
        for one in given.links or ()
        if (its := _context(one)) is not None
    ]
    return Span(
        context,
        None if parent == context else parent,
        _remote(flags),
        _kind(given.kind),
        begin // 1_000,
        end // 1_000,
        service,
        # Each once. A link without ids says nothing, and a span's link to itself neither.
        tuple({one.context: one for one in links if one.context != context}.values()),
    )


def _service(resource: Any) -> str | None:
    for attribute in (resource and resource.attributes) or ():
        if attribute.key == SERVICE_NAME and attribute.value is not None:
            name = attribute.value.string_value or ""
            return storable(name)[:LONGEST_SERVICE] or None
    return None


def _remote(flags: int) -> bool | None:
    """Tell whether a parent or a link is another process's, None where the flags do not say."""
    return bool(flags & _IS_REMOTE) if flags & _KNOWN else None


def _context(of: Any) -> bytes | None:
    trace_id, span_id = _octets(of.trace_id), _octets(of.span_id)
    is_one = len(trace_id) == 16 and len(span_id) == 8 and any(trace_id) and any(span_id)
    return trace_id + span_id if is_one else None


def _octets(text: str | None) -> bytes:
    try:
        return binascii.unhexlify(text or "")
    except binascii.Error as error:
        raise ValueError(str(error)) from None


def _kind(given: Number | None) -> SpanKind:
    name = str(given).removeprefix("SPAN_KIND_").lower()
    if name in SpanKind.__members__:
        return SpanKind[name]
    return _KINDS.get(_number(given), SpanKind.unspecified)


def _number(given: Number | None) -> int:
    if given is None:
        return 0
    if isinstance(given, str):
        if not given.isascii() or not given.isdecimal() or len(given) > _LONGEST_NUMBER:
            raise ValueError("no number")
        given = int(given)
    if not 0 <= given < 2**64:
        raise ValueError("no number of 64 bits")
    return given
