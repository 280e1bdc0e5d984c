"""Records where the firehose may have been incomplete.

A loss is noticed at a moment in the broker's time, while older trace messages may still wait in the
queue. So a gap opens behind the last stored event, and ends before the first event that is stored
after everything that was queued at that moment: the loss lies somewhere between.
"""

from __future__ import annotations

import time

import msgspec

from app.traces.ports import TraceStore


class Closing(msgspec.Struct, frozen=True):
    """A gap that ended at ``until`` (µs), to be closed once ``processed`` messages are stored."""

    gap_id: int
    processed: int
    until: int


class GapWatch:
    """The gaps of one run of one trace."""

    def __init__(self, store: TraceStore, trace_id: int, last_event_id: int) -> None:
        self._store = store
        self._trace_id = trace_id
        self._last_event_id = last_event_id
        self._processed = 0  # trace messages of this run
        self._closing: list[Closing] = []

    async def lost(self, reason: str, since: int, queued: int) -> None:
        """Record a loss that is over by now, with ``queued`` messages of before or during it."""
        gap_id = await self._store.open_gap(
            self._trace_id, after_event_id=self._last_event_id, since=since, reason=reason
        )
        await self.over(gap_id, queued)

    async def over(self, gap_id: int, queued: int) -> None:
        """Close a gap once ``queued`` more messages are stored; at once if there are none."""
        now = time.time_ns() // 1000
        self._closing.append(Closing(gap_id, self._processed + queued, now))
        await self._close_due()

    async def stored(self, messages: int, last_event_id: int) -> None:
        """Note that so many more trace messages are stored, up to an event."""
        self._processed += messages
        self._last_event_id = last_event_id
        if self._closing:
            await self._close_due()

    async def _close_due(self) -> None:
        for closing in [each for each in self._closing if each.processed <= self._processed]:
            await self._store.close_gap(
                closing.gap_id, before_event_id=self._last_event_id + 1, until=closing.until
            )
            self._closing.remove(closing)
