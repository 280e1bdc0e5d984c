"""The chain job on Spark, end to end on SQLite: answers, refusals, and what happens on the way."""

from __future__ import annotations

import json
import random
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from app.cli.exits import EXIT_OF_STATUS, Exit
from model.described import json_of
from model.exports import FORMATS, ChainSummary, manifest_of
from model.jobs import Problem, Progress
from model.sound import AssumedParticipant, Misfit, doubts_of
from model.words import Via
from spark_jobs.chain import EXIT_CODES, NO_CHAIN, UNDECIDED, ChainRequest, main, run
from spark_jobs.chains.plan import Form, make_plan
from spark_jobs.errors import JobError
from spark_jobs.events import slices
from spark_jobs.events.history import History as Lookups
from spark_jobs.events.slices import Slice, cut
from spark_jobs.events.slices_job import read_slices
from spark_jobs.events.source import read
from spark_jobs.progress import Report, silent
from spark_jobs.spark.database import DatabaseAddress
from tests.disks import fill, small_disk
from tests.spark.conftest import Stored
from tests.spark.histories import History, random_history

Exported = Callable[..., ChainSummary]


@pytest.fixture
def export(spark: SparkSession, tmp_path: Path) -> Exported:
    def exported(
        url: str,
        first: int,
        last: int,
        form: Form | None = None,
        report: Report = silent,
        via: Via = Via.any,
    ) -> ChainSummary:
        output = tmp_path / "exports" / f"{first}-{last}.jsonl"
        request = ChainRequest(
            DatabaseAddress.from_url(url), first, last, output, FORMATS["jsonl"], form, via=via
        )
        return run(spark, request, report)

    return exported


def ids_in(file: Path) -> list[int]:
    return [json.loads(line)["id"] for line in file.read_text().splitlines()]


def files(tmp_path: Path) -> list[Path]:
    folder = tmp_path / "exports"
    return list(folder.iterdir()) if folder.exists() else []


@pytest.fixture
def short_lived(tmp_path: Path) -> Stored:
    """Very many participants with hardly any events each."""
    history = random_history(random.Random(8), 600, present=5, churn=0.7)
    last = max(history.past, key=lambda each: len(history.past[each]))
    first = max(history.past[last] - {last}, key=lambda each: len(history.chain(each, last)))
    return Stored(history, history.write(tmp_path / "churn.db"), first, last)


def test_both_forms_write_the_true_chain_in_the_order_of_ids(
    export: Exported, short_lived: Stored, tmp_path: Path
) -> None:
    file = tmp_path / "exports" / f"{short_lived.first}-{short_lived.last}.jsonl"
    digests = set()
    forms: tuple[Form, ...] = ("ranges", "scan")
    for form in forms:
        summary = export(short_lived.url, short_lived.first, short_lived.last, form)
        assert summary.plan.form == form
        assert summary.events == len(short_lived.chain)
        assert ids_in(file) == sorted(short_lived.chain)
        digests.add(summary.sha256)
    assert len(digests) == 1


def test_a_chain_asked_for_backwards_is_the_same(
    export: Exported, stored: Stored, tmp_path: Path
) -> None:
    summary = export(stored.url, stored.last, stored.first)
    assert summary.relation.name == "after"
    assert (summary.from_id, summary.to_id) == (stored.last, stored.first)
    written = ids_in(tmp_path / "exports" / f"{stored.last}-{stored.first}.jsonl")
    assert written == sorted(stored.chain)


def test_concurrent_events_are_an_answer_and_no_file(export: Exported, tmp_path: Path) -> None:
    history = History()
    history.publish(history.join())
    history.publish(history.join())
    summary = export(history.write(tmp_path / "two.db"), 1, 2)
    assert (summary.relation.name, summary.file, summary.events) == ("concurrent", None, 0)
    assert files(tmp_path) == []


