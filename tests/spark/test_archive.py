"""Archived events make the same chains as before they were archived, intervals reused or not."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from pyspark.sql import SparkSession

from model.exports import FORMATS, ChainSummary
from model.jobs import Problem, Progress
from model.sound import AssumedParticipant, Late, Misfit, Soundness, doubts_of
from model.words import Via
from spark_jobs.chain import ChainRequest, run
from spark_jobs.chains.in_memory import chain_of
from spark_jobs.errors import JobError
from spark_jobs.events.archive import Archive
from spark_jobs.kinds import run_job
from spark_jobs.progress import Report, silent
from spark_jobs.spark.database import DatabaseAddress
from tests.spark.histories import NOON, History, random_history
from tests.spark.test_following import span_between

CUT = 240
DAY = 86_400_000_000


@dataclass(frozen=True)
class Pruned:
    """A history whose first events were archived and then pruned."""

    history: History
    url: str
    archives: Path
    whole: str = ""  # a copy in which nothing was pruned


def history_with_reuse(rng: random.Random) -> History:
    """Two halves; those that take no part in the second gave their intervals to others."""
    history = random_history(rng, CUT, present=8, churn=0.05)
    first = [actor for actor in history.actors[1] if actor.events]
    staying, leaving = first[:3], first[3:]
    crossing = [history.publish(actor) for actor in staying]
    for actor in staying:  # deliveries that were stored before their publish was pruned
        history.receive(actor, rng.choice(crossing))
    for actor in leaving:
        history.leave(actor)
    acting = [*staying, *(history.join() for _ in range(6))]
    published: list[int] = []
    for _ in range(240):
        actor = rng.choice(acting)
        if published and rng.random() < 0.6:
            history.receive(actor, rng.choice(published[-10:]))
        else:
            published.append(history.publish(actor))
    for row in history.rows:  # three days
        row["recorded_at"] = NOON + row["id"] * DAY // 200
    return history


def prune(path: Path, through: int) -> None:
    """What retention does to the tables that chains read."""
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM events WHERE id <= ?", (through,))
        connection.execute("UPDATE traces SET pruned = true")
        connection.execute("DELETE FROM participants WHERE last_event_id <= ?", (through,))
        connection.execute(
            "DELETE FROM channels WHERE participant NOT IN (SELECT number FROM participants)"
        )
        connection.execute("DELETE FROM late_edges WHERE effect_id <= ?", (through,))
        connection.execute("DELETE FROM blocks WHERE (number + 1) * 4096 <= ?", (through,))


def archive(
    spark: SparkSession, url: str, archives: Path, before: int, report: Report = silent
) -> dict[str, object]:
    request = {"vhost": "/", "before": before, "archives": str(archives)}
    return run_job(spark, url, "archive", request, report)


@pytest.fixture(scope="module")
def pruned(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Pruned:
    folder = tmp_path_factory.mktemp("archive")
    history = history_with_reuse(random.Random(3))
    intervals = [actor.interval for actor in history.actors[1]]
    assert len(set(intervals)) < len(intervals), "nothing was reused"
    url = history.write(folder / "store.db")
    first = archive(spark, url, folder / "archives", NOON + DAY // 2)
    second = archive(spark, url, folder / "archives", NOON + CUT * DAY // 200 + 1)
    assert first["events"] == 99
    assert (first["through"], second["through"]) == (99, CUT)
    prune(folder / "store.db", CUT)
    return Pruned(history, url, folder / "archives")


@pytest.fixture(scope="module")
def plain(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Pruned:
    """Nobody has gone, so clocks say the same before and after."""
    folder = tmp_path_factory.mktemp("plain")
    history = random_history(random.Random(11), 480, present=5, churn=0)
    for row in history.rows[::7]:
        row["doubtful"] = row["type"] == 1
    whole, url = history.write(folder / "whole.db"), history.write(folder / "store.db")
    archive(spark, url, folder / "archives", history.rows[CUT]["recorded_at"])
    prune(folder / "store.db", CUT)
    return Pruned(history, url, folder / "archives", whole)


Export = Callable[..., ChainSummary]


@pytest.fixture
def export(spark: SparkSession, pruned: Pruned, tmp_path: Path) -> Export:
    def exported(first: int, last: int, format: str = "jsonl") -> ChainSummary:
        request = ChainRequest(
            DatabaseAddress.from_url(pruned.url),
            first,
            last,
            tmp_path / f"chain.{format}",
            FORMATS[format],
            archives=pruned.archives,
        )
        return run(spark, request)

    return exported


def crossing(pruned: Pruned, rng: random.Random) -> tuple[int, int]:
    """An archived event, and a stored one that it led to."""
    last = rng.randrange(CUT + 60, len(pruned.history.rows) + 1)
    firsts = [each for each in pruned.history.past[last] if each <= CUT]
    return rng.choice(firsts), last


def test_following_events_gives_the_truth(pruned: Pruned) -> None:
    """Without Spark: every pair of a sample, where clocks would be wrong after reuse."""
    rng, history = random.Random(5), pruned.history
    for _ in range(300):
        first, last = sorted(rng.sample(range(1, len(history.rows) + 1), 2))
        span = span_between(history, first, last)
        assert set(span.ids[chain_of(span, Via.any)].tolist()) == history.chain(first, last)


def test_a_chain_over_archived_and_stored_events_is_whole(
    pruned: Pruned, export: Export, tmp_path: Path
) -> None:
    rng = random.Random(7)
    for _ in range(5):
        first, last = crossing(pruned, rng)
        summary = export(first, last)
        assert summary.plan.form == "followed"
        assert summary.relation.name == "before"
        assert summary.events == len(pruned.history.chain(first, last))


# In an ordinary run every other format, and the ones between in `test_evident.py`.
@pytest.mark.parametrize(
    "format",
    [
        pytest.param(name, marks=pytest.mark.long(2) if number % 2 else ())
        for number, name in enumerate(FORMATS)
    ],
)
def test_the_file_is_the_one_of_before_archiving(
    spark: SparkSession, plain: Pruned, tmp_path: Path, format: str
) -> None:
    first, last = 20, max(range(CUT + 50, 480), key=lambda each: len(plain.history.past[each]))
    assert len(plain.history.chain(first, last)) > 50
    digests = set()
    for url, archives in ((plain.whole, None), (plain.url, plain.archives)):
        database, target = DatabaseAddress.from_url(url), tmp_path / f"chain.{format}"
        request = ChainRequest(database, first, last, target, FORMATS[format], archives=archives)
        digests.add(run(spark, request).sha256)
    assert len(digests) == 1


def test_an_archive_remembers_what_made_answers_doubtful(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The participants that showed it are gone; what was quiet is counted in both parts."""
    history = History()
    consumer, publisher = history.join(), history.join()
    history.receive(consumer, None)
    for each in range(30):
        history.publish(publisher, quiet=each in (3, 25))
    url = history.write(tmp_path / "store.db")
    with sqlite3.connect(tmp_path / "store.db") as connection:
        connection.execute("UPDATE participants SET user = 'shop'")
        connection.execute("UPDATE participants SET assumed = 1, name = 'me' WHERE number = 1")
        connection.execute("UPDATE participants SET last_event_id = 2 WHERE number = 1")
    archive(spark, url, tmp_path / "archives", history.rows[20]["recorded_at"])
    prune(tmp_path / "store.db", 20)

    misfit = Misfit("/", "channel", 30, 30)
    told = {}
    for first in (2, 3):
        request = ChainRequest(
            DatabaseAddress.from_url(url), first, 31, tmp_path / "chain.jsonl", FORMATS["jsonl"],
            archives=tmp_path / "archives",
        )  # fmt: skip
        told[first] = run(spark, request).soundness

    assert told[2] == Soundness(doubts_of([AssumedParticipant(1, "me", 1, 2)], misfit), 2)
    assert told[3] == Soundness(doubts_of([], misfit), 2)


