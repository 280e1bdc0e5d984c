"""Tells the store's followers about new events."""

from __future__ import annotations

import asyncio


class Feed:
    """The newest stored event id, and a way to wait for a newer one.

    Ids grow in commit order, so one number is enough: after `beyond` has returned n, every event up
    to n can be read.
    """

    def __init__(self) -> None:
        self.latest = 0
        self._news = asyncio.Event()
        self._waiters = 0

    @property
    def is_awaited(self) -> bool:
        return self._waiters > 0

    def advance(self, event_id: int) -> None:
        """Note that events up to this id are stored."""
        if event_id > self.latest:
            self.latest = event_id
            self._news.set()
            self._news = asyncio.Event()

    async def beyond(self, event_id: int) -> int:
        """Wait for an event with a greater id; return the newest id. Safe to cancel."""
        self._waiters += 1
        try:
            while self.latest <= event_id:
                await self._news.wait()
        finally:
            self._waiters -= 1
        return self.latest
