"""The jobs as the service sees them, with a runner that the tests control."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import Any

import msgspec
import pytest

from app.errors import ConflictError, NotFoundError, OutageError, TooManyRequestsError
from app.jobs.manager import FAULT, STOP_ERROR, JobManager
from app.stored.jobs import TRANSITIONS, Job, JobRequest, JobState, Json, Report
from model.jobs import Progress


class MemoryStore:
    """Jobs in a dictionary, with the store's rules."""

    def __init__(self) -> None:
        self.records: dict[int, Job] = {}
        self.outages = 0

    async def create(self, kind: str, vhost: str, request: Json) -> Job:
        job = Job(
            id=len(self.records) + 1,
            kind=kind,
            state=JobState.queued,
            vhost=vhost,
            request=request,
            result=None,
            error=None,
            stage=None,
            percent=0.0,
            rows_read=0,
            rows_written=0,
            created_at=0,
            started_at=None,
            finished_at=None,
        )
        self.records[job.id] = job
        return job

    async def get(self, job_id: int) -> Job:
        if job_id not in self.records:
            raise NotFoundError(f"no job has the number {job_id}")
        return self.records[job_id]

    async def list(
        self,
        vhosts: Collection[str] | None = None,
        *,
        states: Collection[JobState] | None = None,
        limit: int = 100,
    ) -> list[Job]:
        newest = sorted(self.records.values(), key=lambda job: -job.id)
        return [j for j in newest if vhosts is None or j.vhost in vhosts][:limit]

    async def move(
        self, job_id: int, state: JobState, *, result: Json | None = None, error: str | None = None
    ) -> Job:
        if self.outages:
            self.outages -= 1
            raise OutageError("the database is away")
        job = await self.get(job_id)
        if state not in TRANSITIONS[job.state]:
            raise ConflictError(f"job {job_id} is {job.state}")
        moved = msgspec.structs.replace(job, state=state, result=result, error=error)
        self.records[job_id] = moved
        return moved

    async def note_progress(self, job_id: int, progress: Progress) -> bool:
        self.records[job_id] = msgspec.structs.replace(self.records[job_id], **asdict(progress))
        return True

    async def interrupt(self) -> int:
        return 0

    async def forget(self, keep: int) -> int:
        return 0


class TaughtRunner:
    """Takes a job and waits until the test says how it ends."""

    def __init__(self) -> None:
        self.taken: asyncio.Queue[tuple[int, Report]] = asyncio.Queue()
        self.ends: dict[int, asyncio.Future[Json]] = {}
        self.cancelled: list[int] = []
        self.stops = asyncio.Event()
        self.starts = 0

    async def start(self) -> None:
        self.starts += 1

    async def run(self, job_id: int, kind: str, work: Json, report: Report) -> Json:
        self.ends[job_id] = asyncio.get_running_loop().create_future()
        self.taken.put_nowait((job_id, report))
        try:
            return await self.ends[job_id]
        except asyncio.CancelledError:
            self.cancelled.append(job_id)
            raise

    async def stop(self) -> None:
        self.stops.set()


class Bench:
    """A manager with its store and its runner."""

    def __init__(self, **options: Any) -> None:
        self.store = MemoryStore()
        self.runner = TaughtRunner()
        self.manager = JobManager(self.store, self.runner, **options)

    async def submit(self, file: str = "a", owner: str = "ann", vhost: str = "/") -> Job:
        shown = {"from": 1, "to": 2, "file": file}
        return await self.manager.submit(JobRequest("chain", vhost, owner, shown, work={}))

    async def next_taken(self) -> tuple[int, Report]:
        async with asyncio.timeout(5):
            return await self.runner.taken.get()

    async def ended(self, job: Job) -> Job:
        return await self.manager.wait(job.id, 5)


@asynccontextmanager
async def bench(**options: Any) -> AsyncIterator[Bench]:
    it = Bench(**options)
    await it.manager.start()
    try:
        yield it
    finally:
        await it.manager.stop()