def test_an_archive_remembers_the_links_that_clocks_do_not_have(
    spark: SparkSession, tmp_path: Path
) -> None:
    """One ends in the archive, one leads from it into the store, one is within the store.

    A fourth is found when its events are archived, and not pruned yet.
    """
    history = History()
    actor = history.join()
    for _ in range(30):
        history.publish(actor)
    url = history.write(tmp_path / "store.db")
    note_late(tmp_path / "store.db", [(15, 5), (25, 10), (28, 24)])
    archive(spark, url, tmp_path / "archives", history.rows[20]["recorded_at"])
    note_late(tmp_path / "store.db", [(19, 18)])

    def doubts(first: int, last: int) -> tuple[str, ...]:
        request = ChainRequest(
            DatabaseAddress.from_url(url), first, last, tmp_path / "chain.jsonl", FORMATS["jsonl"],
            archives=tmp_path / "archives",
        )  # fmt: skip
        return tuple(each.statement for each in run(spark, request).soundness.doubts)

    before = doubts(3, 30)
    prune(tmp_path / "store.db", 16)
    assert doubts(3, 30) == before == (said_late(4),)
    assert doubts(6, 30) == (said_late(3),)
    assert doubts(3, 15) == (said_late(1),)
    assert doubts(3, 14) == ()
    assert doubts(11, 23) == (said_late(1),)
    prune(tmp_path / "store.db", 20)  # with what is known of the fourth
    assert doubts(6, 30) == (said_late(2),)


def note_late(path: Path, pairs: list[tuple[int, int]]) -> None:
    with sqlite3.connect(path) as connection:
        connection.executemany("INSERT INTO late_edges VALUES (1, ?, ?)", pairs)


def said_late(links: int) -> str:
    (doubt,) = doubts_of([], None, late=Late("/", links))
    return doubt.statement


def test_a_chain_within_the_archive(pruned: Pruned, export: Export) -> None:
    last = max(range(1, CUT + 1), key=lambda each: len(pruned.history.past[each]))
    first = min(pruned.history.past[last])
    assert export(first, last).events == len(pruned.history.chain(first, last))
    assert export(last, first).relation.name == "after"


