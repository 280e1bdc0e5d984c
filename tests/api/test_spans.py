"""OpenTelemetry's spans over HTTP: what is taken, what is refused, and what is then known."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest
from google.rpc.status_pb2 import Status
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.trace import SpanKind
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from app.api.layers import bodies
from app.api.otlp.intake import IntakeBounds
from app.tracker import Channel, Deliver, Publish
from tests.api.conftest import World, WorldBounds, connected, make_world, served
from tests.api.fakes import basic
from tests.api.story import AUDIT, BILLING, SHOP, START
from tests.api.test_metrics import scraped, value

URL = "/v1/traces"
PROTOBUF, JSON = {"content-type": "application/x-protobuf"}, {"content-type": "application/json"}
TRACE = "0af7651916cd43dd8448eb211c80319c"
NAMES = ("sent", "handling", "billed")
# Billing's program receives on one connection, and publishes on another.
BILLING_OUT = Channel("rabbit@one", "10.0.0.2:2 -> 10.0.0.9:5672", 1, "billing")
# The story before has events 1 to 8.
ORDERED, HANDED, BILLED, AUDITED = range(9, 13)


def span_id(name: str) -> str:
    return f"{NAMES.index(name) + 1:016x}"


def span(name: str, parent: str | None, kind: int, at: int = START, **more: Any) -> dict[str, Any]:
    """A span as OTLP's JSON has it, with what nobody keeps."""
    return {
        "traceId": TRACE,
        "spanId": span_id(name),
        "parentSpanId": "" if parent is None else span_id(parent),
        "name": "a zebra",
        "kind": kind,
        "flags": 0x300 if kind == 5 else 0x100,
        "startTimeUnixNano": str(at * 1_000),
        "endTimeUnixNano": str((at + 250_000) * 1_000),
        "attributes": [{"key": "messaging.system", "value": {"stringValue": "rabbitmq"}}],
        "events": [{"name": "exception", "timeUnixNano": "1"}],
        "status": {"code": 2, "message": "zebras"},
        **more,
    }


def request(*spans: dict[str, Any], service: str = "billing") -> dict[str, Any]:
    name = {"key": "service.name", "value": {"stringValue": service}}
    scopes = [{"scope": {"name": "pika"}, "spans": spans}]
    return {"resourceSpans": [{"resource": {"attributes": [name]}, "scopeSpans": scopes}]}


SPANS = [span("sent", None, 4), span("handling", "sent", 5), span("billed", "handling", 4)]


def as_protobuf(asked: dict[str, Any]) -> bytes:
    """The same request in OTLP's other form."""
    made = ExportTraceServiceRequest()
    for given in asked["resourceSpans"]:
        of_resource = made.resource_spans.add()
        for attribute in given["resource"]["attributes"]:
            text = attribute["value"]["stringValue"]
            of_resource.resource.attributes.add(key=attribute["key"]).value.string_value = text
        scope = of_resource.scope_spans.add()
        for each in given["scopeSpans"][0]["spans"]:
            scope.spans.add(
                trace_id=bytes.fromhex(each["traceId"]),
                span_id=bytes.fromhex(each["spanId"]),
                parent_span_id=bytes.fromhex(each["parentSpanId"]),
                name=each["name"],
                kind=each["kind"],
                flags=each["flags"],
                start_time_unix_nano=int(each["startTimeUnixNano"]),
                end_time_unix_nano=int(each["endTimeUnixNano"]),
            )
    return made.SerializeToString()


async def tell(world: World, out: Channel = BILLING) -> None:
    """An order, what billing published when it had handled it, and who got that."""

    def carrying(name: str) -> dict[str, Any]:
        return {"headers": {"traceparent": f"00-{TRACE}-{span_id(name)}-01"}}

    ids = await world.tell(
        Publish(SHOP, "", ("billing",), ("billing",), carrying("sent"), b"order"),
        Deliver(BILLING, "", ("billing",), "billing", False, carrying("sent"), b"order"),
        Publish(out, "", ("audit",), ("audit",), carrying("billed"), b"bill"),
        Deliver(AUDIT, "", ("audit",), "audit", False, carrying("billed"), b"bill"),
        vhost="shop",
    )
    assert ids == [ORDERED, HANDED, BILLED, AUDITED]


