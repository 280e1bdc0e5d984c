"""Bounds the bytes of answers in memory at once, over all clients."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

# How much an event's large fields can grow while an answer is made of them: the stored bytes,
# their text, and JSON, in which a control character takes six times the space.
GROWTH = 8
# Together with the tail's (`app.api.tail.KEPT_BYTES`) below 100 MiB, whatever clients ask for.
ANSWERS_BYTES = 1 << 26


class ByteBudget:
    """Lets in what fits, first come first served; what is larger than all of it goes in alone."""

    def __init__(self, most: int = ANSWERS_BYTES) -> None:
        self._most = most
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self.held = 0
        self.highest = 0  # since the start

    @asynccontextmanager
    async def hold(self, size: int) -> AsyncIterator[None]:
        """Wait until there is room for this many bytes, and hold it."""
        if self._waiting or not self._fits(size):
            await self._wait(size)
        else:
            self._take(size)
        try:
            yield
        finally:
            self._give_back(size)

    async def _wait(self, size: int) -> None:
        mine = asyncio.get_running_loop().create_future()
        self._waiting.append((size, mine))
        try:
            await mine
        except asyncio.CancelledError:
            if mine.done() and not mine.cancelled():
                self._give_back(size)
            else:
                self._waiting.remove((size, mine))
                self._admit()
            raise

    def _fits(self, size: int) -> bool:
        return not self.held or self.held + size <= self._most

    def _take(self, size: int) -> None:
        self.held += size
        self.highest = max(self.highest, self.held)

    def _give_back(self, size: int) -> None:
        self.held -= size
        self._admit()

    def _admit(self) -> None:
        while self._waiting and self._fits(self._waiting[0][0]):
            size, mine = self._waiting.popleft()
            if not mine.done():
                self._take(size)
                mine.set_result(None)
