"""What stored messages say of themselves, and the links to the causes that they name."""

from __future__ import annotations

from sqlalchemy import delete
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store import rows, tables
from app.store.engine import Dialect
from app.tracker.events import StampedEvent


async def add(
    connection: AsyncConnection, dialect: Dialect, trace_id: int, events: list[StampedEvent]
) -> None:
    """Store the keys and the links of events; nothing to store takes no statement."""
    await dialect.insert_many(connection, tables.keys, rows.key_rows(trace_id, events))
    await dialect.insert_many(connection, tables.edges, rows.edge_rows(trace_id, events))


async def forget_before(connection: AsyncConnection, trace_id: int, event_id: int) -> None:
    """Remove the keys of events before an id, and the links from and to them."""
    of_keys, of_edges = tables.keys.c, tables.edges.c
    await connection.execute(
        delete(tables.keys).where(of_keys.trace_id == trace_id, of_keys.event_id < event_id)
    )
    # A cause has a smaller id than its effect.
    await connection.execute(
        delete(tables.edges).where(of_edges.trace_id == trace_id, of_edges.cause_id < event_id)
    )
