"""The service's jobs: submitted, waiting their turn, running one at a time, watched, ended.

A job's record is in the store; until the job has ended its present state is also kept here, where
it costs nothing to watch. One task takes jobs from the queue and hands each to the runner of its
kind: Spark, mostly.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from dataclasses import KW_ONLY, asdict, dataclass, field
from typing import TYPE_CHECKING, Protocol

import msgspec

from app.background import is_set_within
from app.errors import ConflictError, ItcError, NotFoundError, OutageError, TooManyRequestsError
from app.extras import check_spark
from app.jobs.process import SparkProcess
from app.round_robin import RoundRobin
from app.stored.jobs import FINAL, Job, JobRequest, JobState, Json, Report
from model.jobs import Progress

if TYPE_CHECKING:
    from app.store.jobs import Jobs

log = logging.getLogger(__name__)

# Progress goes to watchers at once, and to the store no more often than this.
NOTE_SECONDS = 1.0
# Waits between tries to store a job's end while the database is away.
RETRY_SECONDS = (0.5, 1.0, 2.0, 5.0, 10.0)
# Pause between looks at another service's job, and that service's time to cancel it.
LOOK_SECONDS = 0.5
CANCEL_SECONDS = 15.0
UNFINISHED = tuple(state for state in JobState if state not in FINAL)
FAULT = "the job broke off by a fault of the service; its log has the details"
STOP_ERROR = "interrupted: the service was stopped while the job was unfinished"


class _Live:
    """A job that is under way or has just ended: its request, its present record, its watchers."""

    def __init__(self, request: JobRequest, job: Job) -> None:
        self.request = request
        self.job = job
        self.since = time.monotonic()
        self.task: asyncio.Task[Json] | None = None
        self._changed = asyncio.Event()

    def show(self, job: Job) -> None:
        self.job = job
        self._changed.set()
        self._changed = asyncio.Event()

    async def wait_for_change(self) -> None:
        await self._changed.wait()

    async def end(self) -> None:
        while not self.has_ended:
            await self.wait_for_change()

    @property
    def has_ended(self) -> bool:
        return self.job.state in FINAL


QUEUE = 100  # waiting jobs: at some seconds each, more than anybody waits for
IDLE_SECONDS = 900.0  # of Spark's process, which takes some hundred megabytes
HISTORY = 1_000  # ended jobs that are kept


class JobRunner(Protocol):
    """Runs the jobs of a kind, one at a time."""

    async def run(self, job_id: int, kind: str, work: Json, report: Report) -> Json:
        """Run one job to its end, and return its result; raises an `ItcError`."""
        ...


@dataclass(eq=False)
class JobManager:
    """Submits, runs, watches and cancels jobs.

    ``others`` run those of their kinds, and leave nothing running between them. Spark is stopped
    once it was idle for ``idle_seconds``; ``history`` ended jobs are kept.
    """

    store: Jobs
    spark: SparkProcess
    _: KW_ONLY
    others: Mapping[str, JobRunner] = field(default_factory=dict)
    queue_limit: int = QUEUE
    idle_seconds: float = IDLE_SECONDS
    history: int = HISTORY
    start_spark: bool = False
    _queue: RoundRobin[_Live] = field(default_factory=RoundRobin, init=False)
    _live: dict[int, _Live] = field(default_factory=dict, init=False)
    _submitting: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)
    _arrived: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _task: asyncio.Task[None] | None = field(default=None, init=False)
    _stopping: bool = field(default=False, init=False)

    async def start(self) -> None:
        """Fail the unfinished jobs of dead services, and start working."""
        await self.store.interrupt()
        self._task = asyncio.create_task(self._work(), name="jobs")

    async def tend(self) -> None:
        """Fail the unfinished jobs of dead services; cancel jobs at other services' request."""
        await self.store.interrupt()
        for job_id in await self.store.cancellations():
            if (live := self._live.get(job_id)) is not None:
                await self._give_up(live)

    async def stop(self) -> None:
        self._stopping = True
        for live in [*self._queue]:
            self._queue.remove(live.request.owner, live)
            await self._end(live, JobState.failed, error=STOP_ERROR)
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        await self.spark.stop()

    async def submit(self, request: JobRequest) -> Job:
        """Submit a job; returns the unfinished one for the same request if there is one.

        Raises `TooManyRequestsError` if too many are waiting, `ConflictError` if one has to run
        alone and cannot, `NotInstalledError` if its kind cannot run.
        """
        if request.kind not in self.others:
            check_spark()
        if self._stopping:
            raise OutageError("the service is being stopped; ask again when it is back")
        async with self._submitting:  # two callers at once must not both find none
            if (job := self.find_live(request)) is not None:
                return job
            if request.is_alone:
                await self._check_alone(request)
            if len(self._queue) >= self.queue_limit:
                raise TooManyRequestsError(
                    f"{self.queue_limit} jobs are waiting already; ask again when some have ended"
                )
            job = await self.store.create(request.kind, request.vhost, request.shown)
            live = _Live(request, job)
            self._live[job.id] = live
            self._queue.put(request.owner, live)
            self._arrived.set()
            return job

    async def settle(self, request: JobRequest, result: Json) -> Job:
        """End a job at once whose result is already known. Raises `OutageError`."""
        job = await self.store.create(request.kind, request.vhost, request.shown)
        result = request.finish(job.id, result)
        await self.store.move(job.id, JobState.running)
        return await self.store.move(job.id, JobState.succeeded, result=result)

    def find_live(self, request: JobRequest) -> Job | None:
        for live in self._live.values():
            if live.request.key == request.key and not live.has_ended:
                return live.job
        return None

    async def _check_alone(self, request: JobRequest) -> None:
        jobs = [live.job for live in self._live.values()]
        for job in (*jobs, *await self.store.list([request.vhost], states=UNFINISHED)):
            if job.kind == request.kind and job.vhost == request.vhost:
                raise ConflictError(
                    f"job {job.id}, a {request.kind} of {request.vhost}, has not ended"
                )

    async def job(self, job_id: int) -> Job:
        live = self._live.get(job_id)
        return live.job if live else await self.store.get(job_id)

    async def jobs(
        self,
        vhosts: Collection[str] | None = None,
        *,
        states: Collection[JobState] | None = None,
        limit: int = 100,
    ) -> list[Job]:
        stored = await self.store.list(vhosts, states=states, limit=limit)
        return [self._live[job.id].job if job.id in self._live else job for job in stored]

    async def wait(self, job_id: int, seconds: float | None = None) -> Job:
        """A job once it has ended, or as it is after ``seconds``; raises `NotFoundError`."""
        job = await self.job(job_id)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                async for latest in self.watch(job_id):
                    job = latest
        return job

    async def watch(self, job_id: int) -> AsyncIterator[Job]:
        """Yield a job, and again whenever it changes, until it has ended.

        A slow reader gets the latest record and skips those between. Another service's job is seen
        as far as that service has stored it. Raises `NotFoundError`.
        """
        live, latest = self._live.get(job_id), None
        while True:
            job = live.job if live else await self.store.get(job_id)
            if job != latest:
                yield job
                latest = job
            if job.state in FINAL:
                return
            if live is None:
                await asyncio.sleep(LOOK_SECONDS)
            elif live.job is job:
                await live.wait_for_change()

    async def cancel(self, job_id: int) -> Job:
        """Take a job out of the queue, or stop it if it is running; returns it when it has ended.

        Raises `NotFoundError`, and `ConflictError` if it had already ended.
        """
        live = self._live.get(job_id)
        if live is None or live.has_ended:
            job = await self.job(job_id)
            if job.state in FINAL:
                raise ConflictError(f"job {job_id} has ended already: it is {job.state.value}")
            await self.store.give_up(job_id)
            job = await self.wait(job_id, CANCEL_SECONDS)
            if job.state not in FINAL:
                raise OutageError(
                    f"the service that has job {job_id} was asked to cancel it, and has not yet: "
                    "it will, or the job fails when that service is found dead"
                )
            return job
        await self._give_up(live)
        await live.end()
        return live.job

    async def _give_up(self, live: _Live) -> None:
        if self._queue.remove(live.request.owner, live):
            await self._end(live, JobState.cancelled)
        elif live.task is not None:
            live.task.cancel()

    async def _work(self) -> None:
        if self.start_spark:
            await self._warm()
        while True:
            live = await self._next()
            try:
                await self._run(live)
            except Exception:  # a failure with one job must not end the task that runs all
                log.exception("job %d could not be brought to an end", live.job.id)

    async def _warm(self) -> None:
        try:
            check_spark()
            await self.spark.start()
        except ItcError as error:  # the first job that needs Spark will tell its user
            log.warning("Spark could not be started with the service: %s", error)

    async def _next(self) -> _Live:
        """The next job; stops Spark if none comes for a long time."""
        while (live := self._queue.take()) is None:
            self._arrived.clear()
            if not await is_set_within(self._arrived, self.idle_seconds):
                await self.spark.stop()
                await self._arrived.wait()
        return live

    async def _run(self, live: _Live) -> None:
        """Run one job to its end; whatever happens, it ends."""
        live.task = asyncio.create_task(self._result(live), name=f"job {live.job.id}")
        try:
            await asyncio.wait([live.task])
        except asyncio.CancelledError:
            live.task.cancel()
            await asyncio.wait([live.task])
            await self._end(live, JobState.failed, error=STOP_ERROR)
            raise
        if live.task.cancelled():
            await self._end(live, JobState.cancelled)
        elif (error := live.task.exception()) is None:
            await self._end(live, JobState.succeeded, result=live.task.result())
        elif isinstance(error, ItcError):
            await self._end(live, JobState.failed, error=str(error))
        else:
            log.error("job %d broke off", live.job.id, exc_info=error)
            await self._end(live, JobState.failed, error=FAULT)

    async def _result(self, live: _Live) -> Json:
        job_id, request = live.job.id, live.request
        queued = time.monotonic() - live.since
        live.show(await self.store.move(job_id, JobState.running))
        runner = self.others.get(request.kind, self.spark)
        result = await runner.run(job_id, request.kind, request.work, self._reporter(live))
        result = request.finish(job_id, result)
        seconds = result.get("seconds", {})
        return {**result, "seconds": {"queued": round(queued, 3), **seconds}}

    def _reporter(self, live: _Live) -> Callable[[Progress], None]:
        noted_at = 0.0
        noting: set[asyncio.Task[None]] = set()

        def report(progress: Progress) -> None:
            nonlocal noted_at
            live.show(msgspec.structs.replace(live.job, **asdict(progress)))
            moment = time.monotonic()
            if moment - noted_at >= NOTE_SECONDS and not noting:
                noted_at = moment
                task = asyncio.create_task(self._note(live.job.id, progress))
                noting.add(task)
                task.add_done_callback(noting.discard)

        return report

    async def _note(self, job_id: int, progress: Progress) -> None:
        with contextlib.suppress(OutageError):  # the next one will do
            await self.store.note_progress(job_id, progress)

    async def _end(
        self, live: _Live, state: JobState, *, result: Json | None = None, error: str | None = None
    ) -> None:
        """Store the end, waiting while the database is away, and show it."""
        job = await self._store_end(live.job, state, result, error)
        self._live.pop(job.id, None)
        live.show(job)
        with contextlib.suppress(OutageError):
            await self.store.forget(self.history)

    async def _store_end(
        self, job: Job, state: JobState, result: Json | None, error: str | None
    ) -> Job:
        for seconds in (*RETRY_SECONDS, None):
            try:
                return await self.store.move(job.id, state, result=result, error=error)
            except OutageError as outage:
                if seconds is None or self._stopping:
                    log.warning("the end of job %d could not be stored: %s", job.id, outage)
                    break
                await asyncio.sleep(seconds)
            except (ConflictError, NotFoundError) as conflict:
                log.warning("job %d ended elsewhere: %s", job.id, conflict)
                break
        return msgspec.structs.replace(job, state=state, result=result, error=error)
