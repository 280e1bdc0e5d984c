"""What lies on the ways from one event to another, along messages, links and conversations.

Both ends are gone on from, a level at a time, always on the side where fewer events were reached.
Once one side is complete, whatever lies between is among what it reached, and that is looked at
event by event. So it costs what the smaller side does, which is near the answer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store import links, tables
from app.store.chunks import chunks
from app.store.links import Direction, Neighbours, steps_to
from app.store.searched import is_conversation
from model.words import EventType, Via

# From neither end more events are followed than this, nor more steps taken in all.
MOST_REACHED = 10_000
MOST_STEPS = 2_000

# A participant's part of a conversation.
Part: TypeAlias = tuple[int, bytes]


class TooFarError(Exception):
    """More than `MOST_REACHED` events were reached from both ends, or in too many steps."""


class Node(NamedTuple):
    """An event on such a way, or beside it; quiet ones have no parts."""

    id: int
    type: EventType
    parts: Sequence[Part] = ()


async def between(
    connection: AsyncConnection, trace_id: int, first: int, last: int, via: Via
) -> list[int]:
    """The ids on the ways from an event to one with a greater id, both included; none without.

    Raises `TooFarError`.
    """
    near = await _reached(connection, trace_id, first, last, via)
    if near is None:
        return []
    causes: dict[int, list[int]] = {}
    for some in chunks(sorted(near)):
        for step in await steps_to(connection, some, first):
            if step.cause in near:
                causes.setdefault(step.effect, []).append(step.cause)
    nodes = await _nodes(connection, trace_id, near, shared=via is Via.conversation)
    return lying_between(nodes, causes, first, last)


def lying_between(
    nodes: Iterable[Node], causes: Mapping[int, Collection[int]], first: int, last: int
) -> list[int]:
    """Those on the ways from the first to the last, by id; causes have smaller ids.

    In a conversation, what was received leads to what its participant publishes later.
    """
    ordered = sorted(nodes)
    after, begun = {first}, set[Part]()
    for node in ordered:
        led = node.type is EventType.published and not begun.isdisjoint(node.parts)
        if led or not after.isdisjoint(causes.get(node.id, ())):
            after.add(node.id)
        if node.id in after and node.type is EventType.received:
            begun.update(node.parts)
    if last not in after:
        return []
    before, ended = {last}, set[Part]()
    for node in reversed(ordered):
        if node.type is EventType.received and not ended.isdisjoint(node.parts):
            before.add(node.id)
        if node.id in before:
            before.update(causes.get(node.id, ()))
            if node.type is EventType.published:
                ended.update(node.parts)
    return sorted(after & before)


class _Side:
    """What was reached from one end, up to the other's id."""

    def __init__(self, neighbours: Neighbours, start: int, bound: int) -> None:
        self.reached = {start}
        self.level = {start}
        self._neighbours = neighbours
        self._low, self._high = sorted((start, bound))

    async def step(self) -> None:
        """Go on from what was reached last."""
        found: set[int] = set()
        for some in chunks(sorted(self.level)):
            for following in (await self._neighbours([*some])).values():
                found.update(each for each in following if self._low <= each <= self._high)
            if len(found) + len(self.reached) > 2 * MOST_REACHED:
                break  # too far, whatever else there is
        self.level = found - self.reached
        self.reached |= self.level


async def _reached(
    connection: AsyncConnection, trace_id: int, first: int, last: int, via: Via
) -> set[int] | None:
    """Events among which are all on the ways; None where there is no way."""

    def side(start: int, bound: int, towards: Direction) -> _Side:
        evident = links.Evident(connection, trace_id, first, MOST_REACHED + 1, towards)
        if via is Via.conversation:
            conversations = links.Conversations(connection, trace_id, evident, towards)
            return _Side(conversations.neighbours, start, bound)
        return _Side(evident.neighbours, start, bound)

    sides = (side(last, first, -1), side(first, last, 1))
    for _ in range(MOST_STEPS):
        nearer = min(sides, key=lambda each: len(each.reached))
        if len(nearer.reached) > MOST_REACHED:
            break
        await nearer.step()
        if not nearer.level:
            other = first if nearer is sides[0] else last
            return nearer.reached if other in nearer.reached else None
    raise TooFarError


async def _nodes(
    connection: AsyncConnection, trace_id: int, ids: Collection[int], *, shared: bool
) -> list[Node]:
    events, keys = tables.events.c, tables.keys.c
    found: list[Node] = []
    for some in chunks(sorted(ids)):
        query = select(events.id, events.type, events.participant).where(events.id.in_(some))
        rows = (await connection.execute(query)).all()
        parts: dict[int, list[Part]] = {}
        if shared:
            of_keys = (
                select(keys.event_id, events.participant, keys.key)
                .join_from(tables.keys, tables.events, events.id == keys.event_id)
                .where(keys.trace_id == trace_id, keys.event_id.in_(some), ~events.quiet)
                .where(is_conversation(keys.roles))
            )
            for event_id, participant, key in await connection.execute(of_keys):
                parts.setdefault(event_id, []).append((participant, bytes(key)))
        found += [Node(row.id, EventType(row.type), parts.get(row.id, ())) for row in rows]
    return found
