"""Who sent what where: Spark's counts against a plain count of the same events."""

from __future__ import annotations

import json
import statistics
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from app.errors import BadRequestError, NotFoundError
from app.jobs.reports import Topologies
from model.jobs import Problem
from model.topology import RouteFlow
from spark_jobs.errors import JobError
from spark_jobs.kinds import run_job
from spark_jobs.progress import silent
from spark_jobs.reports.topology_job import FlowRow, busiest_flows, flows_of
from tests.spark.conftest import Stored
from tests.spark.histories import NOON, History, Link

END = NOON + 10_000_000


def count(spark: SparkSession, stored: Stored, folder: Path, since: int, until: int) -> Any:
    """Run the job as the service does and read what it stored."""
    topologies = Topologies(folder)
    request = topologies.request("/", since, until, "ann")
    run_job(spark, stored.url, request.kind, request.work, silent)
    return topologies.get("/")


def rows(stored: Stored, since: int, until: int) -> list[dict[str, Any]]:
    return [
        row
        for row in stored.history.rows
        if row["trace_id"] == 1 and since <= row["recorded_at"] < until
    ]


def user(row: dict[str, Any]) -> str:
    return f"user{row['participant']}"


@pytest.mark.parametrize(("since", "until"), [(0, END), (NOON + 400_000, NOON + 900_000)])
def test_flows_are_those_of_a_plain_count(
    spark: SparkSession, stored: Stored, tmp_path: Path, since: int, until: int
) -> None:
    found = count(spark, stored, tmp_path, since, until)
    events = rows(stored, since, until)
    published = [row for row in events if row["type"] == 0]
    received = [row for row in events if row["type"] == 1]
    assert {(p["publisher"], p["exchange"]): p["messages"] for p in found["publishes"]} == Counter(
        (user(row), row["exchange"]) for row in published
    )
    cause = {row["id"]: row for row in stored.history.rows}

    def flow(row: dict[str, Any]) -> tuple[str | None, ...]:
        publisher = user(cause[row["cause_id"]]) if row["cause_id"] else None
        return publisher, row["exchange"], row["queue"], user(row)

    deliveries = {
        (d["publisher"], d["exchange"], d["queue"], d["receiver"]): d for d in found["deliveries"]
    }
    assert {key: d["messages"] for key, d in deliveries.items()} == Counter(map(flow, received))
    for key, delivery in deliveries.items():
        of_flow = [row for row in received if flow(row) == key]
        assert delivery["unmatched"] == sum(row["match"] == 4 for row in of_flow)
        waits = [
            (row["recorded_at"] - cause[row["cause_id"]]["recorded_at"]) / 1e6
            for row in of_flow
            if row["match"] == 1
        ]
        if not waits:
            assert delivery["seconds"] is None
            continue
        assert delivery["seconds"]["median"] in (
            statistics.median_low(waits),
            statistics.median_high(waits),
        )
        assert delivery["seconds"]["p90"] <= max(waits)
    assert found["complete"] is True


def test_deaths_are_told_by_the_message_and_times_in_programs_by_links(
    spark: SparkSession, tmp_path: Path
) -> None:
    history = History()
    shop, billing, mailer = (history.join() for _ in range(3))
    order = history.publish(shop)
    handed = history.receive(billing, order)  # ids are milliseconds apart
    history.publish(billing, exchange="notify", links=[Link(handed), Link(handed, "causation")])
    history.publish(billing, exchange="notify", links=[Link(order)])
    history.publish(billing, exchange="notify")
    died = {"headers": {"x-death": [{"queue": "work", "reason": "rejected"}, {"queue": "older"}]}}
    fields: dict[str, Any] = {
        "match": 3,
        "exchange": "dlx",
        "queue": "dead",
        "properties": json.dumps(died),
    }
    history.receive(mailer, order, **fields)
    history.receive(mailer, order, **fields | {"properties": "{}"})
    stored = Stored(history, history.write(tmp_path / "store.db"), 1, 2)

    found = count(spark, stored, tmp_path / "topologies", 0, END)

    way = {"exchange": "dlx", "to": "dead", "messages": 1}
    assert sorted(found["deaths"], key=str) == [
        {"queue": "work", "reason": "rejected", **way},
        {"queue": None, "reason": None, **way},
    ]
    millisecond = dict.fromkeys(("median", "p90"), 0.001)
    assert found["programs"] == [
        {"receiver": "user2", "queue": "work", "exchange": "notify", "messages": 1}
        | {"seconds": millisecond}
    ]


@pytest.mark.parametrize(
    ("stamped", "waited"),
    [(None, 5_000), (NOON // 1000 - 2, 7_000), (NOON // 1000 - 5_000, 5_000), ("soon", 5_000)],
)
def test_a_wait_begins_when_the_broker_says_unless_its_clock_is_another(
    stamped: Any, waited: int
) -> None:
    headers = {} if stamped is None else {"timestamp_in_ms": stamped}
    event = {
        "type": 1,
        "match": 1,
        "recorded_at": NOON + 5_000,
        "cause_recorded_at": NOON,
        "exchange": "orders",
        "queue": "work",
        "user": "billing",
        "cause_user": "shop",
        "by_broker": json.dumps({"headers": headers}),
    }
    assert [flow.wait for flow in flows_of(event)] == [waited]


def test_a_time_without_events_has_no_flows(
    spark: SparkSession, stored: Stored, tmp_path: Path
) -> None:
    found = count(spark, stored, tmp_path, 1, 2)
    assert found["publishes"] == found["routes"] == found["deliveries"] == []


def test_flows_of_as_many_messages_are_in_one_order_whichever_was_counted_first() -> None:
    flows = [RouteFlow("app", "orders", queue, 7, 0, 0) for queue in "bca"]
    assert [
        flow.queue for flow in busiest_flows([*flows, RouteFlow("app", "orders", "z", 8, 0, 0)])
    ] == [*"zabc"]


def test_an_unknown_virtual_host_is_said(
    spark: SparkSession, stored: Stored, tmp_path: Path
) -> None:
    request = Topologies(tmp_path).request("nobody", 0, 1, "ann")
    with pytest.raises(JobError, match="nobody") as caught:
        run_job(spark, stored.url, "topology", request.work, silent)
    assert caught.value.problem is Problem.not_found


def test_topologies_are_kept_by_virtual_host_and_period(tmp_path: Path) -> None:
    topologies = Topologies(tmp_path)
    for vhost, since, until in (("/", 1, 5), ("/", 5, 9), ("..", 1, 5)):
        output = Path(topologies.request(vhost, since, until, "ann").work["output"])
        assert tmp_path in output.resolve().parents
        output.parent.mkdir(exist_ok=True)
        output.write_text(json.dumps({"vhost": vhost, "since": since}))
    assert topologies.get("/", 1, 5) == {"vhost": "/", "since": 1}
    assert topologies.get("/")["since"] in (1, 5)
    assert topologies.get("..")["vhost"] == ".."
    topologies.forget_old("/")
    assert topologies.get("/", 5) == {"vhost": "/", "since": 5}
    with pytest.raises(NotFoundError):
        topologies.get("/", 2)
    with pytest.raises(NotFoundError):
        topologies.get("other")
    with pytest.raises(BadRequestError):
        topologies.request("/", 5, 5, "ann")


def test_a_route_names_whose_messages_it_has() -> None:
    facts = {"exchange": "shop", "recorded_at": 1, "answered": None, "user": "fraud"}
    event = {**facts, "type": 0, "routed_queues": '["billing"]'}
    assert FlowRow("routes", "fraud", "shop", "billing") in [*flows_of(event)]
