"""The fake server answers as the service would: held to the real application's OpenAPI document.

Where the document describes an object's fields, the fake sends these and no others: the page must
not come to rely on what only the fake has.
"""

from __future__ import annotations

import datetime
import json
import re
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from jsonschema import Draft202012Validator, FormatChecker

from tests.api.conftest import make_world
from tests.web import fake_assertions, fake_reports
from tests.web.fake_server import Server, running
from tests.web.topologies import counted
from tests.web.world import demo_world

EVENTS = 300
ADMIN = ("admin", "admin")
CHAIN = "/itc_db/undefined/{a}/{b}/chain.jsonl"

# What the page never asks for.
NOT_FAKED = {
    "DELETE /itc_db",
    "PUT /itc_db/participants/{vhost}/{participant}",
    "DELETE /itc_db/participants/{vhost}/{participant}",
    "PUT /itc_db/archive",
    "DELETE /itc_db/touched/{event_id}/{file}",
    "PUT /itc_db/periods/{vhost}/{file}",
    "GET /itc_db/periods/{vhost}/{file}",
    "DELETE /itc_db/periods/{vhost}/{file}",
    "GET /itc_db/periods",
    "PUT /itc_db/spans",
    "GET /itc_db/links",
    "PUT /itc_db/links",
    "PUT /itc_db/links/{vhost}/{name}",
    "DELETE /itc_db/links/{vhost}/{name}",
    "PUT /itc_db/assertions/{vhost}/{name}",
    "PUT /itc_db/restamp",
    "POST /v1/traces",
    "GET /itc_db/archive",
    "GET /itc_db/hidden",
    "GET /metrics",
}

ASSERTIONS = {"assertions": [{"name": "a", "every": "order.new", "leads_to": "invoice"}]}
LATE = {"name": "late", "every": "order.new", "leads_to": "invoice", "within": "30s"}
HELD = {"assertions": [LATE, {"name": "spare", "no": "*", "causes_more_than": 100}]}

