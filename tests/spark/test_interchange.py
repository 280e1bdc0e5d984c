"""A period exported for other tools, by the real job on random histories."""

from __future__ import annotations

import asyncio
import json
import random
import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml
from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from pyspark.sql import SparkSession
from sqlalchemy import make_url

from app.api.otlp import as_json as reading_json
from app.api.otlp.fields import ReadingBudget
from app.collector.period import MOST_TRIES, PeriodOrder, send_period
from app.collector.sender import Sender
from app.errors import OutageError
from app.store import Store
from app.stored.spans import Span as StoredSpan
from model.exports import manifest_of
from model.jobs import Problem, Progress
from model.words import Disposition, EdgeKind, Via
from spark_jobs.errors import JobError
from spark_jobs.interchange import writers_job
from spark_jobs.kinds import run_job
from tests.collector import collecting
from tests.contract.test_schema import NEWEST
from tests.spark.histories import NOON, History, Link
from tests.spark.telling import headers
from tests.spark.test_asyncapi import faults as document_faults
from tests.spark.test_conversations import judged
from tests.spark.test_ocel import faults as log_faults

Made = Callable[..., dict[str, Any]]
TRACE = "0af7651916cd43dd8448eb211c80319c"
FIRST, LAST = 41, 300
SINCE, UNTIL = NOON + 1000 * FIRST, NOON + 1000 * LAST + 1
TYPES = ("order.new", "invoice", "mail")


def orders(seed: int, size: int = 400) -> History:
    """Messages of three types that participants hand on, with JSON bodies, keys and traces."""
    dice = random.Random(seed)
    history = History(pasts=False)
    actors = [history.join() for _ in range(4)]
    waiting: list[tuple[int, str, dict[str, Any]]] = []
    while len(history.rows) < size:
        actor = dice.choice(actors)
        key, links = f"order {len(history.rows)}", list[Link]()
        if waiting and dice.random() < 0.9:
            message, key, fields = waiting.pop(dice.randrange(len(waiting)))
            delivery = history.receive(actor, message, shared=[key], **fields)
            if dice.random() < 0.5:
                continue
            links = [Link(delivery)]
        said: dict[str, Any] = {"headers": {}, "correlation_id": key, "type": dice.choice(TYPES)}
        if dice.random() < 0.2:
            sender = f"{len(history.rows) + 1:016x}"
            said["headers"] = {"traceparent": f"00-{TRACE}-{sender}-01"}
        body = json.dumps({"id": len(history.rows), "note": None}).encode()
        fields = {"properties": json.dumps(said), "payload": body, "payload_bytes": len(body)}
        quiet = dice.random() < 0.03
        event = history.publish(actor, links=links, shared=[key], quiet=quiet, **fields)
        waiting.append((event, key, fields))
    return history


@pytest.fixture(scope="module")
def history() -> History:
    return orders(seed=7)


@pytest.fixture(scope="module")
def url(history: History, tmp_path_factory: pytest.TempPathFactory) -> str:
    return history.write(tmp_path_factory.mktemp("interchange") / "store.db")


@pytest.fixture
def make(spark: SparkSession, url: str, tmp_path: Path) -> Made:
    def made(name: str, **more: Any) -> dict[str, Any]:
        request = {
            "vhost": "/",
            "since": SINCE,
            "until": UNTIL,
            "via": "links",
            "format": name.partition(".")[2],
            "output": str(tmp_path / name),
            **more,
        }
        where = request.pop("url", url)
        return run_job(spark, where, "period", request, request.pop("told", lambda _: None))

    return made


def whole(history: History, via: Via = Via.links) -> set[frozenset[int]]:
    """The conversations that began in the period.

    A period's ids are those of its blocks, so what began before is found by its time.
    """
    return {each for each in judged(history, via, 1, LAST) if min(each) >= FIRST}


