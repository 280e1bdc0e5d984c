"""What became of deliveries: of those that are stored already, and the channels that hold them.

All of it is part of a batch's transaction. A batch's own events have it in their rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import msgspec
from msgspec.structs import replace
from sqlalchemy import ColumnElement, delete, literal_column, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.database import tables
from app.store.database.chunks import chunks
from app.store.database.engine import Dialect
from app.tracker.events import Disposed, OpenChannel, SettledChanges
from model.words import Disposition

Settled: TypeAlias = Mapping[int | None, Disposed]

_events, _channels = tables.events.c, tables.open_channels.c
# A constant, as of a parameter a plan that is kept does not know that the index of these fits it.
_IN_HAND: ColumnElement[int] = literal_column(str(int(Disposition.in_hand)))
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(OpenChannel).decode

# One statement for all: a batch may settle as many deliveries as it has events.
_SETTLE = (
    "WITH new(id, settlement, at) AS ({numbers}) UPDATE events"
    " SET settlement = new.settlement, settled_at = new.at FROM new WHERE events.id = new.id"
)


def by_id(changes: SettledChanges) -> Settled:
    """What became of which event; their references must have their ids already."""
    return {reference.id: each for reference, each in changes.settled.items()}


async def store(
    connection: AsyncConnection,
    dialect: Dialect,
    trace_id: int,
    changes: SettledChanges,
    settled: Settled,
) -> None:
    """Store changes, before the events of their batch are."""
    if changes.is_anew:
        await connection.execute(delete(tables.open_channels).where(_channels.trace_id == trace_id))
        await connection.execute(
            update(tables.events)
            .where(_events.trace_id == trace_id, _events.settlement == _IN_HAND)
            .values(settlement=None)
        )
    for some in chunks([*settled.items()]):
        numbers, values = dialect.numbers([(event_id, *each) for event_id, each in some])
        await connection.exec_driver_sql(_SETTLE.format(numbers=numbers), values)
    for gone in chunks([pid for pid, known in changes.channels.items() if known is None]):
        await connection.execute(
            delete(tables.open_channels).where(
                _channels.trace_id == trace_id, _channels.pid.in_(gone)
            )
        )
    states = [
        (trace_id, pid, _encode(_with_ids(known)))
        for pid, known in changes.channels.items()
        if known is not None
    ]
    await dialect.upsert_many(connection, tables.open_channels, states, ("state",))


async def open_channels(connection: AsyncConnection, trace_id: int) -> list[OpenChannel]:
    """The channels of a trace whose deliveries are counted."""
    query = select(_channels.state).where(_channels.trace_id == trace_id).order_by(_channels.pid)
    return [_decode(state) for state in await connection.scalars(query)]


def _with_ids(known: OpenChannel) -> OpenChannel:
    hand = {tag: reference.id for tag, reference in known.hand.items()}
    taken = [(tag, reference.id, *how) for tag, reference, *how in known.taken]
    return replace(known, hand=hand, taken=taken)
