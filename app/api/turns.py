"""Turns at expensive work: a few at a time, fewer for each user, users one after another."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from app.errors import TooManyRequestsError


class Turns:
    """Lets in a number of callers at once, and fewer of each owner; the others wait.

    Args:
        at_once: the most that are in.
        each: the most that are in for one owner.
        waiting: the most that wait for one owner; None for any number.
    """

    def __init__(self, at_once: int, each: int, waiting: int | None = None) -> None:
        self._at_once = at_once
        self._each = each
        self._most_waiting = waiting
        self._running: Counter[str] = Counter()
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    @property
    def waiting(self) -> int:
        """How many wait."""
        return sum(map(len, self._waiting.values()))

    @asynccontextmanager
    async def turn(self, owner: str) -> AsyncIterator[None]:
        """Wait for a turn and hold it; raises `TooManyRequestsError` if too many wait."""
        await self._enter(owner)
        try:
            yield
        finally:
            self._leave(owner)

    async def _enter(self, owner: str) -> None:
        if self._may(owner):
            self._running[owner] += 1
            return
        queue = self._waiting.get(owner, ())
        if self._most_waiting is not None and len(queue) >= self._most_waiting:
            raise TooManyRequestsError(
                f"{self._most_waiting} of your searches wait already; ask again when some have"
                " ended, or narrow them down"
            )
        mine = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(owner, deque()).append(mine)
        try:
            await mine
        except asyncio.CancelledError:
            if mine.done() and not mine.cancelled():
                self._leave(owner)  # its turn came at the same moment
            else:
                self._forget(owner, mine)
            raise

    def _may(self, owner: str) -> bool:
        return self._running.total() < self._at_once and self._running[owner] < self._each

    def _leave(self, owner: str) -> None:
        self._running[owner] -= 1
        if not self._running[owner]:
            del self._running[owner]
        while self._admit_one():
            pass

    def _admit_one(self) -> bool:
        for owner in [*self._waiting]:
            if self._may(owner) and (mine := self._first(owner)) is not None:
                self._running[owner] += 1
                mine.set_result(None)
                if owner in self._waiting:  # its other requests go behind all other owners
                    self._waiting.move_to_end(owner)
                return True
        return False

    def _first(self, owner: str) -> asyncio.Future[None] | None:
        queue = self._waiting.get(owner)
        while queue:
            mine = queue.popleft()
            if not queue:
                del self._waiting[owner]
            if not mine.done():
                return mine
        return None

    def _forget(self, owner: str, mine: asyncio.Future[None]) -> None:
        queue = self._waiting.get(owner)
        if queue is not None and mine in queue:
            queue.remove(mine)
            if not queue:
                del self._waiting[owner]
