"""Beginnings of conversations: ways back from events, and what shares a key with them."""

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

# A way back to a root has at most this many steps.
MOST_STEPS = 10_000
# Events that share a key with a conversation are looked for up to this many, and so many keys.
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
    """Ways back within a trace, whose events are stored from ``first`` on.

    An ``overlay`` has likely links and keys, too.
    """

    connection: AsyncConnection
    dialect: Dialect
    trace_id: int
    first: int
    overlay: Overlay = NO_OVERLAY

    @classmethod
    async def of(
        cls,
        connection: AsyncConnection,
        dialect: Dialect,
        trace_id: int,
        overlay: Overlay = NO_OVERLAY,
    ) -> Self:
        """Those of a trace. What is smaller than its oldest event is no cause."""
        first = await oldest(connection, trace_id)
        return cls(connection, dialect, trace_id, first, overlay)

    async def roots_of(self, event_id: int, message: int | None, via: Via) -> list[int]:
        """All events of a conversation that nothing led to, first that with which it began.

        It is an event's, and ``message`` is its publish, if it has one.
        """
        start = event_id if message is None or message < self.first else message
        if via is Via.any:
            return [start]
        if self.overlay:
            return await self._roots_by_keys(_way(await self._ways_back([start]), start))
        asked = {"id": start, "first": self.first}
        way = [*(await self.connection.execute(_WAY_BACK, asked)).scalars()]
        if via is Via.links:
            return way[-1:]
        return await self._roots_by_keys(way)

    async def _roots_by_keys(self, way: Sequence[int]) -> list[int]:
        """Find where everything began that shares a key with a way from an event to its root."""
        roots, known, shared = {way[-1]}, set(way), set[bytes]()
        looked_at: Collection[int] = way
        while looked_at:
            its_keys = (
                key for of_one in (await self.keys_of(looked_at)).values() for key in of_one
            )
            new = sorted(set(its_keys) - shared)[: MOST_SHARED - len(shared)]
            shared.update(new)
            sharing = [each for each in await self._sharing(new) if each not in known]
            ways = await self._ways_back(sharing)
            roots |= {each for each, cause in ways.items() if cause is None and each not in known}
            looked_at = [each for each in ways if each not in known]
            known.update(ways)
        return sorted(roots)

    async def keys_of(self, ids: Collection[int]) -> dict[int, set[bytes]]:
        keys, found = tables.keys.c, defaultdict[int, set[bytes]](set)
        query = select(keys.event_id, keys.key).where(
            keys.trace_id == self.trace_id, is_conversation(keys.roles)
        )
        for event_id, key in await rows_with(self.connection, query, keys.event_id, ids):
            found[event_id].add(key)
        for event_id in self.overlay.keys.keys() & set(ids):
            found[event_id] |= self.overlay.keys[event_id]
        return found

    async def _sharing(self, shared: Sequence[bytes]) -> list[int]:
        """The publishes with some of these keys, and deliveries whose publish is not stored."""
        if not shared:
            return []
        keys, events = searched_keys.c, tables.events.c
        query = (
            select(keys.turn, keys.event_id)
            .distinct()
            .join_from(searched_keys, tables.events, events.id == keys.event_id)
            .where(keys.trace_id == self.trace_id, keys.key.in_(shared))
            .where(is_searched_conversation(keys.roles), ~events.quiet)
            .where(
                or_(
                    events.type == int(EventType.published),
                    events.cause_id.is_(None),
                    events.cause_id < self.first,
                )
            )
            .order_by(keys.turn.desc(), keys.event_id)
            .limit(MOST_SHARING)
        )
        found = [row.event_id for row in await self.connection.execute(query)]
        return found + self.overlay.sharing(shared, self.first)

    async def ends_of(self, ids: Collection[int]) -> dict[int, int]:
        """Find the ends of the ways back from events, along the smallest cause each time."""
        causes = await self._ways_back(ids)
        ends: dict[int, int] = {}
        for event_id in sorted(causes):  # causes have smaller ids
            cause = causes[event_id]
            ends[event_id] = event_id if cause is None else ends.get(cause, cause)
        return {event_id: ends[event_id] for event_id in ids}

    async def _ways_back(self, ids: Collection[int]) -> dict[int, int | None]:
        """The smallest cause of each of these events, of that one, and so on."""
        evident = links.Evident(
            self.connection, self.trace_id, self.first, 0, -1, overlay=self.overlay
        )
        found: dict[int, int | None] = {}
        level = set(ids)
        for _ in range(MOST_STEPS):
            if not level:
                break
            for some in chunks(sorted(level)):
                for event_id, causes in (await evident.neighbours([*some])).items():
                    found[event_id] = min(causes, default=None)
            level = {cause for each in level if (cause := found[each]) is not None} - found.keys()
        return found


def _way(causes: Mapping[int, int | None], start: int) -> list[int]:
    way: list[int] = []
    at: int | None = start
    while at is not None:
        way.append(at)
        at = causes.get(at)
    return way
