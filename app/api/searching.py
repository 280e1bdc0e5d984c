"""Slots for expensive work: a few at a time, fewer for each user, users one after another.

An index answers some lists at once; for other searches users queue.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext

from app.errors import TooManyRequestsError
from app.round_robin import RoundRobin
from app.stored.reading import SEARCHES


class Slots:
    """Lets in so many callers at once, and fewer of each owner; the others wait.

    For one owner at most ``waiting`` wait, None for any number.
    """

    def __init__(self, at_once: int, each: int, waiting: int | None = None) -> None:
        self._at_once = at_once
        self._each = each
        self._most_waiting = waiting
        self._running: Counter[str] = Counter()
        self._waiting: RoundRobin[tuple[str, asyncio.Future[None]]] = RoundRobin()

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @asynccontextmanager
    async def slot(self, owner: str) -> AsyncIterator[None]:
        """Wait for a slot and hold it; raises `TooManyRequestsError` if too many wait."""
        await self._enter(owner)
        try:
            yield
        finally:
            self._leave(owner)

    async def _enter(self, owner: str) -> None:
        if self._may(owner):
            self._running[owner] += 1
            return
        if self._most_waiting is not None and self._waiting.count_of(owner) >= self._most_waiting:
            raise TooManyRequestsError(
                f"{self._most_waiting} of your searches wait already; ask again when some have"
                " ended, or narrow them down"
            )
        mine = asyncio.get_running_loop().create_future()
        self._waiting.put(owner, (owner, mine))
        try:
            await mine
        except asyncio.CancelledError:
            if mine.done() and not mine.cancelled():
                self._leave(owner)  # its turn came at the same moment
            else:
                self._waiting.remove(owner, (owner, mine))
            raise

    def _may(self, owner: str) -> bool:
        return self._running.total() < self._at_once and self._running[owner] < self._each

    def _leave(self, owner: str) -> None:
        self._running[owner] -= 1
        if not self._running[owner]:
            del self._running[owner]
        while first := self._waiting.take(self._may):
            owner, its = first
            if not its.done():  # else it was just cancelled
                self._running[owner] += 1
                its.set_result(None)


# A walk beyond this many events is as much work as a search.
SHORT_WALK = 100
# Searches of one user: at a time, so that nobody has them all, and in the queue; beyond it, 429.
EACH, WAITING = 2, 10
# Searches for readers who follow the store, apart from the others: at a time, and per user.
FOLLOWING, FOLLOWING_EACH = 2, 1


class Searches:
    """Gives turns as `Slots`, for each user; raises `TooManyRequestsError` where too many wait."""

    def __init__(
        self, *, at_once: int = SEARCHES, each: int = EACH, waiting: int = WAITING
    ) -> None:
        self.slots = Slots(at_once, each, waiting)
        self._following = Slots(FOLLOWING, FOLLOWING_EACH)  # any number may wait

    def turn(
        self, owner: str, *, quick: bool = False, follow: bool = False
    ) -> AbstractAsyncContextManager[None]:
        """Wait for a user's turn; nobody waits for what is ``quick``."""
        slots = self._following if follow else self.slots
        return nullcontext() if quick else slots.slot(owner)

    def for_walk(
        self, owner: str, limit: int, via: str, *, is_far: bool = False
    ) -> AbstractAsyncContextManager[None]:
        quick = limit <= SHORT_WALK and via in ("any", "links") and not is_far
        return self.turn(owner, quick=quick)
