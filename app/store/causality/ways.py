"""What lies on the ways from one event to another, found through the index (`model.ways`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Row, select
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.causality import links
from app.store.causality.links import Neighbours, steps_to
from app.store.database import tables
from app.store.database.chunks import chunks
from app.store.database.searched import is_conversation
from model.ways import MOST_REACHED, Frontier, in_turns, lying_between, step_of_part
from model.words import EventType, Via


async def between(
    connection: AsyncConnection, trace_id: int, first: int, last: int, via: Via
) -> list[int]:
    """The ids on the ways from an event to one with a greater id, both included; none without.

    Raises `TooFarError`.
    """
    near = await _reached(connection, trace_id, first, last, via)
    if not near.arrived:
        return []
    ids = sorted(near.reached)
    places = {event_id: place for place, event_id in enumerate(ids)}
    parts: dict[tuple[int, bytes], int] = {}
    steps = []
    for some in chunks(ids):
        for each in await steps_to(connection, some, first):
            if each.cause in places:
                effect = places[each.effect]
                steps.append((effect, places[each.cause], effect))
        if via is Via.conversation:
            for event_id, type_, participant, key in await _shared(connection, trace_id, some):
                part = parts.setdefault((participant, key), len(ids) + len(parts))
                event, is_delivery = places[event_id], type_ == EventType.received
                steps.append((event, *step_of_part(event, part, is_delivery)))
    _, sources, targets = zip(*sorted(steps), strict=True)
    size = len(ids) + len(parts)
    chain = lying_between(size, places[first], places[last], sources, targets)
    return [event_id for place, event_id in enumerate(ids) if chain[place]]


async def _reached(
    connection: AsyncConnection, trace_id: int, first: int, last: int, via: Via
) -> Frontier:
    """The side that is complete: among what it reached is all that lies on the ways."""
    sides = Frontier(last, first), Frontier(first, last)
    follow = {}
    for side in sides:
        evident = links.Evident(connection, trace_id, first, MOST_REACHED + 1, side.towards)
        follow[side] = evident.neighbours
        if via is Via.conversation:
            conversations = links.ConversationWalk(connection, trace_id, evident, side.towards)
            follow[side] = conversations.neighbours
    for side in in_turns(sides, MOST_REACHED):
        side.move(await _following(side, follow[side]))
    return side


async def _following(side: Frontier, neighbours: Neighbours) -> set[int]:
    """What a side's level leads to, up to the other's end."""
    found: set[int] = set()
    for some in chunks(sorted(side.level)):
        for following in (await neighbours([*some])).values():
            found.update(each for each in following if side.towards * (side.bound - each) >= 0)
        if len(found) + len(side.reached) > 2 * MOST_REACHED:
            break  # too far, whatever else there is
    return found


async def _shared(
    connection: AsyncConnection, trace_id: int, ids: Sequence[int]
) -> Sequence[Row[Any, Any, Any, Any]]:
    """Of events in conversations: id, type, participant, and the conversation's key."""
    events, keys = tables.events.c, tables.keys.c
    query = (
        select(events.id, events.type, events.participant, keys.key)
        .join_from(tables.keys, tables.events, events.id == keys.event_id)
        .where(keys.trace_id == trace_id, keys.event_id.in_(ids), ~events.quiet)
        .where(is_conversation(keys.roles))
    )
    return (await connection.execute(query)).all()
