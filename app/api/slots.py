"""Slots for expensive work: a few at a time, fewer for each user, users one after another."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from app.errors import TooManyRequestsError
from app.round_robin import RoundRobin


class Slots:
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