def test_concurrent_events_over_the_border(pruned: Pruned, export: Export) -> None:
    last = CUT + 30
    first = next(each for each in range(1, CUT) if each not in pruned.history.past[last])
    summary = export(first, last)
    assert (summary.relation.name, summary.file) == ("concurrent", None)


def test_what_is_behind_a_doubtful_delivery_is_unknown_from_archives_too(
    spark: SparkSession, plain: Pruned, tmp_path: Path
) -> None:
    history, seen = plain.history, set[str]()
    for first in range(CUT - 12, CUT):
        for last in (CUT - 1, CUT + 4):
            if first >= last or first in history.past[last]:
                continue
            request = ChainRequest(
                DatabaseAddress.from_url(plain.url), first, last, tmp_path / "chain.jsonl",
                FORMATS["jsonl"], archives=plain.archives,
            )  # fmt: skip
            answer = run(spark, request).answer
            is_behind = history.is_behind_doubtful(first, last)
            assert answer == ("unknown" if is_behind else "cannot have")
            seen.add(answer)
    assert seen == {"unknown", "cannot have"}


def test_clocks_tell_nothing_of_participants_that_are_not_stored_any_more(
    pruned: Pruned, export: Export
) -> None:
    gone = {row["participant"] for row in pruned.history.rows[:CUT]} - {
        row["participant"] for row in pruned.history.rows[CUT:]
    }

    def of_gone(first: int, last: int) -> bool:
        chain = pruned.history.chain(first, last)
        return any(pruned.history.rows[each - 1]["participant"] in gone for each in chain)

    rng = random.Random(1)
    first, last = next(ends for _ in range(500) if of_gone(*(ends := crossing(pruned, rng))))
    with pytest.raises(JobError, match="not stored any more") as caught:
        export(first, last, "shiviz")
    assert caught.value.problem is Problem.bad_request
    assert export(first, last, "mmd").file, "their names are in the archive"


def test_an_id_in_neither_place_is_unknown(pruned: Pruned, export: Export) -> None:
    with pytest.raises(JobError, match="no event 99999"):
        export(5, 99_999)
    with pytest.raises(JobError, match="same"):
        export(5, 5)


def test_the_archive_is_partitioned_by_day_and_read_by_others(pruned: Pruned) -> None:
    folder = Archive.of_vhost(pruned.archives, "/", 1).folder
    table = ds.dataset(str(folder), partitioning="hive", exclude_invalid_files=True).to_table()
    days = set(table.column("day").to_pylist())
    assert days == {"2026-01-01", "2026-01-02"}
    assert sorted(table.column("id").to_pylist()) == list(range(1, CUT + 1))


def test_an_archive_of_another_store_is_left_alone(spark: SparkSession, tmp_path: Path) -> None:
    """A store restored from a backup gives the same ids to other events."""
    archives = tmp_path / "archives"
    one, other = (random_history(random.Random(seed), 60, 3, 0.1) for seed in (1, 2))
    for row in other.rows:
        row["recorded_at"] += 7
    archive(spark, one.write(tmp_path / "one.db"), archives, NOON + DAY)
    url = other.write(tmp_path / "other.db")
    with pytest.raises(JobError, match="of another store") as caught:
        archive(spark, url, archives, NOON + DAY)
    assert caught.value.problem is Problem.bad_request
    prune(tmp_path / "other.db", 30)
    request = ChainRequest(
        DatabaseAddress.from_url(url),
        5,
        50,
        tmp_path / "c.jsonl",
        FORMATS["jsonl"],
        archives=archives,
    )
    with pytest.raises(JobError, match="of another store"):
        run(spark, request)
    assert not (tmp_path / "c.jsonl").exists()


def test_a_cut_file_is_noticed(spark: SparkSession, tmp_path: Path) -> None:
    url = random_history(random.Random(4), 60, 3, 0.1).write(tmp_path / "s.db")
    archive(spark, url, tmp_path / "archives", NOON + DAY)
    found = Archive.of_vhost(tmp_path / "archives", "/", 1)
    assert found.is_whole
    file = found.folder / found.parts[0].file
    file.write_bytes(file.read_bytes()[:-1])
    assert not found.is_whole


def test_nothing_more_to_archive_is_said(spark: SparkSession, pruned: Pruned) -> None:
    again = archive(spark, pruned.url, pruned.archives, NOON)
    assert (again["events"], again["through"]) == (0, CUT)


def test_an_archive_that_breaks_off_holds_what_it_held(spark: SparkSession, tmp_path: Path) -> None:
    url = random_history(random.Random(2), 300, present=3, churn=0.1).write(tmp_path / "s.db")

    def stop(progress: Progress) -> None:
        if progress.rows_read:
            raise JobError(Problem.cancelled, "The job was cancelled.")

    with pytest.raises(JobError, match="cancelled"):
        archive(spark, url, tmp_path / "archives", NOON + DAY, stop)
    assert Archive.of_vhost(tmp_path / "archives", "/", 1).through == 0
    assert archive(spark, url, tmp_path / "archives", NOON + DAY)["events"] == 300
    folder = Archive.of_vhost(tmp_path / "archives", "/", 1).folder
    assert not list(folder.glob(".part-*"))
