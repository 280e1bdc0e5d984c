"""The Spark process as the service drives it: a fake worker for the protocol, then the real one."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from app.errors import BadRequestError, ItcError, NotFoundError, OutageError
from app.jobs.process import JobFailedError, SparkProcess
from model.jobs import Progress
from tests.spark.conftest import Stored
from tests.spark.histories import History

FAKE = (sys.executable, str(Path(__file__).with_name("fake_worker.py")))


class Reports(list[Progress]):
    """What a job reported; lets a test wait for a stage."""

    def __init__(self) -> None:
        super().__init__()
        self._reached: dict[str, asyncio.Event] = {}

    def __call__(self, progress: Progress) -> None:
        self.append(progress)
        self._event(progress.stage).set()

    async def reached(self, stage: str) -> None:
        await self._event(stage).wait()

    def _event(self, stage: str) -> asyncio.Event:
        return self._reached.setdefault(stage, asyncio.Event())


@pytest.fixture
async def process() -> AsyncIterator[SparkProcess]:
    process = SparkProcess("sqlite:///x", master="local[1]", memory="512m", command=FAKE)
    yield process
    await process.stop()


async def test_the_worker_is_told_its_settings_and_its_job(process: SparkProcess) -> None:
    reports = Reports()
    result = await process.run(1, "echo", {"from": 1}, reports)
    assert result["request"] == {"from": 1}
    assert result["settings"] == {
        "database_url": "sqlite:///x",
        "spark": {"master": "local[1]", "remote": None, "memory": "512m", "secret": None},
    }
    assert [each.stage for each in reports] == ["starting Spark", "reading"]


async def test_one_process_serves_many_jobs(process: SparkProcess) -> None:
    results = [await process.run(k, "echo", {}, Reports()) for k in range(3)]
    assert len({each["pid"] for each in results}) == 1


async def test_what_spark_says_where_it_does_not_start_is_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    answer = json.dumps({"say": "error", "problem": "outage", "reason": "Spark did not start"})
    script = f"""
