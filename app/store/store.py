"""The store's face: one method for each thing the service asks of it, one transaction each.

What a method does stands in the module of its subject; here is only which kind of connection it
takes. Every method may raise `OutageError`: the database is away, wait and try again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store import append as appending
from app.store import (
    causality,
    deliveries,
    gaps,
    jobs,
    participants,
    quarantine,
    queries,
    retention,
    traces,
)
from app.store import events as reads
from app.store import restore as restoring
from app.store.engine import Database
from app.store.migrate import check_schema
from app.stored.batches import Batch
from app.stored.causality import Walk
from app.stored.deliveries import Fate
from app.stored.events import EVERYTHING, EventRow, Wanted
from app.stored.filters import EventFilter
from app.stored.gaps import Gap
from app.stored.jobs import Job, JobState, Json, Progress
from app.stored.pages import EventPage, Sort
from app.stored.participants import Participant, VectorEntry
from app.stored.quarantine import Quarantined
from app.stored.retention import PrunePlan
from app.stored.traces import Trace
from app.tracker.events import Checkpoint, Restored
from itc import Stamp


def _now() -> int:
    return time.time_ns() // 1000


async def _ask(connection: AsyncConnection) -> None:
    await connection.execute(text("SELECT 1"))


class Store:
    """Traces, events, gaps, quarantine and jobs, on SQLite or PostgreSQL.

    ``vhosts`` in a method are the virtual hosts that the asker may see, None for all. Times are
    microseconds since the epoch, UTC.
    """

    def __init__(
        self,
        database: Database,
        bounds: appending.Bounds,
        query_seconds: float,
        clock: Callable[[], int],
    ) -> None:
        """Use `Store.open`."""
        self._database = database
        self._bounds = bounds
        self._query_seconds = query_seconds
        self._clock = clock

    @classmethod
    async def open(
        cls,
        database_url: str,
        *,
        payload_max_bytes: int = 65_536,
        quarantine_max: int = 1_000,
        query_seconds: float = 15.0,
        clock: Callable[[], int] = _now,
    ) -> Store:
        """Connect to a database whose tables are up to date (`app.store.migrate`).

        Of each message's body ``payload_max_bytes`` are kept, of unreadable messages
        ``quarantine_max`` a trace; a list of events may take ``query_seconds``.
        Raises `SettingsError`, which says what to do, and `OutageError`.
        """
        database = Database(database_url)
        bounds = appending.Bounds(payload_max_bytes, quarantine_max)
        try:
            await database.write(check_schema)
        except BaseException:
            await database.close()
            raise
        return cls(database, bounds, query_seconds, clock)

    async def close(self) -> None:
        """Close all connections."""
        await self._database.close()

    async def ping(self) -> None:
        """Return where the database answers; otherwise `OutageError`."""
        await self._database.read(_ask)

    # Traces and their batches

    async def create_trace(self, vhost: str, policy: str) -> Trace:
        """A virtual host's trace, made at need; without events it takes another policy.

        ``policy`` is channel, connection or user. Raises `ConflictError` for another than its
        stored events have.
        """
        return await self._database.write(
            traces.create, self._database.dialect, vhost, policy, self._clock()
        )

    async def find_trace(self, vhost: str) -> Trace | None:
        """A virtual host's trace; None where there never was one."""
        return await self._database.read(traces.find, vhost)

    async def traces(self, vhosts: Collection[str] | None = None) -> list[Trace]:
        """All traces, by virtual host."""
        return await self._database.read(traces.listed, vhosts)

    async def set_wanted(self, trace_id: int, wanted: bool) -> None:
        """Say whether a trace should run when the service starts; raises `NotFoundError`."""
        await self._database.write(traces.set_wanted, trace_id, wanted)

    async def append(self, trace_id: int, batch: Batch) -> range:
        """Store a batch, all or nothing; gives its events' ids, which their references hold then.

        After an `OutageError`, append the very same batch again: if its commit did take place it
        is recognised. Only one at a time may append to a trace.
        """
        return await self._database.write(
            appending.append, self._database.dialect, trace_id, batch, self._bounds
        )

    async def restore(self, trace_id: int, handovers: int) -> Restored:
        """The last checkpoint, with the last so many handovers; raises `NotFoundError`."""
        return await self._database.read(restoring.restore, trace_id, handovers)

    # Gaps and quarantine

    async def open_gap(self, trace_id: int, *, after_event_id: int, since: int, reason: str) -> int:
        """Note that events after one (0: from the first on) may be missing; gives the gap's id."""
        return await self._database.write(gaps.open_gap, trace_id, after_event_id, since, reason)

    async def close_gap(self, gap_id: int, *, before_event_id: int, until: int) -> None:
        """Note that from an event on nothing is missing; raises `NotFoundError`."""
        await self._database.write(gaps.close_gap, gap_id, before_event_id, until)

    async def gaps(self, trace_id: int, limit: int = 100) -> list[Gap]:
        """The last gaps of a trace, oldest first."""
        return await self._database.read(gaps.newest, trace_id, limit)

    async def gaps_between(self, trace_id: int, a: int, b: int) -> list[Gap]:
        """Gaps in which events between two events may be missing, oldest first."""
        return await self._database.read(gaps.between, trace_id, a, b)

    async def quarantine(
        self, vhosts: Collection[str] | None = None, *, before: int | None = None, limit: int = 100
    ) -> list[Quarantined]:
        """Trace messages that could not be read, newest first; ``before`` an id, for more."""
        return await self._database.read(quarantine.newest, vhosts, before, limit)

    # Events

    async def events(
        self,
        wanted: EventFilter,
        *,
        after: int | None = None,
        before: int | None = None,
        limit: int = 100,
        columns: Wanted = EVERYTHING,
    ) -> list[EventRow]:
        """Up to so many events: the first behind ``after``, or else the last before ``before``.

        With ``after`` ids rise, and ``before`` ends them; without it they fall. Raises
        `BadRequestError` for what takes too long, or is no regular expression.
        """
        return await self._database.read_within(
            self._query_seconds,
            queries.listed,
            self._database.dialect,
            wanted,
            after=after,
            before=before,
            limit=limit,
            columns=columns,
        )

    async def page(
        self,
        wanted: EventFilter,
        *,
        page: int,
        page_size: int,
        sort: Sort = Sort.id,
        descending: bool = True,
        columns: Wanted = EVERYTHING,
    ) -> EventPage:
        """The page of that number, from 1, with counts; raises as `events`."""
        return await self._database.read_within(
            self._query_seconds,
            queries.paged,
            self._database.dialect,
            wanted,
            page=page,
            page_size=page_size,
            sort=sort,
            descending=descending,
            columns=columns,
        )

    async def count(self, wanted: EventFilter) -> int:
        """How many events there are; raises as `events`."""
        return await self._database.read_within(
            self._query_seconds, queries.count, self._database.dialect, wanted
        )

    async def last_event_id(self) -> int:
        """The newest event's id over all virtual hosts; 0 before the first."""
        return await self._database.read(queries.latest_id)

    async def event(self, event_id: int, columns: Wanted = EVERYTHING) -> EventRow:
        """One event; raises `NotFoundError`."""
        return await self._database.read(reads.by_id, event_id, columns)

    async def events_by_id(
        self, ids: Sequence[int], columns: Wanted = EVERYTHING
    ) -> list[EventRow]:
        """The events with these ids, in their order; those that do not exist are left out."""
        return await self._database.read(reads.by_ids, ids, columns)

    async def stamp_of(self, event_id: int) -> tuple[EventRow, Stamp]:
        """An event without its payload, and its stamp, which owns the participant's interval.

        Raises `NotFoundError`.
        """
        return await self._database.read(reads.stamp_of, event_id)

    # Causality

    async def causes(self, event_id: int, limit: int = 100, columns: Wanted = EVERYTHING) -> Walk:
        """What happened before an event, nearest first; raises `NotFoundError`."""
        return await self._database.read(causality.causes, event_id, limit, columns)

    async def effects(self, event_id: int, limit: int = 100, columns: Wanted = EVERYTHING) -> Walk:
        """What happened after an event, nearest first; raises `NotFoundError`."""
        return await self._database.read(causality.effects, event_id, limit, columns)

    async def deliveries(self, event_id: int, columns: Wanted = EVERYTHING) -> Fate:
        """A publish's fate, queue by queue.

        Raises `NotFoundError`, and `BadRequestError` for a received event.
        """
        return await self._database.read(deliveries.fate_of, event_id, columns)

    async def participants(
        self, trace_id: int, *, before: int | None = None, limit: int = 1_000
    ) -> list[Participant]:
        """Who took part in a trace, those with the newest events first.

        ``before``: only those whose last event has a smaller id, for the next page.
        """
        return await self._database.read(participants.newest, trace_id, before, limit)

    async def vector(self, event: EventRow) -> list[VectorEntry]:
        """The vector clock of an event that was read with its clock, by participant."""
        return await self._database.read(participants.vector, event)

    # Jobs

    async def create_job(self, kind: str, vhost: str, request: Json) -> Job:
        """A new job, queued."""
        return await self._database.write(jobs.create, kind, vhost, request, self._clock())

    async def job(self, job_id: int) -> Job:
        """A job; raises `NotFoundError`."""
        return await self._database.read(jobs.get, job_id)

    async def jobs(
        self,
        vhosts: Collection[str] | None = None,
        *,
        states: Collection[JobState] | None = None,
        limit: int = 100,
    ) -> list[Job]:
        """The newest jobs, newest first."""
        return await self._database.read(jobs.newest, vhosts, states, limit)

    async def move_job(
        self, job_id: int, state: JobState, *, result: Json | None = None, error: str | None = None
    ) -> Job:
        """Put a job into its next state.

        Raises `ConflictError` where that is not a next one, `NotFoundError` without the job.
        """
        return await self._database.write(
            jobs.move, job_id, state, self._clock(), result=result, error=error
        )

    async def note_progress(self, job_id: int, progress: Progress) -> bool:
        """Note how far a job has come; False, and nothing noted, unless it runs."""
        return await self._database.write(jobs.note_progress, job_id, progress)

    async def interrupt_jobs(self) -> int:
        """Fail every job that has not ended, as at a start: gives how many there were."""
        return await self._database.write(jobs.interrupt, self._clock())

    async def forget_jobs(self, keep: int) -> int:
        """Remove ended jobs but for the newest so many; gives how many went."""
        return await self._database.write(jobs.forget, keep)

    # Retention

    async def plan_prune(
        self,
        trace_id: int,
        *,
        keep_events: int | None = None,
        older_than: int | None = None,
        through: int | None = None,
        at_most: int | None = None,
    ) -> PrunePlan | None:
        """What has to go for the newest ``keep_events`` to stay, and what is ``older_than`` (µs).

        Nothing goes whose id is above ``through``, without other bounds everything up to it.
        ``at_most`` bounds the number of events. None where nothing has to go. A plan that is not
        carried out is the dry run. Raises `NotFoundError`.
        """
        return await self._database.read(
            retention.plan,
            trace_id,
            keep_events=keep_events,
            older_than=older_than,
            through=through,
            at_most=at_most,
        )

    async def prune(self, plan: PrunePlan, checkpoint: Checkpoint) -> None:
        """Carry a plan out, with the checkpoint of a tracker that has let go of it.

        Raises `ConflictError` where the trace has gone on meanwhile. After any error the tracker
        has let go of what is still there: restore it.
        """
        await self._database.write(retention.prune, plan, checkpoint)
        await self._database.write(self._database.dialect.reclaim)