# Method, address, status, and the body where one is sent. {a}, {b}: a publish and an event that it
# led to; {received}, {unmatched}: deliveries; {running}, {ended}, {spare}: jobs.
ASKED: list[tuple[str, str, int, Any]] = [
    ("GET", "/health/ready", 200, None),
    ("GET", "/health/live", 200, None),
    ("GET", "/itc_db/whoami", 200, None),
    ("GET", "/itc_db/traces", 200, None),
    ("GET", "/itc_db/%2F/undefined/undefined/undefined", 200, None),
    ("GET", "/itc_db/legacy/undefined/undefined/undefined", 200, None),
    ("GET", "/itc_db/nowhere/undefined/undefined/undefined", 404, None),
    ("PUT", "/itc_db/empty/undefined/undefined/undefined", 201, {"participant": "user"}),
    ("PUT", "/itc_db/%2F/undefined/undefined/undefined", 204, None),
    ("DELETE", "/itc_db/shop/undefined/undefined/undefined", 204, None),
    ("GET", "/itc_db/participants?vhost=%2F", 200, None),
    ("GET", "/itc_db/participants?vhost=nowhere", 404, None),
    ("GET", "/itc_db/participants", 400, None),
    ("GET", "/itc_db/hidden/ways?vhost=%2F", 200, None),
    ("GET", "/itc_db/hidden/ways?vhost=nowhere", 404, None),
    ("GET", "/itc_db/quarantine", 200, None),
    ("GET", "/itc_db/fields", 200, None),
    ("GET", "/itc_db/formats", 200, None),
    ("GET", "/itc_db/exports", 200, None),
    ("GET", "/itc_db?page_size=500", 200, None),
    ("GET", "/itc_db?page_size=500&payload=none", 200, None),
    ("GET", "/itc_db?page_size=500&columns=id,type,cause,recorded_at", 200, None),
    ("GET", "/itc_db?page_size=500&columns=id,type&links=true", 200, None),
    ("GET", "/itc_db?page=1&page_size=20", 200, None),
    ("GET", "/itc_db?vhost=shop&after=3&type=received", 200, None),
    ("GET", "/itc_db?message_id=m-1&correlation_id=order-1&header.tenant=acme", 200, None),
    ("GET", "/itc_db?conversation=order-1", 200, None),
    ("GET", "/itc_db?colour=red", 400, None),
    ("GET", "/itc_db?page_size=0", 400, None),
    ("GET", "/itc_db/events/{a}", 200, None),
    ("GET", "/itc_db/events/{received}", 200, None),
    ("GET", "/itc_db/events/{unmatched}", 200, None),
    ("GET", "/itc_db/events/9999", 404, None),
    ("GET", "/itc_db/events/{b}/causes", 200, None),
    ("GET", "/itc_db/events/{a}/effects?limit=2", 200, None),
    ("GET", "/itc_db/events/{b}/causes?via=links&columns=id,type&payload=none", 200, None),
    ("GET", "/itc_db/events/{a}/effects?via=conversation", 200, None),
    ("GET", "/itc_db/events/9999/causes", 404, None),
    ("GET", "/itc_db/events/9999/effects", 404, None),
    ("GET", "/itc_db/events/{a}/deliveries", 200, None),
    ("GET", "/itc_db/events/{received}/deliveries", 400, None),
    ("GET", "/itc_db/conversations", 200, None),
    ("GET", "/itc_db/conversations?vhost=%2F&correlation_id=order-1&limit=5", 200, None),
    ("GET", "/itc_db/conversations?outcome=waiting&via=conversation", 200, None),
    ("GET", "/itc_db/conversations/{a}", 200, None),
    ("GET", "/itc_db/conversations/{b}?via=conversation&limit=5000", 200, None),
    ("GET", "/itc_db/conversations/{b}?via=any&limit=5", 200, None),
    ("GET", "/itc_db/conversations/{unmatched}", 200, None),
    ("GET", "/itc_db/conversations/9999", 404, None),
    ("GET", "/itc_db/conversations/{a}?via=guesses", 400, None),
    ("GET", "/itc_db/compare/{a}/{b}", 200, None),
    ("GET", "/itc_db/compare/{b}/{a}", 200, None),
    ("GET", "/itc_db/compare/{a}/{a}", 200, None),
    ("GET", "/itc_db/compare/1/300", 200, None),
    ("GET", "/itc_db/compare/1/9999", 404, None),
    ("GET", "/itc_db/chain/{a}/{b}", 200, None),
    ("GET", "/itc_db/chain/{b}/{a}?via=links&columns=id,type&payload=none", 200, None),
    ("GET", "/itc_db/chain/1/300?via=conversation&limit=1", 200, None),
    ("GET", "/itc_db/chain/{a}/{a}", 400, None),
    ("GET", "/itc_db/chain/1/9999", 404, None),
    ("GET", "/itc_db/touched?events={a}", 200, None),
    ("GET", "/itc_db/touched?events={a},{b}&verdict=may_have&limit=2", 200, None),
    ("GET", "/itc_db/touched?events=9999", 404, None),
    ("PUT", "/itc_db/touched/{a}/late.jsonl", 202, None),
    ("PUT", "/itc_db/touched/{a}/late.docx", 400, None),
    ("GET", "/itc_db/touched/{a}/made.jsonl", 200, None),
    ("PUT", "/itc_db/reports/races?vhost=%2F", 202, None),
    ("PUT", "/itc_db/reports/races?vhost=nowhere", 404, None),
    ("PUT", "/itc_db/reports/expectations?vhost=%2F&rare=0.02", 202, None),
    ("PUT", "/itc_db/reports/comparison?vhost=%2F", 202, None),
    ("PUT", "/itc_db/correlations?vhost=%2F", 202, None),
    ("PUT", "/itc_db/reports/assertions?vhost=%2F", 202, ASSERTIONS),
    ("PUT", "/itc_db/reports/assertions?vhost=%2F", 400, {"assertions": [{"name": "a"}]}),
    ("PUT", "/itc_db/assertions/%2F", 204, HELD),
    ("PUT", "/itc_db/assertions/%2F", 400, {"assertions": [{"name": "a"}]}),
    ("PUT", "/itc_db/assertions/nowhere", 404, HELD),
    ("GET", "/itc_db/assertions", 200, None),
    ("GET", "/itc_db/assertions?vhost=%2F", 200, None),
    ("DELETE", "/itc_db/assertions/%2F/spare", 204, None),
    ("DELETE", "/itc_db/assertions/%2F/none", 404, None),
    ("GET", "/itc_db/violations", 200, None),
    ("GET", "/itc_db/violations?vhost=%2F&assertion=late&limit=1", 200, None),
    ("GET", "/itc_db/reports", 200, None),
    ("GET", "/itc_db/reports/{report}", 200, None),
    ("GET", "/itc_db/reports/0123456789abcdef", 404, None),
    ("GET", "/itc_db/failures", 200, None),
    ("GET", "/itc_db/failures?vhost=%2F&kind=died&limit=1", 200, None),
    ("GET", "/itc_db/failures?vhost=nowhere", 404, None),
    ("GET", "/itc_db/histogram?vhost=%2F&type=received&buckets=7", 200, None),
    ("GET", "/itc_db/histogram?vhost=empty", 200, None),
    ("GET", "/itc_db/histogram?buckets=0", 400, None),
    ("GET", "/itc_db/certainty?vhost=%2F", 200, None),
    ("GET", "/itc_db/certainty?vhost=%2F&since=2026-01-01T00:00:00Z", 200, None),
    ("GET", "/itc_db/certainty?vhost=nowhere", 404, None),
    ("GET", "/itc_db/certainty", 400, None),
    ("GET", "/itc_db/topology?vhost=%2F", 200, None),
    ("GET", "/itc_db/topology?vhost=empty", 404, None),
    ("PUT", "/itc_db/topology?vhost=%2F", 202, None),
    ("PUT", "/itc_db/undefined/{a}/{b}/other.csv", 202, None),
    ("PUT", "/itc_db/undefined/{a}/{a}/other.csv", 400, None),
    ("PUT", "/itc_db/undefined/{a}/{b}/other.docx", 400, None),
    ("GET", CHAIN, 200, None),
    ("GET", "/itc_db/undefined/{a}/{b}/none.jsonl", 404, None),
    ("DELETE", "/itc_db/undefined/{a}/{b}/spare.jsonl", 204, None),
    ("GET", "/itc_db/jobs", 200, None),
    ("GET", "/itc_db/jobs/{ended}", 200, None),
    ("GET", "/itc_db/jobs/{running}", 200, None),
    ("GET", "/itc_db/jobs/99", 404, None),
    ("DELETE", "/itc_db/jobs/{spare}", 204, None),
    ("DELETE", "/itc_db/jobs/{ended}", 409, None),
]
STREAMED = ["GET /itc_db/live", "GET /itc_db/jobs/{job_id}/progress"]