async def test_a_kind_with_a_runner_of_its_own_goes_to_that_one_which_is_never_started() -> None:
    restamps = TaughtRunner()
    async with bench(others={"restamp": restamps}, start_spark=True) as it:
        for kind, runner in (("chain", it.runner), ("restamp", restamps)):
            job = await it.manager.submit(JobRequest(kind, "/", "ann", {}, work={}))
            async with asyncio.timeout(5):
                taken, _ = await runner.taken.get()
            runner.ends[taken].set_result({})
            assert (taken, (await it.ended(job)).state) == (job.id, JobState.succeeded)
    assert (it.runner.starts, restamps.starts) == (1, 0)
    assert (it.runner.stops.is_set(), restamps.stops.is_set()) == (True, False)


async def test_a_job_goes_from_queued_through_running_to_succeeded() -> None:
    async with bench() as it:
        job = await it.submit()
        assert job.state is JobState.queued
        taken, report = await it.next_taken()
        assert (await it.manager.job(job.id)).state is JobState.running
        report(Progress("reading", 40.0, 6, 2))
        shown = await it.manager.job(job.id)
        assert (shown.stage, shown.percent, shown.rows_read, shown.rows_written) == (
            "reading",
            40.0,
            6,
            2,
        )
        it.runner.ends[taken].set_result({"events": 3, "seconds": {"total": 1.0}})
        done = await it.ended(job)
        assert done.state is JobState.succeeded
        assert done.result is not None
        assert done.result["job"] == job.id
        assert done.result["events"] == 3
        assert done.result["seconds"].keys() == {"queued", "total"}
        assert it.store.records[job.id] == done


async def test_a_result_says_where_its_file_is() -> None:
    async with bench() as it:
        request = JobRequest("chain", "/", "ann", {}, {}, location="/there")
        job = await it.manager.submit(request)
        taken, _ = await it.next_taken()
        it.runner.ends[taken].set_result({"file": "a"})
        done = await it.ended(job)
        assert done.result is not None
        assert done.result["location"] == "/there"


async def test_the_same_request_joins_the_one_that_runs() -> None:
    async with bench() as it:
        first = await it.submit()
        await it.next_taken()
        joined = await it.submit(owner="ben")
        other = await it.submit(file="b")
        assert joined.id == first.id
        assert other.id != first.id


async def test_two_same_requests_at_once_are_one_job() -> None:
    async with bench() as it:
        jobs = await asyncio.gather(*(it.submit() for _ in range(5)))
        assert {job.id for job in jobs} == {1}


async def test_the_same_request_after_the_end_is_a_new_job() -> None:
    async with bench() as it:
        first = await it.submit()
        taken, _ = await it.next_taken()
        it.runner.ends[taken].set_result({})
        await it.ended(first)
        assert (await it.submit()).id != first.id


async def test_a_failed_job_has_its_reason_and_the_next_one_runs() -> None:
    async with bench() as it:
        first, second = await it.submit("a"), await it.submit("b")
        taken, _ = await it.next_taken()
        it.runner.ends[taken].set_exception(OutageError("Spark's process died"))
        failed = await it.ended(first)
        assert (failed.state, failed.error) == (JobState.failed, "Spark's process died")
        taken, _ = await it.next_taken()
        it.runner.ends[taken].set_result({})
        assert (await it.ended(second)).state is JobState.succeeded


async def test_a_fault_in_a_job_does_not_show_itself_to_users() -> None:
    async with bench() as it:
        job = await it.submit()
        taken, _ = await it.next_taken()
        it.runner.ends[taken].set_exception(KeyError("secret"))
        assert (await it.ended(job)).error == FAULT


async def test_a_waiting_job_is_cancelled_without_being_run() -> None:
    async with bench() as it:
        running, waiting = await it.submit("a"), await it.submit("b")
        taken, _ = await it.next_taken()
        assert (await it.manager.cancel(waiting.id)).state is JobState.cancelled
        it.runner.ends[taken].set_result({})
        await it.ended(running)
        assert it.runner.taken.empty()


async def test_a_running_job_is_cancelled_and_the_next_one_runs() -> None:
    async with bench() as it:
        running, waiting = await it.submit("a"), await it.submit("b")
        await it.next_taken()
        assert (await it.manager.cancel(running.id)).state is JobState.cancelled
        assert it.runner.cancelled == [running.id]
        assert (await it.next_taken())[0] == waiting.id


