"""Walks through the index against the truth, and what they cost. No Spark."""

from __future__ import annotations

import asyncio
import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest

from model import ways
from model.ways import TooFarError
from model.words import Via
from spark_jobs.chains import walk
from spark_jobs.chains.in_memory import chain_of
from spark_jobs.chains.walk import Ways
from spark_jobs.reports.conversations import join_events
from spark_jobs.spark.columns import select
from spark_jobs.spark.database import Connection, DatabaseAddress
from tests.key_plans import of_keys, through_a_trace
from tests.spark.histories import History, Link, linked_history, linked_pairs

EVIDENT = (Via.links, Via.conversation)


@pytest.fixture(scope="module")
def history() -> History:
    return linked_history(random.Random(6), 500, present=5, churn=0.02)


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def database(
    request: pytest.FixtureRequest, history: History, tmp_path_factory: pytest.TempPathFactory
) -> DatabaseAddress:
    if request.param == "sqlite":
        return DatabaseAddress.from_url(
            history.write(tmp_path_factory.mktemp("walks") / "store.db")
        )
    url = request.getfixturevalue("postgres_module_url")
    asyncio.run(history.write_postgres(url))
    return DatabaseAddress.from_url(url)


@pytest.fixture
def connection(database: DatabaseAddress) -> Iterator[Connection]:
    with database.connect() as connection:
        yield connection


def walked(
    connection: Connection, ends: tuple[int, int], via: Via, most: int | None = 10_000
) -> set[int]:
    """The chain, once the walk has found what may be in it."""
    span = Ways(connection, 1, ends, via).span(most)
    return set() if span is None else set(span.ids[chain_of(span, via)].tolist())


@pytest.mark.parametrize("chunk", [2_000, 3])
def test_a_walk_finds_the_true_chain(
    connection: Connection, history: History, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walk, "CHUNK", chunk)
    sizes = dict.fromkeys(EVIDENT, 0)
    for ends in linked_pairs(random.Random(1), history, 40):
        for via in EVIDENT:
            truth = history.evident(*ends, via)
            assert walked(connection, ends, via) == truth
            assert walked(connection, ends, via, None) == truth
            assert Ways(connection, 1, ends, via).lead() == bool(truth)
            sizes[via] = max(sizes[via], len(truth))
    assert min(sizes.values()) > 5


@pytest.mark.parametrize("via", EVIDENT)
def test_a_walk_ends_at_its_bounds_and_says_so(
    connection: Connection, history: History, via: Via, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = max(
        linked_pairs(random.Random(2), history, 200),
        key=lambda each: len(history.evident(*each, via)),
    )
    whole = len(history.evident(*ends, via))
    assert whole > 5
    with pytest.raises(TooFarError):
        walked(connection, ends, via, most=2)
    assert len(walked(connection, ends, via, most=1_000)) == whole
    monkeypatch.setattr(ways, "MOST_STEPS", 2)
    with pytest.raises(TooFarError):
        walked(connection, ends, via)
    assert len(walked(connection, ends, via, None)) == whole


class Counted(Connection):
    """A connection that counts its statements and their rows."""

    statements = 0
    seen = 0

    def query(self, sql: str, batch_rows: int = 4096) -> Iterator[object]:  # type: ignore[override]
        self.statements += 1
        for batch in super().query(sql, batch_rows):
            self.seen += batch.num_rows
            yield batch


@pytest.mark.parametrize("via", EVIDENT)
def test_the_cost_is_that_of_the_answer_whatever_else_the_consumers_did(
    tmp_path: Path, via: Via
) -> None:
    costs = []
    for others in (20, 400):
        history, ends = relay(others)
        database = DatabaseAddress.from_url(history.write(tmp_path / f"{others}.db"))
        with database.connect() as plain:
            connection = Counted(database, plain._connection)
            assert walked(connection, ends, via) == history.evident(*ends, via)
        costs.append((connection.statements, connection.seen))
    assert costs[0] == costs[1]
    assert costs[0][0] < 60


def relay(others: int) -> tuple[History, tuple[int, int]]:
    """A request handed on five times, each time among as many others of the same two programs."""
    history = History(pasts=False)
    shop, billing = history.join(), history.join()
    last, links = 0, []
    received = []
    for _ in range(6):
        for number in range(others):
            sent = history.publish(shop, shared=[f"other {number}"])
            history.receive(billing, sent, shared=[f"other {number}"])
        sent = history.publish(shop, links=links, shared=["ours"])
        last = history.receive(billing, sent, shared=["ours"])
        received.append(sent)
        links = [Link(last)]
    return history, (received[0], last)


def test_keys_are_never_looked_for_through_a_trace(
    history: History, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    query = Connection.query

    def note(self: Connection, sql: str, *more: int) -> Iterator[pa.RecordBatch]:
        said.append(sql)
        return query(self, sql, *more)

    monkeypatch.setattr(Connection, "query", note)
    last = len(history.rows)
    database = DatabaseAddress.from_url(history.write(tmp_path / "store.db"))
    with database.connect() as connection:
        for ends in linked_pairs(random.Random(1), history, 10):
            Ways(connection, 1, ends, Via.conversation).span()
        join_events(connection, 1, (last // 4, last // 2), last, Via.conversation)
        [*connection.query(select(["id", "conversations"], "sqlite"))]
    with closing(sqlite3.connect(tmp_path / "store.db")) as explaining:
        plans = [
            [str(row[3]) for row in explaining.execute(f"EXPLAIN QUERY PLAN {sql}")]
            for sql in said
            if "keys" in sql
        ]
    assert len([*filter(of_keys, plans)]) > 4
    assert [each for plan in plans for each in through_a_trace(plan)] == []
