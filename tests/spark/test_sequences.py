"""Numbers that count up: keys where they are handed on, and no keys where each counts its own."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.tracker import Deliver, Publish, Record
from app.tracker.records import Channel
from bench.applications import Application
from bench.stores import VHOST, fill
from model.described import json_of
from spark_jobs.reports.look import look
from spark_jobs.spark.database import DatabaseAddress
from tests.spark.test_correlations import keys_of

NUMBER = "$message.payload#/number"
KEY = [("conversation", {NUMBER})]
MESSAGES = 300


def place(who: str) -> Channel:
    return Channel("rabbit@one", f"{who}:1 -> b", 1, who)


def publish(who: str, queue: str, number: int) -> Publish:
    body = json.dumps({"number": number}).encode()
    return Publish(place(who), "", (queue,), (queue,), {}, body)


def deliver(who: str, number: int) -> Deliver:
    return Deliver(place(who), "", (who,), who, False, {}, json.dumps({"number": number}).encode())


def handed_on(numbers: list[int], at_once: int = 1) -> Iterator[Record]:
    """A worker is handed ``at_once`` numbers, and hands them on, the last of them first."""
    for begin in range(0, len(numbers), at_once):
        batch = numbers[begin : begin + at_once]
        for number in batch:
            yield publish("front", "worker", number)
            yield deliver("worker", number)
        for number in reversed(batch):
            yield publish("worker", "mail", number)
            yield deliver("mail", number)


def counted(lag: int, jitter: int) -> Iterator[Record]:
    """A worker counts its own messages, as fast as the front does: ``lag`` behind, or about so."""
    dice = random.Random(1)
    due = [(n + lag + dice.random() * jitter - jitter / 2, n) for n in range(MESSAGES)]
    behind = sorted(moment for moment, _ in due)
    sent = 0
    for number in range(MESSAGES + lag + jitter):
        yield publish("front", "worker", number)
        yield deliver("worker", number)
        while sent < MESSAGES and behind[sent] < number:
            yield publish("worker", "mail", sent)
            yield deliver("mail", sent)
            sent += 1


def counted_at_once(at_once: int) -> Iterator[Record]:
    """A worker handles some numbers at a time and counts what it publishes."""
    for begin in range(0, MESSAGES, at_once):
        for number in range(begin, begin + at_once):
            yield publish("front", "worker", number)
            yield deliver("worker", number)
        for number in range(begin, begin + at_once):
            yield publish("worker", "mail", number)
            yield deliver("mail", number)


async def looked_at(folder: Path, records: Iterator[Record]) -> dict[str, Any]:
    await fill(f"sqlite+aiosqlite:///{folder}/events.db", records)
    report: dict[str, Any] = json_of(
        look(DatabaseAddress.from_url(f"sqlite:///{folder}/events.db"), VHOST, 50_000)
    )
    return report


@pytest.mark.parametrize("first", [1, 100_000])
@pytest.mark.parametrize("gap", [7, 20])
async def test_numbers_that_leave_some_out_and_are_handed_on_in_order_are_a_key(
    tmp_path: Path, first: int, gap: int
) -> None:
    numbers = [n for n in range(first, first + MESSAGES) if n % gap]
    assert keys_of(await looked_at(tmp_path, handed_on(numbers))) == KEY


async def test_numbers_handed_on_in_another_order_now_and_then_are_a_key(tmp_path: Path) -> None:
    records = [*handed_on([*range(100)]), *handed_on([*range(100, 130)], 3)]
    records += handed_on([*range(130, MESSAGES)])
    assert keys_of(await looked_at(tmp_path, iter(records))) == KEY


@pytest.mark.parametrize("at_once", [0.3, 0.5, 1])
async def test_order_numbers_that_services_handle_in_order_are_a_key(
    tmp_path: Path, at_once: float
) -> None:
    application = Application("order-number", MESSAGES, at_once=at_once)
    assert keys_of(await looked_at(tmp_path, application.records())) == KEY


async def test_numbers_that_leave_none_out_may_be_counted_by_each(tmp_path: Path) -> None:
    report = await looked_at(tmp_path, handed_on([*range(MESSAGES)]))
    assert keys_of(report) == []
    assert {each["why"] for each in report["refused"]} == {"counts up"}


@pytest.mark.parametrize(("lag", "jitter"), [(0, 4), (1, 1), (1, 4), (3, 2), (20, 10)])
async def test_counters_that_run_side_by_side_are_no_key(
    tmp_path: Path, lag: int, jitter: int
) -> None:
    report = await looked_at(tmp_path, counted(lag, jitter))
    assert keys_of(report) == []


@pytest.mark.parametrize("at_once", [2, 5])
async def test_a_count_of_what_several_at_a_time_led_to_is_no_key(
    tmp_path: Path, at_once: int
) -> None:
    assert keys_of(await looked_at(tmp_path, counted_at_once(at_once))) == []


async def test_numbers_of_two_producers_are_no_key(tmp_path: Path) -> None:
    def records() -> Iterator[Record]:
        for number in range(MESSAGES):
            for front in ("front", "shop"):
                yield publish(front, "worker", number)
                yield deliver("worker", number)
                yield publish("worker", "mail", number)
                yield deliver("mail", number)

    assert keys_of(await looked_at(tmp_path, records())) == []


@pytest.mark.parametrize("share", [0.05, 0.3])
async def test_a_clock_that_counts_up_is_no_key(tmp_path: Path, share: float) -> None:
    def records() -> Iterator[Record]:
        dice = random.Random(2)
        for second in range(MESSAGES):
            yield publish("front", "worker", second)
            yield deliver("worker", second)
            late = second + (dice.random() < share)
            yield publish("worker", "mail", late)
            yield deliver("mail", late)

    assert keys_of(await looked_at(tmp_path, records())) == []


async def test_counts_of_all_that_each_publishes_are_no_key(tmp_path: Path) -> None:
    """Some of which is not seen to have a number."""

    def records() -> Iterator[Record]:
        dice = random.Random(3)
        counts = {"front": 0, "worker": 0}
        for _ in range(MESSAGES):
            for who, queue in (("front", "worker"), ("worker", "mail")):
                counts[who] += 1 + (dice.random() < 0.1)
                yield publish(who, queue, counts[who])
                yield deliver(queue, counts[who])

    assert keys_of(await looked_at(tmp_path, records())) == []
