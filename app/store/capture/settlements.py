"""Settlements of stored deliveries, and the channels that hold them.

They are part of a batch's transaction; the batch's own events have theirs in their rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from sqlalchemy import ColumnElement, delete, literal_column, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.database import tables
from app.store.database.chunks import chunks, columns
from app.store.database.engine import Dialect
from app.tracker.events import Reference, SettledChanges
from app.tracker.records import Channel
from model.words import Disposition

# A disposition, its time and the hold (`app.tracker.events.Disposed`) by event, all as stored.
Settled: TypeAlias = Mapping[int | None, tuple[int | None, int | None, int | None]]

_channels = tables.channels.c
_events = tables.events.c
_open_channels = tables.open_channels.c
_traces = tables.traces.c
# A constant: a plan kept for any value of a parameter cannot use the partial index.
_IN_HAND: ColumnElement[int] = literal_column(str(int(Disposition.in_hand)))

# One statement for all: a batch may settle as many deliveries as it has events.
_SETTLE = (
    "WITH new(id, settlement, at, hold) AS ({numbers}) UPDATE events SET"
    " settlement = new.settlement, settled_at = new.at, hold = new.hold"
    " FROM new WHERE events.id = new.id"
)


async def store(
    connection: AsyncConnection,
    dialect: Dialect,
    trace_id: int,
    changes: SettledChanges,
    new: range = range(0),
) -> Settled:
    """Store changes, before the ``new`` events of their batch are; returns settlements by event.

    References must have their ids already.
    """
    of_trace = _open_channels.trace_id == trace_id
    if changes.unknown_after is not None:
        await connection.execute(delete(tables.open_channels).where(of_trace))
        # From there on nobody knows of them, which is their end.
        last_id = select(_traces.last_event_id).where(_traces.id == trace_id).scalar_subquery()
        for condition in (_events.settlement == _IN_HAND, _events.id > changes.unknown_after):
            await connection.execute(
                update(tables.events)
                .where(_events.trace_id == trace_id, condition, _events.settlement.is_not(None))
                .values(settlement=None, settled_at=None, hold=last_id)
            )
    settled = {
        reference.id: (
            # A plain number: of an enumeration's member SQLite's driver would ask what it is.
            None if disposition is None else +disposition,
            moment,
            hold.id if isinstance(hold, Reference) else hold,
        )
        for reference, (disposition, moment, hold) in changes.settled.items()
    }
    stored = [(key, *settlement) for key, settlement in settled.items() if key not in new]
    for portion in chunks(stored):
        numbers, values = dialect.numbers(portion)
        await connection.exec_driver_sql(_SETTLE.format(numbers=numbers), values)
    for pids in chunks([pid for pid, state in changes.channels.items() if state is None]):
        is_closed = _open_channels.pid.in_(pids)
        await connection.execute(delete(tables.open_channels).where(of_trace, is_closed))
    states = [(trace_id, pid, state) for pid, state in changes.channels.items() if state]
    await dialect.upsert_many(connection, tables.open_channels, states, ("state",))
    return settled


async def open_channels(connection: AsyncConnection, trace_id: int) -> list[bytes]:
    """The channels of a trace whose deliveries are counted."""
    query = (
        select(_open_channels.state)
        .where(_open_channels.trace_id == trace_id)
        .order_by(_open_channels.pid)
    )
    return [*await connection.scalars(query)]


async def in_hand(connection: AsyncConnection, trace_id: int) -> list[tuple[Channel, int, int]]:
    """The deliveries that those channels hold, as in `RestorePoint`, oldest first."""
    query = (
        select(*columns(_channels, "node connection channel user"), _events.hold, _events.id)
        .join(tables.channels, tables.CHANNEL_OF_EVENT)
        .where(_events.trace_id == trace_id, _events.settlement == _IN_HAND)
        .order_by(_events.id)
    )
    return [
        (Channel(*fields), hold, event_id)
        for *fields, hold, event_id in await connection.execute(query)
    ]
