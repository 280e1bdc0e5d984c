"""Bounds the bytes of answers in memory at once, over all clients."""

from __future__ import annotations

import asyncio
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
        self._line = asyncio.Lock()  # of those who wait; only its first looks for room
        self._freed = asyncio.Event()
        self.held = 0
        self.highest = 0  # since the start

    @asynccontextmanager
    async def hold(self, size: int) -> AsyncIterator[None]:
        """Wait until there is room for this many bytes, and hold it."""
        async with self._line:
            while self.held and self.held + size > self._most:
                self._freed.clear()
                await self._freed.wait()
            self.held += size
            self.highest = max(self.highest, self.held)
        try:
            yield
        finally:
            self.held -= size
            self._freed.set()
