"""Lists of events: those that an index answers at once, and searches, for which users queue."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING

from app.api.slots import Slots
from app.stored.reading import (
    SEARCHES,
    EventFilter,
    EventList,
    EventPage,
    Histogram,
    Sort,
    is_quick,
)
from model.event import Large
from model.words import Via

if TYPE_CHECKING:
    from app.store.reading.queries import Events

# A walk beyond this many events is as much work as a search.
SHORT_WALK = 100
# Searches of one user: at a time, so that nobody has them all, and in the queue; beyond it, 429.
EACH, WAITING = 2, 10
# Searches for readers who follow the store, apart from the others: at a time, and per user.
FOLLOWING, FOLLOWING_EACH = 2, 1


class Searches:
    """Asks the store for lists; raises `TooManyRequestsError` where a user has too many waiting.

    Args:
        events: the stored events.
        at_once: searches at a time.
        each: searches at a time for one user.
        waiting: searches that may wait for one user.
    """

    def __init__(
        self, events: Events, *, at_once: int = SEARCHES, each: int = EACH, waiting: int = WAITING
    ) -> None:
        self._events = events
        self._slots = Slots(at_once, each, waiting)
        self._following = Slots(FOLLOWING, FOLLOWING_EACH)  # any number may wait

    @property
    def waiting(self) -> int:
        return self._slots.waiting

    async def find(
        self,
        owner: str,
        asked: EventFilter,
        *,
        after: int | None = None,
        before: int | None = None,
        limit: int,
        large: Large,
        follow: bool = False,
    ) -> EventList:
        async with self._turn_for(owner, is_quick(asked), follow):
            return await self._events.find(
                asked, after=after, before=before, limit=limit, large=large, follow=follow
            )

    async def page(
        self,
        owner: str,
        asked: EventFilter,
        *,
        page: int,
        page_size: int,
        sort: Sort,
        descending: bool,
        large: Large,
    ) -> EventPage:
        async with self._turn_for(owner, is_quick(asked, sort, (page - 1) * page_size)):
            return await self._events.page(
                asked,
                page=page,
                page_size=page_size,
                sort=sort,
                descending=descending,
                large=large,
            )

    async def over_time(self, owner: str, asked: EventFilter, buckets: int) -> Histogram:
        async with self._turn_for(owner, asked.is_of_times_alone):
            return await self._events.over_time(asked, buckets)

    def for_walk(
        self, owner: str, limit: int, via: Via, *, is_far: bool = False
    ) -> AbstractAsyncContextManager[None]:
        """A turn for a walk over this many events, or over many more to find these."""
        is_quick = limit <= SHORT_WALK and via is not Via.conversation and not is_far
        return self._turn_for(owner, is_quick)

    def turn(self, owner: str) -> AbstractAsyncContextManager[None]:
        return self._turn_for(owner, quick=False)

    @asynccontextmanager
    async def _turn_for(self, owner: str, quick: bool, follow: bool = False) -> AsyncIterator[None]:
        if quick:
            yield
            return
        async with (self._following if follow else self._slots).slot(owner):
            yield