class Document:
    """The service's OpenAPI document, with objects closed to fields that it does not name."""

    def __init__(self, openapi: dict[str, Any]) -> None:
        self.paths: dict[str, Any] = openapi["paths"]
        self.schemas: dict[str, Any] = closed(openapi["components"]["schemas"])

    def operations(self) -> set[str]:
        return {f"{m.upper()} {path}" for path, methods in self.paths.items() for m in methods}

    def operation(self, method: str, address: str) -> str:
        """The operation that a request belongs to, as ``GET /path/{name}``."""
        path = address.partition("?")[0]
        for template in sorted(self.paths, key=lambda one: one.count("{")):
            pattern = re.sub(r"\{\w+\}", "[^/]+", template)
            if re.fullmatch(pattern, path) and method.lower() in self.paths[template]:
                return f"{method} {template}"
        raise AssertionError(f"the service has no {method} {path}")

    def answers(self, operation: str) -> dict[str, Any]:
        method, path = operation.split(" ")
        answers: dict[str, Any] = self.paths[path][method.lower()]["responses"]
        return answers

    def hold(self, schema: Any, value: Any) -> None:
        """Fail with every difference between a value and a schema of the document."""
        whole = {**closed(schema), "components": {"schemas": self.schemas}}
        validator = Draft202012Validator(whole, format_checker=FORMATS)
        found = [f"{error.json_path}: {error.message[:300]}" for error in causes(validator, value)]
        assert not found, "\n".join(found)