@pytest.mark.parametrize("via", [*Via])
def test_behind_a_delivery_of_an_unseen_publish_it_is_unknown(
    export: Exported, tmp_path: Path, via: Via
) -> None:
    history = History()
    a, b = history.join(), history.join()
    history.receive(b, None, doubtful=True)
    history.publish(a)
    history.receive(b, None, doubtful=True, queue="audit")
    history.publish(b)
    history.publish(history.join())
    url = history.write(tmp_path / "doubtful.db")
    for ends in ((2, 4), (4, 2)):
        summary = export(url, *ends, via=via)
        assert (summary.relation.name, summary.answer) == ("concurrent", "unknown")
        assert "The publish of delivery 3 from queue 'audit' was not seen" in summary.sentence
    assert export(url, 2, 5, via=via).answer == "cannot have"


def test_progress_grows_to_its_end(export: Exported, stored: Stored) -> None:
    told: list[Progress] = []
    summary = export(stored.url, stored.first, stored.last, "scan", told.append)
    assert [each.percent for each in told] == sorted(each.percent for each in told)
    stages = list(dict.fromkeys(each.stage for each in told))
    assert stages == ["planning", "comparing", "reading", "finishing"]
    assert told[-1].rows_read == told[-1].rows_written == summary.events


@pytest.mark.parametrize(
    ("after", "before", "whole"),
    [(5, 9, False), (5, None, False), (0, 1, True), (0, None, False), (20, 21, True)],
)
def test_gaps_between_the_ends_make_the_answer_incomplete(
    export: Exported, tmp_path: Path, after: int, before: int | None, whole: bool
) -> None:
    history = History()
    actor = history.join()
    for _ in range(30):
        history.publish(actor)
    url = history.write(tmp_path / "gap.db")
    with sqlite3.connect(tmp_path / "gap.db") as connection:
        connection.execute(
            "INSERT INTO gaps (trace_id, after_event_id, before_event_id, since, until, reason,"
            " suspected) VALUES (1, ?, ?, 1767268800000000, NULL, 'tracing was off', FALSE)",
            (after, before),
        )
    answer = json_of(export(url, 2, 20))
    assert answer["complete"] is whole
    assert answer["gaps"] == (
        []
        if whole
        else [
            {
                "id": 1,
                "after_event_id": after,
                "before_event_id": before,
                "since": "2026-01-01T12:00:00.000000Z",
                "until": None,
                "reason": "tracing was off",
                "suspected": False,
                "declared": False,
                "quarantined": 0,
                "channel": None,
            }
        ]
    )
    manifest = json.loads(manifest_of(tmp_path / "exports" / "2-20.jsonl").read_text())
    assert manifest["complete"] is whole


def test_doubts_and_quiet_events_are_said_as_the_service_says_them(
    export: Exported, tmp_path: Path
) -> None:
    history = History()
    consumer, publisher = history.join(), history.join()
    for _ in range(3):
        history.publish(publisher, quiet=True)
    history.receive(consumer, 1)
    for each in range(17):
        history.publish(publisher, quiet=each < 2)
    url = history.write(tmp_path / "doubts.db")
    with sqlite3.connect(tmp_path / "doubts.db") as connection:
        connection.execute("UPDATE participants SET user = 'shop'")
        connection.execute("UPDATE participants SET assumed = 1, name = 'me' WHERE number = 1")
    misfit = str(*doubts_of([], Misfit("/", "channel", 20, 20)))
    assumed = str(*doubts_of([AssumedParticipant(1, "me", 4, 4)], None))

    for first, doubts, quiet in ((5, [misfit], 2), (2, [misfit, assumed], 4)):
        answer = json_of(export(url, first, 20))
        manifest = json.loads(manifest_of(tmp_path / "exports" / f"{first}-20.jsonl").read_text())
        for said in (answer, manifest):
            assert (said["sound"], said["doubts"], said["quiet"]) == (False, doubts, quiet)


def at(stage: str, action: Callable[[], None]) -> Report:
    """Do something once, when the job enters a stage."""
    done = threading.Event()

    def report(progress: Progress) -> None:
        if progress.stage == stage and not done.is_set():
            done.set()
            action()

    return report


