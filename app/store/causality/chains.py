"""The chain between two events, at once: its first events, and facts about the whole."""

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
from app.store.reading.events import by_id, list_by_ids
from app.stored.causality import ChainPart, PathStep
from app.stored.likely import NO_OVERLAY, Overlay
from itc import Relation, compare, packed_height_at
from model.event import ALL_LARGE, CLOCK_ALONE, Event, Large
from model.ranges import Dot
from model.ways import MOST_REACHED, Frontier, TooFarError, in_turns, step_of_part, ways_between
from model.words import EventType, Via

_events = tables.events.c
_participants = tables.participants.c

# The whole chain is counted where no more participants than this may have a part in it.
MOST_COUNTED = 1_000


class Chains(Subject):
    """Chains between events."""

    @searches
    async def find(
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
    """A search for the chain from ``start`` to ``end``, as `Chains.find` is asked for it."""

    connection: AsyncConnection
    start: Event
    end: Event
    limit: int
    large: Large
    after: int | None
    via: Via
    overlay: Overlay

    async def evident(self) -> ChainPart:
        """The chain by messages and links, and with ``via`` by conversations."""
        try:
            ids = await self._ids_on_ways()
        except TooFarError:
            return ChainPart(truncated=True, count=None, participants=None)
        first = 0 if self.after is None else bisect_right(ids, self.after)
        page = ids[first : first + self.limit]
        query = select(_events.participant).distinct()
        acting = {*(await rows_with(self.connection, query, _events.id, ids))}
        chain = await self._part(page, truncated=first + self.limit < len(ids))
        return msgspec.structs.replace(chain, count=len(ids), participants=len(acting))

    async def by_clocks(self) -> ChainPart:
        """The chain by the events' clocks."""
        connection, start, end, cursor = self.connection, self.start, self.end, self.after
        if compare(start.stamp, end.stamp) is not Relation.before:
            return ChainPart()
        onwards = await neighbours_along(connection, start.trace_id, EVERY_ONE, Via.any, 1)
        inside = await self._clock_steps(onwards)
        begins = cursor is None or cursor < start.id
        ids, truncated = await nearest(start.id, self.limit - begins, inside, 1, cursor)
        chain = await self._part([start.id, *ids] if begins else ids, truncated=truncated)
        count, acting = await self._count_by_clocks()
        return msgspec.structs.replace(chain, count=count, participants=acting)

    async def _clock_steps(self, onwards: Neighbours) -> Neighbours:
        """The steps to events that the end's clock knows of: only from these the walk goes on.

        Links that clocks do not have lead beside the chain. Where there are any in the span, each
        event must also be after the start.
        """
        connection, start, end = self.connection, self.start, self.end
        late = await late_between(connection, start.trace_id, start.id, end.id)
        from_start = Dot(start.interval, start.height) if late else None
        clock = end.stamp
        columns = [_events.id, _events.height, _participants.interval]
        query = select(*columns, *([_events.clock] if late else [])).join_from(
            tables.events, tables.participants, tables.PARTICIPANT_OF_EVENT
        )
        verdicts: dict[int, bool] = {}

        async def judge(ids: Collection[int]) -> None:
            for row in await rows_with(connection, query, _events.id, ids):
                verdicts[row.id] = clock.height_at(row.interval) >= row.height and (
                    from_start is None or from_start.is_reached(row.clock)
                )

        async def inside(ids: list[int]) -> dict[int, list[int]]:
            steps = await onwards(ids)
            reached = {event for effects in steps.values() for event in effects if event <= end.id}
            await judge(reached - verdicts.keys())
            return {
                cause: [effect for effect in effects if verdicts.get(effect, False)]
                for cause, effects in steps.items()
            }

        return inside

    async def _count_by_clocks(self) -> tuple[int, int] | tuple[None, None]:
        """The numbers of the whole chain's events and participants; None if they are too many."""
        connection, start, end = self.connection, self.start, self.end
        trace_id = start.trace_id
        acting = await ranges.spans(connection, trace_id, start.id, end.id, MOST_COUNTED)
        if len(acting) > MOST_COUNTED:
            return None, None
        clock = end.clock or b""
        heights = [
            (span.number, height)
            for span in acting
            if (height := packed_height_at(clock, span.interval)) > span.base
        ]
        dot = Dot(start.interval, start.height)
        marks = await ranges.last_at_or_below(connection, trace_id, heights)
        tops = {
            number: mark
            for number, mark in marks.items()
            if mark.id >= start.id and dot.is_reached(mark.clock)
        }
        firsts = await ranges.first_that(
            connection, trace_id, tops, lambda mark: dot.is_reached(mark.clock)
        )
        return sum(top.seq - firsts[number].seq + 1 for number, top in tops.items()), len(tops)

    async def _part(self, ids: Sequence[int], *, truncated: bool) -> ChainPart:
        events = await list_by_ids(self.connection, ids, self.large)
        members = set(ids)
        steps = await steps_to(self.connection, ids, self.start.id)
        steps = sorted((step for step in steps if step.cause in members), key=_order)
        return ChainPart(events.items, truncated, events.heavy, steps)

    async def _ids_on_ways(self) -> list[int]:
        """The ids on all ways from ``start`` to ``end``, both included. Raises `TooFarError`."""
        connection, trace_id = self.connection, self.start.trace_id
        first, last = self.start.id, self.end.id
        side = await self._frontier()
        if not side.has_arrived:
            return []
        ids = sorted(side.reached)
        positions = {event_id: position for position, event_id in enumerate(ids)}
        parts: dict[tuple[int, bytes], int] = {}
        steps = []
        for step in await steps_to(connection, ids, first):
            if step.cause in positions:
                effect = positions[step.effect]
                steps.append((effect, positions[step.cause], effect))
        if self.via is Via.conversation:
            rows = await links.conversations_of(connection, trace_id, ids)
            for event_id, type_, participant, key in rows:
                part = parts.setdefault((participant, key), len(ids) + len(parts))
                event, is_delivery = positions[event_id], type_ == EventType.received
                steps.append((event, *step_of_part(event, part, is_delivery)))
        for effect in ids:
            causes = positions.keys() & self.overlay.neighbours(effect, -1)
            steps += [(positions[effect], positions[cause], positions[effect]) for cause in causes]
        _, sources, targets = zip(*sorted(steps), strict=True)
        size = len(ids) + len(parts)
        chain = ways_between(size, positions[first], positions[last], sources, targets)
        return [event_id for position, event_id in enumerate(ids) if chain[position]]

    async def _frontier(self) -> Frontier:
        """The side that arrived first: all events on the ways are among those that it reached."""
        connection, trace_id = self.connection, self.start.trace_id
        first, last = self.start.id, self.end.id
        sides = Frontier(last, first), Frontier(first, last)
        follow = {}
        for side in sides:
            follow[side] = await neighbours_along(
                connection, trace_id, MOST_REACHED + 1, self.via, side.direction, self.overlay
            )
        for side in in_turns(sides, MOST_REACHED):
            side.move(await _expand(side, follow[side]))
        return side


def _order(step: PathStep) -> tuple[int, int, str, str]:
    return step.effect, step.cause, step.how, step.rule or ""


async def _expand(side: Frontier, neighbours: Neighbours) -> set[int]:
    """The events next to a side's level, up to the other's end."""
    events: set[int] = set()
    for chunk in chunks(sorted(side.level)):
        for successors in (await neighbours([*chunk])).values():
            events.update(
                event_id for event_id in successors if side.direction * (side.goal - event_id) >= 0
            )
        if len(events) + len(side.reached) > 2 * MOST_REACHED:
            break  # too far, whatever else there is
    return events
