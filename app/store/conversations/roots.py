"""Beginnings of conversations: ways back from events, and events that share a key with them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from sqlalchemy import or_, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.causality import links
from app.store.causality.ranges import oldest
from app.store.database import tables
from app.store.database.chunks import chunks, rows_with
from app.store.database.engine import Dialect
from app.store.database.searched import is_conversation, is_searched_conversation, searched_keys
from app.stored.likely import NO_OVERLAY, Overlay
from model.words import EdgeKind, EventType, Via

_events = tables.events.c
_index = searched_keys.c
_keys = tables.keys.c

# Steps of a way back to a root.
MOST_STEPS = 10_000
# Events that share a key with a conversation, and its keys, at most.
MOST_SHARING, MOST_SHARED = 2_000, 100

_WAY_BACK = text(
    "WITH RECURSIVE back(id, steps) AS ("
    " SELECT CAST(:id AS BIGINT), 0"
    " UNION ALL SELECT ("
    "SELECT min(cause) FROM ("
    "SELECT cause_id AS cause FROM events WHERE id = back.id AND cause_id >= :first AND NOT quiet"
    " UNION ALL SELECT cause_id FROM edges"
    " WHERE effect_id = back.id AND cause_id >= :first AND kind <> :candidate"
    " AND NOT EXISTS (SELECT 1 FROM events WHERE id = back.id AND quiet)"
    ") AS causes), steps + 1 FROM back WHERE id IS NOT NULL AND steps < :most"
    ") SELECT id FROM back WHERE id IS NOT NULL ORDER BY steps"
).bindparams(candidate=int(EdgeKind.candidate), most=MOST_STEPS)


@dataclass(eq=False)
class Roots:
    """Finds roots of events of a trace, stored from event ``first`` on, also by an ``overlay``."""

    connection: AsyncConnection
    dialect: Dialect
    trace_id: int
    first: int
    overlay: Overlay = NO_OVERLAY

    @classmethod
    async def of_trace(
        cls,
        connection: AsyncConnection,
        dialect: Dialect,
        trace_id: int,
        overlay: Overlay = NO_OVERLAY,
    ) -> Self:
        return cls(connection, dialect, trace_id, await oldest(connection, trace_id), overlay)

    async def roots_of(self, event_id: int, message: int | None, via: Via) -> list[int]:
        """The roots of an event's conversation, its beginning first; ``message`` is its publish."""
        start = event_id if message is None or message < self.first else message
        if via is Via.any:
            return [start]
        if self.overlay:
            return await self._roots_by_keys(_way(await self._ways_back([start]), start))
        binds = {"id": start, "first": self.first}
        way = [*(await self.connection.execute(_WAY_BACK, binds)).scalars()]
        if via is Via.links:
            return way[-1:]
        return await self._roots_by_keys(way)

    async def _roots_by_keys(self, way: Sequence[int]) -> list[int]:
        """The roots of all events that share a key with a way from an event to its root."""
        roots, seen, all_keys = {way[-1]}, set(way), set[bytes]()
        level: Collection[int] = way
        while level:
            keys = set[bytes]().union(*(await self.keys_of(level)).values())
            new = sorted(keys - all_keys)[: MOST_SHARED - len(all_keys)]
            all_keys.update(new)
            ways = await self._ways_back({*await self._sharers(new)} - seen)
            level = ways.keys() - seen
            roots |= {event_id for event_id in level if ways[event_id] is None}
            seen |= level
        return sorted(roots)

    async def keys_of(self, ids: Collection[int]) -> dict[int, set[bytes]]:
        keys_by_event = defaultdict[int, set[bytes]](set)
        query = select(_keys.event_id, _keys.key).where(
            _keys.trace_id == self.trace_id, is_conversation(_keys.roles)
        )
        for event_id, key in await rows_with(self.connection, query, _keys.event_id, ids):
            keys_by_event[event_id].add(key)
        for event_id in self.overlay.keys.keys() & set(ids):
            keys_by_event[event_id] |= self.overlay.keys[event_id]
        return keys_by_event

    async def _sharers(self, key_values: Sequence[bytes]) -> list[int]:
        """The publishes with some of these keys, and deliveries whose publish is not stored."""
        if not key_values:
            return []
        query = (
            select(_index.turn, _index.event_id)
            .distinct()
            .join_from(searched_keys, tables.events, _events.id == _index.event_id)
            .where(_index.trace_id == self.trace_id, _index.key.in_(key_values))
            .where(is_searched_conversation(_index.roles), ~_events.quiet)
            .where(
                or_(
                    _events.type == int(EventType.published),
                    _events.cause_id.is_(None),
                    _events.cause_id < self.first,
                )
            )
            .order_by(_index.turn.desc(), _index.event_id)
            .limit(MOST_SHARING)
        )
        ids = [row.event_id for row in await self.connection.execute(query)]
        return ids + self.overlay.publishes_with(key_values, self.first)

    async def ends_of(self, ids: Collection[int]) -> dict[int, int]:
        """The ends of the ways back from events, along the smallest cause each time."""
        causes = await self._ways_back(ids)
        ends: dict[int, int] = {}
        for event_id in sorted(causes):  # causes have smaller ids
            cause = causes[event_id]
            ends[event_id] = event_id if cause is None else ends.get(cause, cause)
        return {event_id: ends[event_id] for event_id in ids}

    async def beginnings_of(self, ids: Collection[int]) -> tuple[set[int], bool]:
        """The ends of all ways back from events, along each of their causes.

        :returns: these, and whether there may be others, behind `MOST_STEPS` events.
        """
        beginnings, seen, level = set[int](), set[int](), set(ids)
        while level and len(seen) < MOST_STEPS:
            seen |= level
            causes = await self._causes_of(level)
            beginnings |= {event_id for event_id in level if not causes[event_id]}
            level = set[int]().union(*causes.values()) - seen
        return beginnings, bool(level)

    async def _causes_of(self, ids: Collection[int]) -> dict[int, Collection[int]]:
        evident = links.Evident(
            self.connection, self.trace_id, self.first, 0, -1, overlay=self.overlay
        )
        causes: dict[int, Collection[int]] = {}
        for chunk in chunks(sorted(ids)):
            causes |= await evident.neighbours([*chunk])
        return causes

    async def _ways_back(self, ids: Collection[int]) -> dict[int, int | None]:
        """The smallest cause of each of these events, of that one, and so on."""
        smallest: dict[int, int | None] = {}
        level = set(ids)
        for _ in range(MOST_STEPS):
            if not level:
                break
            for event_id, causes in (await self._causes_of(level)).items():
                smallest[event_id] = min(causes, default=None)
            lesser = {smallest[event_id] for event_id in level} - smallest.keys()
            level = {event_id for event_id in lesser if event_id is not None}
        return smallest


def _way(causes: Mapping[int, int | None], start: int) -> list[int]:
    way: list[int] = []
    event: int | None = start
    while event is not None:
        way.append(event)
        event = causes.get(event)
    return way