async def test_a_job_cancelled_at_the_moment_of_its_turn_ends() -> None:
    async with bench() as it:
        job = await it.submit()
        for _ in range(100):
            if len(it.manager._queue):
                await asyncio.sleep(0)
        assert (await it.manager.cancel(job.id)).state is JobState.cancelled


async def test_a_job_that_ended_cannot_be_cancelled() -> None:
    async with bench() as it:
        job = await it.submit()
        taken, _ = await it.next_taken()
        it.runner.ends[taken].set_result({})
        await it.ended(job)
        with pytest.raises(ConflictError, match="succeeded"):
            await it.manager.cancel(job.id)
        with pytest.raises(NotFoundError):
            await it.manager.cancel(99)


async def test_owners_take_turns() -> None:
    async with bench() as it:
        jobs = [await it.submit(f"a{k}", "ann") for k in range(3)]
        ben = await it.submit("b", "ben")
        order = []
        for _ in range(4):
            taken, _ = await it.next_taken()
            order.append(taken)
            it.runner.ends[taken].set_result({})
        assert order.index(ben.id) <= 1
        assert [each for each in order if each != ben.id] == [job.id for job in jobs]


async def test_more_than_the_queue_holds_is_refused() -> None:
    async with bench(queue_limit=2) as it:
        await it.submit("running")
        await it.next_taken()
        await it.submit("a")
        await it.submit("b")
        with pytest.raises(TooManyRequestsError):
            await it.submit("c")


async def test_watchers_see_each_state_and_the_end() -> None:
    async with bench() as it:
        job = await it.submit()
        seen: list[Job] = []

        async def watch() -> None:
            async for shown in it.manager.watch(job.id):
                seen.append(shown)

        watching = asyncio.create_task(watch())
        taken, report = await it.next_taken()
        report(Progress("reading", 10.0))
        it.runner.ends[taken].set_result({"events": 1})
        async with asyncio.timeout(5):
            await watching
        assert seen[-1].state is JobState.succeeded
        assert seen[-1].result is not None
        states = [each.state for each in seen]
        assert states == sorted(states, key=list(JobState).index)


async def test_a_job_of_the_past_is_shown_once() -> None:
    async with bench() as it:
        job = await it.store.create("chain", "/", {})
        it.store.records[job.id] = msgspec.structs.replace(job, state=JobState.failed)
        assert [each.id async for each in it.manager.watch(job.id)] == [job.id]


async def test_waiting_no_longer_than_asked() -> None:
    async with bench() as it:
        job = await it.submit()
        await it.next_taken()
        assert (await it.manager.wait(job.id, 0.01)).state is JobState.running


async def test_an_idle_runner_is_stopped_and_used_again() -> None:
    async with bench(idle_seconds=0.01) as it:
        async with asyncio.timeout(5):
            await it.runner.stops.wait()
        job = await it.submit()
        taken, _ = await it.next_taken()
        it.runner.ends[taken].set_result({})
        assert (await it.ended(job)).state is JobState.succeeded


async def test_a_database_that_is_away_for_a_moment_delays_the_end() -> None:
    async with bench() as it:
        job = await it.submit()
        taken, _ = await it.next_taken()
        it.store.outages = 1
        it.runner.ends[taken].set_result({})
        assert (await it.ended(job)).state is JobState.succeeded
        assert it.store.records[job.id].state is JobState.succeeded


async def test_a_stop_fails_what_has_not_ended() -> None:
    it = Bench()
    await it.manager.start()
    running, waiting = await it.submit("a"), await it.submit("b")
    await it.next_taken()
    await it.manager.stop()
    for job in (running, waiting):
        ended = it.store.records[job.id]
        assert (ended.state, ended.error) == (JobState.failed, STOP_ERROR)
    assert it.runner.stops.is_set()
    with pytest.raises(OutageError):
        await it.submit("c")


async def test_the_runner_starts_with_the_service_where_that_is_set() -> None:
    async with bench(start_spark=True) as it:
        job = await it.submit()
        await it.next_taken()
        assert it.runner.starts == 1
        await it.manager.cancel(job.id)
