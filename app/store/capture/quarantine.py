"""Trace messages that could not be read, the newest of each trace."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlalchemy import delete, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.database import tables
from app.store.database.chunks import given, keep_newest
from app.store.database.subject import Subject, reads
from app.stored.capture import Quarantined
from app.tracker.events import Omission

_its = tables.quarantine.c

_SHOWN = ("recorded_at", "reason", "routing_key", "headers", "body", "body_bytes")


async def add(
    connection: AsyncConnection, trace_id: int, omissions: Sequence[Omission], most: int
) -> None:
    """Keep messages, the newest `most`: anybody may publish garbage."""
    if not omissions:
        return
    values = [
        {"trace_id": trace_id, **{name: getattr(each.record, name) for name in _SHOWN}}
        for each in omissions
    ]
    await connection.execute(insert(tables.quarantine), values)
    of_trace = _its.trace_id == trace_id
    await keep_newest(connection, tables.quarantine, most, of_trace)


class Quarantine(Subject):
    """The trace messages that could not be read, as far as they are kept."""

    @reads
    async def newest(
        self,
        connection: AsyncConnection,
        vhosts: Collection[str] | None = None,
        *,
        before: int | None = None,
        limit: int = 100,
    ) -> list[Quarantined]:
        """The newest messages, newest first; ``before`` an id, for more."""
        query = (
            select(_its.id, tables.traces.c.vhost, *(_its[name] for name in _SHOWN))
            .join(tables.traces, tables.traces.c.id == _its.trace_id)
            .where(*given((tables.traces.c.vhost.in_, vhosts), (_its.id.__lt__, before)))
            .order_by(_its.id.desc())
            .limit(limit)
        )
        return [Quarantined(*row) for row in (await connection.execute(query)).all()]


async def forget_until(connection: AsyncConnection, trace_id: int, recorded_at: int) -> None:
    await connection.execute(
        delete(tables.quarantine).where(_its.trace_id == trace_id, _its.recorded_at <= recorded_at)
    )
