"""Times as bounds of ids, which an index can use.

Ids are only nearly in the order of their times: the batches of several traces interleave, an
outage holds one back, and a machine's clock is set. A binary search over the ids would then miss
events, and an index on the time would not help a list that is ordered by id. So for each 4096
consecutive ids `blocks` holds the least and the greatest time, noted when they are stored: few
rows to look through (1,200 for five million events), and exact, since the events between the
bounds are still compared one by one.
"""

from __future__ import annotations

from sqlalchemy import delete, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.database import tables
from model.blocks import BLOCK, MAX_ID, ids_of_blocks

_blocks = tables.blocks.c
_events = tables.events.c


async def ids_between(
    connection: AsyncConnection, start: int | None, end: int | None
) -> tuple[int | None, int | None]:
    """(least id, id after the greatest) of events that may be recorded in a span of time (µs).

    From ``start`` up to but not including ``end``; None for no bound. (0, 0): none are.
    """
    if start is None and end is None:
        return None, None
    query = select(func.min(_blocks.number), func.max(_blocks.number))
    if start is not None:
        query = query.where(_blocks.latest >= clamp(start))
    if end is not None:
        query = query.where(_blocks.earliest < clamp(end))
    first, last = (await connection.execute(query)).one()
    return (0, 0) if first is None else ids_of_blocks(first, last)


def clamp(number: int, greatest: int = MAX_ID) -> int:
    """The nearest number that a column can hold: a driver refuses greater ones."""
    return max(-1, min(number, greatest))


async def forget_pruned(connection: AsyncConnection) -> None:
    """Remove the blocks all of whose events retention has removed."""
    first = select(func.min(_events.id) // BLOCK).scalar_subquery()
    await connection.execute(delete(tables.blocks).where(_blocks.number < first))