def line_of_events(path: Path, size: int = 50) -> str:
    history = History()
    actor = history.join()
    for _ in range(size):
        history.publish(actor)
    return history.write(path)


def test_an_event_that_is_pruned_in_mid_job_fails_it(export: Exported, tmp_path: Path) -> None:
    url = line_of_events(tmp_path / "store.db")

    def prune() -> None:
        with sqlite3.connect(tmp_path / "store.db") as connection:
            connection.execute("DELETE FROM events WHERE id < 20")

    with pytest.raises(JobError, match="Event 5 was pruned") as caught:
        export(url, 5, 40, report=at("reading", prune))
    assert caught.value.problem is Problem.not_found
    assert files(tmp_path) == []


def test_a_half_written_store_fails_the_job(export: Exported, tmp_path: Path) -> None:
    url = line_of_events(tmp_path / "store.db")
    with sqlite3.connect(tmp_path / "store.db") as connection:
        connection.execute("DELETE FROM events WHERE id = 20")
    with pytest.raises(JobError, match="36 events by their numbers, and 35"):
        export(url, 5, 40)
    assert files(tmp_path) == []


def test_a_store_that_goes_away_in_mid_job_fails_it(export: Exported, tmp_path: Path) -> None:
    url = line_of_events(tmp_path / "store.db")
    away = at("reading", lambda: (tmp_path / "store.db").rename(tmp_path / "elsewhere.db") and None)
    with pytest.raises(JobError, match="There is no SQLite store at") as caught:
        export(url, 5, 40, report=away)
    assert caught.value.problem is Problem.outage
    assert files(tmp_path) == []


def test_a_full_disk_fails_the_job_in_a_sentence_and_leaves_no_part_of_a_file(
    export: Exported, tmp_path: Path
) -> None:
    url = line_of_events(tmp_path / "store.db")
    with small_disk(tmp_path / "exports", megabytes=1) as disk:
        filler = fill(disk)
        with pytest.raises(JobError, match=r"The disk of .* is full; free some space") as caught:
            export(url, 5, 40)
        assert caught.value.problem is Problem.outage
        assert files(tmp_path) == [filler]
        filler.unlink()
        export(url, 5, 40)
        assert ids_in(disk / "5-40.jsonl") == list(range(5, 41))


def test_a_store_without_tables_is_told_from_one_that_is_damaged(
    export: Exported, tmp_path: Path
) -> None:
    sqlite3.connect(tmp_path / "empty.db").close()
    (tmp_path / "empty.db").touch()
    (tmp_path / "damaged.db").write_bytes(b"no database" * 1000)
    with pytest.raises(JobError, match="rabbitmq-itc migrate"):
        export(f"sqlite:///{tmp_path}/empty.db", 1, 2)
    with pytest.raises(JobError, match="damaged"):
        export(f"sqlite:///{tmp_path}/damaged.db", 1, 2)


def test_an_interrupted_job_stops_its_stage_and_leaves_nothing(
    spark: SparkSession, export: Exported, tmp_path: Path
) -> None:
    history = History(pasts=False)
    actor = history.join()
    for _ in range(20_000):
        history.publish(actor)
    url = history.write(tmp_path / "long.db")
    tracker = spark.sparkContext.statusTracker()

    def interrupt_when_busy() -> None:
        for _ in range(3000):
            if tracker.getActiveStageIds():
                spark.interruptAll()
                return
            threading.Event().wait(0.01)

    watcher = threading.Thread(target=interrupt_when_busy)
    with pytest.raises(JobError) as caught:
        export(url, 1, 20_000, report=at("reading", watcher.start))
    watcher.join()
    assert caught.value.problem is Problem.cancelled
    assert files(tmp_path) == []
    for _ in range(3000):
        if not tracker.getActiveStageIds():
            break
        threading.Event().wait(0.01)
    assert list(tracker.getActiveStageIds()) == []


