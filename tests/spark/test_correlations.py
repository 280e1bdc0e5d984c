"""Correlations in the traffic of applications whose keys, and whose truth, are known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from app.jobs.reports import ReportKind, Reports
from app.store import Store
from app.tracker.links import Rule, Rules
from bench.applications import KEYS, NO_KEY, Application
from bench.stores import VHOST, fill
from model.words import Via
from spark_jobs.kinds import run_job
from spark_jobs.progress import silent

END = 10**16
ORDERS = 300
SAMPLE = 100


async def stored(folder: Path, application: Application, rules: Rules) -> str:
    url = f"sqlite+aiosqlite:///{folder}/events.db"
    await fill(url, application.records(), rules)
    return url


def correlated(spark: SparkSession, url: str, folder: Path, until: int = END) -> dict[str, Any]:
    reports = Reports(folder / "reports")
    request = reports.request(ReportKind.correlations, VHOST, 0, until, "ann", {})
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


@pytest.mark.parametrize("is_split", [False, True])
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


@pytest.mark.parametrize("name", KEYS)
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
        walk = await store.causality.effects(event, limit=1_000, via=Via.conversation)
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
