"""Messages of stored events: type, headers, where they were published to."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import case, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.database import tables
from app.store.database.chunks import rows_with
from model.message_types import type_of

# Of a body only the beginning is read, as much as is usually stored, and no longer table of
# properties than this, twice what a frame may have: the type of a message whose envelope is larger
# is where it was published to.
MOST_BODY = 65_536
MOST_PROPERTIES = 262_144

words_of = msgspec.json.Decoder(tuple[str, ...]).decode
table_of = msgspec.json.Decoder(dict[str, Any]).decode


class MessageFacts(NamedTuple):
    """The message of an event; ``recorded_at`` in µs."""

    id: int
    trace_id: int
    participant: int
    recorded_at: int
    cause: int | None
    queue: str | None
    exchange: str
    routing_keys: tuple[str, ...]
    routed_queues: tuple[str, ...]
    properties: dict[str, Any]
    payload: bytes | None

    @property
    def type(self) -> str:
        return self.type_through(self.exchange, self.routing_keys)

    def type_through(self, exchange: str, routing_keys: tuple[str, ...]) -> str:
        """The same, where it was published elsewhere than the event says."""
        return type_of(self.properties, exchange, routing_keys, self.payload)


_events = tables.events.c
_PLAIN = ("id", "trace_id", "participant", "recorded_at", "cause_id", "queue", "exchange")
WITHOUT_BODY = select(
    *(_events[name] for name in (*_PLAIN, "routing_keys", "routed_queues")),
    case((func.length(_events.properties) <= MOST_PROPERTIES, _events.properties)),
)
_WITH_BODY = WITHOUT_BODY.add_columns(func.substr(_events.payload, 1, MOST_BODY))


async def read(connection: AsyncConnection, ids: Collection[int]) -> dict[int, MessageFacts]:
    """The messages of some events, by their ids; those that do not exist are left out."""
    rows = await rows_with(connection, _WITH_BODY, _events.id, ids)
    return {row.id: facts(row[:-1], row[-1]) for row in rows}


def facts(row: Sequence[Any], payload: bytes | None = None) -> MessageFacts:
    """The message in a row of `WITHOUT_BODY`."""
    *plain, keys, queues, properties = row
    routed = () if queues is None else words_of(queues)
    table = {} if properties is None else table_of(properties)
    return MessageFacts._make([*plain, words_of(keys), routed, table, payload])