def test_the_password_is_in_no_plan(spark: SparkSession) -> None:
    database = DatabaseAddress.from_url("postgresql+asyncpg://itc:hunter2@db.example/itc")
    assert "hunter2" not in repr(database)
    frame = read_slices(spark, database, ("id",), [Slice(1, 1, 2)])
    execution = frame._jdf.queryExecution()
    shown = execution.toString() + execution.optimizedPlan().toJSON()
    assert "MapInArrow" in shown
    assert "hunter2" not in shown
    assert "db.example" not in shown


def test_the_errors_of_a_database_have_no_password() -> None:
    database = DatabaseAddress.from_url("postgresql+asyncpg://itc:hunter2@127.0.0.1:1/itc")
    with pytest.raises(JobError) as caught:
        list(database.query("SELECT 1"))
    assert caught.value.problem is Problem.outage
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("dense", [0.0, 2.0])
def test_slices_hold_the_chain_once_and_in_order(
    stored: Stored, monkeypatch: pytest.MonkeyPatch, dense: float
) -> None:
    """Read by spans of ids (every chain is dense) and by listed ranges (none is)."""
    monkeypatch.setattr(slices, "LEAST_ROWS", 50)
    monkeypatch.setattr(slices, "DENSE", dense)
    with stored.database.connect() as connection:
        lookups = Lookups(connection)
        plan = make_plan(lookups, stored.first, stored.last, "ranges")
        assert plan.ranges is not None
        parts = cut(lookups, 1, plan.ranges, tasks=8)
    assert len(parts) >= 8
    found = [
        each
        for part in parts
        for batch in read(stored.database, ("id",), part)
        for each in batch.column(0).to_pylist()
    ]
    assert found == sorted(stored.chain)


def test_the_job_runs_on_its_own(
    spark: SparkSession,
    stored: Stored,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ITC_DATABASE_URL", stored.url)
    target = tmp_path / "chain.csv"

    def code(first: int, last: int, file: Path = target) -> int:
        return main(["--from", str(first), "--to", str(last), "--output", str(file)])

    assert code(stored.first, stored.last) == 0
    assert json.loads(capsys.readouterr().out)["events"] == len(stored.chain)
    assert target.exists()
    assert code(stored.first, 999_999) == 4
    assert "no event 999999" in capsys.readouterr().err
    assert code(stored.first, stored.first) == 2
    assert code(stored.first, stored.last, tmp_path / "a.exe") == 2
    monkeypatch.setenv("ITC_DATABASE_URL", f"sqlite:///{tmp_path / 'none.db'}")
    assert code(stored.first, stored.last) == 6
    monkeypatch.delenv("ITC_DATABASE_URL")
    assert code(stored.first, stored.last) == 2
    assert "ITC_DATABASE_URL" in capsys.readouterr().err


def test_its_exit_codes_are_the_command_line_s() -> None:
    own = {problem.name: code for problem, code in EXIT_CODES.items()}
    same = {
        "bad_request": Exit.usage,
        "not_found": Exit.not_found,
        "outage": Exit.unavailable,
        "full": EXIT_OF_STATUS.get(507, Exit.failure),
        "cancelled": Exit.failure,
        "failed": Exit.failure,
    }
    assert own == same
    assert (Exit.concurrent, Exit.undecided) == (NO_CHAIN, UNDECIDED)


def test_a_chain_to_one_of_several_equal_messages_says_so(export: Exported, tmp_path: Path) -> None:
    history = random_history(random.Random(3), 60, present=3, churn=0.0)
    first, last = next(
        (first, row["id"])
        for row in history.rows
        for first in sorted(history.past[row["id"]])
        if row["cause_id"] is None and first < row["id"] - 1
    )
    history.rows[last - 1] |= {"type": 1, "candidates": 2}
    url = history.write(tmp_path / "equal.db")
    said = f"Event {last} is a delivery of one of 2 equal messages"
    for via in (Via.any, Via.links):
        found = export(url, first, last, via=via)
        assert found.answer == "may have"
        assert found.sentence.endswith(f". {said}"), found.sentence
