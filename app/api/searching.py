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
    """Lets in a number of callers at once, and fewer of each owner; the others wait.

    For one owner at most ``waiting`` wait, None for any number.
    """

    def __init__(self, at_once: int, per_owner: int, queue_length: int | None = None) -> None:
        self._at_once = at_once
        self._per_owner = per_owner
        self._queue_length = queue_length
        self._running: Counter[str] = Counter()
        self._queue: RoundRobin[tuple[str, asyncio.Future[None]]] = RoundRobin()

    @property
    def queue_size(self) -> int:
        return len(self._queue)

    @asynccontextmanager
    async def slot(self, owner: str) -> AsyncIterator[None]:
        """Wait for a slot and hold it; raises `TooManyRequestsError` if too many wait."""
        await self._enter(owner)
        try:
            yield
        finally:
            self._leave(owner)

    async def _enter(self, owner: str) -> None:
        if self._has_room(owner):
            self._running[owner] += 1
            return
        if self._queue_length is not None and self._queue.count_of(owner) >= self._queue_length:
            raise TooManyRequestsError(
                f"{self._queue_length} of your searches are waiting already; try again when some"
                " have ended, or narrow them down"
            )
        turn = asyncio.get_running_loop().create_future()
        self._queue.put(owner, (owner, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._leave(owner)  # its turn came at the same moment
            else:
                self._queue.remove(owner, (owner, turn))
            raise

    def _has_room(self, owner: str) -> bool:
        return self._running.total() < self._at_once and self._running[owner] < self._per_owner

    def _leave(self, owner: str) -> None:
        self._running[owner] -= 1
        if not self._running[owner]:
            del self._running[owner]
        while first := self._queue.take(self._has_room):
            owner, turn = first
            if not turn.done():  # else it was just cancelled
                self._running[owner] += 1
                turn.set_result(None)


# A walk beyond this many events is as much work as a search.
SHORT_WALK = 100
# Searches of one user: at a time, so that nobody has them all, and in the queue; beyond it, 429.
PER_USER, QUEUE_LENGTH = 2, 10
# Searches for readers who follow the store, apart from the others: at a time, and per user.
TAIL_SEARCHES, TAIL_SEARCHES_PER_USER = 2, 1


class Searches:
    """Gives turns as `Slots`, for each user; raises `TooManyRequestsError` if too many wait."""

    def __init__(
        self, *, at_once: int = SEARCHES, per_user: int = PER_USER, queue_length: int = QUEUE_LENGTH
    ) -> None:
        self.slots = Slots(at_once, per_user, queue_length)
        self._tail_slots = Slots(TAIL_SEARCHES, TAIL_SEARCHES_PER_USER)  # any number may wait

    def turn(
        self, owner: str, *, quick: bool = False, follow: bool = False
    ) -> AbstractAsyncContextManager[None]:
        """Wait for a user's turn; ``quick`` work does not wait."""
        slots = self._tail_slots if follow else self.slots
        return nullcontext() if quick else slots.slot(owner)

    def for_walk(
        self, owner: str, limit: int, via: str, *, is_far: bool = False
    ) -> AbstractAsyncContextManager[None]:
        quick = limit <= SHORT_WALK and via in ("any", "links") and not is_far
        return self.turn(owner, quick=quick)
