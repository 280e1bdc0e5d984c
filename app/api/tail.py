"""Following the store: what is new since an event, for any number of readers.

A reader holds a cursor and nothing else, so a slow one costs no memory. Readers that ask for the
same at the same time, and with a dashboard in every tab they do, share one query and one encoding.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from functools import cached_property
from typing import TypeAlias

import msgspec

from app.api.ports import Events
from app.api.views import encode_json, event_views, large_of
from app.stored.filters import EventFilter
from app.traces.feed import Feed

_SHARED = 16  # batches kept for readers who ask a moment later; each may take some megabytes


class TailQuery(msgspec.Struct, frozen=True):
    """What a reader follows, and in which form."""

    filter: EventFilter
    columns: frozenset[str] | None
    payload: bool
    limit: int


class TailBatch:
    """New events, in the order of their ids; encoded once for everybody."""

    def __init__(self, views: list[dict[str, object]], ids: list[int]) -> None:
        self._views = views
        self.ids = ids

    @cached_property
    def array(self) -> bytes:
        """One JSON array."""
        return encode_json(self._views)

    @cached_property
    def frames(self) -> bytes:
        """Server-sent events, one an event, under its id."""
        pairs = zip(self.ids, self._views, strict=True)
        return b"".join(b"id: %d\ndata: %b\n\n" % (n, encode_json(view)) for n, view in pairs)


_Key: TypeAlias = tuple[TailQuery, int, int]


class Tail:
    """Reads what is new, and waits for it."""

    def __init__(self, events: Events, feed: Feed) -> None:
        self._events = events
        self._feed = feed
        self._batches: OrderedDict[_Key, asyncio.Task[TailBatch]] = OrderedDict()

    @property
    def newest(self) -> int:
        """The newest stored event's id."""
        return self._feed.latest

    async def after(self, query: TailQuery, event_id: int) -> tuple[TailBatch, int]:
        """Events after ``event_id``, at most the query's limit, and the id to continue from.

        That id is beyond the last event given if all events up to it were searched: a filter that
        seldom matches is not applied to the same events again.
        """
        newest = self._feed.latest
        batch = await self._shared((query, event_id, newest))
        if len(batch.ids) == query.limit:
            return batch, batch.ids[-1]
        return batch, max(newest, event_id, *batch.ids)

    async def first_after(
        self, query: TailQuery, event_id: int, seconds: float, stopping: asyncio.Event
    ) -> TailBatch:
        """The first events after ``event_id``; if there are none, wait up to ``seconds``."""
        deadline = asyncio.get_running_loop().time() + seconds
        while True:
            batch, event_id = await self.after(query, event_id)
            left = deadline - asyncio.get_running_loop().time()
            if batch.ids or left <= 0 or not await self.more(event_id, left, stopping):
                return batch

    async def more(self, event_id: int, seconds: float, stopping: asyncio.Event) -> bool:
        """Wait for any event after ``event_id``; False if none came, or the service is stopping."""
        arrival = asyncio.ensure_future(self._feed.beyond(event_id))
        end = asyncio.ensure_future(stopping.wait())
        try:
            await asyncio.wait({arrival, end}, timeout=seconds, return_when="FIRST_COMPLETED")
            return arrival.done() and not end.done()
        finally:
            arrival.cancel()
            end.cancel()

    async def _shared(self, key: _Key) -> TailBatch:
        task = self._batches.get(key)
        if task is None or (task.done() and (task.cancelled() or task.exception())):
            task = asyncio.create_task(self._read(*key))
            self._batches[key] = task
            while len(self._batches) > _SHARED:
                self._batches.popitem(last=False)
        # Shielded: a reader that goes away must not cancel the query of the others.
        return await asyncio.shield(task)

    async def _read(self, query: TailQuery, event_id: int, newest: int) -> TailBatch:
        rows = await self._events.list(
            query.filter,
            after=event_id,
            limit=query.limit,
            large=large_of(query.columns, query.payload),
        )
        return TailBatch(event_views(rows, query.columns), [row.id for row in rows])