import sys
print("invalid null input: name", file=sys.stderr, flush=True)
print({answer!r}, flush=True)
sys.stdin.read()
"""
    process = SparkProcess("sqlite:///x", master="x", command=(sys.executable, "-c", script))
    with pytest.raises(OutageError, match="Spark did not start"):
        await process.run(1, "echo", {}, Reports())
    assert "invalid null input: name" in caplog.text


@pytest.mark.parametrize(
    ("problem", "error"),
    [
        ("bad_request", BadRequestError),
        ("not_found", NotFoundError),
        ("outage", OutageError),
        ("failed", JobFailedError),
    ],
)
async def test_a_jobs_problem_is_the_services_error(
    process: SparkProcess, problem: str, error: type[ItcError]
) -> None:
    with pytest.raises(error, match="because"):
        await process.run(1, "fail", {"problem": problem, "reason": "because"}, Reports())
    assert await process.run(2, "echo", {}, Reports())


async def test_a_process_that_dies_in_mid_job_is_replaced(
    process: SparkProcess, caplog: pytest.LogCaptureFixture
) -> None:
    first = (await process.run(1, "echo", {}, Reports()))["pid"]
    with pytest.raises(OutageError, match="signal 9"):
        await process.run(2, "die", {}, Reports())
    assert "OutOfMemoryError" in caplog.text
    assert (await process.run(3, "echo", {}, Reports()))["pid"] != first


async def test_a_process_whose_answer_cannot_be_read_is_replaced(process: SparkProcess) -> None:
    first = (await process.run(1, "echo", {}, Reports()))["pid"]
    with pytest.raises(OutageError, match="look into the service's log"):
        await process.run(2, "mumble", {}, Reports())
    assert (await process.run(3, "echo", {}, Reports()))["pid"] != first


async def test_a_process_that_died_while_idle_is_replaced(process: SparkProcess) -> None:
    first = (await process.run(1, "echo", {}, Reports()))["pid"]
    os.kill(first, signal.SIGKILL)
    await process._running.wait()
    assert (await process.run(2, "echo", {}, Reports()))["pid"] != first


async def test_a_cancelled_call_cancels_the_job_and_keeps_the_process(
    process: SparkProcess,
) -> None:
    reports = Reports()
    call = asyncio.create_task(process.run(1, "hang", {}, reports))
    await reports.reached("reading")
    pid = process.pid
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert (await process.run(2, "echo", {}, Reports()))["pid"] == pid


@pytest.mark.parametrize("killed", [False, True])
async def test_what_the_process_left_in_its_folder_goes_with_it(
    process: SparkProcess, killed: bool
) -> None:
    folder = Path((await process.run(1, "echo", {}, Reports()))["folder"])
    (folder / "blockmgr").mkdir()
    (folder / "blockmgr" / "block").touch()
    if killed:
        with pytest.raises(OutageError):
            await process.run(2, "die", {}, Reports())
    else:
        await process.stop()
    assert not await asyncio.to_thread(folder.exists)


async def test_a_process_that_cannot_start_says_why() -> None:
    process = SparkProcess("sqlite:///x", master="spark://dead", command=FAKE)
    with pytest.raises(OutageError, match="ITC_SPARK_MASTER"):
        await process.start()
    assert process.pid is None


async def test_a_stopped_process_starts_again(process: SparkProcess) -> None:
    first = (await process.run(1, "echo", {}, Reports()))["pid"]
    await process.stop()
    assert process.pid is None
    assert (await process.run(2, "echo", {}, Reports()))["pid"] != first


# The real worker


@pytest.fixture(scope="session")
def long_chain(tmp_path_factory: pytest.TempPathFactory) -> Stored:
    """A chain that takes some seconds to export."""
    history = History(pasts=False)
    actor = history.join()
    for _ in range(40_000):
        history.publish(actor)
    url = history.write(tmp_path_factory.mktemp("long") / "store.db")
    return Stored(history, url, 1, 40_000)


def work(stored: Stored, output: Path, format: str = "jsonl") -> dict[str, Any]:
    return {"from": stored.first, "to": stored.last, "output": str(output), "format": format}


async def test_the_real_worker_runs_is_cancelled_killed_and_replaced(
    stored: Stored, long_chain: Stored, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a busy machine a job stops slowly, and its process is none the worse for it.
    monkeypatch.setattr("app.jobs.process.CANCEL_SECONDS", 120.0)
    process = SparkProcess(long_chain.url, master="local[2]", memory="512m")
    target = tmp_path / "1-2" / "chain.jsonl"
    try:
        await process.start()
        pid = process.pid

        reports = Reports()
        call = asyncio.create_task(process.run(1, "chain", work(long_chain, target), reports))
        await reports.reached("reading")
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert process.pid == pid, "a cancelled job takes no process along"
        assert list(target.parent.iterdir()) == []

        reports = Reports()
        call = asyncio.create_task(process.run(2, "chain", work(long_chain, target), reports))
        await reports.reached("reading")
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(OutageError, match="died"):
            await call
        assert not target.exists()

        reports = Reports()
        result = await process.run(3, "chain", work(long_chain, target), reports)
        assert process.pid != pid
        assert result["events"] == 40_000
        assert sum(1 for _ in target.open()) == 40_000
        assert reports[-1].rows_read == reports[-1].rows_written == 40_000
        percents = [each.percent for each in reports]
        assert percents == sorted(percents)
        with pytest.raises(NotFoundError, match="no event 99999"):
            await process.run(4, "chain", {**work(long_chain, target), "to": 99_999}, Reports())

        inner = process._running
        inner._stdin.close()  # what the worker sees when the service is killed
        async with asyncio.timeout(120):
            assert await inner.wait() == 0
    finally:
        await process.stop()


@pytest.mark.parametrize(
    ("java", "master", "reason"),
    [
        ('openjdk version "11.0.2"', "local[1]", "is 11; Spark needs 17 or newer. Install one"),
        (None, "local[1]", "Java is missing: .* Install a runtime"),
        ('openjdk version "17.0.2"', "spark://127.0.0.1:{port}", "No Spark master .* start it"),
    ],
)
async def test_a_job_without_java_or_master_fails_with_advice_and_no_file(
    stored: Stored,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    java: str | None,
    master: str,
    reason: str,
) -> None:
    (tmp_path / "java" / "bin").mkdir(parents=True)
    if java is not None:
        program = tmp_path / "java" / "bin" / "java"
        program.write_text(f"#!/bin/sh\necho '{java}' >&2\n")
        program.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]  # nobody listens there once it is closed
    process = SparkProcess(stored.url, master=master.format(port=port))
    target = tmp_path / "exports" / "chain.jsonl"
    with pytest.raises(OutageError, match=reason):
        await process.run(1, "chain", work(stored, target), Reports())
    await process.stop()
    assert not target.parent.exists()


def test_the_command_line_shows_nothing_of_the_database(stored: Stored) -> None:
    process = SparkProcess("postgresql://u:secret@h/d", master="local[1]")
    assert "secret" not in json.dumps(process._command)
