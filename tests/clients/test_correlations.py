"""Keys that real libraries write, found from their traffic alone: no rule of links is on."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import aio_pika
import pytest
from aio_pika.patterns import RPC
from pyspark.sql import SparkSession

from app.jobs.reports import ReportKind, Reports
from app.restamp.replay import previews
from app.stored.likely import Overlay
from app.stored.proposals import proposals_in
from app.traces.pipeline import PipelineSettings
from app.tracker.links import Rule
from model.described import json_of as shown_as_json
from model.event import Event
from model.words import Via
from spark_jobs.kinds import run_job
from spark_jobs.progress import silent
from spark_jobs.reports.look import look
from spark_jobs.spark.database import DatabaseAddress
from tests.clients.conftest import EVERYWHERE, Pipeline
from tests.clients.judge import Name, Verdict, causes_by
from tests.clients.test_libraries import LIBRARIES, verdict_on
from tests.integration.conftest import Service
from tests.spark.conftest import spark
from tools.servers import Broker

__all__ = ["spark"]  # a fixture

END = 10**16
HEADER, BODY, PROPERTY = "$message.header#/", "$message.payload#/", "$message.property#/"

# The kind and the places of each library's own keys. Celery writes its id in two places.
KEYS = {
    "celery": [
        ("parent", HEADER + "parent_id", {HEADER + "id", PROPERTY + "correlation_id"}),
        ("conversation", HEADER + "root_id", {HEADER + "root_id"}),
    ],
    "dramatiq": [
        ("parent", BODY + "message_id", {BODY + "options/pipe_target/message_id"}),
    ],
}
DECOYS = ("timestamp", "retries", "timelimit", "lang", "origin", "host", "eta", "expires", "tenant")
REQUESTS = {"celery": 12, "dramatiq": 15}
# Their programs write an id into each message and nothing else.
WITHOUT_KEY = ("pika on one connection", "aio-pika")
LIKELY = ("celery", "cloudevents in Python", *WITHOUT_KEY)


@pytest.fixture
def settings() -> PipelineSettings:
    return PipelineSettings(
        batch_seconds=0.02, check_seconds=0.5, shared_places=EVERYWHERE, link_rules=()
    )


def copy_of_store(folder: Path) -> str:
    """A copy for Spark's jobs: their SQLite is another than that by which this process has it open.

    Locks hold between processes, not between two libraries in one, which was ended once for that.
    """
    store, copy = (sqlite3.connect(folder / name) for name in ("itc.db", "copy.db"))
    with closing(store), closing(copy):
        store.backup(copy)
    return f"sqlite:///{folder / 'copy.db'}"


def correlated(spark: SparkSession, folder: Path, vhost: str) -> dict[str, Any]:
    reports = Reports(folder / "reports")
    request = reports.request(ReportKind.correlations, vhost, 0, END, "ann", {})
    run_job(spark, copy_of_store(folder), "report", request.work, silent)
    return reports.get(request.work["id"])


def shown(report: dict[str, Any]) -> None:
    for each in report["proposals"]:
        print(each["kind"], each["child"], each["parent"], each["publishes"], each["also"])
    for each in report["refused"]:
        print("refused", each["child"], each["parent"], each["publishes"], each["why"])


def pairs_in(proposal: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield proposal["child"], proposal["parent"]
    for each in proposal["also"]:
        yield each["child"], each["parent"]


def assert_found(report: dict[str, Any], library: str) -> None:
    first = report["proposals"][:3]
    for kind, child, parents in KEYS[library]:
        assert any(
            proposal["kind"] == kind
            and any(pair[0] == child and pair[1] in parents for pair in pairs_in(proposal))
            for proposal in first
        ), (kind, child)
    for proposal in report["proposals"]:
        for rule in proposal["rules"]:
            places = f"{rule['child']} {rule.get('parent', '')}"
            assert not any(decoy in places for decoy in DECOYS), rule


def wrong_examples(
    report: dict[str, Any], events: list[Event], verdict: Verdict, name: Name
) -> list[Any]:
    """Examples whose delivery did not lead to the publish, of what names one message."""
    named = {event.id: name(event) for event in events}
    return [
        example
        for proposal in report["proposals"]
        if proposal["kind"] == "parent"
        for example in proposal["examples"]
        if (named[example["delivery"]], named[example["publish"]]) not in verdict.true
    ]


@pytest.mark.parametrize("likely", LIKELY)
async def test_what_is_likely_is_right_without_anybodys_doing(
    service: Service, pipeline: Pipeline, vhost: str, tmp_path: Path, likely: str
) -> None:
    """As the service finds it by itself; where messages have no key, nothing is proposed."""
    asked = LIBRARIES[likely]._replace(requests=REQUESTS.get(likely, 40))
    verdict = await verdict_on(asked, service, pipeline, vhost)
    address = DatabaseAddress.from_url(copy_of_store(tmp_path))
    report = await asyncio.to_thread(look, address, vhost, 50_000)
    proposals = proposals_in(shown_as_json(report))
    trace = await service.store.traces.find(vhost)
    assert trace is not None
    preview = previews(service.store, PipelineSettings(shared_places=EVERYWHERE))
    found = {
        "links": await causes_by(service.store, verdict, Via.links),
        "any": await causes_by(service.store, verdict, Via.any),
    }
    if proposals:
        rules = [Rule.from_json(rule) for each in proposals for rule in each.rules]
        overlay = Overlay(1, trace.last_event_id)
        await preview(trace, rules).preview(overlay)
        found["likely"] = await causes_by(service.store, verdict, Via.conversation, overlay)
    for way, pairs in found.items():
        right = len(pairs & verdict.true)
        print(likely, way, f"precision {right / max(len(pairs), 1):.3f}", end=" ")
        print(f"recall {right / len(verdict.true):.3f}", [each.says for each in proposals])
    if likely in WITHOUT_KEY:
        assert proposals == []
        return
    assert found["likely"] <= found["any"]
    assert len(found["likely"] & verdict.true) >= 0.95 * len(found["likely"])
    least = 0.75 if likely == "celery" else 0.95  # its messages name tasks, of several attempts
    assert len(found["likely"] & verdict.true) >= least * len(verdict.true)


@pytest.mark.parametrize("library", KEYS)
async def test_what_a_library_writes_is_found(
    service: Service,
    pipeline: Pipeline,
    vhost: str,
    spark: SparkSession,
    tmp_path: Path,
    library: str,
) -> None:
    asked = LIBRARIES[library]._replace(requests=REQUESTS[library])
    verdict = await verdict_on(asked, service, pipeline, vhost)
    report = await asyncio.to_thread(correlated, spark, tmp_path, vhost)
    shown(report)
    assert_found(report, library)
    events = await service.events(vhost)
    assert wrong_examples(report, events, verdict, asked.name) == []


async def test_replies_of_a_library_are_found(
    service: Service,
    rabbit: Broker,
    vhost: str,
    spark: SparkSession,
    tmp_path: Path,
) -> None:
    await service.running(vhost)
    url = rabbit.amqp_url(vhost)
    server = await aio_pika.connect(url, client_properties={"connection_name": "server"})
    client = await aio_pika.connect(url, client_properties={"connection_name": "client"})
    async with server, client:
        serving = await RPC.create(await server.channel())
        calling = await RPC.create(await client.channel())

        async def double(*, number: int) -> int:
            return 2 * number

        await serving.register("double", double, auto_delete=True)
        numbers = range(40)
        answers = await asyncio.gather(*(calling.call("double", {"number": n}) for n in numbers))
        assert answers == [2 * number for number in numbers]
    await service.stored(vhost, 160)
    await service.registry.stop(vhost)
    report = await asyncio.to_thread(correlated, spark, tmp_path, vhost)
    shown(report)
    [proposal] = report["proposals"]
    assert (proposal["kind"], proposal["publishes"]) == ("reply", 40)
    assert proposal["child"] == proposal["parent"] == PROPERTY + "correlation_id"