async def resolve(world: World) -> None:
    assert world.resolver is not None
    await world.resolver.look()


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(bodies, "SPANS_BYTES", 100_000)
    return make_world(
        tmp_path,
        WorldBounds(spans=IntakeBounds(unpacked_bytes=1_000_000, spans=100, per_second=1_000)),
        otlp=True,
        otlp_users="collector",
    )


@pytest.fixture
async def client(world: World) -> AsyncIterator[httpx2.AsyncClient]:
    async with connected(world.app(), auth=("admin", "secret")) as client:
        yield client


async def compared(client: httpx2.AsyncClient, a: int, b: int) -> dict[str, Any]:
    answer = await client.get(f"/itc_db/compare/{a}/{b}")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


@pytest.mark.parametrize("form", ["json", "protobuf"])
@pytest.mark.parametrize("packed", [True, False])
async def test_spans_tell_what_caused_a_message_and_how_long_it_took(
    world: World, client: httpx2.AsyncClient, form: str, packed: bool
) -> None:
    await tell(world)
    asked = request(*SPANS)
    body = json.dumps(asked).encode() if form == "json" else as_protobuf(asked)
    headers = JSON if form == "json" else PROTOBUF
    if packed:
        body, headers = gzip.compress(body), {**headers, "content-encoding": "gzip"}
    answer = await client.post(URL, content=body, headers=headers)
    assert (answer.status_code, answer.headers["content-type"]) == (200, headers["content-type"])
    assert answer.content == (b"{}" if form == "json" else b"")
    assert (await compared(client, ORDERED, AUDITED))["answer"] == "may have"
    await resolve(world)

    found = await compared(client, ORDERED, AUDITED)
    assert (found["answer"], found["relation"], found["sound"]) == ("caused", "before", True)
    assert [(step["cause"], step["effect"], step["rule"]) for step in found["path"]] == [
        (ORDERED, HANDED, None),
        (HANDED, BILLED, "opentelemetry"),
        (BILLED, AUDITED, None),
    ]
    walk = (await client.get(f"/itc_db/events/{AUDITED}/causes?via=links")).json()
    assert [event["id"] for event in walk["items"]] == [BILLED, HANDED, ORDERED]
    event = (await client.get(f"/itc_db/events/{HANDED}")).json()
    assert event["handled"] == [
        {
            "from": "2026-01-02T03:04:05.000000Z",
            "to": "2026-01-02T03:04:05.250000Z",
            "service": "billing",
        }
    ]
    assert (await client.get(f"/itc_db/events/{AUDITED}")).json()["handled"] == []
    metrics = await scraped(client)
    assert value(metrics, "itc_spans_total", outcome="taken") == 3


async def test_what_clocks_do_not_have_was_a_cause_all_the_same(
    world: World, client: httpx2.AsyncClient
) -> None:
    await tell(world, BILLING_OUT)
    before = await compared(client, HANDED, BILLED)
    assert (before["relation"], before["path"]) == ("concurrent", None)
    await client.post(URL, json=request(*SPANS))
    await resolve(world)

    for a, b, relation in ((ORDERED, AUDITED, "before"), (AUDITED, ORDERED, "after")):
        found = await compared(client, a, b)
        assert (found["answer"], found["relation"], found["sound"]) == ("caused", relation, False)
        assert [step["rule"] for step in found["path"]] == [None, "opentelemetry", None]
        assert any("rabbitmq-itc restamp shop" in doubt for doubt in found["doubts"])


async def test_nothing_but_ids_times_kind_and_service_is_kept(
    client: httpx2.AsyncClient, tmp_path: Path
) -> None:
    await client.post(URL, json=request(*SPANS))
    files = [tmp_path / f"itc.db{suffix}" for suffix in ("", "-wal")]
    stored = b"".join([await asyncio.to_thread(file.read_bytes) for file in files])
    assert b"billing" in stored
    assert b"zebra" not in stored
    assert b"exception" not in stored
    assert b"messaging.system" not in stored


