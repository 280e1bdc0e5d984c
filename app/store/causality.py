"""An event's causal past and future, nearest first, by index look-ups alone.

What happens right before an event is the participant's previous event and, where it was received,
its cause; right after it come the participant's next event and everything received from it, quiet
traffic left out. Both
walks always continue from the nearest event they know of, so what they have found so far is the
nearest part of the answer, however large that is: ids are a linear extension of happens-before.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from sqlalchemy import TextClause, bindparam, func, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store import tables
from app.store.events import MAX_ID, by_id, found_by_ids
from app.store.subject import Subject, reads
from app.stored.causality import Walk
from model.event import EVERYTHING, NOTHING_LARGE, Large

# How many events of one participant are read ahead of the walk, and how many events the walk
# continues from at once: together one round trip instead of a hundred.
AHEAD = 16
FRONTIER = 64

# The runs of events that begin at some ids, one after another. A run ends at the height "end",
# NULL where the participant's events end before that. As text, because each step of a walk needs
# it: building the query again took longer than its answer.
_RUNS = """
WITH start AS (
  SELECT id, trace_id, participant, height, (
    SELECT there.height FROM events AS there
    WHERE there.trace_id = events.trace_id AND there.participant = events.participant
      AND there.height {beyond} events.height
    ORDER BY there.height {order} LIMIT 1 OFFSET {ahead}
  ) AS "end"
  FROM events WHERE id IN :ids
)
SELECT start.id AS start, start."end", run.id,
  CASE WHEN run.quiet THEN NULL ELSE run.cause_id END AS cause_id
FROM start JOIN events AS run
  ON run.trace_id = start.trace_id AND run.participant = start.participant
  AND run.height BETWEEN {least} AND {greatest}
ORDER BY start.id, run.height {order}
"""


def _runs_query(**words: str | int) -> TextClause:
    query = text(_RUNS.format(ahead=AHEAD - 1, **words))
    return query.bindparams(bindparam("ids", expanding=True))


_FORWARD = _runs_query(
    beyond=">", order="ASC", least="start.height", greatest=f'coalesce(start."end", {MAX_ID})'
)
_BACKWARD = _runs_query(
    beyond="<", order="DESC", least='coalesce(start."end", 0)', greatest="start.height"
)

_RECEIVED = text(
    "SELECT cause_id, id FROM events WHERE cause_id IN :ids AND NOT quiet ORDER BY id LIMIT :most"
).bindparams(bindparam("ids", expanding=True))

# From some ids to their neighbours, and to the neighbours of what was read ahead.
Neighbours: TypeAlias = Callable[[list[int]], Awaitable[dict[int, list[int]]]]


class Causality(Subject):
    """Any event's past and future."""

    @reads
    async def causes(
        self,
        connection: AsyncConnection,
        event_id: int,
        limit: int = 100,
        large: Large = EVERYTHING,
    ) -> Walk:
        """Up to `limit` events that happened before an event, the greatest ids first.

        Raises `NotFoundError`.
        """
        start = await by_id(connection, event_id, NOTHING_LARGE)
        oldest = select(func.min(tables.events.c.id)).where(
            tables.events.c.trace_id == start.trace_id
        )
        # Retention removes a prefix of ids: smaller ones are no longer stored.
        first = (await connection.execute(oldest)).scalar_one()

        async def neighbours(ids: list[int]) -> dict[int, list[int]]:
            found = {}
            for event, previous, cause in await _runs(connection, ids, forward=False):
                found[event] = [each for each in (previous, cause) if each and each >= first]
            return found

        ids, truncated = await _nearest(event_id, limit, neighbours, towards=-1)
        found = await found_by_ids(connection, ids, large)
        return Walk(found.items, truncated, found.heavy)

    @reads
    async def effects(
        self,
        connection: AsyncConnection,
        event_id: int,
        limit: int = 100,
        large: Large = EVERYTHING,
    ) -> Walk:
        """Up to `limit` events that happened after an event, the smallest ids first.

        Raises `NotFoundError`.
        """
        await by_id(connection, event_id, NOTHING_LARGE)

        async def neighbours(ids: list[int]) -> dict[int, list[int]]:
            following = {
                event: [] if after is None else [after]
                for event, after, _ in await _runs(connection, ids, forward=True)
            }
            for cause, event in await _received_from(connection, list(following), limit + 1):
                following[cause].append(event)
            return following

        ids, truncated = await _nearest(event_id, limit, neighbours, towards=1)
        found = await found_by_ids(connection, ids, large)
        return Walk(found.items, truncated, found.heavy)


async def _nearest(
    start: int, limit: int, neighbours: Neighbours, towards: int
) -> tuple[list[int], bool]:
    """Ids reachable from ``start``, nearest first, and whether there are more than ``limit``."""
    known: dict[int, list[int]] = {}
    seen = {start}
    waiting: list[int] = []  # a heap of ids, negative where the walk goes down
    reached: list[int] = []
    at = start
    while True:
        if at not in known:
            soon = (towards * each for each in heapq.nsmallest(FRONTIER, waiting))
            known |= await neighbours([at, *(each for each in soon if each not in known)])
        for each in known.pop(at, ()):  # missing if retention has removed it meanwhile
            if each not in seen:
                seen.add(each)
                heapq.heappush(waiting, towards * each)
        if not waiting or len(reached) == limit:
            return reached, bool(waiting)
        at = towards * heapq.heappop(waiting)
        reached.append(at)


async def _runs(
    connection: AsyncConnection, ids: list[int], forward: bool
) -> list[tuple[int, int | None, int | None]]:
    """(event, its participant's next, its cause), for a stretch of events from each id on.

    The last event of a run is left out, since its next was not read, unless it is the
    participant's last (or, going back, its first): then the next is None.
    """
    query = _FORWARD if forward else _BACKWARD
    rows = (await connection.execute(query, {"ids": ids})).all()
    found: list[tuple[int, int | None, int | None]] = []
    for row, following in itertools.zip_longest(rows, rows[1:]):
        if following is not None and following.start == row.start:
            found.append((row.id, following.id, row.cause_id))
        elif row.end is None:
            found.append((row.id, None, row.cause_id))
    return found


async def _received_from(
    connection: AsyncConnection, ids: list[int], limit: int
) -> list[tuple[int, int]]:
    """(cause, event received from it), the smallest ids first.

    The limit may cut off what the walk would have reached, but only if the answer already holds
    that many smaller ids.
    """
    found = await connection.execute(_RECEIVED, {"ids": ids, "most": limit})
    return [(cause, event) for cause, event in found]
