"""Another user of the same machine cannot use, stop or wear out Spark."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from pyspark.sql import SparkSession

from app.jobs.process import JobFailedError, SparkProcess
from tests.spark import strangers
from tests.spark.conftest import Stored

pytestmark = pytest.mark.asyncio(loop_scope="module")

CONNECTIONS = 40
ANSWER_SECONDS = 2.0
NONSENSE = (b"", b"\0" * 64, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", b"\x80\5" * 40)
# A worker as it would be without what guards it.
OPEN_WORKER = (
    "import spark_jobs.spark.session as s; s.GUARDED = {};"
    " from spark_jobs.worker import main; main()"
)


class Worker:
    """A Spark process that runs the same chain over and over."""

    def __init__(self, process: SparkProcess, stored: Stored, folder: Path) -> None:
        self.process = process
        self._stored = stored
        self._folder = folder

    @property
    def session(self) -> int:
        assert self.process.pid is not None
        return self.process.pid

    async def works(self) -> bool:
        work: dict[str, Any] = {
            "from": self._stored.first,
            "to": self._stored.last,
            "output": str(self._folder / "chain.jsonl"),
            "format": "jsonl",
        }
        result = await self.process.run(1, "chain", work, lambda progress: None)
        return bool(result["events"] == len(self._stored.chain))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def worker(stored: Stored, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Worker]:
    """One for all tests here, as none of them may harm it: a cold one costs many seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ITC_AMQP_URL", "amqp://itc:hush@broker")
        patch.setenv("ITC_MANAGEMENT_URL", "http://itc:hush@broker")
        patch.setenv("UNRELATED_TOKEN", "hush")
        process = SparkProcess(stored.url, master="local[2]", memory="512m")
        await process.start()
    try:
        yield Worker(process, stored, tmp_path_factory.mktemp("worker"))
    finally:
        await process.stop()


async def test_nobody_elses_bytes_stop_a_job_or_start_a_process(worker: Worker) -> None:
    assert await worker.works()
    session = worker.session
    before = len(strangers.processes(session))
    open_ports = strangers.ports(session)
    assert open_ports, "Spark listens at some port, or this test looks in the wrong place"
    with ExitStack() as stack:
        for port in open_ports:
            for number in range(CONNECTIONS):
                says = NONSENSE[number % len(NONSENSE)]
                last = stack.enter_context(closing(strangers.connect(port, says)))
            strangers.answer(last, ANSWER_SECONDS)  # who answers one has taken those before it
        assert len(strangers.processes(session)) <= before
        assert await worker.works()
    assert worker.session == session


async def test_an_order_without_the_secret_is_refused(worker: Worker, spark: SparkSession) -> None:
    assert await worker.works()
    session = worker.session
    orders = strangers.Orders(spark)
    for port in strangers.ports(session):
        with closing(strangers.connect(port, orders.stop_block_manager(port))) as stranger:
            strangers.answer(stranger, ANSWER_SECONDS)
    assert await worker.works()
    assert await worker.works()
    assert worker.session == session


@pytest.mark.long(29)
async def test_a_worker_whose_spark_was_stopped_is_replaced(
    stored: Stored, tmp_path: Path, spark: SparkSession
) -> None:
    process = SparkProcess(
        stored.url, master="local[2]", memory="512m", command=(sys.executable, "-c", OPEN_WORKER)
    )
    worker, orders = Worker(process, stored, tmp_path), strangers.Orders(spark)
    try:
        assert await worker.works()
        session = worker.session
        for port in strangers.ports(session):
            with closing(strangers.connect(port, orders.stop_block_manager(port))) as stranger:
                strangers.answer(stranger, ANSWER_SECONDS)
        with pytest.raises(JobFailedError, match="could not finish"):
            await worker.works()
        assert await worker.works()
        assert worker.session != session
    finally:
        await process.stop()


async def test_sockets_in_the_file_system_are_their_owners(worker: Worker) -> None:
    assert await worker.works()
    files = strangers.socket_files(worker.session)
    assert files, "Python workers are talked to by such sockets"
    assert [file for file in files if strangers.is_open_to_others(file)] == []


async def test_spark_inherits_no_password(worker: Worker) -> None:
    assert await worker.works()
    looked_at = 0
    for process in strangers.processes(worker.session):
        try:
            environment = (process / "environ").read_bytes()
            command = (process / "cmdline").read_bytes()
        except (ProcessLookupError, FileNotFoundError):  # it has ended meanwhile
            continue
        looked_at += 1
        assert b"ITC_" not in environment
        assert b"hush" not in environment + command
        assert b"authenticate.secret" not in command
    assert looked_at
