"""The chain between two events, at once: its first events, and what is known of the whole."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import msgspec
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.causality import links, ranges
from app.store.causality.links import Neighbours, late_between, steps_to
from app.store.causality.walks import EVERY_ONE, nearest, neighbours_along
from app.store.database import tables
from app.store.database.chunks import chunks, rows_with
from app.store.database.subject import Subject, searches
from app.store.reading.events import by_id, found_by_ids
from app.stored.causality import ChainPart, PathStep
from app.stored.likely import NO_OVERLAY, Overlay
from itc import Relation, compare, packed_height_at
from model.event import ALL_LARGE, CLOCK_ALONE, Event, Large
from model.ranges import Dot
from model.ways import MOST_REACHED, Frontier, TooFarError, in_turns, lying_between, step_of_part
from model.words import EventType, Via

# The whole chain is counted where no more participants than this may have a part in it.
MOST_COUNTED = 1_000


class Chains(Subject):
    """The events between two events."""

    @searches
    async def between(
        self,
        connection: AsyncConnection,
        a: int,
        b: int,
        limit: int,
        large: Large = ALL_LARGE,
        via: Via = Via.any,
        *,
        after: int | None = None,
        overlay: Overlay = NO_OVERLAY,
    ) -> ChainPart:
        """The chain between two events of a trace: up to ``limit`` events, the smallest ids first.

        Only those after the id ``after``; an ``overlay`` has likely steps, too. Raises
        `NotFoundError`, and `BadRequestError` if it takes too long to find.
        """
        start = await by_id(connection, min(a, b), CLOCK_ALONE)
        end = await by_id(connection, max(a, b), CLOCK_ALONE)
        if start.trace_id != end.trace_id or start.id == end.id:
            return ChainPart()
        search = _ChainSearch(connection, start, end, limit, large, after, via, overlay)
        return await (search.by_clocks() if via is Via.any else search.evident())


@dataclass(eq=False)
class _ChainSearch:
    """A search for the chain from ``start`` to ``end``, as `Chains.between` is asked for it."""

    connection: AsyncConnection
    start: Event
    end: Event
    limit: int
    large: Large
    after: int | None
    via: Via
    overlay: Overlay

    async def evident(self) -> ChainPart:
        """The chain by messages and links, and by conversations where asked."""
        try:
            ids = await self._between()
        except TooFarError:
            return ChainPart(truncated=True, count=None, participants=None)
        first = 0 if self.after is None else bisect_right(ids, self.after)
        shown = ids[first : first + self.limit]
        its = tables.events.c
        query = select(its.participant).distinct()
        acting = {row.participant for row in await rows_with(self.connection, query, its.id, ids)}
        chain = await self._shown(shown, truncated=first + self.limit < len(ids))
        return msgspec.structs.replace(chain, count=len(ids), participants=len(acting))

    async def by_clocks(self) -> ChainPart:
        """The chain by the events' clocks."""
        connection, start, end, after = self.connection, self.start, self.end, self.after
        if compare(start.stamp, end.stamp) is not Relation.before:
            return ChainPart()
        onwards = await neighbours_along(connection, start.trace_id, EVERY_ONE, Via.any, 1)
        inside = await self._within(onwards)
        begins = after is None or after < start.id
        ids, truncated = await nearest(start.id, self.limit - begins, inside, 1, after)
        chain = await self._shown([start.id, *ids] if begins else ids, truncated=truncated)
        count, acting = await self._counted()
        return msgspec.structs.replace(chain, count=count, participants=acting)

    async def _within(self, onwards: Neighbours) -> Neighbours:
        """The steps from an event on that lead to events at or before another, by the clocks.

        What comes after an event that is not at or before it is not either, so nothing is gone on
        from there. Links that clocks do not have lead beside the chain: where there are any in the
        span, each event is held to the first one's place too.
        """
        connection, start, end = self.connection, self.start, self.end
        late = await late_between(connection, start.trace_id, start.id, end.id)
        from_start = Dot(start.interval, start.height) if late else None
        known = end.stamp
        its, whose = tables.events.c, tables.participants.c
        columns = [its.id, its.height, whose.interval]
        judged: dict[int, bool] = {}

        async def judge(ids: Collection[int]) -> None:
            query = select(*columns, *([] if from_start is None else [its.clock])).join_from(
                tables.events, tables.participants, tables.PARTICIPANT_OF_EVENT
            )
            for event_id, height, interval, *clock in await rows_with(
                connection, query, its.id, ids
            ):
                judged[event_id] = known.height_at(interval) >= height and (
                    from_start is None or from_start.reached_by(clock[0])
                )

        async def inside(ids: list[int]) -> dict[int, list[int]]:
            found = await onwards(ids)
            asked = {each for following in found.values() for each in following if each <= end.id}
            await judge(asked - judged.keys())
            return {
                event_id: [each for each in following if judged.get(each, False)]
                for event_id, following in found.items()
            }

        return inside

    async def _counted(self) -> tuple[int, int] | tuple[None, None]:
        """The number of events of the whole chain, and of participants; None if they are too many.

        A participant's part is a range of its events, whose numbers have no holes.
        """
        connection, start, end = self.connection, self.start, self.end
        trace_id = start.trace_id
        acting = await ranges.places(connection, trace_id, start.id, end.id, MOST_COUNTED)
        if len(acting) > MOST_COUNTED:
            return None, None
        clock = end.clock or b""
        asked = [
            (each.number, height)
            for each in acting
            if (height := packed_height_at(clock, each.interval)) > each.base
        ]
        dot = Dot(start.interval, start.height)
        tops = {
            number: mark
            for number, mark in (await ranges.last_at_or_below(connection, trace_id, asked)).items()
            if mark.id >= start.id and dot.reached_by(mark.clock)
        }
        firsts = await ranges.first_that(
            connection, trace_id, tops, lambda mark: dot.reached_by(mark.clock)
        )
        return sum(top.seq - firsts[number].seq + 1 for number, top in tops.items()), len(tops)

    async def _shown(self, ids: Sequence[int], *, truncated: bool) -> ChainPart:
        found = await found_by_ids(self.connection, ids, self.large)
        shown = set(ids)
        steps = await steps_to(self.connection, ids, self.start.id)
        steps = sorted((step for step in steps if step.cause in shown), key=_order)
        return ChainPart(found.items, truncated, found.heavy, steps)

    async def _between(self) -> list[int]:
        """The ids on the ways from an event to one with a greater id, both included; none without.

        Raises `TooFarError`.
        """
        connection, trace_id = self.connection, self.start.trace_id
        first, last = self.start.id, self.end.id
        near = await self._frontier()
        if not near.arrived:
            return []
        ids = sorted(near.reached)
        places = {event_id: place for place, event_id in enumerate(ids)}
        parts: dict[tuple[int, bytes], int] = {}
        steps = []
        for each in await steps_to(connection, ids, first):
            if each.cause in places:
                effect = places[each.effect]
                steps.append((effect, places[each.cause], effect))
        if self.via is Via.conversation:
            shared = await links.conversations_of(connection, trace_id, ids)
            for event_id, type_, participant, key in shared:
                part = parts.setdefault((participant, key), len(ids) + len(parts))
                event, is_delivery = places[event_id], type_ == EventType.received
                steps.append((event, *step_of_part(event, part, is_delivery)))
        for effect in ids:
            likely = (
                places[each] for each in self.overlay.neighbours(effect, -1) if each in places
            )
            steps += [(places[effect], cause, places[effect]) for cause in likely]
        _, sources, targets = zip(*sorted(steps), strict=True)
        size = len(ids) + len(parts)
        chain = lying_between(size, places[first], places[last], sources, targets)
        return [event_id for place, event_id in enumerate(ids) if chain[place]]

    async def _frontier(self) -> Frontier:
        """The side that is complete: among what it reached is all that lies on the ways."""
        connection, trace_id = self.connection, self.start.trace_id
        first, last = self.start.id, self.end.id
        sides = Frontier(last, first), Frontier(first, last)
        follow = {}
        for side in sides:
            follow[side] = await neighbours_along(
                connection, trace_id, MOST_REACHED + 1, self.via, side.towards, self.overlay
            )
        for side in in_turns(sides, MOST_REACHED):
            side.move(await _following(side, follow[side]))
        return side


def _order(step: PathStep) -> tuple[int, int, str, str]:
    return step.effect, step.cause, step.how, step.rule or ""


async def _following(side: Frontier, neighbours: Neighbours) -> set[int]:
    """The events that a side's level leads to, up to the other's end."""
    found: set[int] = set()
    for some in chunks(sorted(side.level)):
        for following in (await neighbours([*some])).values():
            found.update(each for each in following if side.towards * (side.bound - each) >= 0)
        if len(found) + len(side.reached) > 2 * MOST_REACHED:
            break  # too far, whatever else there is
    return found
