"""Trace messages that could not be read, the newest of each trace."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlalchemy import insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.database import tables
from app.store.database.chunks import filters, keep_newest
from app.store.database.subject import Subject, reads
from app.stored.capture import Quarantined
from app.tracker.events import Omission

_quarantine = tables.quarantine.c
_traces = tables.traces.c

_FIELDS = ("recorded_at", "reason", "routing_key", "headers", "body", "body_bytes")


async def add(
    connection: AsyncConnection, trace_id: int, omissions: Sequence[Omission], limit: int
) -> None:
    """Keep the newest ``limit`` messages: anybody may publish garbage."""
    values = [
        {"trace_id": trace_id, **{name: getattr(omission.record, name) for name in _FIELDS}}
        for omission in omissions
        if not omission.is_untraced
    ]
    if not values:
        return
    await connection.execute(insert(tables.quarantine), values)
    of_trace = _quarantine.trace_id == trace_id
    await keep_newest(connection, tables.quarantine, limit, of_trace)


class Quarantine(Subject):
    """The trace messages that could not be read, as far as they are kept."""

    @reads
    async def newest(
        self,
        connection: AsyncConnection,
        vhosts: Collection[str] | None = None,
        *,
        before_id: int | None = None,
        limit: int = 100,
    ) -> list[Quarantined]:
        """The newest messages, newest first; for more, those with ids below ``before_id``."""
        query = (
            select(_quarantine.id, _traces.vhost, *(_quarantine[name] for name in _FIELDS))
            .join(tables.traces, _traces.id == _quarantine.trace_id)
            .where(*filters((_traces.vhost.in_, vhosts), (_quarantine.id.__lt__, before_id)))
            .order_by(_quarantine.id.desc())
            .limit(limit)
        )
        return [Quarantined(*row) for row in (await connection.execute(query)).all()]
