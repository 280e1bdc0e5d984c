"""Reading OTLP, held to the protocol's own library, and what is refused."""

from __future__ import annotations

import contextlib
import gzip
import json
import tracemalloc
import zlib
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span as TheirSpan

from app.api.otlp import as_json, as_protobuf
from app.api.otlp.fields import ReadingBudget
from app.api.otlp.intake import JSON, MOST_MEMBERS, PROTOBUF, decompress, form_of, spans_in
from app.errors import BadRequestError, TooLargeError, WrongTypeError
from app.stored.spans import MOST_LINKS, Refusal, Span, SpanKind, SpanLink, context_of
from model.otlp import field

ids = st.one_of(st.binary(min_size=16, max_size=16), st.binary(max_size=20))
span_ids = st.one_of(st.binary(min_size=8, max_size=8), st.binary(max_size=10))
flags = st.sampled_from((0, 1, 0x100, 0x101, 0x300, 0x301, 0xFFFF_FFFF))
times = st.one_of(st.integers(0, 2**64 - 1), st.just(1_200_000_000_000_000_123))
links = st.builds(
    TheirSpan.Link, trace_id=ids, span_id=span_ids, flags=flags, trace_state=st.text(max_size=5)
)


@st.composite
def spans(draw: st.DrawFn) -> TheirSpan:
    made = TheirSpan(
        trace_id=draw(ids),
        span_id=draw(span_ids),
        parent_span_id=draw(st.one_of(st.just(b""), span_ids)),
        flags=draw(flags),
        kind=draw(st.integers(0, 5)),
        start_time_unix_nano=draw(times),
        end_time_unix_nano=draw(times),
        name=draw(st.text(max_size=8)),
        links=draw(st.lists(links, max_size=4)),
        trace_state=draw(st.text(max_size=4)),
        dropped_links_count=draw(st.integers(0, 5)),
    )
    for key in draw(st.lists(st.text(max_size=5), max_size=3)):
        made.attributes.add(key=key).value.kvlist_value.values.add(key="x").value.int_value = 7
        made.events.add(name=key, time_unix_nano=1)
    return made


@st.composite
def requests(draw: st.DrawFn) -> ExportTraceServiceRequest:
    made = ExportTraceServiceRequest()
    for _ in range(draw(st.integers(0, 3))):
        of_resource = made.resource_spans.add(schema_url="s")
        of_resource.resource.attributes.add(key="host.name").value.string_value = "h"
        name = draw(st.one_of(st.none(), st.text(max_size=10)))
        if name is not None:
            of_resource.resource.attributes.add(key="service.name").value.string_value = name
        for _ in range(draw(st.integers(0, 2))):
            of_scope = of_resource.scope_spans.add()
            of_scope.scope.name = "pika"
            of_scope.spans.extend(draw(st.lists(spans(), max_size=3)))
    return made


def expected(given: ExportTraceServiceRequest) -> list[Span | Refusal]:
    """What is kept, by the library's own reading."""
    kept: list[Span | Refusal] = []
    for of_resource in given.resource_spans:
        names = [
            each.value.string_value.replace("\x00", "\\x00")
            for each in of_resource.resource.attributes
            if each.key == "service.name"
        ]
        for scope in of_resource.scope_spans:
            kept += [_expected(each, (names or [""])[0] or None) for each in scope.spans]
    return kept


def _expected(span: TheirSpan, service: str | None) -> Span | Refusal:
    def remote(of: int) -> bool | None:
        return bool(of & 0x200) if of & 0x100 else None

    def is_id(value: bytes, size: int) -> bool:
        return len(value) == size and value != bytes(size)

    begin, end = span.start_time_unix_nano, span.end_time_unix_nano
    if (
        not is_id(span.trace_id, 16)
        or not is_id(span.span_id, 8)
        or len(span.parent_span_id) not in (0, 8)
        or not 0 < begin <= end
    ):
        return Refusal.invalid
    context = span.trace_id + span.span_id
    parent: bytes | None = span.trace_id + span.parent_span_id
    if span.parent_span_id in (b"", bytes(8), span.span_id):
        parent = None
    named = {
        each.trace_id + each.span_id: SpanLink(each.trace_id + each.span_id, remote(each.flags))
        for each in span.links
        if is_id(each.trace_id, 16) and is_id(each.span_id, 8)
    }
    named.pop(context, None)
    return Span(
        context,
        parent,
        remote(span.flags),
        SpanKind(span.kind),
        begin // 1_000,
        end // 1_000,
        service,
        tuple(named.values()),
    )


@given(requests())
def test_protobuf_is_read_as_the_protocols_library_reads_it(
    request: ExportTraceServiceRequest,
) -> None:
    assert list(as_protobuf.read(request.SerializeToString(), ReadingBudget(100))) == expected(
        request
    )


