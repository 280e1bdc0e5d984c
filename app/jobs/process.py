"""The Spark process: started on first use, spoken to in lines of JSON, replaced when it dies.

Everything that belongs to it (the JVM, Python workers) ends with it, as with every `Child`. It has
a temporary folder of its own, which is removed however the process ended.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import sys
import tempfile
import time
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from app.children import Child
from app.errors import (
    BadRequestError,
    ConflictError,
    ItcError,
    NotFoundError,
    OutageError,
    QuotaError,
)
from app.stored.jobs import Answer, Json, Report
from model.jobs import Problem, Progress

log = logging.getLogger(__name__)

MODULE = "spark_jobs.worker"
START_SECONDS = 180.0
# A cancelled job that has not stopped within this time costs its process.
CANCEL_SECONDS = 20.0
LEAVE_SECONDS = 10.0
# An answer holds a summary with its gaps, never events.
LINE_BYTES = 64 << 20
STARTING = Progress(stage="starting Spark", percent=0.0)

ERRORS: dict[Problem, type[ItcError]] = {
    Problem.bad_request: BadRequestError,
    Problem.not_found: NotFoundError,
    Problem.outage: OutageError,
    Problem.full: QuotaError,
    Problem.cancelled: ConflictError,
}


class JobFailedError(ItcError):
    """The job failed for a reason that is neither the request nor an outage."""


class _Worker(NamedTuple):
    """A worker that was started, and its temporary folder."""

    child: Child[Answer]
    folder: str


class SparkProcess:
    """Runs jobs in ``spark_jobs.worker``.

    The worker gets the database's address and the cluster's secret on its stdin, where no list of
    processes shows them. ``remote`` is a Spark Connect server instead of a master; ``memory`` the
    heap of the JVM, as Java writes it. Tests start another ``command``.
    """

    def __init__(
        self,
        database_url: str,
        *,
        master: str,
        remote: str | None = None,
        memory: str = "1g",
        secret: str | None = None,
        command: Sequence[str] = (sys.executable, "-m", MODULE),
    ) -> None:
        self._settings = {
            "database_url": database_url,
            "spark": {"master": master, "remote": remote, "memory": memory, "secret": secret},
        }
        self._command = command
        self._worker: _Worker | None = None  # None while none runs
        self._last_words: deque[str] = deque(maxlen=20)
        self._using = asyncio.Lock()

    @property
    def pid(self) -> int | None:
        """The worker's process id; None while none runs."""
        worker = self._worker
        return worker.child.pid if worker is not None and worker.child.exit_code is None else None

    async def start(self) -> None:
        async with self._using:
            await self._ensure_started()

    async def run(self, job_id: int, kind: str, work: Json, report: Report) -> Json:
        """Run one job to its end, and return its result; a second call waits for the first.

        Cancelling the call stops the job, and returns when it has stopped. Raises an `ItcError`
        whose text says why the job failed. The result's seconds include Spark's ``start``.
        """
        async with self._using:
            if self.pid is None:
                report(STARTING)
            begin = time.monotonic()
            await self._ensure_started()
            start = time.monotonic() - begin
            await self._send({"do": "run", "id": job_id, "kind": kind, "request": work})
            try:
                return _with_start(await self._until_done(job_id, report), start)
            except asyncio.CancelledError:
                await self._cancel(job_id)
                raise

    async def stop(self) -> None:
        """End the process: by closing its stdin, and by a signal if it has not ended in time."""
        await self._end(LEAVE_SECONDS)

    async def _end(self, seconds: float = 0.0) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            await (worker.child.leave(seconds) if seconds else worker.child.kill())
            await asyncio.to_thread(shutil.rmtree, worker.folder, ignore_errors=True)

    async def _ensure_started(self) -> None:
        if self.pid is not None:
            return
        await self.stop()
        self._last_words.clear()
        folder = tempfile.mkdtemp(prefix="rabbitmq-itc-spark-")
        child = await Child.start(
            self._command,
            Answer,
            line_bytes=LINE_BYTES,
            environment={
                "SPARK_LOCAL_DIRS": os.environ.get("SPARK_LOCAL_DIRS", folder),
                "TMPDIR": folder,
            },
            hear=self._hear,
        )
        self._worker = _Worker(child, folder)
        try:
            await self._send(self._settings)
            async with asyncio.timeout(START_SECONDS):
                await self._until_ready()
        except TimeoutError:
            await self._give_up()
            raise OutageError(
                f"Spark did not start within {START_SECONDS:.0f} seconds; is this machine or its"
                " master overloaded? Ask again."
            ) from None
        except BaseException:
            await self._give_up()
            raise

    async def _until_ready(self) -> None:
        while (answer := await self._answer()).say != "ready":
            if answer.say == "error":
                raise error_of(answer)

    async def _until_done(self, job_id: int, report: Report) -> Json:
        while True:
            answer = await self._answer()
            if answer.id != job_id:
                continue
            if answer.say == "done":
                return answer.result
            if answer.say == "error":
                if answer.leaving:  # before the next job is sent to a process that ends
                    await self._give_up()
                raise error_of(answer)
            report(answer.progress)

    async def _cancel(self, job_id: int) -> None:
        try:
            async with asyncio.timeout(CANCEL_SECONDS):
                await self._send({"do": "cancel", "id": job_id})
                await self._until_done(job_id, lambda progress: None)
        except ItcError:  # it stopped, or was ending anyway
            return
        except TimeoutError:
            await self._end()

    async def _send(self, message: Json) -> None:
        try:
            await self._running.send(message)
        except ConnectionError:
            raise await self._clean_up() from None

    async def _answer(self) -> Answer:
        answer = await self._running.read()
        if answer is None:
            raise await self._clean_up()
        return answer

    @property
    def _running(self) -> Child[Answer]:
        if self._worker is None:
            raise OutageError("Spark's process was stopped; ask again.")
        return self._worker.child

    async def _clean_up(self) -> OutageError:
        """Clean up after a process that ended by itself; returns the error for it."""
        child = self._running
        await self._give_up()
        code = child.exit_code or 0
        status = f"signal {-code}" if code < 0 else f"exit code {code}"
        return OutageError(
            f"Spark's process died ({status}), so nothing was written; the next job starts a new "
            "one. If it happens again, look into the service's log or raise ITC_SPARK_MEMORY."
        )

    async def _give_up(self) -> None:
        """End the process, and log its last lines: they may say why."""
        await self._end()
        if self._last_words:
            log.warning("the last lines of the Spark process: %s", " | ".join(self._last_words))
            self._last_words.clear()

    def _hear(self, lines: list[str]) -> None:
        """Keep the last lines that Spark prints, for the log if it dies."""
        self._last_words.extend(line for line in lines if line.strip())
        for line in lines:
            log.debug("spark: %s", line)


def _with_start(result: Json, start: float) -> Json:
    """A result whose seconds include Spark's start, if it has any."""
    if "seconds" not in result:
        return result
    seconds = {"start": round(start, 3), **result["seconds"]}
    if "total" in seconds:
        seconds["total"] = round(start + seconds["total"], 3)
    return {**result, "seconds": seconds}


def error_of(answer: Answer) -> ItcError:
    return ERRORS.get(answer.problem, JobFailedError)(answer.reason)
