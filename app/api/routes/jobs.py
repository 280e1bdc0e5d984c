"""Jobs: list, show, follow, cancel."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response

from app.api.described import encode_json, json_answer, returns
from app.api.openapi import READING, READING_ONE, WRITING, example
from app.api.parameters import Word
from app.api.rights import reason_to_drop
from app.api.services import Parts
from app.api.signin.auth import Reader, User, Writer
from app.api.streams import HEARTBEAT_SECONDS, EventStream, frame, heartbeat, stream_content
from app.errors import NotFoundError
from app.stored.jobs import Job, JobState
from model.described import json_of

router = APIRouter(tags=["jobs"], prefix="/itc_db/jobs")

JobId = Annotated[
    int, Path(ge=1, le=2**31 - 1, description="A job's number.", openapi_examples=example(1))
]


@router.get("", **returns(list[Job], READING))
async def list_jobs(
    user: Reader,
    parts: Parts,
    state: Annotated[Word[JobState] | None, Query(description="Only those in this state.")] = None,
    limit: Annotated[int, Query(ge=1, le=1_000, description="Most in one answer.")] = 100,
) -> Response:
    """List jobs of virtual hosts that the user sees, newest first."""
    states = None if state is None else {state}
    jobs = await parts.jobs.jobs(user.vhosts, states=states, limit=limit)
    return json_answer([_readable(job, user) for job in jobs])


@router.get("/{job_id}", **returns(Job, READING_ONE))
async def get_job(job_id: JobId, user: Reader, parts: Parts) -> Response:
    """One job."""
    return json_answer(_readable(await _visible_job(job_id, user, parts), user))


def _readable(job: Job, user: User) -> Job:
    return job if user.content.cover(job.vhost) else job.without_content()


async def _visible_job(job_id: int, user: User, parts: Parts) -> Job:
    job = await parts.jobs.job(job_id)
    if not user.sees(job.vhost):
        raise NotFoundError(f"no job has the number {job_id}")
    return job


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
        200: stream_content(
            "Server-sent events: each `data` is the job as it stands, as JSON. One named `dropped` "
            "ends the stream and says why."
        ),
    },
)
async def follow_job(job_id: JobId, user: Reader, parts: Parts, request: Request) -> Response:
    """Stream a job, again whenever it changes, until it has ended."""
    await _visible_job(job_id, user, parts)
    parts.subscribers.admit()
    drop = partial(reason_to_drop, user, request)
    return EventStream(_progress(job_id, user, parts, drop), parts.subscribers.leave)


async def _progress(
    job_id: int, user: User, parts: Parts, drop: Callable[[], Awaitable[str | None]]
) -> AsyncGenerator[bytes, None]:
    changes = parts.jobs.watch(job_id)
    change = asyncio.ensure_future(anext(changes, None))
    stop = asyncio.ensure_future(parts.stopping.wait())
    try:
        while not stop.done():
            quiet = min(HEARTBEAT_SECONDS, parts.look_seconds)
            await asyncio.wait({change, stop}, timeout=quiet, return_when="FIRST_COMPLETED")
            if reason := await drop():
                yield frame("dropped", {"reason": reason})
                return
            if not change.done():
                yield heartbeat()
                continue
            job = change.result()
            if job is None:
                return
            yield b"data: %b\n\n" % encode_json(json_of(_readable(job, user)))
            change = asyncio.ensure_future(anext(changes, None))
    finally:
        change.cancel()
        stop.cancel()
