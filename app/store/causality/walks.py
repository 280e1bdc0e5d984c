"""An event's causal past and future, nearest first, by index look-ups alone.

What happens right before an event is the participant's previous event and what it received or names
as its cause; right after it come the participant's next event and everything that was received from
it or names it, quiet traffic left out. What is evident comes from messages and links alone
(`app.store.causality.links`). All walks always continue from the nearest event they know of, so
what they have found so far is the nearest part of the answer, however large that is: ids are a
linear extension of happens-before.
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
from app.store.reading.events import MAX_ID, by_id, found_by_ids
from app.store.reading.queries import ids_that_fit
from app.stored.causality import EventLinks
from app.stored.likely import NO_OVERLAY, Overlay
from app.stored.reading import EventFilter, EventList
from model.event import ALL_LARGE, NOTHING_LARGE, Large
from model.ways import Direction
from model.words import EdgeKind, Via

# How many events of one participant are read ahead of the walk, and how many events the walk
# continues from at once: together a few round trips instead of a hundred. Far more than the answer
# needs cost more than the trips that they save.
AHEAD = 4
FRONTIER = 16
# How many events at once are held to a filter.
ASKED = 256
EVERY_ONE = 2**31 - 1
NO_FILTER = EventFilter()

# Which of some ids are asked for.
Meant: TypeAlias = Callable[[list[int]], Awaitable[set[int]]]

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
    query = text(_RUNS.format(ahead=AHEAD - 1, **words))
    return query.bindparams(bindparam("ids", expanding=True))


_FORWARD = _runs_query(
    beyond=">", order="ASC", least="start.height", greatest=f'coalesce(start."end", {MAX_ID})'
)
_BACKWARD = _runs_query(
    beyond="<", order="DESC", least='coalesce(start."end", 0)', greatest="start.height"
)


class Causality(Subject):
    """Any event's past and future."""

    path = read_method(links.path)
    named_by = read_method(links.named_by)

    @reads
    async def links_of(
        self, connection: AsyncConnection, trace_id: int, event_id: int
    ) -> EventLinks:
        return await links.of_event(connection, self.database.dialect, trace_id, event_id)

    async def walk(
        self,
        event_id: int,
        towards: Direction,
        limit: int = 100,
        large: Large = ALL_LARGE,
        via: Via = Via.any,
        *,
        beyond: int | None = None,
        asked: EventFilter = NO_FILTER,
        overlay: Overlay = NO_OVERLAY,
    ) -> EventList:
        """Up to ``limit`` of an event's causes (-1) or effects (1), the nearest first.

        Only those ``beyond`` an id, and that are ``asked`` for; an ``overlay`` has likely steps,
        too. Raises `NotFoundError`, and `BadRequestError` if a conversation, or what is asked for,
        takes too long to find.
        """
        is_far = beyond is not None or not asked.names_traces_alone

        async def work(connection: AsyncConnection) -> EventList:
            start = await by_id(connection, event_id, NOTHING_LARGE)
            if asked.visible is not None and start.vhost not in asked.visible:
                return EventList([])
            # What a step leads to may be cut off only where the answer is what is nearest.
            most = EVERY_ONE if is_far else limit + 1
            neighbours = await neighbours_along(
                connection, start.trace_id, most, via, towards, overlay
            )
            meant = None
            if not asked.names_traces_alone:
                meant = partial(ids_that_fit, connection, self.database.dialect, asked)
            ids, truncated = await nearest(event_id, limit, neighbours, towards, beyond, meant)
            found = await found_by_ids(connection, ids, large)
            return replace(found, truncated=truncated)

        # What others did in a conversation, or is not asked for, has to be looked through.
        if via is Via.conversation or is_far:
            return await self.database.search(Lane.search, work)
        return await self.database.read(work)


async def neighbours_along(
    connection: AsyncConnection,
    trace_id: int,
    most: int,
    via: Via,
    towards: Direction,
    overlay: Overlay = NO_OVERLAY,
) -> Neighbours:
    """From some events to their neighbours, along what ``via`` says.

    ``most`` is the most that are wanted of one step.
    """
    first = await oldest(connection, trace_id)
    left_out = links.NO_KIND if via is Via.any else int(EdgeKind.candidate)
    evident = links.Evident(connection, trace_id, first, most, towards, left_out, overlay)
    if via is Via.links:
        return evident.neighbours
    if via is Via.conversation:
        return links.ConversationWalk(connection, trace_id, evident, towards).neighbours

    async def all_that_may_be(ids: list[int]) -> dict[int, list[int]]:
        nexts = dict(await _runs(connection, ids, forward=towards == 1))
        found = await evident.neighbours([*nexts])
        for event, following in nexts.items():
            if following is not None and following >= first:
                found[event].append(following)
        return found

    return all_that_may_be


async def nearest(
    start: int,
    limit: int,
    neighbours: Neighbours,
    towards: Direction,
    beyond: int | None = None,
    meant: Meant | None = None,
    leads: Collection[int] = (),
) -> tuple[list[int], bool]:
    """Ids reachable from ``start``, nearest first, and whether there are more than ``limit``.

    Only those beyond an id, and that are ``meant``: which is asked of many at once. Where
    ``leads`` are given, it is known that they are what the start leads to.
    """
    known: dict[int, list[int]] = {start: [*leads]} if leads else {}
    # What known events lead to and is not known itself: the walk will come there, unless it ends
    # before. The nearest of it is asked for too, which takes fewer round trips.
    heard = {*leads}
    asked: set[int] = set()
    seen = {start}
    waiting: list[int] = []  # a heap of ids, negative where the walk goes down
    reached: list[int] = []
    unasked: list[int] = []
    at = start
    while True:
        if at not in known:
            heard.discard(at)
            soon = heapq.nsmallest(FRONTIER, (towards * each for each in heard))
            fresh = await neighbours([at, *(towards * each for each in soon)])
            known |= fresh
            asked.update(fresh)
            heard.update(*fresh.values())
            heard -= asked
        for each in known.pop(at, ()):  # missing if retention has removed it meanwhile
            if each not in seen:
                seen.add(each)
                heapq.heappush(waiting, towards * each)
        if meant is not None and unasked and (not waiting or len(unasked) == ASKED):
            fitting = await meant(unasked)
            reached += [each for each in unasked if each in fitting]
            unasked = []
            if len(reached) > limit:
                return reached[:limit], True
        if not waiting or (meant is None and len(reached) == limit):
            return reached, bool(waiting)
        at = towards * heapq.heappop(waiting)
        if beyond is None or towards * at > towards * beyond:
            (reached if meant is None else unasked).append(at)


async def _runs(
    connection: AsyncConnection, ids: list[int], forward: bool
) -> list[tuple[int, int | None]]:
    """(event, its participant's next), for a stretch of events from each id on.

    The last event of a run is left out, since its next was not read, unless it is the
    participant's last (or, going back, its first): then the next is None.
    """
    query = _FORWARD if forward else _BACKWARD
    rows = (await connection.execute(query, {"ids": ids})).all()
    found: list[tuple[int, int | None]] = []
    for row, following in itertools.zip_longest(rows, rows[1:]):
        if following is not None and following.start == row.start:
            found.append((row.id, following.id))
        elif row.end is None:
            found.append((row.id, None))
    return found
