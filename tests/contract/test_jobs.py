from __future__ import annotations

import itertools
from collections.abc import AsyncIterator

import pytest

from app.errors import ConflictError, NotFoundError
from app.store import Store
from app.stored.jobs import TRANSITIONS, JobState
from model.jobs import Progress

REQUEST = {"from": 12, "to": 40, "file": "order.jsonl"}
# How to bring a new job into each state.
WAYS = {
    JobState.queued: [],
    JobState.running: [JobState.running],
    JobState.succeeded: [JobState.running, JobState.succeeded],
    JobState.failed: [JobState.running, JobState.failed],
    JobState.cancelled: [JobState.cancelled],
}


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[Store]:
    """A store whose clock shows 1, 2, 3, …"""
    opened = await Store.open(database_url, clock=itertools.count(1).__next__)
    yield opened
    await opened.close()


async def test_a_job_runs_and_succeeds(store: Store) -> None:
    job = await store.jobs.create("chain", "/", REQUEST)
    assert (job.state, job.request, job.percent, job.created_at) == ("queued", REQUEST, 0.0, 1)
    await store.jobs.move(job.id, JobState.running)
    assert await store.jobs.note_progress(job.id, Progress("reading", 40.0, 6, 0))
    running = await store.jobs.get(job.id)
    assert (running.stage, running.percent, running.rows_read) == ("reading", 40.0, 6)
    done = await store.jobs.move(job.id, JobState.succeeded, result={"events": 17})
    assert (done.result, done.percent, done.error) == ({"events": 17}, 100.0, None)
    assert done.stage is None
    assert (done.started_at, done.finished_at) == (2, 3)
    assert await store.jobs.get(job.id) == done


@pytest.mark.parametrize("state", list(JobState))
async def test_only_legal_transitions_are_made(store: Store, state: JobState) -> None:
    for target in JobState:
        job = await store.jobs.create("chain", "/", REQUEST)
        for step in WAYS[state]:
            job = await store.jobs.move(job.id, step)
        if target in TRANSITIONS[state]:
            assert (await store.jobs.move(job.id, target)).state is target
        else:
            with pytest.raises(ConflictError, match=f"job {job.id} is {state}"):
                await store.jobs.move(job.id, target)
            assert await store.jobs.get(job.id) == job


async def test_progress_is_noted_only_of_running_jobs(store: Store) -> None:
    for state, way in WAYS.items():
        job = await store.jobs.create("chain", "/", REQUEST)
        for step in way:
            job = await store.jobs.move(job.id, step)
        noted = await store.jobs.note_progress(job.id, Progress("late", 1.0))
        assert noted is (state is JobState.running)
        assert (await store.jobs.get(job.id) != job) is noted


async def test_what_has_not_ended_is_interrupted(store: Store) -> None:
    jobs = {}
    for state, way in WAYS.items():
        job = await store.jobs.create("chain", "/", REQUEST)
        for step in way:
            job = await store.jobs.move(job.id, step)
        jobs[state] = job
    assert await store.jobs.interrupt() == 2
    for state, before in jobs.items():
        after = await store.jobs.get(before.id)
        if TRANSITIONS[state]:
            assert (after.state, after.finished_at is not None) == (JobState.failed, True)
            assert "interrupted" in (after.error or "")
        else:
            assert after == before
    assert await store.jobs.interrupt() == 0


async def test_jobs_are_listed_newest_first(store: Store) -> None:
    ids = [(await store.jobs.create("chain", vhost, REQUEST)).id for vhost in "abab"]
    await store.jobs.move(ids[0], JobState.running)
    assert [job.id for job in await store.jobs.list()] == ids[::-1]
    assert [job.id for job in await store.jobs.list(["a"])] == [ids[2], ids[0]]
    assert [job.id for job in await store.jobs.list(states=[JobState.queued], limit=2)] == ids[
        :1:-1
    ]
    assert await store.jobs.list([]) == []


async def test_old_jobs_are_forgotten_once_they_have_ended(store: Store) -> None:
    ids = [(await store.jobs.create("chain", "/", REQUEST)).id for _ in range(6)]
    for job_id in ids[1:5]:
        await store.jobs.move(job_id, JobState.cancelled)
    assert await store.jobs.forget(keep=2) == 2
    assert [job.id for job in await store.jobs.list()] == [ids[5], ids[4], ids[3], ids[0]]
    assert await store.jobs.forget(keep=2) == 0


async def test_an_unknown_job_is_an_error(store: Store) -> None:
    with pytest.raises(NotFoundError, match="no job has the number 99"):
        await store.jobs.get(99)
    with pytest.raises(NotFoundError):
        await store.jobs.move(99, JobState.running)
    assert not await store.jobs.note_progress(99, Progress("reading", 1.0))
