"""Gaps: spans in which trace messages may have been lost."""

from __future__ import annotations

from sqlalchemy import delete, func, insert, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from app.errors import NotFoundError
from app.store.tables import gaps
from app.stored.gaps import Gap

_COLUMNS = [gaps.c[name] for name in Gap.__struct_fields__]


async def open_gap(
    connection: AsyncConnection, trace_id: int, after_event_id: int, since: int, reason: str
) -> int:
    """Store a gap that begins after an event; gives its id."""
    row = {
        "trace_id": trace_id,
        "after_event_id": after_event_id,
        "since": since,
        "reason": reason,
    }
    made = await connection.execute(insert(gaps).values(row).returning(gaps.c.id))
    return int(made.scalar_one())


async def close_gap(
    connection: AsyncConnection, gap_id: int, before_event_id: int, until: int
) -> None:
    """Note the end of a gap, the first one if told several; raises `NotFoundError`."""
    closed = await connection.execute(
        update(gaps)
        .where(gaps.c.id == gap_id)
        .values(
            before_event_id=func.coalesce(gaps.c.before_event_id, before_event_id),
            until=func.coalesce(gaps.c.until, until),
        )
    )
    if closed.rowcount == 0:
        raise NotFoundError(f"no gap has the number {gap_id}")


async def newest(connection: AsyncConnection, trace_id: int, limit: int) -> list[Gap]:
    """The last gaps of a trace, oldest first."""
    query = (
        select(*_COLUMNS)
        .where(gaps.c.trace_id == trace_id)
        .order_by(gaps.c.after_event_id.desc(), gaps.c.id.desc())
        .limit(limit)
    )
    return [Gap(*row) for row in reversed((await connection.execute(query)).all())]


async def between(connection: AsyncConnection, trace_id: int, a: int, b: int) -> list[Gap]:
    """Gaps in which something between two events may be missing, oldest first."""
    first, last = min(a, b), max(a, b)
    query = (
        select(*_COLUMNS)
        .where(
            gaps.c.trace_id == trace_id,
            gaps.c.after_event_id < last,
            or_(gaps.c.before_event_id.is_(None), gaps.c.before_event_id > first),
        )
        .order_by(gaps.c.after_event_id, gaps.c.id)
    )
    return [Gap(*row) for row in await connection.execute(query)]


async def forget_before(connection: AsyncConnection, trace_id: int, event_id: int) -> None:
    """Remove gaps that lie wholly before an event."""
    await connection.execute(
        delete(gaps).where(gaps.c.trace_id == trace_id, gaps.c.before_event_id <= event_id)
    )