def as_otlp_json(request: ExportTraceServiceRequest) -> Any:
    """As OTLP has it: ids in hexadecimal, 64 bits as text, and fields that nobody knows."""
    return {
        "future": [{"a": [1, {}]}],
        "resourceSpans": [
            {
                "resource": {
                    "attributes": [
                        {"key": each.key, "value": {"stringValue": each.value.string_value}}
                        for each in of_resource.resource.attributes
                    ]
                },
                "scopeSpans": [
                    {
                        "scope": {"name": "pika"},
                        "spans": [
                            {
                                "traceId": each.trace_id.hex().upper(),
                                "spanId": each.span_id.hex(),
                                "parentSpanId": each.parent_span_id.hex(),
                                "flags": each.flags,
                                "kind": each.kind,
                                "name": each.name,
                                "startTimeUnixNano": str(each.start_time_unix_nano),
                                "endTimeUnixNano": each.end_time_unix_nano,
                                "attributes": [{"key": "k", "value": {"intValue": "7"}}],
                                "links": [
                                    {
                                        "traceId": one.trace_id.hex(),
                                        "spanId": one.span_id.hex(),
                                        "flags": str(one.flags),
                                    }
                                    for one in each.links
                                ],
                            }
                            for each in of_scope.spans
                        ],
                    }
                    for of_scope in of_resource.scope_spans
                ],
            }
            for of_resource in request.resource_spans
        ],
    }


@given(requests())
def test_json_says_the_same_as_protobuf(request: ExportTraceServiceRequest) -> None:
    body = json.dumps(as_otlp_json(request)).encode()
    assert list(as_json.read(body, ReadingBudget(100))) == expected(request)


