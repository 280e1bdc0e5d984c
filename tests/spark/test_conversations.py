"""Conversations of a period, brought together, against a walk over all pairs of a history."""

from __future__ import annotations

import asyncio
import json
import random
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from model.conversations.deliveries import How
from model.gaps import Gap
from model.times import Microseconds
from model.words import Disposition, EdgeKind, EventType, Via
from spark_jobs.reports import conversations, period
from spark_jobs.reports.conversations import (
    COLUMNS,
    connected_components,
    conversation_of_rows,
    conversations_in,
)
from spark_jobs.reports.conversations_job import conversation_events
from spark_jobs.spark.database import DatabaseAddress
from tests.spark.histories import NOON, History, Link

QUEUE = json.dumps(["work"])


def orders(seed: int, size: int = 400) -> History:
    """Orders that participants hand on: by a link, by a shared key alone, or by neither."""
    dice = random.Random(seed)
    history = History(pasts=False)
    actors = [history.join() for _ in range(4)]
    waiting: list[tuple[int, str]] = []
    while len(history.rows) < size:
        actor = dice.choice(actors)
        order, links = f"order {len(history.rows)}", list[Link]()
        if waiting and dice.random() < 0.9:
            message, order = waiting.pop(dice.randrange(len(waiting)))
            acts = [
                Link.act(dice.randint(1, len(history.rows)), kind)
                for kind in (EdgeKind.rejected, EdgeKind.overflow)
                if dice.random() < 0.02
            ]
            delivery = history.receive(actor, message, shared=[order], links=acts)
            if dice.random() < 0.4:
                continue
            if dice.random() < 0.6:
                links = [Link(delivery)]
                if dice.random() < 0.1:  # it answers another one too
                    links.append(Link(dice.randrange(1, delivery), "reply", EdgeKind.reply))
        shared = [order] if dice.random() < 0.9 else []
        event = history.publish(actor, links=links, shared=shared, quiet=dice.random() < 0.03)
        waiting.append((event, order))
    return history


