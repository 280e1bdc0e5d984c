"""Gaps: spans in which trace messages may have been lost, or were not asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from sqlalchemy import ColumnElement, delete, func, insert, not_, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from app.errors import NotFoundError
from app.store.database import tables
from app.store.database.engine import Dialect
from app.store.database.subject import Subject, reads, writes
from app.store.holding.leases import lock_trace
from app.tracker.events import Omission
from app.tracker.records import NOWHERE, UNTRACED_REPLY
from model.gaps import Gap
from statements import PARAMETERS, Question, gaps_sql

_gaps = tables.gaps.c

# Within this many events there are at most this many gaps of unreadable messages.
NEAR_EVENTS, MOST_NEAR = 5_000, 100
CROWD = "too many trace messages are in quarantine here to tell of each"

_COLUMNS = [_gaps[field.name] for field in fields(Gap)]
_IN_SPAN = " ".join(
    (
        'SELECT id, after_event_id, before_event_id, since, "until", reason, suspected, declared,',
        "quarantined, channel FROM gaps WHERE trace_id = :trace AND",
        gaps_sql(PARAMETERS),
        "ORDER BY after_event_id, id",
    )
)


class Gaps(Subject):
    """The gaps of all traces."""

    @writes
    async def open(
        self,
        connection: AsyncConnection,
        trace_id: int,
        *,
        after_event_id: int,
        since: int,
        reason: str,
        suspected: bool = False,
        epoch: int | None = None,
    ) -> int:
        """Note a gap that begins after an event (0: before the first); returns the gap's id.

        Raises `LeaseLostError` if the trace was taken by another since ``epoch``.
        """
        await lock_trace(connection, trace_id, epoch)
        begin = {"after_event_id": after_event_id, "since": since, "reason": reason}
        return await note(connection, trace_id, **begin, suspected=suspected)

    @writes
    async def close(
        self,
        connection: AsyncConnection,
        gap_id: int,
        *,
        before_event_id: int,
        until: int,
        epoch: int | None = None,
        extend: bool = False,
    ) -> None:
        """Note that nothing is missing from an event on; only the first such note counts.

        ``extend`` moves the end of a closed gap. Raises `NotFoundError`, and `LeaseLostError` as
        `open`.
        """
        await _lock_trace_of(connection, gap_id, epoch)
        end: dict[str, Any] = {"before_event_id": before_event_id, "until": until}
        if not extend:
            end = {name: func.coalesce(_gaps[name], value) for name, value in end.items()}
        result = await connection.execute(update(tables.gaps).where(_gaps.id == gap_id).values(end))
        if result.rowcount == 0:
            raise NotFoundError(f"no gap has the number {gap_id}")

    @writes
    async def withdraw(
        self, connection: AsyncConnection, gap_id: int, *, epoch: int | None = None
    ) -> None:
        """Remove a gap that is still open, or only suspected: nothing is missing there after all.

        Raises `LeaseLostError` as `open`.
        """
        await _lock_trace_of(connection, gap_id, epoch)
        await connection.execute(
            delete(tables.gaps).where(
                _gaps.id == gap_id, or_(_gaps.suspected, _gaps.until.is_(None))
            )
        )

    @reads
    async def newest(
        self, connection: AsyncConnection, trace_id: int, limit: int = 100
    ) -> list[Gap]:
        """The last gaps of a trace, oldest first: as many losses, and as many declared ones."""
        of_trace, gaps = _gaps.trace_id == trace_id, list[Gap]()
        for kind in (_gaps.declared, not_(_gaps.declared)):
            gaps += await newest(connection, limit, of_trace, kind)
        return sorted(gaps, key=lambda gap: (gap.after_event_id, gap.id))

    @reads
    async def open_declared(self, connection: AsyncConnection, trace_id: int) -> list[Gap]:
        """The gaps that are there by choice and still open, oldest first."""
        query = (
            select(*_COLUMNS)
            .where(_gaps.trace_id == trace_id, _gaps.declared, _gaps.until.is_(None))
            .order_by(_gaps.id)
        )
        return [Gap(*row) for row in await connection.execute(query)]

    @reads
    async def between(
        self, connection: AsyncConnection, trace_id: int, a: int, b: int
    ) -> list[Gap]:
        return await in_span(connection, self.database.dialect, trace_id, a, b)


async def in_span(
    connection: AsyncConnection, dialect: Dialect, trace_id: int, a: int, b: int
) -> list[Gap]:
    """Gaps in which events between two events may be missing, oldest first."""
    question = Question.between(trace_id, a, b)
    [rows] = await dialect.rows_of(connection, [_IN_SPAN], question._asdict())
    return [Gap(*row[:6], *map(bool, row[6:8]), *row[8:]) for row in rows]


async def newest(
    connection: AsyncConnection, limit: int, *conditions: ColumnElement[bool]
) -> list[Gap]:
    """The last gaps that meet some conditions, oldest first."""
    query = (
        select(*_COLUMNS)
        .where(*conditions)
        .order_by(_gaps.after_event_id.desc(), _gaps.id.desc())
        .limit(limit)
    )
    return [Gap(*row) for row in reversed((await connection.execute(query)).all())]


async def _lock_trace_of(connection: AsyncConnection, gap_id: int, epoch: int | None) -> None:
    query = select(_gaps.trace_id).where(_gaps.id == gap_id)
    trace_id = (await connection.execute(query)).scalar_one_or_none()
    if trace_id is not None:
        await lock_trace(connection, trace_id, epoch)


async def note(connection: AsyncConnection, trace_id: int, **values: Any) -> int:
    """Note a gap, open if no end is given; returns its id."""
    statement = insert(tables.gaps).values(trace_id=trace_id, **values).returning(_gaps.id)
    return int((await connection.execute(statement)).scalar_one())


async def quarantine(
    connection: AsyncConnection, trace_id: int, omissions: Sequence[Omission], previous_id: int
) -> None:
    """Note a gap for each unreadable or untraced message behind the event ``previous_id``.

    Those with one reason between the same two events share a gap. Anybody can cause as many gaps
    as messages: beyond `MOST_NEAR` all others share one.
    """
    if not omissions:
        return
    query = (
        select(_gaps.after_event_id, _gaps.reason, _gaps.id)
        .where(_gaps.trace_id == trace_id)
        .where(or_(_gaps.quarantined > 0, _gaps.reason.in_((UNTRACED_REPLY, CROWD))))
        .where(_gaps.after_event_id > previous_id - NEAR_EVENTS)
    )
    stored = {(row[0], row[1]): row[2] for row in await connection.execute(query)}
    crowd = max((key for key in stored if key[1] == CROWD), default=None)
    alike: dict[tuple[int, str], list[Omission]] = {}
    for omission in omissions:
        key = (omission.previous.id or 0, omission.reason)
        if key not in stored and key not in alike and len(stored) + len(alike) >= MOST_NEAR:
            key = crowd = crowd or (key[0], CROWD)
        alike.setdefault(key, []).append(omission)
    for (after_id, reason), group in alike.items():
        end = {
            "before_event_id": 1 + max(omission.previous.id or 0 for omission in group),
            "until": max(omission.record.recorded_at for omission in group),
        }
        unread = sum(not omission.is_untraced for omission in group)
        if number := stored.get((after_id, reason)):
            count = {"quarantined": _gaps.quarantined + unread}
            longer = update(tables.gaps).where(_gaps.id == number).values(end | count)
            await connection.execute(longer)
            continue
        start = min(omission.record.recorded_at for omission in group)
        channel = NOWHERE if reason == CROWD else group[0].record.channel
        name = None if channel == NOWHERE else f"{channel.connection} ({channel.number})"
        begin = {"after_event_id": after_id, "since": start, "quarantined": unread}
        flags = {"suspected": False, "declared": unread > 0}
        await note(connection, trace_id, reason=reason, channel=name, **begin, **end, **flags)
