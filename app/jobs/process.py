"""The Spark process: started on first use, asked in lines of JSON, replaced when it dies.

It runs in a session of its own, so that a Ctrl-C meant for the service does not reach it, and all
that belongs to it (the JVM, Python workers) ends with one signal to its group. It has a temporary
folder of its own too, removed behind it however it ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import signal
import sys
import tempfile
from collections import deque
from collections.abc import Sequence

import msgspec

from app.environment import needed
from app.errors import BadRequestError, ConflictError, ItcError, NotFoundError, OutageError
from app.job import Json, Progress
from app.jobs.runner import Report

log = logging.getLogger(__name__)

MODULE = "spark_jobs.worker"
START_SECONDS = 180.0
# How long a cancelled job may take to stop before the process is replaced.
CANCEL_SECONDS = 20.0
LEAVE_SECONDS = 10.0
# An answer holds a summary with its gaps, never events.
LINE_BYTES = 64 << 20
STARTING = Progress(stage="starting Spark", percent=0.0)

ERRORS: dict[str, type[ItcError]] = {
    "bad_request": BadRequestError,
    "not_found": NotFoundError,
    "outage": OutageError,
    "cancelled": ConflictError,
}


class JobFailedError(ItcError):
    """The job broke off for a reason that is nobody's request and no outage."""


class Answer(msgspec.Struct):
    """One line of the worker's."""

    say: str
    id: int | None = None
    stage: str = ""
    percent: float = 0.0
    rows_read: int = 0
    rows_written: int = 0
    result: Json = {}
    problem: str = "failed"
    reason: str = ""
    leaving: bool = False


_decode = msgspec.json.Decoder(Answer).decode


class SparkProcess:
    """A `Runner` that has its jobs run by ``spark_jobs.worker``.

    Args:
        database_url: where the events are; the worker is told on its stdin, where no list of
            processes shows it.
        master: Spark's master.
        remote: a Spark Connect server instead of a master, or None.
        memory: heap of the JVM, as Java writes it.
        secret: the cluster's, or None; it goes by stdin too.
        command: what to start; tests give another.
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
        self._process: asyncio.subprocess.Process | None = None
        self._folder: str | None = None
        self._errors: asyncio.Task[None] | None = None
        self._last_words: deque[str] = deque(maxlen=20)
        self._using = asyncio.Lock()

    @property
    def pid(self) -> int | None:
        """The worker's process, where it runs."""
        process = self._process
        return process.pid if process is not None and process.returncode is None else None

    async def start(self) -> None:
        """Start Spark where it does not run."""
        async with self._using:
            await self._ensure_started()

    async def run(self, job_id: int, kind: str, work: Json, report: Report) -> Json:
        """Have one job run; a second call waits for the first."""
        async with self._using:
            if self.pid is None:
                report(STARTING)
            await self._ensure_started()
            await self._send({"do": "run", "id": job_id, "kind": kind, "request": work})
            try:
                return await self._until_done(job_id, report)
            except asyncio.CancelledError:
                await self._cancel(job_id)
                raise

    async def stop(self) -> None:
        """End the process: by the end of its stdin, by a signal where it does not heed that."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.returncode is None and process.stdin is not None:
            process.stdin.close()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), LEAVE_SECONDS)
        await self._reap(process)

    async def _ensure_started(self) -> None:
        if self.pid is not None:
            return
        await self.stop()
        self._last_words.clear()
        self._folder = folder = tempfile.mkdtemp(prefix="rabbitmq-itc-spark-")
        self._process = process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=LINE_BYTES,
            env={"SPARK_LOCAL_DIRS": folder, **needed(os.environ), "TMPDIR": folder},
            start_new_session=True,
        )
        self._errors = asyncio.create_task(self._listen(process))
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
                raise _error(answer)

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
                raise _error(answer)
            report(Progress(answer.stage, answer.percent, answer.rows_read, answer.rows_written))

    async def _cancel(self, job_id: int) -> None:
        """Stop the job; where it does not stop, stop the process."""
        try:
            async with asyncio.timeout(CANCEL_SECONDS):
                await self._send({"do": "cancel", "id": job_id})
                await self._until_done(job_id, lambda progress: None)
        except ItcError:  # it stopped, or was at its end anyway
            return
        except TimeoutError:
            await self._kill()

    async def _send(self, message: Json) -> None:
        stdin = self._running.stdin
        assert stdin is not None  # noqa: S101 - a pipe, as it was started
        try:
            stdin.write(msgspec.json.encode(message) + b"\n")
            await stdin.drain()
        except (BrokenPipeError, ConnectionResetError):
            raise await self._died() from None

    async def _answer(self) -> Answer:
        stdout = self._running.stdout
        assert stdout is not None  # noqa: S101 - a pipe, as it was started
        line = await stdout.readline()
        if not line.endswith(b"\n"):
            raise await self._died()
        return _decode(line)

    @property
    def _running(self) -> asyncio.subprocess.Process:
        if self._process is None:
            raise OutageError("Spark's process was stopped; ask again.")
        return self._process

    async def _died(self) -> OutageError:
        """The error for a process that ended by itself, after clearing up behind it."""
        process = self._running
        await self._give_up()
        how = f"signal {-code}" if (code := process.returncode or 0) < 0 else f"exit code {code}"
        return OutageError(
            f"Spark's process died ({how}), so nothing was written; the next job starts a new one."
            " Where it happens again, look into the service's log or raise ITC_SPARK_MEMORY."
        )

    async def _give_up(self) -> None:
        """End the process, and leave what it said last in the log: it may say why."""
        await self._kill()
        if self._last_words:
            log.warning("the Spark process said last: %s", " | ".join(self._last_words))
            self._last_words.clear()

    async def _kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            await self._reap(process)

    async def _reap(self, process: asyncio.subprocess.Process) -> None:
        """End all that is left of the process's group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        if self._errors is not None:
            await self._errors
        if self._folder is not None:
            await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        """Keep the last of what Spark prints, for the log where it dies."""
        assert process.stderr is not None  # noqa: S101 - a pipe, as it was started
        while chunk := await process.stderr.read(1 << 16):
            lines = chunk.decode(errors="replace").splitlines()
            self._last_words.extend(line for line in lines if line.strip())
            for line in lines:
                log.debug("spark: %s", line)


def _error(answer: Answer) -> ItcError:
    return ERRORS.get(answer.problem, JobFailedError)(answer.reason)
