"""Races and inversions against every pair of a random history, looked at one by one."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

from app.errors import BadRequestError, NotFoundError
from app.jobs.reports import ReportKind, Reports, check_key
from spark_jobs.kinds import run_job
from spark_jobs.progress import silent
from spark_jobs.reports import ordering
from spark_jobs.reports.order import key_of
from spark_jobs.reports.ordering import MessagePairs, Messages, inversions, races
from tests.spark.histories import NOON, History

QUEUES = ("work", "audit")
END = NOON + 10_000_000


def orders(seed: int, size: int = 300, present: int = 4) -> History:
    """Publishes of a few customers' orders into two queues, which keep no order."""
    dice = random.Random(seed)
    history = History()
    actors = [history.join() for _ in range(present)]
    waiting: list[tuple[int, str]] = []
    while len(history.rows) < size:
        actor = dice.choice(actors)
        if waiting and dice.random() < 0.6:
            cause, queue = waiting.pop(dice.randrange(min(len(waiting), 5)))
            if dice.random() < 0.1:  # another reader, or a message that comes back
                history.receive(actor, cause, queue=queue, match=dice.choice((1, 2)))
            customer = history.rows[cause - 1]["properties"]
            history.receive(actor, cause, queue=queue, properties=customer)
            continue
        queues = dice.sample(QUEUES, dice.choice((1, 1, 2)))
        customer = dice.choice(("ann", "bob", None))
        headers = {} if customer is None else {"customer": customer}
        event = history.publish(
            actor,
            routed_queues=json.dumps(queues),
            properties=json.dumps({"headers": headers}),
            quiet=dice.random() < 0.05,
        )
        waiting += [(event, queue) for queue in queues]
    return history


def judged(history: History, report: str, by_customer: bool) -> set[tuple[str, int, int]]:
    """(queue, a, b) of every pair, by the definition alone."""
    found = set()
    published = [row for row in history.rows if row["type"] == 0 and not row["quiet"]]
    handed: dict[tuple[int, str], int] = {}
    for row in history.rows:
        if row["type"] == 1 and row["match"] == 1:
            handed.setdefault((row["cause_id"], row["queue"]), row["id"])
    for a, b in combinations(published, 2):
        if by_customer:
            whose = [json.loads(each["properties"])["headers"].get("customer") for each in (a, b)]
            if whose[0] is None or whose[0] != whose[1]:
                continue
        is_before = a["id"] in history.past[b["id"]]
        for queue in {*json.loads(a["routed_queues"])} & {*json.loads(b["routed_queues"])}:
            first, second = (handed.get((each["id"], queue), 0) for each in (a, b))
            is_late = is_before and 0 < second < first
            if is_late if report == "inversions" else not is_before:
                found.add((queue, a["id"], b["id"]))
    return found


@pytest.mark.parametrize("report", [ReportKind.races, ReportKind.inversions])
@pytest.mark.parametrize("key", [None, "header.customer"])
def test_a_report_has_every_pair_and_no_other(
    spark: SparkSession, tmp_path: Path, report: ReportKind, key: str | None
) -> None:
    history = orders(seed=3)
    truth = judged(history, report, key is not None)
    assert len(truth) > 2
    reports = Reports(tmp_path / "reports")
    request = reports.request(report, "/", 0, END, "ann", {"key": key})
    run_job(spark, history.write(tmp_path / "a.db"), "report", request.work, silent)
    found = reports.get(request.work["id"])
    assert (found["count"], found["counted_all"]) == (len(truth), True)
    groups = {group["queue"]: group["count"] for group in found["groups"]}
    assert groups == Counter(queue for queue, *_ in truth)
    items = {(item["queue"], item["a"], item["b"]) for item in found["items"]}
    assert items
    assert items <= truth
    assert found["truncated"] == (len(found["items"]) < len(truth))
    [facts] = reports.newest()
    assert facts == {
        name: value for name, value in found.items() if name not in ("items", "groups", "truncated")
    }
    for item in found["items"]:
        a = history.rows[item["a"] - 1]
        assert item["a_by"]["number"] == a["participant"]
        assert item["a_by"]["name"].startswith(f"user{a['participant']} ")
        if report is ReportKind.inversions:
            assert item["handed_b"] < item["handed_a"]
            assert len(item["participants"]) in (1, 2)


