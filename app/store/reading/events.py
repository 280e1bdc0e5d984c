"""Stored events as typed values, with their channel, participant and trace."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Null, Select, bindparam, case, func, null, select
from sqlalchemy.ext.asyncio import AsyncConnection

from app.errors import NotFoundError
from app.store.database import tables
from app.store.database.chunks import chunks
from app.stored.reading import EventList, shares
from model.blocks import MAX_ID
from model.event import ALL_LARGE, FIELDS, Event, Field, Kind, Large
from model.message_types import is_in_body

_events = tables.events.c
_traces = tables.traces.c

# Texts and bytes up to this length come with their row, the others of an event by themselves: a
# page of ordinary messages is one query, and one of large payloads is not in memory at once.
LIGHT = 1_024
# Long values are read at once up to this many bytes in all.
AT_ONCE = 1 << 20

_JOIN = (
    tables.events.join(tables.traces, _traces.id == _events.trace_id)
    .join(tables.participants, tables.PARTICIPANT_OF_EVENT)
    .join(tables.channels, tables.CHANNEL_OF_EVENT)
)
_LONG: frozenset[Kind] = frozenset({"bytes", "table", "words"})

_DECODERS: dict[Kind, Callable[[Any], Any]] = {
    "words": msgspec.json.Decoder(tuple[str, ...]).decode,
    "table": msgspec.json.Decoder(dict[str, Any]).decode,
}


# Fields whose value is not the column's, by position.
_DECODED = [
    (position, field.type if field.kind == "word" else _DECODERS[field.kind])
    for position, field in enumerate(FIELDS)
    if field.kind in ("word", *_DECODERS)
]
# Lists that every event has: where one is None it was left out for its length.
_NEVER_NULL = [
    position
    for position, field in enumerate(FIELDS)
    if field.kind == "words" and not field.stored.null
]


async def by_ids(
    connection: AsyncConnection, ids: Sequence[int], large: Large = ALL_LARGE
) -> list[Event]:
    """The events with these ids, in their order; those that do not exist are left out."""
    if not ids:
        return []
    rows = await connection.execute(_query(large), {"ids": ids})
    events = {event.id: event for event in map(_event, rows)}
    return [events[event_id] for event_id in ids if event_id in events]


async def list_by_ids(
    connection: AsyncConnection, ids: Sequence[int], large: Large = ALL_LARGE
) -> EventList:
    """`by_ids`, without large fields that are too much at once: long lists are then empty."""
    if not ids:
        return EventList([])
    events, heavy = {}, {}
    for *values, weight in await connection.execute(_light_query(large), {"ids": ids}):
        event = _event(values)
        events[event.id] = event
        if weight:
            heavy[event.id] = int(weight)
    if heavy and sum(heavy.values()) <= AT_ONCE:
        events |= {event.id: event for event in await by_ids(connection, [*heavy], large)}
        heavy = {}
    in_order = {event_id: heavy[event_id] for event_id in ids if event_id in heavy} if heavy else {}
    return EventList([events[event_id] for event_id in ids if event_id in events], in_order)


async def read_in_chunks(
    connection: AsyncConnection, ids: Sequence[int], large: Large
) -> AsyncIterator[Event]:
    """The events with these ids, in any order; at most `AT_ONCE` bytes of long values at a time."""
    for chunk in chunks(ids):
        events = await list_by_ids(connection, chunk, large)
        for event in events.items:
            if event.id not in events.heavy:
                yield event
        for share in shares([*events.heavy], events.heavy, AT_ONCE):
            for event in await by_ids(connection, share, large):
                yield event


async def read_with_types(connection: AsyncConnection, ids: Sequence[int]) -> AsyncIterator[Event]:
    """As `read_in_chunks`, with properties, and with bodies where only these may say the type."""
    in_body: list[int] = []
    async for event in read_in_chunks(connection, ids, frozenset({"properties"})):
        if is_in_body(event.properties):
            in_body.append(event.id)
        else:
            yield event
    async for event in read_in_chunks(connection, in_body, frozenset({"properties", "payload"})):
        yield event


@functools.cache
def _query(large: Large) -> Select[*tuple[Any, ...]]:
    """The query for the events with some ids, its columns in the order of `Event`."""
    return _of_ids(*(_column(field, large) for field in FIELDS))


@functools.cache
def _light_query(large: Large) -> Select[*tuple[Any, ...]]:
    """`_query` without long values, and behind the row how long these are together."""
    columns, weights = [], []
    for field in FIELDS:
        column = _column(field, large)
        if field.kind in _LONG and not isinstance(column, Null):
            size = func.length(column)
            weights.append(case((size > LIGHT, size), else_=0))
            column = case((size <= LIGHT, column))
        columns.append(column)
    return _of_ids(*columns, sum(weights[1:], start=weights[0]))


def _of_ids(*columns: ColumnElement[Any]) -> Select[*tuple[Any, ...]]:
    return (
        select(*columns).select_from(_JOIN).where(_events.id.in_(bindparam("ids", expanding=True)))
    )


def _column(field: Field, large: Large) -> ColumnElement[Any]:
    if field.stored.large and field.name not in large:
        return null()
    column: ColumnElement[Any] = tables.metadata.tables[field.table].c[field.column]
    return column


async def by_id(connection: AsyncConnection, event_id: int, large: Large = ALL_LARGE) -> Event:
    """One event; raises `NotFoundError`."""
    [event] = await all_by_ids(connection, [event_id], large)
    return event


async def all_by_ids(
    connection: AsyncConnection, ids: Sequence[int], large: Large = ALL_LARGE
) -> list[Event]:
    """The events with these ids, in their order; raises `NotFoundError` if one does not exist."""
    possible = [event_id for event_id in ids if 0 < event_id <= MAX_ID]
    events = await by_ids(connection, possible, large)
    if len(events) < len(ids):
        existing = {event.id for event in events}
        unknown_id = next(event_id for event_id in ids if event_id not in existing)
        raise NotFoundError(f"no event has the id {unknown_id}")
    return events


def _event(row: Iterable[Any]) -> Event:
    values = [*row]
    for position, decode in _DECODED:
        if values[position] is not None:
            values[position] = decode(values[position])
    for position in _NEVER_NULL:
        if values[position] is None:
            values[position] = ()
    return Event._make(values)