@pytest.mark.parametrize(
    ("years", "why"), [(-1, "1 too old"), (+1, "1 in the future"), (-50, "1 too old")]
)
async def test_what_is_of_another_time_is_refused_and_counted(
    world: World, client: httpx2.AsyncClient, years: int, why: str
) -> None:
    await tell(world)
    other = span("handling", "sent", 5, at=START + years * 366 * 86_400_000_000)
    asked = request(SPANS[0], other, SPANS[2])
    answer = await client.post(URL, content=as_protobuf(asked), headers=PROTOBUF)
    assert answer.status_code == 200
    partial = ExportTraceServiceResponse.FromString(answer.content).partial_success
    assert (partial.rejected_spans, partial.error_message) == (1, f"refused: {why}")
    answer = await client.post(URL, json=request(other))
    assert answer.json() == {
        "partialSuccess": {"rejectedSpans": "1", "errorMessage": f"refused: {why}"}
    }
    await resolve(world)
    assert (await compared(client, ORDERED, BILLED))["answer"] == "may have"
    metrics = await scraped(client)
    assert value(metrics, "itc_spans_total", outcome=why[2:]) == 2
    assert value(metrics, "itc_spans_total", outcome="taken") == 2


async def test_what_retention_would_remove_is_refused(tmp_path: Path) -> None:
    world = make_world(tmp_path, otlp=True, retention_days=1.0)
    async with connected(world.app(), auth=("admin", "secret")) as client:
        await tell(world)
        answer = await client.post(URL, json=request(*SPANS))
        assert answer.json()["partialSuccess"]["rejectedSpans"] == "3"


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"\xff\xff\xff", PROTOBUF, 400),
        (b"", {}, 415),
        (b"{}", {"content-type": "text/plain"}, 415),
        (b"{}", {**JSON, "content-encoding": "br"}, 415),
        (b"no gzip", {**PROTOBUF, "content-encoding": "gzip"}, 400),
        (b"{", JSON, 400),
        (b'{"resourceSpans": 7}', JSON, 400),
        (b'{"a":' * 9_000, JSON, 400),
        (b" " * 100_001, JSON, 413),
        (b"\x00" * 100_001, PROTOBUF, 413),
        (gzip.compress(bytes(90_000_000)), {**PROTOBUF, "content-encoding": "gzip"}, 413),
        (json.dumps(request(*SPANS * 34)).encode(), JSON, 413),
    ],
    ids=[
        "garbage",
        "untyped",
        "text",
        "br",
        "no gzip",
        "cut",
        "shape",
        "deep",
        "long",
        "long protobuf",
        "bomb",
        "many",
    ],
)
async def test_what_cannot_be_taken_is_said_in_the_form_of_the_request(
    client: httpx2.AsyncClient, body: bytes, headers: dict[str, str], status: int
) -> None:
    answer = await client.post(URL, content=body, headers=headers)
    assert answer.status_code == status, answer.text
    if headers.get("content-type") == "application/x-protobuf":
        assert answer.headers["content-type"] == "application/x-protobuf"
        assert Status.FromString(answer.content).message
    else:
        assert set(answer.json()) == {"error", "reason"}
    assert (await client.post(URL, json={})).status_code == 200


async def test_nobody_sends_faster_than_is_set(world: World, client: httpx2.AsyncClient) -> None:
    asked = request(*[span("sent", None, 4)] * 100)
    for _ in range(10):
        assert (await client.post(URL, json=asked)).status_code == 200
    refused = await client.post(URL, json=asked)
    assert refused.status_code == 429
    assert int(refused.headers["retry-after"]) == 1
    world.timer.now += 1
    assert (await client.post(URL, json=asked)).status_code == 200


async def test_an_administrator_sends_and_who_is_named_and_nobody_else(
    world: World, client: httpx2.AsyncClient
) -> None:
    collector = world.broker.add("collector", "secret", "management", "/")
    manager = world.broker.add("manager", "secret", "management", "/")
    asked = {
        "collector": collector,
        "manager": manager,
        "watcher": basic("watcher", "secret"),
        "wrong": basic("collector", "wrong"),
    }
    found = {
        name: (await client.post(URL, json={}, headers=headers, auth=None)).status_code
        for name, headers in asked.items()
    }
    assert found == {"collector": 200, "manager": 401, "watcher": 401, "wrong": 401}
    client.auth = None
    nobody = await client.post(URL, content=b"\xff", headers=PROTOBUF)
    assert nobody.status_code == 401
    assert "www-authenticate" in nobody.headers


