"""An event's causal past and future, nearest first, by index look-ups alone.

Right before an event come the participant's previous event and the causes it received or names;
right after it the participant's next event and all that was received from it or names it, quiet
traffic left out. Evident steps are messages and links alone (`app.store.causality.links`). A walk
continues from the nearest event it knows of, so what it has found so far is the nearest part of the
answer, however large that is: ids are a linear extension of happens-before.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import TypeAlias

from msgspec.structs import replace
from sqlalchemy import TextClause, bindparam, text
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.causality import links
from app.store.causality.links import Neighbours
from app.store.causality.ranges import oldest
from app.store.database.lanes import Lane
from app.store.database.subject import Subject, read_method, reads
from app.store.reading.events import by_id, list_by_ids
from app.store.reading.queries import ids_that_fit
from app.stored.causality import EventLinks
from app.stored.likely import NO_OVERLAY, Overlay
from app.stored.reading import EventFilter, EventList
from model.blocks import MAX_ID
from model.event import ALL_LARGE, NOTHING_LARGE, Large
from model.ways import Direction
from model.words import EdgeKind, Via

# Events of one participant that are read ahead of the walk, and events that the walk continues from
# at once: together a few round trips instead of a hundred. Reading far more than the answer needs
# costs more than the trips saved.
READ_AHEAD = 4
FRONTIER = 16
# Events that are held to a filter at once.
MOST_PROBES = 256
EVERY_ONE = 2**31 - 1
NO_FILTER = EventFilter()

# From ids to those that a filter lets through.
Matches: TypeAlias = Callable[[list[int]], Awaitable[set[int]]]

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
SELECT start.id AS start, start."end", run.id
FROM start JOIN events AS run
  ON run.trace_id = start.trace_id AND run.participant = start.participant
  AND run.height BETWEEN {least} AND {greatest}
ORDER BY start.id, run.height {order}
"""


def _runs_query(**words: str | int) -> TextClause:
    query = text(_RUNS.format(ahead=READ_AHEAD - 1, **words))
    return query.bindparams(bindparam("ids", expanding=True))


_FORWARD = _runs_query(
    beyond=">", order="ASC", least="start.height", greatest=f'coalesce(start."end", {MAX_ID})'
)
_BACKWARD = _runs_query(
    beyond="<", order="DESC", least='coalesce(start."end", 0)', greatest="start.height"
)


class Causality(Subject):
    """Pasts and futures of events."""

    path = read_method(links.path)
    edge_causes = read_method(links.edge_causes)

    @reads
    async def links_of(
        self, connection: AsyncConnection, trace_id: int, event_id: int
    ) -> EventLinks:
        return await links.of_event(connection, self.database.dialect, trace_id, event_id)

    async def walk(
        self,
        event_id: int,
        direction: Direction,
        limit: int = 100,
        large: Large = ALL_LARGE,
        via: Via = Via.any,
        *,
        cursor: int | None = None,
        criteria: EventFilter = NO_FILTER,
        overlay: Overlay = NO_OVERLAY,
    ) -> EventList:
        """Up to ``limit`` of an event's causes (-1) or effects (1), the nearest first.

        Only those beyond the id ``cursor`` that meet the ``criteria``; an ``overlay`` adds likely
        steps. Raises `NotFoundError`, and `BadRequestError` if a search takes too long.
        """
        is_far = cursor is not None or not criteria.names_traces_alone

        async def work(connection: AsyncConnection) -> EventList:
            start = await by_id(connection, event_id, NOTHING_LARGE)
            if criteria.visible is not None and start.vhost not in criteria.visible:
                return EventList([])
            # A step may be cut off only where the answer is the nearest events.
            step_limit = EVERY_ONE if is_far else limit + 1
            neighbours = await neighbours_along(
                connection, start.trace_id, step_limit, via, direction, overlay
            )
            matches = None
            if not criteria.names_traces_alone:
                matches = partial(ids_that_fit, connection, self.database.dialect, criteria)
            ids, truncated = await nearest(event_id, limit, neighbours, direction, cursor, matches)
            events = await list_by_ids(connection, ids, large)
            return replace(events, truncated=truncated)

        # Others' events of a conversation, and those that do not match, have to be read through.
        if via is Via.conversation or is_far:
            return await self.database.search(Lane.search, work)
        return await self.database.read(work)


