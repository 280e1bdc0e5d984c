"""Messages of stored events: type, headers, where they were published to."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import msgspec
from sqlalchemy import case, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.database import tables
from app.store.database.chunks import rows_with
from model.event import Event, partial_event

# Only this much of a body is read, as much as is usually stored; and no longer table of properties
# than twice what a frame may have: a message with a larger envelope has its destination as type.
MOST_BODY = 65_536
MOST_PROPERTIES = 262_144

words_of = msgspec.json.Decoder(tuple[str, ...]).decode
table_of = msgspec.json.Decoder(dict[str, Any]).decode


_events = tables.events.c
_NAMES = ("id", "trace_id", "participant", "recorded_at", "cause", "queue", "exchange")
_LISTS = ("routing_keys", "routed_queues")
_event = partial_event(*_NAMES, *_LISTS, "properties", "payload")
WITHOUT_BODY = select(
    *(_events["cause_id" if name == "cause" else name] for name in (*_NAMES, *_LISTS)),
    case((func.length(_events.properties) <= MOST_PROPERTIES, _events.properties)),
)
_WITH_BODY = WITHOUT_BODY.add_columns(func.substr(_events.payload, 1, MOST_BODY))


async def read(connection: AsyncConnection, ids: Collection[int]) -> dict[int, Event]:
    """Some events with their messages alone, by id; those that do not exist are left out."""
    rows = await rows_with(connection, _WITH_BODY, _events.id, ids)
    return {row.id: event_of(row[:-1], row[-1]) for row in rows}


def event_of(row: Sequence[Any], payload: bytes | None = None) -> Event:
    """The event in a row of `WITHOUT_BODY`."""
    *plain, keys, queues, properties = row
    routed = None if queues is None else words_of(queues)
    table = None if properties is None else table_of(properties)
    return _event((*plain, words_of(keys), routed, table, payload))