def messages_of(history: History, queue: str) -> Messages:
    """The publishes into a queue, as columns."""
    rows = [
        row
        for row in history.rows
        if row["type"] == 0 and not row["quiet"] and queue in json.loads(row["routed_queues"])
    ]
    handed: dict[int, int] = {}
    for row in history.rows:
        if row["type"] == 1 and row["match"] == 1 and row["queue"] == queue:
            handed.setdefault(row["cause_id"], row["id"])

    def column(name: str) -> Any:
        return np.array([row[name] for row in rows], dtype=np.int64)

    return Messages(
        column("id"),
        column("participant"),
        column("height"),
        [row["clock"] for row in rows],
        {actor.number: actor.interval for actor in history.actors[1]},
        np.array([handed.get(row["id"], 0) for row in rows], dtype=np.int64),
    )


@pytest.mark.parametrize("seed", range(20))
def test_what_is_counted_is_what_pairs_say(seed: int) -> None:
    history = orders(seed, size=120, present=1 + seed % 6)
    for report, count in (("races", races), ("inversions", inversions)):
        truth = judged(history, report, by_customer=False)
        for queue in QUEUES:
            messages = messages_of(history, queue)
            found = count(messages)
            meant = {(a, b) for where, a, b in truth if where == queue}
            assert (found.count, found.counted_all) == (len(meant), True)
            assert {*shown(found, messages)} <= meant
            assert bool(found.shown) == bool(meant)


def shown(pairs: MessagePairs, messages: Messages) -> Iterator[tuple[int, int]]:
    for pair in pairs.shown:
        yield int(messages.ids[pair.a]), int(messages.ids[pair.b])


@pytest.mark.parametrize("count", [races, inversions])
def test_what_would_take_too_long_is_said_to_be_a_part(
    monkeypatch: pytest.MonkeyPatch, count: Any
) -> None:
    messages = messages_of(orders(seed=3), "work")
    whole = count(messages)
    monkeypatch.setattr(ordering, "MOST_LOOKS", 40)
    part = count(messages)
    assert not part.counted_all
    assert part.count < whole.count


def test_a_key_is_a_text_or_a_number_of_the_message() -> None:
    event = {
        "properties": '{"message_id": "m", "headers": {"n": 7, "list": [1], "e": ""}}',
        "payload": b'{"order": "1234", "nested": {}}',
        "routing_keys": '["eu", "us"]',
    }
    found = {
        key: key_of(event, key)
        for key in (
            "message_id",
            "correlation_id",
            "routing_key",
            "header.n",
            "header.list",
            "header.e",
            "body.order",
            "body.nested",
        )
    }
    assert found == {
        "message_id": "m",
        "correlation_id": None,
        "routing_key": "eu",
        "header.n": "7",
        "header.list": None,
        "header.e": None,
        "body.order": "1234",
        "body.nested": None,
    }
    for body in (None, b"", b"[1]", b"\xff", b'{"order": "12'):
        assert key_of({**event, "payload": body}, "body.order") is None


def test_reports_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    reports = Reports(tmp_path)
    with pytest.raises(BadRequestError, match="since must be before until"):
        reports.request(ReportKind.races, "/", 5, 5, "ann", {"key": None})
    for key in ("header.", "payload", ""):
        with pytest.raises(BadRequestError, match="key: expected"):
            check_key(key)
    with pytest.raises(NotFoundError):
        reports.get("0123456789abcdef")
    assert reports.newest() == []
