"""Assertions over a period, against what a walk over each history says."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from sqlalchemy import create_engine, insert

from app.jobs.reports import ReportKind, Reports
from app.store.database.tables import gaps
from model.assertions.language import from_json, to_json
from model.words import EdgeKind, Via
from spark_jobs.kinds import run_job
from spark_jobs.progress import silent
from tests.spark.histories import NOON, History, Link

SECOND = 1_000_000
END = NOON + 3_600 * SECOND


def typed(name: str, **headers: str) -> dict[str, str]:
    return {"properties": json.dumps({"type": name, "headers": headers})}


def orders(seed: int, count: int = 60) -> tuple[History, dict[str, set[int]]]:
    """Orders to be approved, shipped and invoiced; and which events are not as they should be.

    An order's steps are linked. Now and then the invoice is missing or late, or something is
    shipped before, or without, its approval; refunds may race with captures of the same order.
    """
    dice = random.Random(seed)
    history = History()
    shop, office, stock = (history.join() for _ in range(3))
    wrong: dict[str, set[int]] = {"late": set(), "unapproved": set(), "racing": set()}
    at = NOON

    def step(name: str, by: Any, cause: int | None, order: str) -> int:
        """A message that a delivery led to, and its delivery."""
        links = [] if cause is None else [Link(cause)]
        return history.publish(by, links=links, recorded_at=at, **typed(name, order=order))

    for number in range(count):
        order, fault = f"o-{number}", dice.choice(("", "", "missing", "late", "unapproved"))
        at += 100 * SECOND
        first = step("order.new", shop, None, order)
        handed = history.receive(office, first, recorded_at=at, **typed("order.new"))
        if fault == "unapproved":
            shipped = step("ship", office, handed, order)
            wrong["unapproved"].add(
                history.receive(stock, shipped, recorded_at=at, **typed("ship"))
            )
        else:
            approved = step("approve", office, handed, order)
            told = history.receive(stock, approved, recorded_at=at, **typed("approve"))
            shipped = step("ship", stock, told, order)
            history.receive(office, shipped, recorded_at=at, **typed("ship"))
        if fault in ("missing", "late"):
            wrong["late"].add(first)
        if fault != "missing":
            at += 40 * SECOND if fault == "late" else 10 * SECOND
            step("invoice", office, handed, order)
        if dice.random() < 0.3:
            shops, offices = step("refund", shop, None, order), step("capture", office, None, order)
            if shops not in history.past[offices]:
                wrong["racing"].add(offices)
    return history, wrong


ASSERTIONS = [
    {"name": "late", "every": "order.*", "leads_to": "invoice", "within": "30s"},
    {"name": "unapproved", "every": "ship", "after": "approve"},
    {"name": "racing", "never_concurrent": ["refund", "capture"], "per": "header.order"},
    {"name": "storm", "no": "*", "causes_more_than": 3},
    {"name": "typo", "every": "odrer.new", "leads_to": "invoice"},
]


def judged(
    spark: SparkSession,
    folder: Path,
    url: str,
    asserted: list[dict[str, Any]],
    via: Via = Via.links,
) -> dict[str, Any]:
    reports = Reports(folder / "reports")
    asked = {"via": via.value, "assertions": [to_json(from_json(each)) for each in asserted]}
    request = reports.request(ReportKind.assertions, "/", 0, END * 2, "ann", asked)
    run_job(spark, url, "report", request.work, silent)
    found = reports.get(request.work["id"])
    return {"all": found, **{each["assertion"]["name"]: each for each in found["results"]}}


def events(result: dict[str, Any], verdict: str = "violated") -> set[int]:
    return {each["event"] for each in result["items"] if each["verdict"] == verdict}


@pytest.mark.parametrize("seed", range(2))
def test_what_does_not_hold_is_found_and_nothing_else(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    history, wrong = orders(seed)
    found = judged(spark, tmp_path, history.write(tmp_path / "a.db"), ASSERTIONS)
    for name, expected in wrong.items():
        assert expected, name
        assert events(found[name]) == expected
        assert (found[name]["verdict"], found[name]["violated"]) == ("violated", len(expected))
    assert (found["storm"]["verdict"], found["storm"]["unknown"]) == ("holds", 0)
    assert found["typo"]["verdict"] == "unknown"
    assert "no message of this type" in found["typo"]["why"]
    assert found["all"]["verdict"] == "violated"
    assert (found["all"]["holds"], found["all"]["violated"], found["all"]["unknown"]) == (1, 3, 1)


def test_what_a_gap_may_hide_is_unknown(spark: SparkSession, tmp_path: Path) -> None:
    history, wrong = orders(3)
    url = history.write(tmp_path / "a.db")
    first = min(wrong["late"])
    at = history.rows[first - 1]["recorded_at"]
    with create_engine(f"sqlite:///{tmp_path / 'a.db'}").begin() as connection:
        connection.execute(
            insert(gaps).values(
                id=1,
                trace_id=1,
                after_event_id=first,
                before_event_id=first + 1,
                since=at + SECOND,
                until=at + 2 * SECOND,
                reason="lost",
                suspected=False,
            )
        )
    found = judged(spark, tmp_path, url, ASSERTIONS)
    assert events(found["late"], "unknown") == {first}
    assert events(found["late"]) == wrong["late"] - {first}
    # What seems to have begun after it may have been led to by what was lost.
    assert found["unapproved"]["violated"] == len(
        [each for each in wrong["unapproved"] if each < first]
    )
    # What is called concurrent rests on a complete record; and of what holds there may be more.
    assert found["racing"]["verdict"] == "unknown"
    assert events(found["racing"], "unknown") == wrong["racing"]
    assert found["storm"]["verdict"] == "unknown"
    assert found["storm"]["unknown"]  # more may have been caused


@pytest.mark.parametrize("sign", ["doubtful", "equal"])
def test_what_may_have_been_led_to_without_a_sign_is_unknown(
    spark: SparkSession, tmp_path: Path, sign: str
) -> None:
    history, wrong = orders(3)
    first = min(wrong["late"])
    if sign == "doubtful":
        delivery = next(row for row in history.rows[first:] if row["type"] == 1)
        delivery["doubtful"] = True
    else:
        history.links[first + 1] = [Link(first, "equal", EdgeKind.candidate)]
    found = judged(spark, tmp_path, history.write(tmp_path / "a.db"), ASSERTIONS)
    assert events(found["late"], "unknown") == {first}
    assert events(found["late"]) == wrong["late"] - {first}
    assert events(found["unapproved"]) == wrong["unapproved"]
    assert found["storm"]["verdict"] == "unknown"


@pytest.mark.parametrize("is_doubtful", [False, True])
def test_what_is_behind_a_doubtful_delivery_may_not_be_concurrent(
    spark: SparkSession, tmp_path: Path, is_doubtful: bool
) -> None:
    history = History()
    a, b = history.join(), history.join()
    history.publish(a, **typed("refund", order="o"))
    history.receive(b, None, doubtful=is_doubtful)
    racing = history.publish(b, **typed("capture", order="o"))
    asserted = {"name": "a", "never_concurrent": ["refund", "capture"], "per": "header.order"}
    found = judged(spark, tmp_path, history.write(tmp_path / "a.db"), [asserted])["a"]
    assert events(found, "unknown" if is_doubtful else "violated") == {racing}
    assert ("was not seen" in found["items"][0]["sentence"]) is is_doubtful


def test_what_clocks_do_not_rule_out_holds(spark: SparkSession, tmp_path: Path) -> None:
    history, _ = orders(4)
    asserted = {"name": "a", "every": "ship", "after": "approve", "evidence": "may_have"}
    found = judged(spark, tmp_path, history.write(tmp_path / "a.db"), [asserted])["a"]
    approvals = [
        row["id"] for row in history.rows if '"approve"' in row["properties"] and row["type"] == 0
    ]
    shipped = [
        row["id"] for row in history.rows if '"ship"' in row["properties"] and row["type"] == 1
    ]
    before = {each for each in shipped if not history.past[each].isdisjoint(approvals)}
    assert events(found) == {*shipped} - before
    assert found["holds"] == len(before)


def test_a_conversations_messages_are_compared_by_its_key(
    spark: SparkSession, tmp_path: Path
) -> None:
    history = History()
    a, b = history.join(), history.join()
    order = history.publish(a, shared=["o"], **typed("order"))
    history.publish(a, shared=["o"], **typed("refund"))
    racing = history.publish(b, shared=["o"], **typed("capture"))
    history.publish(b, shared=["p"], **typed("capture"))
    asserted = {"name": "a", "never_concurrent": ["refund", "capture"]}
    url = history.write(tmp_path / "a.db")
    found = judged(spark, tmp_path, url, [asserted], Via.conversation)["a"]
    [item] = found["items"]
    assert (item["event"], item["root"], item["verdict"]) == (racing, order, "violated")


def test_of_a_time_without_events_nothing_is_known(spark: SparkSession, tmp_path: Path) -> None:
    url = orders(1, 3)[0].write(tmp_path / "a.db")
    reports = Reports(tmp_path / "reports")
    asked = {"via": "links", "assertions": ASSERTIONS}
    request = reports.request(ReportKind.assertions, "/", 5, 6, "ann", asked)
    run_job(spark, url, "report", request.work, silent)
    found = reports.get(request.work["id"])
    verdicts = [each["verdict"] for each in found["results"]]
    assert verdicts == ["unknown"] * len(ASSERTIONS)
    assert {each["why"] for each in found["results"]} == {"nothing was recorded in the period"}


def test_two_messages_that_both_patterns_fit_are_one_pair(
    spark: SparkSession, tmp_path: Path
) -> None:
    history = History()
    a, b = history.join(), history.join()
    history.publish(a, **typed("ship", order="o"))
    racing = history.publish(b, **typed("ship", order="o"))
    history.publish(b, **typed("ship", order="o"))
    asserted = {"name": "a", "never_concurrent": ["ship", "*"], "per": "header.order"}
    found = judged(spark, tmp_path, history.write(tmp_path / "a.db"), [asserted])["a"]
    assert events(found) == {racing, racing + 1}
    assert (found["violated"], found["holds"]) == (2, 1)


def test_a_body_of_which_a_part_is_stored_leaves_its_key_unknown(
    spark: SparkSession, tmp_path: Path
) -> None:
    history = History()
    a, b = history.join(), history.join()
    whole: dict[str, Any] = {"payload": b'{"order": "o"}', "payload_bytes": 14}
    cut: dict[str, Any] = {"payload": b'{"order"', "payload_bytes": 14}
    history.publish(a, **typed("refund"), **whole)
    asserted = {"name": "a", "never_concurrent": ["refund", "capture"], "per": "body.order"}
    found = judged(spark, tmp_path, history.write(tmp_path / "a.db"), [asserted])["a"]
    assert (found["verdict"], found["unknown"]) == ("holds", 0)
    racing = history.publish(b, **typed("capture"), **cut)
    found = judged(spark, tmp_path, history.write(tmp_path / "b.db"), [asserted])["a"]
    assert (found["verdict"], events(found, "unknown")) == ("unknown", {racing})


def test_every_kind_of_assertion_is_asserted() -> None:
    kinds = {type(from_json(each).requirement).__name__ for each in ASSERTIONS}
    assert kinds == {"LeadsTo", "Precedence", "NeverConcurrent", "AtMost"}


def test_what_began_before_the_period_is_not_of_it(spark: SparkSession, tmp_path: Path) -> None:
    """Though its events are in a block of ids with those of the period."""
    history, wrong = orders(3)
    late = sorted(wrong["late"])
    since = history.rows[late[1] - 1]["recorded_at"]
    reports = Reports(tmp_path / "reports")
    asked = {"via": "links", "assertions": ASSERTIONS[:1]}
    request = reports.request(ReportKind.assertions, "/", since, END * 2, "ann", asked)
    run_job(spark, history.write(tmp_path / "a.db"), "report", request.work, silent)
    [found] = reports.get(request.work["id"])["results"]
    assert events(found) == {*late[1:]}
