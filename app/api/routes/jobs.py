"""Jobs: list, look, follow, cancel."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from typing import Annotated

from fastapi import APIRouter, Path, Query, Response

from app.api.openapi import READING, READING_ONE, WRITING, example
from app.api.schemas.jobs import Job as JobModel
from app.api.schemas.jobs import JobStateWord
from app.api.services import Parts, Services
from app.api.signin.auth import Reader, User, Writer
from app.api.streams import HEARTBEAT_SECONDS, EventStream, described, heartbeat
from app.api.views import encode_json, job_view, json_answer
from app.errors import NotFoundError
from app.stored.jobs import Job, JobState

router = APIRouter(tags=["jobs"], prefix="/itc_db/jobs")

JobId = Annotated[
    int, Path(ge=1, le=2**31 - 1, description="A job's number.", openapi_examples=example(1))
]


@router.get("", response_model=list[JobModel], responses=READING)
async def list_jobs(
    user: Reader,
    parts: Parts,
    state: Annotated[JobStateWord | None, Query(description="Only those in this state.")] = None,
    limit: Annotated[int, Query(ge=1, le=1_000, description="Most in one answer.")] = 100,
) -> Response:
    """Jobs of virtual hosts that the user sees, newest first."""
    states = None if state is None else {JobState(state)}
    jobs = await parts.jobs.jobs(user.vhosts, states=states, limit=limit)
    return json_answer([job_view(job) for job in jobs])


@router.get("/{job_id}", response_model=JobModel, responses=READING_ONE)
async def get_job(
    job_id: JobId,
    user: Reader,
    parts: Parts,
    wait: Annotated[
        float, Query(ge=0, le=3_600, description="Wait this many seconds for a change.")
    ] = 0,
) -> Response:
    """One job."""
    job = await _visible_job(job_id, user, parts)
    if wait:
        job = await _changed(job, min(wait, parts.settings.wait_seconds_max), parts)
    return json_answer(job_view(job))


async def _visible_job(job_id: int, user: User, parts: Services) -> Job:
    job = await parts.jobs.job(job_id)
    if not user.sees(job.vhost):
        raise NotFoundError(f"no job has the number {job_id}")
    return job


async def _changed(job: Job, seconds: float, parts: Services) -> Job:
    """The job as soon as it changes, or as it stands when the time is up."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            async for present in parts.jobs.watch(job.id):
                if present != job:
                    return present
    return await parts.jobs.job(job.id)


@router.delete("/{job_id}", status_code=204, responses=WRITING)
async def cancel_job(job_id: JobId, user: Writer, parts: Parts) -> None:
    """Cancel a job that has not ended."""
    await _visible_job(job_id, user, parts)
    await parts.jobs.cancel(job_id)


@router.get(
    "/{job_id}/progress",
    status_code=200,
    response_class=EventStream,
    responses={
        **READING_ONE,
        200: described("Server-sent events: each `data` is the job as it stands, in JSON."),
    },
)
async def follow_job(job_id: JobId, user: Reader, parts: Parts) -> Response:
    """One job, and again whenever it changes, until it has ended."""
    await _visible_job(job_id, user, parts)
    parts.subscribers.admit()
    return EventStream(
        _progress(job_id, parts), parts.settings.live_send_seconds, parts.subscribers.leave
    )


async def _progress(job_id: int, parts: Services) -> AsyncGenerator[bytes, None]:
    changes = parts.jobs.watch(job_id)
    coming = asyncio.ensure_future(anext(changes, None))
    stopping = asyncio.ensure_future(parts.stopping.wait())
    try:
        while not stopping.done():
            await asyncio.wait(
                {coming, stopping}, timeout=HEARTBEAT_SECONDS, return_when="FIRST_COMPLETED"
            )
            if not coming.done():
                yield heartbeat()
                continue
            job = coming.result()
            if job is None:
                return
            yield b"data: %b\n\n" % encode_json(job_view(job))
            coming = asyncio.ensure_future(anext(changes, None))
    finally:
        coming.cancel()
        stopping.cancel()
