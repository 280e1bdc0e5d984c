"""From times to ids: "since" and "until" as bounds that an index can use.

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

from app.store.database.tables import blocks, events
from app.store.reading.events import MAX_ID
from model.blocks import BLOCK, ids_of


async def ids_between(
    connection: AsyncConnection, since: int | None, until: int | None
) -> tuple[int | None, int | None]:
    """(least id, id after the greatest) of what may have been recorded in a span of time.

    From ``since`` up to but not including ``until``, in µs, any numbers; None for no bound. (0, 0):
    nothing.
    """
    if since is None and until is None:
        return None, None
    query = select(func.min(blocks.c.number), func.max(blocks.c.number))
    if since is not None:
        query = query.where(blocks.c.latest >= within(since))
    if until is not None:
        query = query.where(blocks.c.earliest < within(until))
    first, last = (await connection.execute(query)).one()
    return (0, 0) if first is None else ids_of(first, last)


def within(number: int, greatest: int = MAX_ID) -> int:
    """The nearest number that a column can hold, beyond every number that is stored.

    A driver refuses what its type cannot hold, and a caller may ask for anything.
    """
    return max(-1, min(number, greatest))


async def forget_pruned(connection: AsyncConnection) -> None:
    """Remove the blocks all of whose events retention has removed."""
    first = select(func.min(events.c.id) // BLOCK).scalar_subquery()
    await connection.execute(delete(blocks).where(blocks.c.number < first))