async def test_a_page_of_another_origin_may_not_send(client: httpx2.AsyncClient) -> None:
    answer = await client.post(URL, json={}, headers={"origin": "https://evil.example"})
    assert answer.status_code == 403


async def test_it_is_off_unless_it_is_set(tmp_path: Path) -> None:
    world = make_world(tmp_path)
    async with connected(world.app(), auth=("admin", "secret")) as client:
        answer = await client.post(URL, json=request(*SPANS))
        assert answer.status_code == 404
        assert "ITC_OTLP" in answer.json()["reason"]
        assert value(await scraped(client), "itc_spans_total", outcome="taken") == 0


@pytest.fixture
def programs() -> Iterator[dict[str, TracerProvider]]:
    made = {
        name: TracerProvider(resource=Resource.create({"service.name": name}))
        for name in ("shop", "billing", "audit")
    }
    yield made
    for each in made.values():
        each.shutdown()


async def test_the_sdks_own_exporter_is_understood(
    world: World, programs: dict[str, TracerProvider]
) -> None:
    """As pika's instrumentation does it: a producer's span, and a consumer's as its child."""
    carry = TraceContextTextMapPropagator()

    def run(url: str) -> tuple[dict[str, str], dict[str, str]]:
        headers = basic("admin", "secret")
        for provider in programs.values():
            exporter = OTLPSpanExporter(
                f"{url}{URL}", headers=headers, compression=Compression.Gzip, timeout=20
            )
            provider.add_span_processor(SimpleSpanProcessor(exporter))
        order: dict[str, str] = {}
        bill: dict[str, str] = {}
        shop, billing = [programs[name].get_tracer("test") for name in ("shop", "billing")]
        with shop.start_as_current_span("orders send", kind=SpanKind.PRODUCER):
            carry.inject(order)
        with (
            billing.start_as_current_span(
                "orders receive", context=carry.extract(order), kind=SpanKind.CONSUMER
            ),
            billing.start_as_current_span("work"),
            billing.start_as_current_span("bills send", kind=SpanKind.PRODUCER),
        ):
            carry.inject(bill)
        return order, bill

    async with served(world.app(), world.settings) as url:
        order, bill = await asyncio.to_thread(run, url)
        sent = Publish(SHOP, "", ("billing",), ("billing",), {"headers": order}, b"order")
        await world.tell(
            sent,
            Deliver(BILLING, "", ("billing",), "billing", False, sent.properties, b"order"),
            msgspec.structs.replace(sent, channel=BILLING, properties={"headers": bill}),
            vhost="shop",
        )
        await resolve(world)
        async with httpx2.AsyncClient(base_url=url, auth=("admin", "secret")) as client:
            found = await compared(client, ORDERED, BILLED)
            event = (await client.get(f"/itc_db/events/{HANDED}")).json()
    assert found["answer"] == "caused"
    assert [step["rule"] for step in found["path"]] == [None, "opentelemetry"]
    assert [each["service"] for each in event["handled"]] == ["billing"]


@pytest.mark.parametrize("form", [JSON, PROTOBUF], ids=["json", "protobuf"])
async def test_garbage_is_read_as_far_as_spans_have_fields_and_counts_by_its_work(
    world: World, client: httpx2.AsyncClient, form: dict[str, str]
) -> None:
    """Of a request without spans only the beginning is read, and it is not one span of many."""
    body = b'{"a":[' + b"{}," * 30_000 + b"{}]}" if form == JSON else b"\x78\x01" * 30_000
    assert (await client.post(URL, content=body, headers=form)).status_code == 413
    assert 429 in [
        (await client.post(URL, content=body, headers=form)).status_code for _ in range(60)
    ]
    world.timer.now += 2
    assert (await client.post(URL, json=request(*SPANS))).status_code == 200


async def test_what_has_many_bytes_counts_as_the_spans_that_have_them(
    world: World, client: httpx2.AsyncClient
) -> None:
    body = b"{}" + b" " * 90_000
    assert (await client.post(URL, content=body, headers=JSON)).status_code == 200
    assert 429 in [
        (await client.post(URL, content=body, headers=JSON)).status_code for _ in range(60)
    ]
