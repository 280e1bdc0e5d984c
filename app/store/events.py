"""Stored events as they are read: typed values, with their channel, participant and trace."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Select, and_, bindparam, null, select
from sqlalchemy.ext.asyncio import AsyncConnection

from app.errors import NotFoundError
from app.store.tables import channels, events, metadata, participants, traces
from model.event import EVERYTHING, FIELDS, Event, Field, Kind, Large

# The greatest possible id; no database stores a greater one.
MAX_ID = 2**63 - 1


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
_DECODERS: dict[Kind, Callable[[Any], Any]] = {
    "words": msgspec.json.Decoder(tuple[str, ...]).decode,
    "table": msgspec.json.Decoder(dict[str, Any]).decode,
}


def _decoder(field: Field) -> Callable[[Any], Any] | None:
    """From a column's value to the field's; None if they are the same."""
    return field.type if field.kind == "word" else _DECODERS.get(field.kind)


# Fields whose value is not the column's, by position.
_DECODED = [(place, decode) for place, each in enumerate(FIELDS) if (decode := _decoder(each))]


async def by_ids(
    connection: AsyncConnection, ids: Sequence[int], large: Large = EVERYTHING
) -> list[Event]:
    """The events with these ids, in their order; those that do not exist are left out."""
    if not ids:
        return []
    found = map(_event, await connection.execute(_query(large), {"ids": ids}))
    rows = {event.id: event for event in found}
    return [rows[event_id] for event_id in ids if event_id in rows]


@functools.cache
def _query(large: Large) -> Select[*tuple[Any, ...]]:
    """The query for the events with some ids, its columns in the order of `Event`."""
    return (
        select(*(_column(field, large) for field in FIELDS))
        .select_from(_JOINED)
        .where(events.c.id.in_(bindparam("ids", expanding=True)))
    )


def _column(field: Field, large: Large) -> ColumnElement[Any]:
    if field.stored.large and field.name not in large:
        return null()
    column: ColumnElement[Any] = metadata.tables[field.table].c[field.column]
    return column


async def by_id(connection: AsyncConnection, event_id: int, large: Large = EVERYTHING) -> Event:
    """One event; raises `NotFoundError`."""
    found = await by_ids(connection, [event_id], large) if 0 < event_id <= MAX_ID else []
    if not found:
        raise NotFoundError(f"no event has the id {event_id}")
    return found[0]


def _event(row: Iterable[Any]) -> Event:
    values = [*row]
    for place, decode in _DECODED:
        if values[place] is not None:
            values[place] = decode(values[place])
    return Event._make(values)
