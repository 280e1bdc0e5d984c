"""From times to ids: "since" and "until" as bounds that an index can use.

Ids are nearly in the order of their times, and only nearly: the batches of several traces
interleave, an outage holds one back, and a machine's clock is set. A search by halves over the ids
would miss events then, and an index on the time would not help a list that is ordered by id. So
each 4096 ids in a row have the least and the greatest time among them noted in `blocks`, when they
are stored: few rows to look through (1,200 for five million events), and exact, since the events
between the bounds are still compared one by one.
"""

from __future__ import annotations

from sqlalchemy import delete, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.tables import blocks, events
from model.blocks import BLOCK, ids_of


async def ids_between(
    connection: AsyncConnection, since: int | None, until: int | None
) -> tuple[int | None, int | None]:
    """(least id, id after the greatest) of what may be recorded from ``since`` to ``until``.

    Times in µs, ``until`` itself not included; None where there is no bound. (0, 0): nothing.
    """
    if since is None and until is None:
        return None, None
    query = select(func.min(blocks.c.number), func.max(blocks.c.number))
    if since is not None:
        query = query.where(blocks.c.latest >= since)
    if until is not None:
        query = query.where(blocks.c.earliest < until)
    first, last = (await connection.execute(query)).one()
    return (0, 0) if first is None else ids_of(first, last)


async def forget_pruned(connection: AsyncConnection) -> None:
    """Remove the blocks whose every event is gone from the front of all traces."""
    first = select(func.min(events.c.id) // BLOCK).scalar_subquery()
    await connection.execute(delete(blocks).where(blocks.c.number < first))