async def neighbours_along(
    connection: AsyncConnection,
    trace_id: int,
    limit: int,
    via: Via,
    direction: Direction,
    overlay: Overlay = NO_OVERLAY,
) -> Neighbours:
    """The function from events to their neighbours along ``via``, at most ``limit`` a step."""
    first = await oldest(connection, trace_id)
    excluded_kind = links.NO_KIND if via is Via.any else int(EdgeKind.candidate)
    evident = links.Evident(connection, trace_id, first, limit, direction, excluded_kind, overlay)
    if via is Via.links:
        return evident.neighbours
    if via is Via.conversation:
        return links.ConversationWalk(connection, trace_id, evident, direction).neighbours

    async def all_that_may_be(ids: list[int]) -> dict[int, list[int]]:
        nexts = dict(await _runs(connection, ids, forward=direction == 1))
        neighbours = await evident.neighbours([*nexts])
        for event, successor in nexts.items():
            if successor is not None and successor >= first:
                neighbours[event].append(successor)
        return neighbours

    return all_that_may_be


async def nearest(
    start: int,
    limit: int,
    neighbours: Neighbours,
    direction: Direction,
    cursor: int | None = None,
    matches: Matches | None = None,
    leads: Collection[int] = (),
) -> tuple[list[int], bool]:
    """Ids reachable from ``start``, nearest first, and whether there are more than ``limit``.

    Only those beyond the id ``cursor`` that ``matches`` lets through, many at once. With ``leads``
    the neighbours of the start are known.
    """
    steps: dict[int, list[int]] = {start: [*leads]} if leads else {}
    # Neighbours of known events whose own are unknown: the walk will come there unless it ends
    # before. Those of the nearest are read too, which takes fewer round trips.
    frontier = {*leads}
    read: set[int] = set()
    queued = {start}
    heap: list[int] = []  # a heap of ids, negative where the walk goes down
    reached: list[int] = []
    candidates: list[int] = []
    event = start
    while True:
        if event not in steps:
            frontier.discard(event)
            nearest_ids = heapq.nsmallest(
                FRONTIER, (direction * neighbour for neighbour in frontier)
            )
            fresh = await neighbours([event, *(direction * neighbour for neighbour in nearest_ids)])
            steps |= fresh
            read.update(fresh)
            frontier.update(*fresh.values())
            frontier -= read
        for successor in steps.pop(event, ()):  # missing if retention has removed it meanwhile
            if successor not in queued:
                queued.add(successor)
                heapq.heappush(heap, direction * successor)
        if matches is not None and candidates and (not heap or len(candidates) == MOST_PROBES):
            fitting = await matches(candidates)
            reached += [event_id for event_id in candidates if event_id in fitting]
            candidates = []
            if len(reached) > limit:
                return reached[:limit], True
        if not heap or (matches is None and len(reached) == limit):
            return reached, bool(heap)
        event = direction * heapq.heappop(heap)
        if cursor is None or direction * event > direction * cursor:
            (reached if matches is None else candidates).append(event)


async def _runs(
    connection: AsyncConnection, ids: list[int], forward: bool
) -> list[tuple[int, int | None]]:
    """(event, its participant's next), for a run of events from each id on.

    The last event of a run is left out, since its next was not read, unless the participant has no
    next: then that is None.
    """
    query = _FORWARD if forward else _BACKWARD
    rows = (await connection.execute(query, {"ids": ids})).all()
    pairs: list[tuple[int, int | None]] = []
    for row, next_row in itertools.zip_longest(rows, rows[1:]):
        if next_row is not None and next_row.start == row.start:
            pairs.append((row.id, next_row.id))
        elif row.end is None:
            pairs.append((row.id, None))
    return pairs
