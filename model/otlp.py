"""OpenTelemetry's protocol, written: spans as an ExportTraceServiceRequest in JSON or protobuf.

Numbers of fields are those of opentelemetry/proto/collector/trace/v1 and trace/v1.
"""

from __future__ import annotations

import json
import struct
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from model.spans import ExportedSpan, Value
from model.texts import storable

Json: TypeAlias = dict[str, Any]

SCOPE = "rabbitmq-itc"
ERROR = 2  # of a status
SAMPLED, HAS_REMOTE, REMOTE = 0x1, 0x100, 0x200
LONGEST_TEXT = 1_024  # characters, of an attribute

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def as_json(spans: Iterable[ExportedSpan], vhost: str, version: str) -> bytes:
    """A request on one line, as a collector's file has it."""
    scope = {"name": SCOPE, "version": version}
    request = {
        "resourceSpans": [
            {
                "resource": {
                    "attributes": [_attribute(*attribute) for attribute in resource.items()]
                },
                "scopeSpans": [{"scope": scope, "spans": [_span(span) for span in members]}],
            }
            for resource, members in _by_resource(spans, vhost)
        ]
    }
    return json.dumps(request, separators=(",", ":")).encode() + b"\n"


def as_protobuf(spans: Iterable[ExportedSpan], vhost: str, version: str) -> bytes:
    """A request in protobuf's wire format."""
    scope = _text(1, SCOPE) + _text(2, version)
    return b"".join(
        field(
            1,
            field(1, b"".join(field(1, _pair(*attribute)) for attribute in resource.items()))
            + field(2, field(1, scope) + b"".join(field(2, _message(span)) for span in members)),
        )
        for resource, members in _by_resource(spans, vhost)
    )


def refusals_in(answer: bytes) -> tuple[int, str]:
    """The number of spans that an ExportTraceServiceResponse says were refused, and why."""
    partial = _fields(answer).get(1, b"")
    fields = _fields(partial) if isinstance(partial, bytes) else {}
    count, reason = fields.get(1, 0), fields.get(2, b"")
    text = storable(reason) if isinstance(reason, bytes) else ""
    return (count if isinstance(count, int) else 0), text


def _by_resource(
    spans: Iterable[ExportedSpan], vhost: str
) -> list[tuple[dict[str, Value], list[ExportedSpan]]]:
    services: defaultdict[str, list[ExportedSpan]] = defaultdict(list)
    for span in spans:
        services[span.service].append(span)
    return [
        ({"service.name": service, "itc.vhost": vhost}, members)
        for service, members in services.items()
    ]


def _flags(span: ExportedSpan) -> int:
    return SAMPLED | HAS_REMOTE | (REMOTE if span.is_remote else 0)


# JSON


def _span(span: ExportedSpan) -> Json:
    document: Json = {
        "traceId": span.context.trace_id.hex(),
        "spanId": span.context.span_id.hex(),
        "name": span.name,
        "kind": int(span.kind),
        "startTimeUnixNano": str(span.begin * 1_000),
        "endTimeUnixNano": str(span.end * 1_000),
        "attributes": [_attribute(*attribute) for attribute in span.attributes.items()],
        "flags": _flags(span),
    }
    if span.parent is not None:
        document["parentSpanId"] = span.parent.hex()
    if span.links:
        document["links"] = [
            {"traceId": link.trace_id.hex(), "spanId": link.span_id.hex()} for link in span.links
        ]
    if span.error is not None:
        document["status"] = {"code": ERROR, "message": span.error[:LONGEST_TEXT]}
    return document


def _attribute(name: str, value: Value) -> Json:
    if isinstance(value, bool):
        return {"key": name, "value": {"boolValue": value}}
    if isinstance(value, int):
        return {"key": name, "value": {"intValue": str(value)}}
    return {"key": name, "value": {"stringValue": value[:LONGEST_TEXT]}}


# Protobuf


def _message(span: ExportedSpan) -> bytes:
    return b"".join(
        (
            field(1, span.context.trace_id),
            field(2, span.context.span_id),
            field(4, span.parent) if span.parent is not None else b"",
            _text(5, span.name),
            _number(6, span.kind),
            _fixed64(7, span.begin * 1_000),
            _fixed64(8, span.end * 1_000),
            *(field(9, _pair(*attribute)) for attribute in span.attributes.items()),
            *(field(13, field(1, link.trace_id) + field(2, link.span_id)) for link in span.links),
            field(15, _text(2, span.error) + _number(3, ERROR)) if span.error is not None else b"",
            _tag(16, _FIXED32) + struct.pack("<I", _flags(span)),
        )
    )


def _pair(name: str, value: Value) -> bytes:
    if isinstance(value, bool):
        return _text(1, name) + field(2, _number(2, value))
    if isinstance(value, int):
        return _text(1, name) + field(2, _number(3, value))
    return _text(1, name) + field(2, _text(1, value))


def _text(number: int, value: str) -> bytes:
    return field(number, value[:LONGEST_TEXT].encode())


def field(number: int, value: bytes) -> bytes:
    """A field of bytes, or of a message, in protobuf's wire format."""
    return _tag(number, _BYTES) + varint(len(value)) + value


def _number(number: int, value: int) -> bytes:
    return _tag(number, _VARINT) + varint(value & 0xFFFF_FFFF_FFFF_FFFF)


def _fixed64(number: int, value: int) -> bytes:
    return _tag(number, _FIXED64) + struct.pack("<Q", value)


def _tag(number: int, kind: int) -> bytes:
    return varint(number << 3 | kind)


def varint(value: int) -> bytes:
    """A whole number from 0 in protobuf's wire format."""
    octets = bytearray()
    while value > 0x7F:
        octets.append(value & 0x7F | 0x80)
        value >>= 7
    octets.append(value)
    return bytes(octets)


def _fields(message: bytes) -> Mapping[int, bytes | int]:
    """The numbers and bytes in a message, the last of each; nothing more after what is invalid."""
    fields: dict[int, bytes | int] = {}
    position = 0
    try:
        while position < len(message):
            tag, position = _read(message, position)
            value, position = _read(message, position)
            if tag & 7 == _BYTES:
                fields[tag >> 3] = message[position : position + value]
                position += value
            elif tag & 7 == _VARINT:
                fields[tag >> 3] = value
            else:
                break
    except IndexError:
        pass
    return fields


def _read(message: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
