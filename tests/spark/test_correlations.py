"""Correlations in the traffic of applications whose keys, and whose truth, are known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from sqlalchemy import create_engine, insert

from app.jobs.reports import ReportKind, Reports
from app.store import Store
from app.store.database.tables import gaps
from app.tracker.links import Rule, Rules
from bench.applications import KEYS, NO_KEY, Application
from bench.stores import VHOST, fill
from model.words import Via
from spark_jobs.kinds import run_job
from spark_jobs.progress import silent
from spark_jobs.reports import correlations
from tests.spark.histories import NOON, History, Link

END = 10**16
ORDERS = 300
SAMPLE = 100
# Each is like another; the test before this one holds for all of them which rule is proposed.
KIN = ("order-id", "renamed", "nested")


async def stored(folder: Path, application: Application, rules: Rules) -> str:
    url = f"sqlite+aiosqlite:///{folder}/events.db"
    await fill(url, application.records(), rules)
    return url


def correlated(
    spark: SparkSession, url: str, folder: Path, until: int = END, vhost: str = VHOST
) -> dict[str, Any]:
    reports = Reports(folder / "reports")
    request = reports.request(ReportKind.correlations, vhost, 0, until, "ann", {})
    run_job(spark, url, "report", request.work, silent)
    return reports.get(request.work["id"])


def keys_of(report: dict[str, Any]) -> list[tuple[str, set[str]]]:
    """The kind and the places of each proposal."""
    return [(each["kind"], _places(each["rules"])) for each in report["proposals"]]


def _places(rules: list[dict[str, Any]]) -> set[str]:
    found: set[str] = set()
    for rule in rules:
        for side in ("child", "parent"):
            places = rule.get(side, [])
            found |= {places} if isinstance(places, str) else {*places}
    return found - {"$message.property#/routing_key", "$message.property#/reply_to"}


# Unsplit, each is also proposed, alone, in the test below.
@pytest.mark.parametrize("is_split", [pytest.param(False, marks=pytest.mark.long(2)), True])
@pytest.mark.parametrize("name", KEYS)
async def test_the_key_is_proposed_and_nothing_else(
    spark: SparkSession, tmp_path: Path, name: str, is_split: bool
) -> None:
    application = Application(name, ORDERS, is_split=is_split)
    url = await stored(tmp_path, application, Rules(()))
    report = correlated(spark, url, tmp_path)
    kind, parent, child = KEYS[name]
    assert keys_of(report) == [(kind, {parent, child})]
    [proposal] = report["proposals"]
    assert [Rule.from_json(rule) for rule in proposal["rules"]]
    assert len(proposal["examples"]) == 10
    assert all(example["value"] for example in proposal["examples"])
    assert bool(report["programs"]) == is_split


@pytest.mark.parametrize(
    "name", [pytest.param(key, marks=pytest.mark.long(3)) if key in KIN else key for key in KEYS]
)
async def test_by_the_proposed_rule_effects_are_right_both_ways(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    application = Application(name, ORDERS)
    url = await stored(tmp_path, application, Rules(()))
    [proposal] = correlated(spark, url, tmp_path)["proposals"]
    adopted = Rules([Rule.from_json(rule) for rule in proposal["rules"]])
    (tmp_path / "adopted").mkdir()
    again = Application(name, ORDERS)
    store = await Store.open(await stored(tmp_path / "adopted", again, adopted))
    published = {message.event for message in again.messages}
    wrong = missing = right = 0
    for event, true in [*again.effects().items()][: 5 * SAMPLE : 5]:
        walk = await store.causality.walk(event, 1, limit=1_000, via=Via.conversation)
        found = {effect.id for effect in walk.items} & published
        right += len(found & true)
        wrong += len(found - true)
        missing += len(true - found)
    await store.close()
    assert right > SAMPLE / 2
    assert wrong + missing <= 0.01 * right, (right, wrong, missing)


async def test_without_a_key_nothing_is_proposed(spark: SparkSession, tmp_path: Path) -> None:
    url = await stored(tmp_path, Application(NO_KEY, ORDERS), Rules(()))
    report = correlated(spark, url, tmp_path)
    assert report["proposals"] == []
    assert {each["why"] for each in report["refused"]} >= {"as often by chance"}
    why = {each["place"]: each["why"] for each in report["places"]}
    assert why["$message.payload#/at"] == why["$message.payload#/sent_ms"] == "a time"
    assert why["$message.payload#/status"] == "a few values repeat"


async def test_a_period_without_events_says_so(spark: SparkSession, tmp_path: Path) -> None:
    url = await stored(tmp_path, Application("order-id", 5), Rules(()))
    report = correlated(spark, url, tmp_path, until=1)
    assert (report["events"], report["looked_at"], report["proposals"]) == (0, 0, [])


def odd_messages() -> History:
    """Orders that are handed on under a key, and bodies and headers that are beyond any bound."""
    history = History()
    front, worker, mail = (history.join() for _ in range(3))
    many = {f"h{number}": f"{number}" for number in range(10_000)}
    bodies = (b"not JSON", b"{broken", b'{"big": "' + b"x" * 1_000_000 + b'"}', b"")
    for number in range(40):
        headers: dict[str, Any] = many if number == 7 else {}
        if number == 8:
            headers = {"big": "x" * 1_000_000}
        for by, to in ((front, worker), (worker, mail)):
            body = bodies[number % 4] if number < 8 else b'{"order": "order-%08d"}' % number
            message = {
                "properties": json.dumps({"headers": headers}),
                "payload": body,
                "payload_bytes": len(body),
            }
            history.receive(to, history.publish(by, **message), **message)
    return history


def test_what_cannot_be_read_is_said_and_the_rest_is_found(
    spark: SparkSession, tmp_path: Path
) -> None:
    history = odd_messages()
    report = correlated(spark, history.write(tmp_path / "a.db"), tmp_path, vhost="/")
    assert keys_of(report) == [("conversation", {"$message.payload#/order"})]
    left = report["left_out"]
    assert left["fields"] == 4
    assert left["long values"] == 4
    assert left["bodies not JSON"] >= 12
    assert left["bodies too large"] == 8
    assert report["events"] == report["looked_at"] == 160


def test_a_gap_makes_a_report_incomplete(spark: SparkSession, tmp_path: Path) -> None:
    url = odd_messages().write(tmp_path / "a.db")
    engine = create_engine(f"sqlite:///{tmp_path / 'a.db'}")
    with engine.begin() as connection:
        connection.execute(
            insert(gaps),
            {
                "trace_id": 1,
                "after_event_id": 20,
                "before_event_id": 30,
                "since": NOON,
                "until": NOON + 1,
                "reason": "untraced",
                "suspected": False,
            },
        )
    engine.dispose()
    report = correlated(spark, url, tmp_path, vhost="/")
    assert (report["complete"], len(report["gaps"])) == (False, 1)


def test_links_tell_how_often_it_was_what_was_in_hand(spark: SparkSession, tmp_path: Path) -> None:
    history = History()
    front, worker, mail = (history.join() for _ in range(3))
    for _ in range(30):
        handed = history.receive(worker, history.publish(front), settlement=None)
        history.receive(mail, history.publish(worker, links=[Link(handed)]))
    report = correlated(spark, history.write(tmp_path / "a.db"), tmp_path, vhost="/")
    [hand] = report["in_hand"]
    assert hand["participant"]["number"] == worker.number
    assert (hand["publishes"], hand["linked"], hand["agreement"]) == (30, 30, 1.0)


async def test_of_very_many_events_stretches_are_looked_at(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(correlations, "MOST_EVENTS", 1_500)
    url = await stored(tmp_path, Application("causation", ORDERS), Rules(()))
    report = correlated(spark, url, tmp_path)
    assert (report["events"], report["looked_at_all"]) == (3_000, False)
    assert 1_300 <= report["looked_at"] <= 1_500
    assert keys_of(report) == [(KEYS["causation"][0], {*KEYS["causation"][1:]})]