@pytest.mark.parametrize("via", [Via.links, Via.conversation])
def test_a_log_has_every_event_of_every_conversation_once(
    make: Made, history: History, tmp_path: Path, via: Via, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = make("log.ocel.json", via=via.value)
    log = json.loads((tmp_path / "log.ocel.json").read_text())
    assert log_faults(log) == []
    found: dict[str, set[int]] = {}
    for event in log["events"]:
        [conversation] = [
            r["objectId"] for r in event["relationships"] if r["qualifier"] == "conversation"
        ]
        found.setdefault(conversation, set()).add(int(event["id"].removeprefix("event:")))
    expected = whole(history, via)
    assert {frozenset(each) for each in found.values()} == expected
    assert len(expected) > 20
    assert len(log["events"]) == sum(map(len, expected))
    assert manifest == json.loads(manifest_of(tmp_path / "log.ocel.json").read_text())
    assert (manifest["events"], manifest["conversations"]) == (len(log["events"]), len(expected))
    assert (manifest["complete"], manifest["gaps"], manifest["cut"]) == (True, [], 0)
    assert {e["type"].rpartition(" ")[0] for e in log["events"]} == {*TYPES}


def test_pieces_of_any_size_make_the_same_log(
    make: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make("a.ocel.json")
    # Executors are other processes with their own bounds: what is written is the same anyhow.
    make("b.ocel.json")
    assert (tmp_path / "a.ocel.json").read_bytes() == (tmp_path / "b.ocel.json").read_bytes()
    monkeypatch.setattr(writers_job, "MOST_SHARED", 3)
    with pytest.raises(JobError, match="more than 3 keys") as refused:
        make("c.ocel.json")
    assert refused.value.problem is Problem.bad_request
    assert not (tmp_path / "c.ocel.json").exists()


def test_a_log_is_read_by_pm4py(make: Made, tmp_path: Path) -> None:
    import pm4py  # takes seconds

    manifest = make("log.ocel.json")
    log = pm4py.read_ocel2_json(str(tmp_path / "log.ocel.json"))
    assert len(log.events) == manifest["events"]
    assert {*pm4py.ocel_get_object_types(log)} >= {"conversation", "message", "key"}
    assert pm4py.discover_ocdfg(log)


def test_names_that_mean_something_to_readers_of_json_are_read_back(
    make: Made, tmp_path: Path
) -> None:
    import pm4py

    history = History(pasts=False)
    shop, billing = history.join(), history.join()
    odd = {"$ref": "#/nowhere", "__proto__": 1, "constructor": 2, "prototype": 3, "toString": 4}
    body = json.dumps(odd).encode()
    for each in odd:
        said = json.dumps({"headers": odd, "type": each, "correlation_id": each})
        fields = {"properties": said, "payload": body, "exchange": each}
        fields |= {"routing_keys": json.dumps([each])}
        event = history.publish(shop, **fields, routed_queues=json.dumps([each]))
        history.receive(billing, event, **fields, queue=each, shared=[each])
    url = history.write(tmp_path / "odd.db")
    for name in ("a.ocel.json", "a.otlp.json", "a.asyncapi.json"):
        assert make(name, url=url, since=NOON, until=NOON + 10**9)["events"] == 2 * len(odd)
    log = pm4py.read_ocel2_json(str(tmp_path / "a.ocel.json"))
    assert len(log.events) == 2 * len(odd)
    assert {*odd} <= {
        *log.objects["ocel:oid"].str.split(":", n=1).str[-1],
        *log.objects.get("type", ()),
    }
    for line in (tmp_path / "a.otlp.json").read_text().splitlines():
        assert ParseDict(json.loads(line), ExportTraceServiceRequest()).resource_spans
    assert document_faults(json.loads((tmp_path / "a.asyncapi.json").read_text())) == []


def test_readers_of_event_logs_lose_neither_relations_nor_objects(
    make: Made, tmp_path: Path
) -> None:
    import pm4py
    import r4pm
    from pm4py.objects.ocel.importer.jsonocel import importer as ocel_importer

    history = History(pasts=False)
    shop, billing, admin = history.join(), history.join(), history.join()
    for number in range(20):
        said = {"properties": json.dumps({"headers": {}, "correlation_id": f"order {number}"})}
        ordered = history.publish(shop, **said)
        got = history.receive(billing, ordered, **said)
        returned = [Link.act(got, EdgeKind.returned)]
        again = history.receive(billing, ordered, match=2, links=returned, **said)
        rejected = [Link.act(again, EdgeKind.rejected)]
        handed = history.receive(
            admin if number % 2 else billing, ordered, queue="dead", match=3, links=rejected, **said
        )
        history.publish(admin, links=[Link(handed)], routed_queues="[]", **said)
    url = history.write(tmp_path / "store.db")
    make("a.ocel.json", url=url, since=NOON, until=NOON + 10**9)
    path = str(tmp_path / "a.ocel.json")
    written = json.loads(Path(path).read_text())
    pairs = Counter(
        (event["id"], each["objectId"], each["qualifier"])
        for event in written["events"]
        for each in event["relationships"]
    )
    # With r4pm beside it pm4py reads with that.
    read = ocel_importer.apply(path, variant=ocel_importer.Variants.OCEL20_STANDARD)
    rust = r4pm.df.import_ocel(path)
    columns = ["ocel:eid", "ocel:oid", "ocel:qualifier"]
    assert Counter(read.relations[columns].itertuples(index=False, name=None)) == pairs
    assert Counter(rust["relations"].select(columns).iter_rows()) == pairs
    objects = {each["id"] for each in written["objects"]}
    # Neither keeps an object without events, or an event without objects.
    assert {oid for _, oid, _ in pairs} == objects == {*read.objects["ocel:oid"]}
    assert {*rust["objects"]["ocel:oid"]} == objects
    assert len(read.events) == len(rust["events"]) == len(history.rows)
    words = Counter(word for _, _, word in pairs)
    # Half of those who rejected a message were handed it as a dead letter, too.
    assert (words["receiver"], words["rejected by"], words["returned by"]) == (60, 10, 0)
    acts = Counter(read.events["rejected_by"].dropna()) + Counter(
        read.events["returned_by"].dropna()
    )
    assert acts == {f"participant:{billing.number}": 40}
    # What knows no objects: one case for each conversation.
    flat = pm4py.ocel_flattening(read, "conversation")
    pm4py.write_xes(flat, str(tmp_path / "a.xes"))
    cases = pm4py.read_xes(str(tmp_path / "a.xes"))
    assert (len(cases), cases["case:concept:name"].nunique()) == (len(history.rows), 20)


def spans_in(path: Path) -> list[dict[str, Any]]:
    return [
        span
        for line in path.read_text().splitlines()
        for resource in json.loads(line)["resourceSpans"]
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
    ]


def test_a_file_of_spans_has_all_of_them_and_a_second_one_is_the_same(
    make: Made, history: History, tmp_path: Path
) -> None:
    manifest = make("spans.otlp.json")
    make("again.otlp.json")
    path = tmp_path / "spans.otlp.json"
    assert path.read_bytes() == (tmp_path / "again.otlp.json").read_bytes()
    spans = spans_in(path)
    events = {each for conversation in whole(history) for each in conversation}
    kinds = Counter(history.rows[each - 1]["type"] for each in events)
    alone = sum(history.rows[each - 1]["cause_id"] not in {None, *events} for each in events)
    # A publish is a span, and a delivery, with its time in the queue where its publish is there,
    # and what its consumer said of it.
    waited = kinds[1] - alone
    said = (Disposition.acknowledged, Disposition.rejected, Disposition.returned)
    settled = sum(history.rows[each - 1]["settlement"] in said for each in events)
    counted = Counter(each["kind"] for each in spans)
    assert counted == {4: kinds[0], 1: waited, 5: kinds[1], 3: settled}
    ids = {(each["traceId"], each["spanId"]) for each in spans}
    assert len(ids) == len(spans) == manifest["spans"]
    foreign = [each for each in spans if each["flags"] & 0x200]
    assert foreign
    assert all(each["traceId"] == TRACE for each in foreign)
    for each in spans:
        if "parentSpanId" in each and not each["flags"] & 0x200:
            assert (each["traceId"], each["parentSpanId"]) in ids
        assert all((link["traceId"], link["spanId"]) in ids for link in each.get("links", ()))
    lines = path.read_bytes().splitlines()
    taken = [one for line in lines for one in reading_json.read(line, ReadingBudget(10_000))]
    assert len(taken) == len(spans)
    assert all(isinstance(each, StoredSpan) for each in taken)


async def test_the_service_sends_the_spans_that_are_written(
    make: Made, url: str, tmp_path: Path
) -> None:
    """Of a period's events; a file has those of conversations that began then."""
    make("spans.otlp.json")
    written = {(s["traceId"], s["spanId"]): s for s in spans_in(tmp_path / "spans.otlp.json")}
    with sqlite3.connect(make_url(url).database or "") as tables:  # the service's own are migrated
        tables.execute("CREATE TABLE alembic_version (version_num TEXT NOT NULL)")
        tables.execute("INSERT INTO alembic_version VALUES (?)", [NEWEST])
        tables.execute("INSERT INTO installation VALUES ('test')")
    store = await Store.open(url)
    with collecting() as standing:
        sender = Sender({"url": standing.url, "shown": "collector", "headers": {}})
        order = PeriodOrder("/", SINCE, UNTIL)
        first = await send_period(store, sender, order, lambda _: None)
        sent = {(trace.hex(), span.hex()): s for (trace, span), s in standing.spans.items()}
        again = await send_period(store, sender, order, lambda _: None)
        assert len(standing.spans) == len(sent) == first["spans"] == again["spans"]
        standing.statuses = [(503, {})] * MOST_TRIES
        with pytest.raises(OutageError, match="answers 503: not now, 5 times in a row, after 0"):
            await send_period(store, sender, order, lambda _: None)
        await sender.close()
    await store.close()
    in_both = [name for name, span in written.items() if SINCE <= recorded_at(span) < UNTIL]
    assert len(in_both) > len(written) / 2
    for name in in_both:
        span, other = written[name], sent[name]
        assert (span["name"], span.get("parentSpanId", "")) == (
            other.name,
            other.parent_span_id.hex(),
        )


def recorded_at(span: dict[str, Any]) -> int:
    """When its event was recorded, as far as its span tells: a wait ends then."""
    place = "endTimeUnixNano" if span["name"].startswith("wait") else "startTimeUnixNano"
    return int(span[place]) // 1_000


def test_both_databases_give_the_same(
    make: Made, history: History, tmp_path: Path, postgres_module_url: str
) -> None:
    asyncio.run(history.write_postgres(postgres_module_url))
    for name in ("a.ocel.json", "a.otlp.json", "a.asyncapi.json"):
        make(name)
        make(f"of-postgres.{name.partition('.')[2]}", url=postgres_module_url)
        other = tmp_path / f"of-postgres.{name.partition('.')[2]}"
        assert other.read_bytes() == (tmp_path / name).read_bytes()


@pytest.mark.parametrize("name", ["api.asyncapi.json", "api.asyncapi.yaml"])
def test_a_document_says_what_was_seen(
    make: Made, history: History, tmp_path: Path, name: str
) -> None:
    manifest = make(name)
    text = (tmp_path / name).read_text()
    document = json.loads(text) if name.endswith(".json") else yaml.safe_load(text)
    assert document_faults(document) == []
    loud = [row for row in history.rows[FIRST - 1 : LAST] if not row["quiet"]]
    assert manifest["events"] == document["info"]["x-events"] == len(loud)
    said = Counter()
    for operation in document["operations"].values():
        said[operation["action"]] += operation["x-count"]
    kinds = Counter(row["type"] for row in loud)
    assert said == {"send": kinds[0], "receive": kinds[1]}
    messages = {each["name"]: each for each in document["components"]["messages"].values()}
    assert messages.keys() == {*TYPES}
    assert messages["mail"]["payload"] == {
        "type": "object",
        "properties": {"id": {"type": "integer"}, "note": {"type": "null"}},
        "required": ["id", "note"],
    }
    assert messages["mail"]["correlationId"]["location"] == "$message.header#/correlation_id"


@pytest.mark.parametrize("name", ["a.ocel.json", "a.otlp.json", "a.asyncapi.json"])
def test_a_period_without_events_is_an_empty_file(make: Made, tmp_path: Path, name: str) -> None:
    manifest = make(name, since=5, until=6)
    assert (manifest["events"], manifest["complete"]) == (0, True)
    text = (tmp_path / name).read_text()
    if name.endswith("otlp.json"):
        assert text == ""
    else:
        found = json.loads(text)
        assert (log_faults if "events" in found else document_faults)(found) == []


def test_gaps_are_said(make: Made, history: History, tmp_path: Path, spark: SparkSession) -> None:
    url = history.write(tmp_path / "gaps.db")
    with closing(sqlite3.connect(tmp_path / "gaps.db")) as connection, connection:
        connection.execute(
            "INSERT INTO gaps (trace_id, after_event_id, since, reason, suspected)"
            " VALUES (1, 60, 0, 'lost', 0)"
        )
    manifest = make("a.asyncapi.json", url=url)
    document = json.loads((tmp_path / "a.asyncapi.json").read_text())
    assert document_faults(document) == []
    assert not manifest["complete"]
    assert document["info"]["x-gaps"] == manifest["gaps"]
    assert make("a.ocel.json", url=url)["gaps"] == manifest["gaps"]


def test_hostile_bodies_and_headers_end_no_job(make: Made, tmp_path: Path) -> None:
    history = History(pasts=False)
    shop, billing = history.join(), history.join()
    many = headers(**{f"field {k}": "x" * 20 for k in range(10_000)})
    bodies = [b'{"a": "' + b"x" * 1_000_000 + b'"}', b"\xff" * 1_000_000, b"[" * 50_000, b""]
    for body in bodies:
        event = history.publish(shop, properties=many, payload=body, payload_bytes=len(body))
        history.receive(billing, event, properties=many, payload=body, payload_bytes=len(body))
    url = history.write(tmp_path / "hostile.db")
    period = {"url": url, "since": NOON, "until": NOON + 10**9}
    for name in ("a.ocel.json", "a.otlp.json", "a.asyncapi.json"):
        assert make(name, **period)["events"] == 8
    document = json.loads((tmp_path / "a.asyncapi.json").read_text())
    assert document_faults(document) == []
    [message] = document["components"]["messages"].values()
    assert message["headers"]["additionalProperties"] == {"type": "string"}
    assert (tmp_path / "a.asyncapi.json").stat().st_size < 20_000


def test_a_job_can_be_cancelled_at_every_step(make: Made, tmp_path: Path) -> None:
    stages: list[str] = []

    def told(progress: Progress) -> None:
        stages.append(progress.stage)
        if progress.rows_written:
            raise JobError(Problem.cancelled, "The job was cancelled.")

    for name in ("a.ocel.json", "a.otlp.json"):
        with pytest.raises(JobError, match="cancelled"):
            make(name, told=told)
    assert [*tmp_path.iterdir()] == []
    assert {"planning", "gathering", "reading"} <= {*stages}


def test_no_more_is_written_than_the_quota_leaves(make: Made, tmp_path: Path) -> None:
    with pytest.raises(JobError) as refused:
        make("a.otlp.json", quota={"files": 10, "bytes": 100})
    assert refused.value.problem is Problem.full
    assert [*tmp_path.iterdir()] == []