def judged(history: History, via: Via, first: int, last: int) -> set[frozenset[int]]:
    """The conversations that began from ``first`` to ``last``, by walking from each event."""
    steps: defaultdict[int, set[int]] = defaultdict(set)

    def joined(a: int, b: int) -> None:
        steps[a].add(b)
        steps[b].add(a)

    loud = {row["id"] for row in history.rows if not row["quiet"]}
    by_key: defaultdict[str, list[int]] = defaultdict(list)
    for row in history.rows:
        if row["id"] not in loud:
            continue
        causes = [row["cause_id"]]
        for link in history.links.get(row["id"], ()):
            if link.kind is not EdgeKind.overflow:  # else all that went through a full queue
                causes.append(link.cause)
        for cause in causes:
            if cause is not None and (cause in loud or cause < first):
                joined(cause, row["id"])
        for key in history.shared[row["id"]]:
            by_key[key].append(row["id"])
    if via is Via.conversation:
        for sharing in by_key.values():
            for event in sharing[1:]:
                joined(sharing[0], event)
    found, seen = set(), set[int]()
    for start in range(first, last + 1):
        if start not in loud or start in seen:
            continue
        reached, left = {start}, [start]
        while left:
            at = left.pop()
            # What was before the period says that a conversation began there, and joins nothing.
            for event in steps[at] - reached if at >= first else ():
                reached.add(event)
                left.append(event)
        seen |= reached
        if min(reached) >= first:
            found.add(frozenset(reached))
    return found


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def stored(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[History, DatabaseAddress]:
    history = orders(seed=4)
    if request.param == "sqlite":
        return history, DatabaseAddress.from_url(
            history.write(tmp_path_factory.mktemp("told") / "a.db")
        )
    url: str = request.getfixturevalue("postgres_module_url")
    asyncio.run(history.write_postgres(url))
    return history, DatabaseAddress.from_url(url)


@pytest.mark.parametrize("via", [Via.links, Via.conversation])
def test_conversations_are_brought_together_whole(
    spark: SparkSession, stored: tuple[History, DatabaseAddress], via: Via
) -> None:
    history, database = stored
    first, last = 41, 300
    since, until = NOON + 1000 * first, NOON + 1000 * last + 1
    with period.open_period(database, "/", since, until) as opened:
        # Blocks of ids are no exact bounds: these are.
        exact = period.Period(
            "/", since, until, opened.trace, (first, last), [], opened.sound, opened.history
        )
        frame = conversation_events(spark, database, exact, via)
        assert frame is not None
        rows = frame.mapInArrow(_rows_of(via), "root bigint, ids string").collect()
    found = {frozenset(json.loads(row["ids"])) for row in rows}
    expected = judged(history, via, first, last)
    assert len(expected) > 20
    assert found == expected
    assert all(row["root"] == min(json.loads(row["ids"])) for row in rows)


def _rows_of(via: Via) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for one in conversations_in(batches, via):
            row = {"root": one.conversation.root, "ids": json.dumps(sorted(one.rows))}
            yield pa.RecordBatch.from_pylist([row])

    return rows


def test_nothing_is_gathered_from_a_time_without_events(
    spark: SparkSession, tmp_path: Path
) -> None:
    database = DatabaseAddress.from_url(orders(seed=4, size=20).write(tmp_path / "a.db"))
    with period.open_period(database, "/", 5, 6) as opened:
        assert conversation_events(spark, database, opened, Via.links) is None


def test_a_copy_that_is_gone_does_not_wait(spark: SparkSession, tmp_path: Path) -> None:
    history = History(pasts=False)
    client = history.join()
    for _ in range(3):
        history.publish(client)
    url = history.write(tmp_path / "a.db")
    with sqlite3.connect(tmp_path / "a.db") as connection:
        lost = [(1, 2, "work", NOON, "queue_deleted"), (1, 3, "work", NOON, "left")]
        connection.executemany("INSERT INTO lost_copies VALUES (?, ?, ?, ?, ?)", lost)
    database = DatabaseAddress.from_url(url)
    with period.open_period(database, "/", NOON, NOON + 1_000_000) as opened:
        frame = conversation_events(spark, database, opened, Via.links)
        assert frame is not None
        rows = frame.mapInArrow(_states, "root bigint, state string, outcome string").collect()
    assert sorted((row["root"], row["state"], row["outcome"]) for row in rows) == [
        (1, "waiting", "waiting"),
        (2, "gone", "failed"),
        (3, "gone", "unknown"),
    ]


def _states(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for one in conversations_in(batches, Via.links):
        [message] = one.conversation.messages
        row = {"root": one.conversation.root, "state": message.copies[0].state}
        yield pa.RecordBatch.from_pylist([{**row, "outcome": message.outcome.value}])


def test_what_waits_for_two_messages_and_names_one_leaves_the_others_end_unknown(
    spark: SparkSession, tmp_path: Path
) -> None:
    history = History(pasts=False)
    client, worker = history.join(), history.join()
    messages = [history.publish(client) for _ in range(2)]
    taken = Disposition.acknowledged
    deliveries = [history.receive(worker, each, settlement=taken) for each in messages]
    both = history.publish(worker, links=[Link(deliveries[1])])
    history.receive(client, both, settlement=taken)
    database = DatabaseAddress.from_url(history.write(tmp_path / "a.db"))
    with period.open_period(database, "/", NOON, NOON + 1_000_000) as opened:
        frame = conversation_events(spark, database, opened, Via.links)
        assert frame is not None
        rows = frame.mapInArrow(_outcomes, "root bigint, outcome string").collect()
    assert sorted((row["root"], row["outcome"]) for row in rows) == [(1, "unknown"), (2, "done")]


def _outcomes(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for one in conversations_in(batches, Via.links):
        row = {"root": one.conversation.root, "outcome": one.conversation.outcome.value}
        yield pa.RecordBatch.from_pylist([row])


def test_a_shared_key_alone_says_which_delivery_led_to_a_publish() -> None:
    history = History(pasts=False)
    client, worker = history.join(), history.join()
    first, second = (history.publish(client, shared=[key]) for key in ("a", "b"))
    history.receive(worker, first, shared=["a"])
    delivery = history.receive(worker, second, shared=["b"])
    history.receive(worker, first, shared=["a"])
    answer = history.publish(worker, shared=["b"])
    rows = {
        row["id"]: {
            **{name: row.get(name) for name in COLUMNS},
            "participant_name": "somebody",
            "links": None,
            "conversations": ",".join(history.shared[row["id"]]),
        }
        for row in history.rows
        if history.shared[row["id"]] == ["b"]
    }
    gap = Gap(1, delivery, answer, Microseconds(0), None, "lost")
    for gaps in ([], [gap]):
        own = {event_id: row.copy() for event_id, row in rows.items()}
        conversation = conversation_of_rows(second, own, Via.conversation, gaps).conversation
        assert conversation.sentence.endswith("the record has a gap then") is bool(gaps)
    [_, reply] = conversation.messages
    assert (reply.record.id, reply.record.type) == (answer, EventType.published)
    assert (reply.cause, reply.how) == (delivery, How(None, "conversation"))


def test_a_conversation_that_is_too_large_is_cut_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(conversations, "MOST_EACH", 2)
    history = History(pasts=False)
    client = history.join()
    root = history.publish(client)
    for _ in range(3):
        history.receive(client, root)
    rows = [
        {
            **{name: row.get(name) for name in COLUMNS},
            "participant_name": "x",
            "root": root,
        }
        for row in history.rows
    ]
    [one] = conversations_in([pa.RecordBatch.from_pylist(rows)], Via.links)
    assert (sorted(one.rows), one.is_cut, one.conversation.truncated) == ([1, 2], True, True)


@pytest.mark.parametrize("seed", range(20))
def test_components_are_those_of_a_search(seed: int) -> None:
    dice = random.Random(seed)
    count = dice.randrange(1, 60)
    pairs = [(dice.randrange(count), dice.randrange(count)) for _ in range(dice.randrange(80))]
    a, b = (np.array([pair[k] for pair in pairs], dtype=np.int64) for k in range(2))
    least = [*range(count)]
    for _ in range(count):
        for one, other in pairs:
            least[one] = least[other] = min(least[one], least[other])
    assert connected_components(count, a, b).tolist() == least
