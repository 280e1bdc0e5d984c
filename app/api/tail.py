"""Following the store: events since an event, for any number of readers.

A reader holds a cursor and nothing else, so a slow one costs no memory. Readers with the same
question at the same time share one query and one encoding: every open dashboard does.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import msgspec
from fastapi.sse import format_sse_event

from app.api.answers import GROWTH, PIECE, ByteBudget, Heavy
from app.api.described import encode_json
from app.api.events import large_of
from app.api.searching import Searches
from app.api.signin.permissions import ReadRights
from app.stored.reading import EventFilter, EventList, is_quick, shares
from app.traces.runs.feed import Feed

if TYPE_CHECKING:
    from app.store.causality.walks import Causality
    from app.store.reading.queries import Events

# Bound on encoded batches kept for the readers who ask next.
KEPT_BYTES = 1 << 25
_SHARED_BATCHES = 16  # batches kept for readers who ask a moment later, whatever their size


class TailQuery(msgspec.Struct, frozen=True):
    """A reader's question, and its form: ``frames``, or else one array."""

    filter: EventFilter
    content: ReadRights
    columns: frozenset[str] | None
    payload: bool
    limit: int
    frames: bool = False
    links: bool = False


class TailBatch(msgspec.Struct, frozen=True):
    """New events in order of id, encoded once for everybody.

    An array may have marks in place of large events (`app.api.answers`), which each reader then
    reads for itself. Frames end before such events become too large: ``cut`` says that they did.
    """

    ids: list[int]
    encoded: bytes
    heavy: Heavy
    cut: bool = False


@dataclass(eq=False)
class _Reading:
    """A batch that is being read or has been, and how many wait for it."""

    task: asyncio.Task[TailBatch]
    readers: int = 0

    @property
    def has_failed(self) -> bool:
        return self.task.done() and (self.task.cancelled() or self.task.exception() is not None)

    @property
    def bytes(self) -> int:
        return 0 if self.has_failed else len(self.task.result().encoded)


# The query, the event before its first, the newest event, and the user if it takes a turn.
_Key: TypeAlias = tuple[TailQuery, int, int, str]


@dataclass(eq=False)
class Tail:
    """Reads what is new, or waits for it; keeps up to ``most_bytes`` for the next readers."""

    events: Events
    causality: Causality
    searches: Searches
    feed: Feed
    budget: ByteBudget
    most_bytes: int = KEPT_BYTES
    _batches: OrderedDict[_Key, _Reading] = field(default_factory=OrderedDict, init=False)

    async def after(
        self, query: TailQuery, event_id: int, owner: str, *, follow: bool = True
    ) -> tuple[TailBatch, int]:
        """Events after ``event_id``, at most the query's limit, and the id to continue from.

        That id is beyond the last event returned if everything up to it was searched: a filter that
        seldom matches is not applied to the same events again. ``owner`` is the user whose turn it
        takes; ``follow`` marks a request's later queries.
        """
        newest = self.feed.latest
        batch = await self._share(query, event_id, newest, owner, follow)
        if batch.cut or len(batch.ids) == query.limit:
            return batch, batch.ids[-1]
        return batch, max(newest, event_id, *batch.ids)

    async def first_after(self, query: TailQuery, event_id: int, owner: str) -> TailBatch:
        """The first events to come after ``event_id``, up to which there are none."""
        while True:
            await self.feed.beyond(event_id)
            batch, event_id = await self.after(query, event_id, owner)
            if batch.ids:
                return batch

    async def wait_for_more(self, event_id: int, seconds: float, stopping: asyncio.Event) -> bool:
        """Wait for any event after ``event_id``; False if none came, or the service is stopping."""
        arrival = asyncio.ensure_future(self.feed.beyond(event_id))
        end = asyncio.ensure_future(stopping.wait())
        try:
            await asyncio.wait({arrival, end}, timeout=seconds, return_when="FIRST_COMPLETED")
            return arrival.done() and not end.done()
        finally:
            arrival.cancel()
            end.cancel()

    async def _share(
        self, query: TailQuery, event_id: int, newest: int, owner: str, follow: bool
    ) -> TailBatch:
        # A one-time search is not shared: if it is refused, others' are not.
        key = (query, event_id, newest, "" if follow or is_quick(query.filter) else owner)
        reading = self._batches.get(key)
        if reading is None or reading.has_failed:
            task = asyncio.create_task(self._read(query, event_id, owner, follow))
            reading = self._batches[key] = _Reading(task)
            self._batches.move_to_end(key)
            task.add_done_callback(lambda task: self._forget_old())
        reading.readers += 1
        try:
            # Shielded: a reader that goes away must not end the others' query.
            return await asyncio.shield(reading.task)
        finally:
            reading.readers -= 1
            if not reading.readers and not reading.task.done():
                reading.task.cancel()

    def _forget_old(self) -> None:
        """Keep the newest batches within both bounds; those being read stay."""
        count, size = 0, 0
        for key, reading in reversed([*self._batches.items()]):
            if not reading.task.done():
                continue
            count += 1
            size += reading.bytes
            if reading.has_failed or count > _SHARED_BATCHES or size > self.most_bytes:
                del self._batches[key]

    async def _read(self, query: TailQuery, event_id: int, owner: str, follow: bool) -> TailBatch:
        large = large_of(query.columns, query.payload)
        query_filter = query.filter
        async with self.searches.turn(owner, quick=is_quick(query_filter), follow=follow):
            events = await self.events.find(
                query_filter, after=event_id, limit=query.limit, large=large, follow=follow
            )
        ids = [row.id for row in events.items]
        links = await self.causality.edge_causes(ids) if query.links else None
        heavy = Heavy(events.heavy, query.content, query.columns, large, links)
        if query.frames:
            return await self._as_frames(events, heavy)
        return TailBatch(ids, encode_json(heavy.views(events.items)), heavy)

    async def _as_frames(self, events: EventList, heavy: Heavy) -> TailBatch:
        """Server-sent events, one an event, under its id."""
        first_share = next(shares([*events.heavy], events.heavy, PIECE), [])
        items = events.items
        rest = set(events.heavy) - set(first_share)
        if rest:
            items = items[: next(n for n, row in enumerate(items) if row.id in rest)]
        size = sum(events.heavy[event_id] for event_id in first_share)
        async with self.budget.hold(size * GROWTH):
            large = await self.events.get_existing(first_share, heavy.large) if first_share else ()
            rows = {row.id: row for row in large}
            views = ((row.id, encode_json(heavy.view(rows.get(row.id, row)))) for row in items)
            frames = b"".join(
                format_sse_event(id=str(event_id), data_str=view.decode())
                for event_id, view in views
            )
            nothing_left = Heavy({}, heavy.content, heavy.columns, heavy.large, heavy.links)
            return TailBatch([row.id for row in items], frames, nothing_left, cut=bool(rest))
