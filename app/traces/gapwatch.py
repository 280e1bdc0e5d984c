"""Records where the firehose may have been incomplete.

When a loss is noticed, older trace messages may still be waiting in the queue. So a gap opens
after the last stored event, and ends before the first event that is stored after everything that
was queued at that moment: the loss is somewhere in between.

What is noticed while the database is away is kept and written as soon as it is back.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import msgspec

from app.traces.ports import Gaps
from model.gaps import Gap


class _Loss(msgspec.Struct):
    """One gap on its way into the store.

    ``until`` (µs) is None while the loss may go on; after that it is closed once ``due`` trace
    messages are stored.
    """

    reason: str
    since: int
    after_event_id: int
    gap_id: int | None = None
    until: int | None = None
    due: int = 0


class GapWatch:
    """The gaps of one trace, over all its runs. Times in µs."""

    def __init__(self, gaps: Gaps, trace_id: int) -> None:
        self._gaps = gaps
        self._trace_id = trace_id
        self._last_event_id = 0
        self._processed = 0  # trace messages since this object was made
        self._losses: list[_Loss] = []
        self._writing = asyncio.Lock()
        self.epoch: int | None = None  # of the present run
        self.well_until = 0  # when capture was last seen working

    @property
    def is_open(self) -> bool:
        """Whether a noted gap is not closed yet: it covers what is lost now."""
        return bool(self._losses)

    def resume(
        self, last_event_id: int, recorded_at: int, stored: Sequence[Gap], queued: int
    ) -> None:
        """Begin a run, with what the store holds and ``queued`` messages waiting.

        Gaps that an earlier run or a stop left open end here: we are connected again.
        """
        self.stand(last_event_id, recorded_at)
        for gap in stored:
            if gap.until is None:
                self._adopt(gap)
        for loss in self._losses:
            self._end(loss, queued)

    def stand(self, last_event_id: int, recorded_at: int) -> None:
        """Say where the trace stands: its last event, and when that was recorded."""
        self._last_event_id = last_event_id
        self.well_until = self.well_until or recorded_at

    async def lost(self, reason: str, since: int, queued: int) -> None:
        """Record a loss that is over, with ``queued`` messages from before or during it."""
        loss = _Loss(reason, since, self._last_event_id)
        self._losses.append(loss)
        self._end(loss, queued)
        await self.write()

    async def losing(self, reason: str, since: int) -> None:
        """Record a loss that is going on; repeated calls record it once."""
        if not any(loss.reason == reason and loss.until is None for loss in self._losses):
            self._losses.append(_Loss(reason, since, self._last_event_id))
        await self.write()

    async def ended(self, reason: str, queued: int) -> None:
        """Note that a loss recorded by `losing` is over."""
        for loss in self._losses:
            if loss.reason == reason and loss.until is None:
                self._end(loss, queued)
        await self.write()

    def stored(self, messages: int, last_event_id: int) -> None:
        """Note that this many more trace messages are stored, up to an event."""
        self._processed += messages
        self._last_event_id = last_event_id

    async def write(self) -> None:
        """Bring the store up to date; raises `OutageError`, and may be called again."""
        # The monitor and the consumer both call this: one loss must still be one gap.
        async with self._writing:
            await self._write()

    async def _write(self) -> None:
        for loss in list(self._losses):
            if loss.gap_id is None:
                loss.gap_id = await self._gaps.open(
                    self._trace_id,
                    after_event_id=loss.after_event_id,
                    since=loss.since,
                    reason=loss.reason,
                    epoch=self.epoch,
                )
            if loss.until is not None and loss.due <= self._processed:
                await self._gaps.close(
                    loss.gap_id,
                    before_event_id=self._last_event_id + 1,
                    until=loss.until,
                    epoch=self.epoch,
                )
                self._losses.remove(loss)

    def _adopt(self, gap: Gap) -> None:
        """Continue a stored gap, which may be a loss of ours whose reply never reached us."""
        for loss in self._losses:
            same = (loss.reason, loss.since, loss.after_event_id)
            if loss.gap_id == gap.id:
                return
            if loss.gap_id is None and same == (gap.reason, gap.since, gap.after_event_id):
                loss.gap_id = gap.id
                return
        self._losses.append(_Loss(gap.reason, gap.since, gap.after_event_id, gap.id))

    def _end(self, loss: _Loss, queued: int) -> None:
        loss.until = loss.until or time.time_ns() // 1000
        loss.due = self._processed + queued
