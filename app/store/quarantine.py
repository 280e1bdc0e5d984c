"""Trace messages that could not be read, the newest of each trace."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import delete, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.rows import quarantine_values
from app.store.tables import quarantine, traces
from app.stored.quarantine import Quarantined
from app.tracker.records import Unreadable


async def add(
    connection: AsyncConnection, trace_id: int, unreadable: list[Unreadable], most: int
) -> None:
    """Keep messages, and let go of the oldest beyond so many: anybody may publish rubbish."""
    if not unreadable:
        return
    await connection.execute(insert(quarantine), quarantine_values(trace_id, unreadable))
    newest_to_go = (
        select(quarantine.c.id)
        .where(quarantine.c.trace_id == trace_id)
        .order_by(quarantine.c.id.desc())
        .offset(most)
        .limit(1)
        .scalar_subquery()
    )
    await connection.execute(
        delete(quarantine).where(quarantine.c.trace_id == trace_id, quarantine.c.id <= newest_to_go)
    )


async def newest(
    connection: AsyncConnection, vhosts: Collection[str] | None, before: int | None, limit: int
) -> list[Quarantined]:
    """The newest messages, newest first, of some virtual hosts or of all (None)."""
    columns = [quarantine.c[name] for name in Quarantined.__struct_fields__ if name != "vhost"]
    query = (
        select(columns[0], traces.c.vhost, *columns[1:])
        .join(traces, traces.c.id == quarantine.c.trace_id)
        .order_by(quarantine.c.id.desc())
        .limit(limit)
    )
    if vhosts is not None:
        query = query.where(traces.c.vhost.in_(sorted(vhosts)))
    if before is not None:
        query = query.where(quarantine.c.id < before)
    return [Quarantined(*row) for row in (await connection.execute(query)).all()]


async def forget_until(connection: AsyncConnection, trace_id: int, recorded_at: int) -> None:
    """Remove messages recorded up to a time, in µs."""
    await connection.execute(
        delete(quarantine).where(
            quarantine.c.trace_id == trace_id, quarantine.c.recorded_at <= recorded_at
        )
    )
