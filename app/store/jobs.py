"""Jobs, with legal transitions only."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict
from typing import Any

import msgspec
from sqlalchemy import and_, insert, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from app.errors import ConflictError, NotFoundError
from app.store.database import tables
from app.store.database.chunks import filters, keep_newest
from app.store.database.engine import Database
from app.store.database.subject import Subject, read_method, reads, writes
from app.store.holding.services import lives
from app.stored.jobs import FINAL, TRANSITIONS, Job, JobState, Json
from model.jobs import Progress

_jobs = tables.jobs.c
_services = tables.services.c

INTERRUPTED = "interrupted: the service ended while the job was unfinished"

_UNFINISHED = _jobs.state.in_([JobState.queued, JobState.running])
_COLUMNS = [_jobs[name] for name in Job.__struct_fields__]


async def _get(connection: AsyncConnection, job_id: int) -> Job:
    """A job; raises `NotFoundError`."""
    query = select(*_COLUMNS).where(_jobs.id == job_id)
    row = (await connection.execute(query)).one_or_none()
    if row is None:
        raise NotFoundError(f"no job has the number {job_id}")
    return _job(row)


class Jobs(Subject):
    """The jobs, including those that have ended."""

    def __init__(self, database: Database, service: str | None = None) -> None:
        super().__init__(database)
        self._service = service

    @writes
    async def create(
        self, connection: AsyncConnection, kind: str, vhost: str, request: Json
    ) -> Job:
        row = {
            "kind": kind,
            "state": JobState.queued,
            "vhost": vhost,
            "request": _text(request),
            "percent": 0.0,
            "rows_read": 0,
            "rows_written": 0,
            "created_at": self.database.clock(),
            "service": self._service,
            "unwanted": False,
        }
        result = await connection.execute(insert(tables.jobs).values(row).returning(*_COLUMNS))
        return _job(result.one())

    get = read_method(_get)

    @reads
    async def list(
        self,
        connection: AsyncConnection,
        vhosts: Collection[str] | None = None,
        *,
        states: Collection[JobState] | None = None,
        limit: int = 100,
    ) -> list[Job]:
        """The newest jobs, newest first, of some virtual hosts and states, or of all (None)."""
        query = select(*_COLUMNS).where(
            *filters((_jobs.vhost.in_, vhosts), (_jobs.state.in_, states))
        )
        rows = await connection.execute(query.order_by(_jobs.id.desc()).limit(limit))
        return [_job(row) for row in rows]

    @writes
    async def move(
        self,
        connection: AsyncConnection,
        job_id: int,
        state: JobState,
        *,
        result: Json | None = None,
        error: str | None = None,
    ) -> Job:
        """Move a job to a state that may follow its present one.

        Raises `ConflictError` if it may not follow, `NotFoundError` if there is no such job.
        """
        moment = self.database.clock()
        values: Json = {"state": state}
        if state is JobState.running:
            values["started_at"] = moment
        if state in FINAL:
            values |= {"finished_at": moment, "result": None if result is None else _text(result)}
            values["error"] = error
        if state is JobState.succeeded:
            # The progress noted last may be short of the end.
            values |= {"percent": 100.0, "stage": None}
        sources = sorted(source for source, targets in TRANSITIONS.items() if state in targets)
        moved = await connection.execute(
            update(tables.jobs)
            .where(_jobs.id == job_id, _jobs.state.in_(sources))
            .values(values)
            .returning(*_COLUMNS)
        )
        row = moved.one_or_none()
        if row is None:
            present = (await _get(connection, job_id)).state
            raise ConflictError(f"job {job_id} is {present}, so it cannot become {state}")
        return _job(row)

    @writes
    async def note_progress(
        self, connection: AsyncConnection, job_id: int, progress: Progress
    ) -> bool:
        """Note how far a job has come; False, with nothing noted, unless it is running."""
        result = await connection.execute(
            update(tables.jobs)
            .where(_jobs.id == job_id, _jobs.state == JobState.running)
            .values(asdict(progress))
        )
        return result.rowcount == 1

    @writes
    async def interrupt(self, connection: AsyncConnection) -> int:
        """Fail every unfinished job of a service that is gone, or of none. Returns how many."""
        living = select(_services.id).where(lives(self.database))
        service = _jobs.service
        is_orphan = or_(service.is_(None), service.not_in(living))
        if self._service is not None:
            is_orphan = and_(is_orphan, service.is_distinct_from(self._service))
        result = await connection.execute(
            update(tables.jobs)
            .where(_UNFINISHED, is_orphan)
            .values(state=JobState.failed, error=INTERRUPTED, finished_at=self.database.clock())
        )
        return result.rowcount

    @writes
    async def give_up(self, connection: AsyncConnection, job_id: int) -> None:
        """Ask the service that has a job to cancel it."""
        await connection.execute(
            update(tables.jobs).where(_jobs.id == job_id, _UNFINISHED).values(unwanted=True)
        )

    @reads
    async def cancellations(self, connection: AsyncConnection) -> Sequence[int]:
        """The unfinished jobs of this service that another was asked to cancel."""
        query = select(_jobs.id).where(_UNFINISHED, _jobs.unwanted, _jobs.service == self._service)
        return [*(await connection.execute(query)).scalars()]

    @writes
    async def forget(self, connection: AsyncConnection, keep: int) -> int:
        """Remove ended jobs except the newest `keep`; returns how many were removed."""
        has_ended = _jobs.state.in_(sorted(FINAL))
        return await keep_newest(connection, tables.jobs, keep, has_ended)


def _text(value: Json) -> str:
    return msgspec.json.encode(value).decode()


def _job(row: Any) -> Job:
    values = dict(row._mapping)
    values["state"] = JobState(values["state"])
    values["request"] = msgspec.json.decode(values["request"])
    if values["result"] is not None:
        values["result"] = msgspec.json.decode(values["result"])
    return Job(**values)