def closed(schema: Any, *, is_part: bool = False) -> Any:
    """A schema of which objects have no fields but those that it names, itself or by its parts."""
    if isinstance(schema, list):
        return [closed(each, is_part=is_part) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: closed(value, is_part=name == "allOf") for name, value in schema.items()}
    if not is_part and schema.keys() & {"$ref", "allOf"}:
        found["unevaluatedProperties"] = False
    return found


def causes(validator: Draft202012Validator, value: Any) -> Iterator[Any]:
    """The errors, and below an ``anyOf`` those of each of its choices."""
    todo = list(validator.iter_errors(value))
    while todo:
        error = todo.pop()
        yield error
        todo.extend(error.context or ())


FORMATS = FormatChecker(())


@FORMATS.checks("date-time", ValueError)
def is_utc(text: object) -> bool:
    """Times as the API writes them: UTC, ending in Z."""
    return (
        isinstance(text, str) and text.endswith("Z") and bool(datetime.datetime.fromisoformat(text))
    )


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> Document:
    return Document(make_world(tmp_path_factory.mktemp("service")).app().openapi())


class Stage:
    """A fake server with something of everything, and the numbers that addresses hold."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.world = world = server.world
        world.traces["shop"].state = "waiting"
        world.topologies["/"] = world.next_topology = counted(world, "/", 1, EVENTS)
        delivery = next(e for e in world.events if e.received and e.match == "routed")
        a, b = str(delivery.cause), str(delivery.id)
        self.pair = a, b
        world.job_seconds = 0.0
        world.touched_files[f"/itc_db/touched/{a}/made.jsonl"] = b"{}\n"
        fake_reports.start(world, "races", {"vhost": "/"})
        with world.changed:
            assert world.changed.wait_for(lambda: world.reports, 60)
        fake_assertions.set_all(world, "/", json.dumps(HELD).encode())
        for event in (int(a), int(a)):
            fake_assertions.violate(world, "/", "late", event)
        self.ended = self.job("chain.jsonl", "succeeded")
        self.job("spare.jsonl", "succeeded")
        world.job_seconds = 600.0
        self.running = self.job("late.jsonl", "running")
        self.names = {
            "a": a,
            "b": b,
            "received": b,
            "unmatched": next(e.id for e in world.events if e.match == "unmatched"),
            "report": next(iter(world.reports)),
            "ended": self.ended["id"],
            "running": self.running["id"],
            "spare": self.job("never.jsonl", "running")["id"],
        }

    def job(self, file: str, state: str) -> dict[str, Any]:
        """A chain job that has come to this state."""
        job = self.world.start_chain(*self.pair, file)
        with self.world.changed:
            assert self.world.changed.wait_for(lambda: job["state"] == state, 60)
        return job

    def client(self) -> httpx.Client:
        return httpx.Client(base_url=self.server.url, auth=ADMIN, timeout=60)


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with running(demo_world(EVENTS)) as server:
        yield Stage(server)


@pytest.mark.parametrize(
    ("method", "address", "status", "body"),
    ASKED,
    ids=[f"{method} {address} {status}" for method, address, status, _ in ASKED],
)
def test_an_answer_is_as_the_service_describes_it(
    document: Document, stage: Stage, method: str, address: str, status: int, body: Any
) -> None:
    address = address.format(**stage.names)
    with stage.client() as client:
        answer = client.request(method, address, json=body)
    assert answer.status_code == status, answer.text
    described = document.answers(document.operation(method, address))[str(status)]
    check(document, described.get("content", {}), answer)


def check(document: Document, content: dict[str, Any], answer: httpx.Response) -> None:
    if not content:
        assert answer.content == b""
        return
    [(kind, media)] = content.items()
    if kind != "*/*":
        assert answer.headers["content-type"].partition(";")[0] == kind
        document.hold(media["schema"], answer.json())


@pytest.mark.parametrize("user", [None, ("admin", "wrong"), ("nobody", "nobody")])
def test_a_refusal_is_as_the_service_describes_it(
    document: Document, stage: Stage, user: tuple[str, str] | None
) -> None:
    answer = httpx.get(f"{stage.server.url}/itc_db/traces", auth=user)
    assert answer.status_code == 401
    check(document, document.answers("GET /itc_db/traces")["401"]["content"], answer)


def test_the_answers_about_every_event_are_as_the_service_describes_them(
    document: Document, stage: Stage
) -> None:
    for event in stage.world.events[:100]:
        clocks = {"clocks": stage.world.clocks_json(event), "handled": []}
        detail = stage.world.event_json(event) | clocks | stage.world.links_json(event)
        document.hold({"$ref": "#/components/schemas/EventDetail"}, json.loads(json.dumps(detail)))
        if not event.received:
            fate = stage.world.deliveries_json(event)
            document.hold({"$ref": "#/components/schemas/Deliveries"}, json.loads(json.dumps(fate)))


def test_a_chains_summary_is_as_the_service_describes_it(document: Document, stage: Stage) -> None:
    parts = [{"$ref": f"#/components/schemas/{name}"} for name in ("ChainSummary", "Served")]
    document.hold({"allOf": parts}, stage.ended["result"])


def events_of(answer: httpx.Response) -> Iterator[Any]:
    for line in answer.iter_lines():
        if line.startswith("data:"):
            yield json.loads(line.removeprefix("data:"))


@pytest.mark.parametrize(
    ("query", "schema"),
    [
        ("", "Event"),
        ("?payload=none", "Event"),
        ("?columns=id,type,vhost&links=true", "EventColumns"),
    ],
)
def test_what_the_live_tail_sends_is_as_the_service_describes_it(
    document: Document, stage: Stage, query: str, schema: str
) -> None:
    headers = {"last-event-id": "290"}
    with (
        stage.client() as client,
        client.stream("GET", f"/itc_db/live{query}", headers=headers) as answer,
    ):
        assert answer.headers["content-type"] in document.answers(STREAMED[0])["200"]["content"]
        document.hold({"$ref": f"#/components/schemas/{schema}"}, next(events_of(answer)))


def test_a_jobs_progress_is_sent_as_the_service_describes_it(
    document: Document, stage: Stage
) -> None:
    job = stage.job("followed.jsonl", "running")
    with (
        stage.client() as client,
        client.stream("GET", f"/itc_db/jobs/{job['id']}/progress") as answer,
    ):
        assert answer.headers["content-type"] in document.answers(STREAMED[1])["200"]["content"]
        threading.Thread(
            target=stage.world.update, args=(job,), kwargs={"state": "cancelled"}
        ).start()
        shown = list(events_of(answer))
    assert shown[-1]["state"] == "cancelled"
    document.hold({"type": "array", "items": {"$ref": "#/components/schemas/Job"}}, shown)


def test_every_operation_is_asked_for_or_not_faked(document: Document, stage: Stage) -> None:
    asked = {document.operation(method, address) for method, address, _, _ in ASKED}
    assert asked | set(STREAMED) | NOT_FAKED == document.operations()
    assert not (asked | set(STREAMED)) & NOT_FAKED
    with stage.client() as client:
        for operation in NOT_FAKED:
            method, path = operation.split(" ")
            assert client.request(method, path).status_code == 404, operation


def test_a_field_that_only_the_fake_has_is_found(document: Document, stage: Stage) -> None:
    extra = stage.world.event_json(stage.world.events[0]) | {"colour": "red"}
    with pytest.raises(AssertionError, match="colour"):
        document.hold({"type": "array", "items": {"$ref": "#/components/schemas/Event"}}, [extra])
