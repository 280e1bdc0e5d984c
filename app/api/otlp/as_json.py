"""Spans out of OTLP's JSON: ids in hexadecimal, numbers also as text, unknown fields ignored.

The decoder skips parts that are not kept.
"""

from __future__ import annotations

import binascii
from collections.abc import Iterator
from typing import TypeAlias

import msgspec

from app.api.otlp.fields import LONGEST_SERVICE, SERVICE_NAME, Bad, ReadingBudget, link_of, span
from app.stored.spans import MOST_LINKS, Refusal, Span
from model.texts import storable

_Number: TypeAlias = "int | str | None"
_KINDS = ("UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER")
_LONGEST_NUMBER = 20  # digits of 2**64


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


_decode = msgspec.json.Decoder(_Request).decode
_encode = msgspec.json.Encoder().encode


def read(body: bytes, work: ReadingBudget) -> Iterator[Span | Refusal]:
    # An object takes many times the memory of `{}`, and every span has this field, as links do.
    work.grant(body.count(b'"spanId"'))
    work.parts(body.count(b"{"), "objects")
    try:
        request = _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Bad(str(error)[:200]) from None
    for of_resource in request.resource_spans or ():
        service = _service(of_resource.resource)
        for scope in of_resource.scope_spans or ():
            for fields in scope.spans or ():
                work.span()
                yield _span(fields, service)


def answer(refused: int, message: str) -> bytes:
    if not refused:
        return b"{}"
    return _encode({"partialSuccess": {"rejectedSpans": str(refused), "errorMessage": message}})


def _span(fields: _Span, service: str | None) -> Span | Refusal:
    links = fields.links or []
    if len(links) > MOST_LINKS:
        return Refusal.too_many_links
    try:
        return span(
            _bytes(fields.trace_id),
            _bytes(fields.span_id),
            _bytes(fields.parent_span_id),
            _number(fields.flags),
            _kind(fields.kind),
            (_number(fields.start_time_unix_nano), _number(fields.end_time_unix_nano)),
            service,
            [
                link_of(_bytes(target.trace_id), _bytes(target.span_id), _number(target.flags))
                for target in links
            ],
        )
    except ValueError:
        return Refusal.invalid


def _service(resource: _OtlpResource | None) -> str | None:
    for attribute in (resource and resource.attributes) or ():
        if attribute.key == SERVICE_NAME and attribute.value is not None:
            name = attribute.value.string_value or ""
            return storable(name)[:LONGEST_SERVICE] or None
    return None


def _bytes(text: str | None) -> bytes:
    try:
        return binascii.unhexlify(text or "")
    except binascii.Error as error:
        raise ValueError(str(error)) from None


def _kind(number: _Number) -> int:
    if isinstance(number, str) and number.removeprefix("SPAN_KIND_") in _KINDS:
        return _KINDS.index(number.removeprefix("SPAN_KIND_"))
    return _number(number)


def _number(number: _Number) -> int:
    if number is None:
        return 0
    if isinstance(number, str):
        if not number.isascii() or not number.isdecimal() or len(number) > _LONGEST_NUMBER:
            raise ValueError("no number")
        number = int(number)
    if not 0 <= number < 2**64:
        raise ValueError("no number of 64 bits")
    return number
