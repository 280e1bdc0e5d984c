"""Orders that were broken on purpose are found, and no other; so is what a release changed."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from app.jobs.reports import ReportKind, Reports
from app.store import Store
from app.stored.reading import EventFilter
from app.tracker.links import BUILT_IN, Rules
from bench.orders import BEGIN, SECOND, Fault, Orders
from bench.stores import VHOST, fill_timed
from model.reports.learning import ComparisonReport, ExpectationsReport
from spark_jobs.kinds import run_job
from spark_jobs.progress import silent
from tests.api.described import conforms

ASKED: dict[str, Any] = {"via": "links", "wait": 3_600.0, "share": 0.95, "cases": 100, "rare": 0.01}
HOUR = 3_600 * SECOND


async def roots(url: str, orders: Orders) -> dict[int, Fault]:
    """The first events of the orders that were broken, and how."""
    store = await Store.open(url)
    try:
        found = {}
        for order, fault in orders.broken.items():
            events = (await store.events.find(EventFilter(correlation_id=order), limit=1_000)).items
            found[min(event.id for event in events)] = fault
        return found
    finally:
        await store.close()


def report(
    spark: SparkSession,
    url: str,
    folder: Path,
    kind: ReportKind,
    period: tuple[int, int],
    asked: dict[str, Any],
) -> dict[str, Any]:
    reports = Reports(folder)
    request = reports.request(kind, VHOST, *period, "ann", asked)
    run_job(spark, url, "report", request.work, silent)
    return reports.get(request.work["id"])


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def stored(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Orders]:
    orders = Orders(1_000, 36, seed=3)
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path_factory.mktemp('orders') / 'store.db'}"
    else:
        url = request.getfixturevalue("postgres_module_url")
    asyncio.run(fill_timed(url, orders.records(), Rules(BUILT_IN)))
    return url, orders


@pytest.mark.parametrize("via", ["links", "conversation"])
def test_all_that_were_broken_are_found_and_no_other(
    spark: SparkSession, stored: tuple[str, Orders], tmp_path: Path, via: str
) -> None:
    url, orders = stored
    truth = asyncio.run(roots(url, orders))
    assert Counter(truth.values()) == dict.fromkeys(Fault, 9)
    asked = {**ASKED, "via": via}
    found = report(spark, url, tmp_path, ReportKind.expectations, (BEGIN, BEGIN + HOUR), asked)
    conforms(found, ExpectationsReport)
    assert {one["event"] for one in found["outliers"]} == {*truth}
    assert (found["outliers_count"], found["counted_all"]) == (36, True)
    assert found["conversations"] + found["young"] == 1_000
    reasons = {
        fault: {
            (reason["kind"], reason["type"], reason["other"])
            for one in found["outliers"]
            if truth[one["event"]] is fault
            for reason in one["reasons"]
        }
        for fault in Fault
    }
    assert ("missing", "approve", "invoice") in reasons[Fault.missing]
    assert ("many", "approve", "ship") in reasons[Fault.twice]
    assert ("order", "ship", "approve") in reasons[Fault.early]
    assert ("slow", "ship", "parcel") in reasons[Fault.slow]
    [group] = [
        group
        for group in found["groups"]
        if (group["kind"], group["other"]) == ("missing", "invoice")
    ]
    common = {(one["kind"], one["value"]) for one in group["in_common"]}
    assert any(kind == "place" and value.endswith(".1") for kind, value in common)
    assert {kind for kind, _ in common} <= {"place", "participant"}
    wanted = {
        (one["assertion"]["every"], one["assertion"].get("leads_to")) for one in found["proposals"]
    }
    assert {("order.new", "approve"), ("approve", "invoice"), ("ship", "parcel")} <= wanted
    assert not {effect for _, effect in wanted} & {"gift", "refund"}


async def lost_after(url: str, order: str) -> None:
    """Note a gap after the last event of an order, which a later event told of."""
    store = await Store.open(url)
    try:
        events = (await store.events.find(EventFilter(correlation_id=order), limit=1_000)).items
        last = max(event.id for event in events)
        [trace] = await store.traces.list()
        gap = await store.gaps.open(
            trace.id, after_event_id=last, since=BEGIN + HOUR, reason="lost", suspected=True
        )
        await store.gaps.close(gap, before_event_id=last + 2, until=BEGIN + HOUR)
    finally:
        await store.close()


def test_an_effect_that_may_lie_in_a_gap_is_not_missing(
    spark: SparkSession, tmp_path: Path
) -> None:
    orders = Orders(400, 8, seed=5)
    url = f"sqlite:///{tmp_path / 'store.db'}"
    asyncio.run(fill_timed(url, orders.records(), Rules(BUILT_IN)))
    period = (BEGIN, BEGIN + HOUR)
    before = report(spark, url, tmp_path, ReportKind.expectations, period, ASKED)
    truth = asyncio.run(roots(url, orders))
    for order, fault in orders.broken.items():
        if fault is Fault.missing:
            asyncio.run(lost_after(url, order))
    after = report(spark, url, tmp_path, ReportKind.expectations, period, ASKED)
    said = [
        Counter(truth[one["event"]] for one in found["outliers"])[Fault.missing]
        for found in (before, after)
    ]
    assert said == [2, 0]


@pytest.mark.long(60)
def test_fifty_of_ten_thousand_are_found_and_no_other(spark: SparkSession, tmp_path: Path) -> None:
    orders = Orders(10_000, 50, seed=11)
    url = f"sqlite:///{tmp_path / 'store.db'}"
    asyncio.run(fill_timed(url, orders.records(), Rules(BUILT_IN)))
    period = (BEGIN, BEGIN + HOUR)
    found = report(spark, url, tmp_path, ReportKind.expectations, period, ASKED)
    assert {one["event"] for one in found["outliers"]} == {*asyncio.run(roots(url, orders))}


def test_what_a_release_changed_is_found_and_noise_is_not(
    spark: SparkSession, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    parts = [
        (Orders(600, 0, seed=1), 0),
        (Orders(600, 0, seed=2), HOUR),
        (Orders(600, 0, seed=3, slower=3.0, skipping=frozenset({"invoice"})), 2 * HOUR),
    ]
    records = [one for orders, after in parts for one in orders.records(BEGIN + after)]
    asyncio.run(fill_timed(url, records, Rules(BUILT_IN)))

    def compared(hour: int) -> dict[str, Any]:
        before, since = BEGIN + (hour - 1) * HOUR, BEGIN + hour * HOUR
        asked = {
            "before_since": before,
            "before_until": before + 150 * SECOND,
            "via": "links",
            "wait": 600.0,
            "cases": 100,
        }
        period = (since, since + 150 * SECOND)
        return report(spark, url, tmp_path, ReportKind.comparison, period, asked)

    noise = compared(1)
    assert noise["changes"] == 0
    assert min(noise[side]["conversations"] for side in ("before", "after")) > 500
    changed = compared(2)
    conforms(changed, ComparisonReport)
    states = {(one["type"], one["effect"]): one for one in changed["effects"]}
    assert states["approve", "invoice"]["share"]["state"] == "vanished"
    assert states["ship", "parcel"]["share"]["state"] == "same"
    assert states["ship", "parcel"]["p50"]["state"] == "changed"
    assert [one["type"] for one in changed["types"] if one["state"] == "vanished"] == ["invoice"]
    assert {one["state"] for one in changed["variants"][:2]} == {"appeared"}
    assert changed["before_since"] == "2026-01-01T13:00:00.000000Z"


def test_of_a_time_without_events_there_is_nothing_to_say(
    spark: SparkSession, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    asyncio.run(fill_timed(url, Orders(5, 0).records(), Rules(BUILT_IN)))
    found = report(spark, url, tmp_path, ReportKind.expectations, (5, 6), ASKED)
    assert (found["conversations"], found["types"], found["outliers"]) == (0, [], [])
    asked = {"before_since": 1, "before_until": 2, "via": "links", "wait": 0.0, "cases": 100}
    empty = report(spark, url, tmp_path, ReportKind.comparison, (5, 6), asked)
    assert (empty["changes"], empty["variants"]) == (0, [])
