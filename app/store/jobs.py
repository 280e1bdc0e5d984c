"""Jobs, with legal transitions only."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec
from sqlalchemy import delete, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from app.errors import ConflictError, NotFoundError
from app.store.tables import jobs
from app.stored.jobs import ENDED, TRANSITIONS, Job, JobState, Json, Progress

INTERRUPTED = "interrupted: the service ended while the job was unfinished"

_COLUMNS = [jobs.c[name] for name in Job.__struct_fields__]


async def create(
    connection: AsyncConnection, kind: str, vhost: str, request: Json, now: int
) -> Job:
    """A new job, queued."""
    row = {
        "kind": kind,
        "state": JobState.queued,
        "vhost": vhost,
        "request": _text(request),
        "percent": 0.0,
        "rows_read": 0,
        "rows_written": 0,
        "created_at": now,
    }
    made = await connection.execute(insert(jobs).values(row).returning(*_COLUMNS))
    return _job(made.one())


async def get(connection: AsyncConnection, job_id: int) -> Job:
    """A job; raises `NotFoundError`."""
    found = (await connection.execute(select(*_COLUMNS).where(jobs.c.id == job_id))).one_or_none()
    if found is None:
        raise NotFoundError(f"no job has the number {job_id}")
    return _job(found)


async def newest(
    connection: AsyncConnection,
    vhosts: Collection[str] | None,
    states: Collection[JobState] | None,
    limit: int,
) -> list[Job]:
    """The newest jobs, newest first, of some virtual hosts and states, or of all (None)."""
    query = select(*_COLUMNS).order_by(jobs.c.id.desc()).limit(limit)
    if vhosts is not None:
        query = query.where(jobs.c.vhost.in_(sorted(vhosts)))
    if states is not None:
        query = query.where(jobs.c.state.in_(sorted(states)))
    return [_job(row) for row in (await connection.execute(query)).all()]


async def move(
    connection: AsyncConnection,
    job_id: int,
    state: JobState,
    now: int,
    *,
    result: Json | None = None,
    error: str | None = None,
) -> Job:
    """Put a job into its next state.

    Raises `ConflictError` where that is not a next one, `NotFoundError` without the job.
    """
    values: Json = {"state": state}
    if state is JobState.running:
        values["started_at"] = now
    if state in ENDED:
        values |= {"finished_at": now, "result": None if result is None else _text(result)}
        values["error"] = error
    if state is JobState.succeeded:
        values |= {"percent": 100.0, "stage": None}  # the last one noted need not be the last one
    sources = sorted(source for source, following in TRANSITIONS.items() if state in following)
    moved = await connection.execute(
        update(jobs)
        .where(jobs.c.id == job_id, jobs.c.state.in_(sources))
        .values(values)
        .returning(*_COLUMNS)
    )
    row = moved.one_or_none()
    if row is None:
        present = (await get(connection, job_id)).state
        raise ConflictError(f"job {job_id} is {present}, so it cannot become {state}")
    return _job(row)


async def note_progress(connection: AsyncConnection, job_id: int, progress: Progress) -> bool:
    """Note how far a job has come; False, and nothing noted, unless it runs."""
    noted = await connection.execute(
        update(jobs)
        .where(jobs.c.id == job_id, jobs.c.state == JobState.running)
        .values(msgspec.structs.asdict(progress))
    )
    return noted.rowcount == 1


async def interrupt(connection: AsyncConnection, now: int) -> int:
    """Fail every job that has not ended: whoever worked on it is gone. Gives their number."""
    interrupted = await connection.execute(
        update(jobs)
        .where(jobs.c.state.in_([JobState.queued, JobState.running]))
        .values(state=JobState.failed, error=INTERRUPTED, finished_at=now)
    )
    return interrupted.rowcount


async def forget(connection: AsyncConnection, keep: int) -> int:
    """Remove ended jobs but for the newest so many; gives how many went."""
    ended = jobs.c.state.in_(sorted(ENDED))
    newest_to_go = (
        select(jobs.c.id).where(ended).order_by(jobs.c.id.desc()).offset(keep).limit(1)
    ).scalar_subquery()
    gone = await connection.execute(delete(jobs).where(ended, jobs.c.id <= newest_to_go))
    return gone.rowcount


def _text(value: Json) -> str:
    return msgspec.json.encode(value).decode()


def _job(row: Any) -> Job:
    values = dict(row._mapping)
    values["state"] = JobState(values["state"])
    values["request"] = msgspec.json.decode(values["request"])
    if values["result"] is not None:
        values["result"] = msgspec.json.decode(values["result"])
    return Job(**values)
