"""Gaps: spans in which trace messages may have been lost, or were not asked for."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from sqlalchemy import ColumnElement, delete, func, insert, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from app.errors import NotFoundError
from app.store.capture.leases import lock_trace
from app.store.database import tables
from app.store.database.subject import Subject, reads, writes
from model.gaps import Gap
from statements import PARAMETERS, Question, spanned_sql

_its = tables.gaps.c

_COLUMNS = [_its[each.name] for each in fields(Gap)]
_BETWEEN = " ".join(
    (
        'SELECT id, after_event_id, before_event_id, since, "until", reason, suspected, declared',
        "FROM gaps WHERE trace_id = :trace AND",
        spanned_sql(PARAMETERS),
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
        """Note that nothing is missing from an event on; of several such notes the first counts.

        ``extend`` moves the end of a gap that was closed before. Raises `NotFoundError`, and
        `LeaseLostError` as `open`.
        """
        await _lock_trace_of(connection, gap_id, epoch)
        end: dict[str, Any] = {"before_event_id": before_event_id, "until": until}
        if not extend:
            end = {name: func.coalesce(_its[name], value) for name, value in end.items()}
        closed = await connection.execute(update(tables.gaps).where(_its.id == gap_id).values(end))
        if closed.rowcount == 0:
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
            delete(tables.gaps).where(_its.id == gap_id, or_(_its.suspected, _its.until.is_(None)))
        )

    @reads
    async def newest(
        self, connection: AsyncConnection, trace_id: int, limit: int = 100
    ) -> list[Gap]:
        """The last gaps of a trace, oldest first."""
        return await newest(connection, limit, _its.trace_id == trace_id)

    @reads
    async def declared(self, connection: AsyncConnection, trace_id: int) -> list[Gap]:
        """The gaps that are there by choice and still open, oldest first."""
        query = (
            select(*_COLUMNS)
            .where(_its.trace_id == trace_id, _its.declared, _its.until.is_(None))
            .order_by(_its.id)
        )
        return [Gap(*row) for row in await connection.execute(query)]

    @reads
    async def between(
        self, connection: AsyncConnection, trace_id: int, a: int, b: int
    ) -> list[Gap]:
        """Gaps in which events between two events may be missing, oldest first."""
        asked = Question.between(trace_id, a, b)
        rows_of = self.database.dialect.rows_of
        [rows] = await rows_of(connection, [_BETWEEN], asked._asdict())
        return [Gap(*row[:-2], *map(bool, row[-2:])) for row in rows]


async def newest(connection: AsyncConnection, limit: int, *met: ColumnElement[bool]) -> list[Gap]:
    """The last gaps that meet some conditions, oldest first."""
    query = (
        select(*_COLUMNS)
        .where(*met)
        .order_by(_its.after_event_id.desc(), _its.id.desc())
        .limit(limit)
    )
    return [Gap(*row) for row in reversed((await connection.execute(query)).all())]


async def _lock_trace_of(connection: AsyncConnection, gap_id: int, epoch: int | None) -> None:
    whose = select(_its.trace_id).where(_its.id == gap_id)
    trace_id = (await connection.execute(whose)).scalar_one_or_none()
    if trace_id is not None:
        await lock_trace(connection, trace_id, epoch)


async def forget_before(connection: AsyncConnection, trace_id: int, event_id: int) -> None:
    await connection.execute(
        delete(tables.gaps).where(_its.trace_id == trace_id, _its.before_event_id <= event_id)
    )


async def note(connection: AsyncConnection, trace_id: int, **values: Any) -> int:
    """Note a gap that is open; returns its id."""
    made = insert(tables.gaps).values(trace_id=trace_id, **values).returning(_its.id)
    return int((await connection.execute(made)).scalar_one())
