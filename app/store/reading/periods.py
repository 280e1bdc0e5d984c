"""Periods of a trace: its events' ids, and its gaps."""

from __future__ import annotations

from sqlalchemy import ColumnElement, and_, func, or_, select, text, true
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.capture import gaps
from app.store.database import tables
from app.store.database.chunks import filters
from app.store.database.subject import Subject, reads, searches
from app.store.reading.times import ids_between, within
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
        self, connection: AsyncConnection, trace_id: int, since: int | None, until: int | None
    ) -> TracePeriod:
        since = None if since is None else within(since)
        until = None if until is None else within(until)
        first = await _end(connection, trace_id, since, until, last=False)
        last = None if first is None else await _end(connection, trace_id, since, until, last=True)
        met = [_gaps.trace_id == trace_id, _overlaps(since, until, first, last)]
        found = await gaps.newest(connection, MOST_GAPS, *met)
        counting = select(func.count()).select_from(tables.gaps).where(*met)
        number = (await connection.execute(counting)).scalar_one()
        return TracePeriod(first, last, found, number, await _oldest_at(connection, trace_id))

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
    since: int | None, until: int | None, first: int | None, last: int | None
) -> ColumnElement[bool]:
    """Tell whether a gap has a part in the period, by the clock or between its events.

    Both, because a gap's times are the service's, and those of events the broker's.
    """
    bounds = [] if until is None else [_gaps.since < until]
    if since is not None:
        bounds.append(or_(_gaps.until.is_(None), _gaps.until > since))
    by_clock = and_(true(), *bounds)
    if first is None or last is None:
        return by_clock
    return or_(by_clock, text(gaps_sql(Question.between(0, first, last))))


async def _end(
    connection: AsyncConnection, trace_id: int, since: int | None, until: int | None, *, last: bool
) -> int | None:
    its = tables.events.c
    first, beyond = await ids_between(connection, since, until)
    met = filters(
        (its.id.__ge__, first),
        (its.id.__lt__, beyond),
        (its.recorded_at.__ge__, since),
        (its.recorded_at.__lt__, until),
    )
    query = select(its.id).where(its.trace_id == trace_id, *met)
    query = query.order_by(its.id.desc() if last else its.id).limit(1)
    return (await connection.execute(query)).scalar_one_or_none()


async def _oldest_at(connection: AsyncConnection, trace_id: int) -> Microseconds | None:
    its = tables.events.c
    query = select(its.recorded_at).where(its.trace_id == trace_id).order_by(its.id).limit(1)
    return (await connection.execute(query)).scalar_one_or_none()