@given(st.binary(max_size=200), st.sampled_from((JSON, PROTOBUF)))
@example(b"\x0a\x05\x12\x03", PROTOBUF)
@example(b"\xff" * 12, PROTOBUF)
@example(b"\x0b\x0c", PROTOBUF)
@example(b'{"resourceSpans": {}}', JSON)
@example(b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": "zz"}]}]}]}', JSON)
@example(b'{"a":' * 100_000, JSON)
@example(b"[" * 100_000, JSON)
@example(b"", JSON)
@example(b'{"resourceSpans": [{"resource": {"attributes": [{"key": "\\ud800"}]}}]}', JSON)
def test_garbage_is_refused_or_says_nothing(body: bytes, form: str) -> None:
    request = None
    with contextlib.suppress(BadRequestError):
        request = spans_in(body, form, ReadingBudget(10))
    assert request is None or request.spans == []


@given(requests(), st.data())
def test_a_damaged_request_never_fails_otherwise(
    request: ExportTraceServiceRequest, data: st.DataObject
) -> None:
    body = bytearray(request.SerializeToString())
    for _ in range(data.draw(st.integers(0, 4)) if body else 0):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(BadRequestError):
        spans_in(bytes(body), PROTOBUF, ReadingBudget(100))


def test_more_links_than_a_message_may_have_causes_are_refused_with_their_span() -> None:
    span = TheirSpan(
        trace_id=b"t" * 16, span_id=b"s" * 8, start_time_unix_nano=1, end_time_unix_nano=1
    )
    for number in range(MOST_LINKS + 1):
        span.links.add(trace_id=b"l" * 16, span_id=number.to_bytes(7) + b"x")
    request = ExportTraceServiceRequest()
    request.resource_spans.add().scope_spans.add().spans.append(span)
    assert list(as_protobuf.read(request.SerializeToString(), ReadingBudget(1))) == [
        Refusal.too_many_links
    ]
    body = json.dumps(as_otlp_json(request)).encode()
    assert list(as_json.read(body, ReadingBudget(1))) == [Refusal.too_many_links]


@pytest.mark.parametrize("form", [PROTOBUF, JSON])
def test_too_many_spans_are_refused(form: str) -> None:
    request = ExportTraceServiceRequest()
    request.resource_spans.add().scope_spans.add().spans.extend([TheirSpan()] * 11)
    body = request.SerializeToString()
    if form == JSON:
        body = json.dumps(as_otlp_json(request)).encode()
    with pytest.raises(TooLargeError, match="at most 10 spans"):
        spans_in(body, form, ReadingBudget(10))
    assert spans_in(body, form, ReadingBudget(11)).refused == {Refusal.invalid: 11}


@pytest.mark.parametrize(
    ("form", "body"),
    [
        (PROTOBUF, field(1, field(2, b"\x12\x00" * 200_000))),
        (PROTOBUF, field(1, field(2, field(2, b"\x6a\x00" * 200_000)))),
        (PROTOBUF, field(1, b"\x12\x00" * 200_000)),
        (JSON, b'{"resourceSpans":[{"scopeSpans":[{"spans":[' + b"{}," * 200_000 + b"{}]}]}]}"),
        (JSON, b'{"resourceSpans":[' + b"[" * 200_000),
    ],
    ids=["spans", "links", "scopes", "objects", "nested"],
)
def test_a_small_body_of_very_many_parts_takes_little_memory(form: str, body: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(BadRequestError):
            spans_in(body, form, ReadingBudget(1_000))
        assert tracemalloc.get_traced_memory()[1] < 12_000_000
    finally:
        tracemalloc.stop()


def test_what_is_packed_a_thousandfold_is_refused_before_it_is_unpacked() -> None:
    bomb = gzip.compress(bytes(20_000_000))
    assert len(bomb) < 25_000
    tracemalloc.start()
    try:
        with pytest.raises(TooLargeError, match="at most 1000000 bytes"):
            decompress(bomb, "gzip", 1_000_000)
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()


def test_many_small_parts_of_gzip_are_bounded_together() -> None:
    parts = gzip.compress(b"x" * 600) + gzip.compress(b"y" * 600)
    assert decompress(parts, "GZIP ", 1_200) == b"x" * 600 + b"y" * 600
    with pytest.raises(TooLargeError):
        decompress(parts, "gzip", 1_199)


def test_a_body_of_countless_empty_gzips_is_refused_at_once() -> None:
    """Each is a copy of all behind it: 4 MB of them took minutes."""
    few = gzip.compress(b"x") * MOST_MEMBERS
    assert decompress(few, "gzip", 1_000) == b"x" * MOST_MEMBERS
    with pytest.raises(TooLargeError, match="64 members"):
        decompress(gzip.compress(b"") * 200_000, "gzip", 1_000)
    assert decompress(b"", "gzip", 1_000) == b""


@pytest.mark.parametrize(
    "body", [b"no gzip", gzip.compress(b"abc" * 100, mtime=0)[:-9], zlib.compress(b"")]
)
def test_a_broken_gzip_is_refused(body: bytes) -> None:
    with pytest.raises(BadRequestError, match="gzip"):
        decompress(body, "gzip", 1_000)


def test_other_forms_and_compressions_are_refused() -> None:
    assert form_of("application/JSON; charset=utf-8") == JSON
    assert decompress(b"abc", "identity", 3) == b"abc"
    with pytest.raises(TooLargeError):
        decompress(b"abcd", "", 3)
    for wrong in ("text/plain", "", "application/grpc"):
        with pytest.raises(WrongTypeError):
            form_of(wrong)
    with pytest.raises(WrongTypeError):
        decompress(b"abc", "br", 100)


def test_answers_are_what_the_protocols_library_reads() -> None:
    answer = ExportTraceServiceResponse.FromString(as_protobuf.answer(300, "too old"))
    assert answer.partial_success.rejected_spans == 300
    assert answer.partial_success.error_message == "too old"
    assert not ExportTraceServiceResponse.FromString(as_protobuf.answer(0, "")).HasField(
        "partial_success"
    )
    assert json.loads(as_json.answer(300, "too old")) == {
        "partialSuccess": {"rejectedSpans": "300", "errorMessage": "too old"}
    }
    assert json.loads(as_json.answer(0, "")) == {}


@pytest.mark.parametrize(
    ("header", "context"),
    [
        (f"00-{'a' * 32}-{'b' * 16}-01", "a" * 32 + "b" * 16),
        (f"01-{'a' * 32}-{'b' * 16}-01-more", "a" * 32 + "b" * 16),
        (f"ff-{'a' * 32}-{'b' * 16}-01", None),
        (f"00-{'0' * 32}-{'b' * 16}-01", None),
        (f"00-{'a' * 32}-{'0' * 16}-01", None),
        (f"00-{'A' * 32}-{'b' * 16}-01", None),
        ("x" * 100_000, None),
        (7, None),
        (None, None),
    ],
)
def test_a_traceparent_holds_a_context(header: object, context: str | None) -> None:
    found = context_of(header)
    assert found is None if context is None else found == bytes.fromhex(context)


_TEN_SPANS = field(1, field(2, field(2, b"") * 10))
_TEN_IN_JSON = (
    b'"resourceSpans":[{"scopeSpans":[{"spans":[' + b",".join([b'{"spanId":""}'] * 10) + b"]}]}]"
)
_OBJECTS = b'"a":[' + b"{}," * 10_100 + b"{}]"


@pytest.mark.parametrize(
    ("form", "alone", "with_spans"),
    [
        (PROTOBUF, b"\x78\x01" * 10_100, _TEN_SPANS + b"\x78\x01" * 10_100),
        (JSON, b"{%s}" % _OBJECTS, b"{%s,%s}" % (_TEN_IN_JSON, _OBJECTS)),
    ],
    ids=["protobuf", "json"],
)
def test_a_request_may_have_fields_for_the_spans_that_it_brings(
    form: str, alone: bytes, with_spans: bytes
) -> None:
    with pytest.raises(TooLargeError, match=r"too many (fields|objects)"):
        spans_in(alone, form, ReadingBudget(10_000))
    work = ReadingBudget(10_000)
    assert spans_in(with_spans, form, work).refused == {Refusal.invalid: 10}
    assert work.cost > 10_100 / 64


def test_ordinary_spans_cost_what_they_are() -> None:
    work = ReadingBudget(100)
    spans_in(_TEN_SPANS, PROTOBUF, work)
    assert work.cost == 10
