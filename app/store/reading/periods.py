"""Periods of a trace: its events' ids, and its gaps."""

from __future__ import annotations

from sqlalchemy import ColumnElement, and_, func, or_, select, text, true
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.capture import gaps
from app.store.database import tables
from app.store.database.chunks import filters
from app.store.database.subject import Subject, reads, searches
from app.store.database.times import clamp, ids_between
from app.stored.reading import TracePeriod
from model.times import Microseconds
from statements import Question, gaps_sql

_events = tables.events.c
_gaps = tables.gaps.c

MOST_GAPS = 100


class Periods(Subject):
    """Periods of all traces, from one time up to but not including another; None is no bound."""

    @reads
    async def of(
        self, connection: AsyncConnection, trace_id: int, start: int | None, end: int | None
    ) -> TracePeriod:
        start = None if start is None else clamp(start)
        end = None if end is None else clamp(end)
        first = await _end(connection, trace_id, start, end, last=False)
        last = None if first is None else await _end(connection, trace_id, start, end, last=True)
        conditions = [_gaps.trace_id == trace_id, _overlaps(start, end, first, last)]
        newest = await gaps.newest(connection, MOST_GAPS, *conditions)
        counting = select(func.count()).select_from(tables.gaps).where(*conditions)
        number = (await connection.execute(counting)).scalar_one()
        return TracePeriod(first, last, newest, number, await _oldest_at(connection, trace_id))

    @searches
    async def has_cut_bodies(
        self, connection: AsyncConnection, trace_id: int, first: int, last: int
    ) -> bool:
        """Tell whether a body of these events is stored in part, or not at all."""
        is_cut = or_(_events.payload_sha256.is_not(None), _events.payload.is_(None))
        query = select(_events.id).where(
            _events.trace_id == trace_id,
            _events.id.between(first, last),
            _events.payload_bytes > 0,
            is_cut,
        )
        return (await connection.execute(query.limit(1))).first() is not None


def _overlaps(
    start: int | None, end: int | None, first: int | None, last: int | None
) -> ColumnElement[bool]:
    """The condition that a gap overlaps the period, by the clock or between its events.

    Both, because a gap's times are the service's, and those of events the broker's.
    """
    bounds = [] if end is None else [_gaps.since < end]
    if start is not None:
        bounds.append(or_(_gaps.until.is_(None), _gaps.until > start))
    by_clock = and_(true(), *bounds)
    if first is None or last is None:
        return by_clock
    return or_(by_clock, text(gaps_sql(Question.between(0, first, last))))


async def _end(
    connection: AsyncConnection, trace_id: int, start: int | None, end: int | None, *, last: bool
) -> int | None:
    first, past_last = await ids_between(connection, start, end)
    bounds = filters(
        (_events.id.__ge__, first),
        (_events.id.__lt__, past_last),
        (_events.recorded_at.__ge__, start),
        (_events.recorded_at.__lt__, end),
    )
    query = select(_events.id).where(_events.trace_id == trace_id, *bounds)
    query = query.order_by(_events.id.desc() if last else _events.id).limit(1)
    return (await connection.execute(query)).scalar_one_or_none()


async def _oldest_at(connection: AsyncConnection, trace_id: int) -> Microseconds | None:
    query = (
        select(_events.recorded_at)
        .where(_events.trace_id == trace_id)
        .order_by(_events.id)
        .limit(1)
    )
    return (await connection.execute(query)).scalar_one_or_none()
