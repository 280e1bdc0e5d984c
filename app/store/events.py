"""Stored events as they are read: typed values, with their channel, participant and trace."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from sqlalchemy import Select, and_, bindparam, select
from sqlalchemy.ext.asyncio import AsyncConnection

from app.errors import NotFoundError
from app.store.tables import channels, events, participants, traces
from app.stored.events import EVERYTHING, LARGE, EventRow, Wanted
from app.tracker.events import EventType, Match

# The greatest id that there can be; what is beyond is no event, and no database takes it.
MAX_ID = 2**63 - 1


_COLUMNS = (
    events.c.id,
    events.c.trace_id,
    traces.c.vhost,
    events.c.type,
    events.c.match,
    events.c.cause_id,
    events.c.participant,
    participants.c.name,
    participants.c.interval,
    events.c.seq,
    events.c.lamport,
    events.c.height,
    events.c.recorded_at,
    events.c.exchange,
    events.c.queue,
    events.c.routing_keys,
    events.c.routed_queues,
    events.c.redelivered,
    channels.c.node,
    channels.c.connection,
    channels.c.channel,
    channels.c.user,
    events.c.payload_bytes,
    events.c.payload_sha256,
)
_JOINED = (
    events.join(traces, traces.c.id == events.c.trace_id)
    .join(
        participants,
        and_(
            participants.c.trace_id == events.c.trace_id,
            participants.c.number == events.c.participant,
        ),
    )
    .join(
        channels,
        and_(channels.c.trace_id == events.c.trace_id, channels.c.number == events.c.channel),
    )
)
_FIELDS = EventRow.__struct_fields__[: len(_COLUMNS)]
_names = msgspec.json.Decoder(tuple[str, ...]).decode
_table = msgspec.json.Decoder(dict[str, Any]).decode


async def by_ids(
    connection: AsyncConnection, ids: Sequence[int], wanted: Wanted = EVERYTHING
) -> list[EventRow]:
    """The events with these ids, in their order; those that do not exist are left out."""
    if not ids:
        return []
    query, fields = _query(wanted)
    found = (_event(fields, row) for row in await connection.execute(query, {"ids": ids}))
    rows = {event.id: event for event in found}
    return [rows[event_id] for event_id in ids if event_id in rows]


@functools.cache
def _query(wanted: Wanted) -> tuple[Select[*tuple[Any, ...]], tuple[str, ...]]:
    """The query for the events with some ids, and what its columns are to an `EventRow`."""
    large = [name for name in LARGE if getattr(wanted, name)]
    query = (
        select(*_COLUMNS, *[events.c[name] for name in large])
        .select_from(_JOINED)
        .where(events.c.id.in_(bindparam("ids", expanding=True)))
    )
    return query, (*_FIELDS, *large)


async def by_id(
    connection: AsyncConnection, event_id: int, wanted: Wanted = EVERYTHING
) -> EventRow:
    """One event; raises `NotFoundError`."""
    found = await by_ids(connection, [event_id], wanted) if 0 < event_id <= MAX_ID else []
    if not found:
        raise NotFoundError(f"no event has the id {event_id}")
    return found[0]


def _event(fields: Sequence[str], row: Iterable[Any]) -> EventRow:
    values = dict(zip(fields, row, strict=True))
    values["type"] = EventType(values["type"])
    values["match"] = Match(values["match"])
    values["routing_keys"] = _names(values["routing_keys"])
    if values["routed_queues"] is not None:
        values["routed_queues"] = _names(values["routed_queues"])
    if "properties" in values:
        values["properties"] = _table(values["properties"])
    return EventRow(**values)
