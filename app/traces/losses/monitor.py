"""Keeps tracing on during a run, and notes where the firehose may have lost something.

Four things go on beside the consuming. The trace queue is **measured**, every second. **Marks**
are published while there is traffic: they show a loss within a second, whatever caused it. And
every ``check_seconds`` it is **checked** whether tracing is on, and whether the queue is as we
declared it; a mark that does not come has it checked at once. A loss is suspected wherever this
process **stood still**: stopped, swapped out or starved it publishes no marks, so a purge in that
time would leave no trace of itself until the audit has a quiet moment.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from app.errors import OutageError
from app.traces.losses.audit import Tally
from app.traces.losses.marks import Point
from app.traces.pipeline import Ending, Pipeline
from app.traces.runs.recorder import Recorder
from model.times import now

if TYPE_CHECKING:
    from app.broker.consumer import TraceStream
    from app.broker.marks import MarkPublisher

LAG_SECONDS = 1.0
# The broker took a mark this long ago, and since then the queue was empty and nothing came: it will
# not come. While messages come it may wait inside the broker behind others that no queue shows.
OVERDUE_SECONDS = 2.0
# Marks on their way are no traffic.
IDLE_LAG = 20
# How old the broker's word on how full a queue is may be. While much waits it is asked as often.
STATISTICS_SECONDS = 5.0
TICK_SECONDS = 0.5
# A loop under load may be late by less.
STILL_SECONDS = 2.0
# Traffic this long before makes it likely that there was some meanwhile. Where there was none, the
# audit knows both sides, and proves any loss.
TRAFFIC_SECONDS = 5.0
# The queue has to have room for this many messages as large as the largest.
ROOM = 4
TIGHT = (
    f"the trace queue's limit in bytes has no room for {ROOM} messages like the largest one "
    "(ITC_TRACE_QUEUE_MAX_BYTES, or a policy of the broker's)"
)
UNBOUND = "the trace queue was not bound to the trace exchange"
FULL = "the trace queue reached its limit, and drops its oldest messages"
TAKEN = (
    "the head of the trace queue was gone when the service came back: it was purged, or messages "
    "in it expired, were dropped or taken out"
)
RESTORED = (
    "the store is older than the trace queue knows it: it was restored from a backup, and what was "
    "traced since that was made is gone"
)
STOOD_STILL = (
    "the service stood still for some seconds: what the trace queue may have lost meanwhile, "
    "purged or expired, cannot be told"
)
MARKS_MISSING = (
    "marks that the service publishes did not come back: tracing was off for a moment, or the "
    "trace queue lost messages"
)


def _elapsed() -> float:
    """Seconds, with those in which the machine was suspended."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Monitor:
    """Watches one stream.

    ``lag`` is how many of its messages wait to be taken, None before it was first measured;
    ``remarks`` are what is wrong with the queue, a sentence each.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        recorder: Recorder,
        stream: TraceStream,
        ending: Ending,
        measured: Callable[[int, int], None],
    ) -> None:
        """Have ``measured`` hear when (µs) the queue was asked, and how many it held for us."""
        self._measured = measured
        self._pipeline = pipeline
        self._recorder = recorder
        self._stream = stream
        self._ending = ending
        self._gaps = pipeline.gaps
        self._harm: str | None = None
        self._most_bytes: int | None = None
        self._largest = 0  # body since the last check
        self._remarks: Sequence[str] = ()
        self._still: tuple[Tally, int] | None = None  # what was seen by then (µs), and none since
        self._old_due = 0  # when the last message is stored that was queued at the beginning
        # Where the trace stood in the last seconds, and when the queue had room for certain.
        self._stood: deque[Point] = deque(maxlen=round(STATISTICS_SECONDS / LAG_SECONDS) + 1)
        self._had_room: Point | None = None
        self.lag: int | None = None

    @property
    def remarks(self) -> list[str]:
        """Remarks on what keeps the trace from being all it could be."""
        trouble = self._pipeline.marks.trouble
        return [*self._remarks, *([f"no marks can be published: {trouble}"] if trouble else [])]

    async def begin(self) -> None:
        """Switch tracing on, and record what was certainly missed before."""
        pipeline, stream, gaps = self._pipeline, self._stream, self._gaps
        restored = self._recorder.restored
        here = Point(restored.last_event_id, now())
        if stream.sentinel != self._recorder.sentinel:
            self._recorder.sentinel = stream.sentinel
            self._recorder.is_ledger_new = True
        stream.know_accounts(self._recorder.accounts)
        self._recorder.capture_as(stream.account)
        was_off = await pipeline.source.switch_on(pipeline.trace.vhost)
        self._recorder.audit.traced_since(self._recorder.seen, time.monotonic())
        stored = await pipeline.store.gaps.newest(pipeline.trace.id)
        declared = await pipeline.store.gaps.declared(pipeline.trace.id)
        queued = await stream.queued()
        here = self._settled(here, queued)
        self._stood.append(here)
        gaps.resume(
            restored.last_event_id,
            restored.recorded_at,
            stored,
            queued,
            held_since=self._recorder.tracker.held_since,
            # The newest is of what is taken now.
            lifted=declared if pipeline.trace.taken.is_all else declared[:-1],
        )
        self._old_due = gaps.processed + queued
        if not restored.state:
            # From here on every start is a resumption, even if there is no event yet.
            await self._recorder.append(self._recorder.batch([]))
        if not gaps.is_open and (reasons := await self._missed(was_off)):
            await gaps.lost("; ".join(reasons), queued)
        await self._look_at_queue()
        gaps.is_well(here)
        await gaps.write()
        await self.mark_place()  # by now the gap is stored that the last one tells of
        self.take_since()

    def take_since(self) -> None:
        """Once all is stored that was queued when other things were taken, say so to the tracker.

        Until then an unmatched delivery tells of no loss.
        """
        recorder = self._recorder
        if recorder.tracker.is_taking_anew and self._gaps.processed >= self._old_due:
            recorder.tracker.take_since(recorder.last_event_id)
            recorder.is_ledger_new = True  # to be stored soon

    async def _missed(self, was_off: list[str]) -> list[str]:
        """Explain why something is missing since capture was last well, as far as is known."""
        stream, gone = self._stream, await self._gone()
        if not self._recorder.restored.state:
            return [RESTORED] if self._is_behind else []
        if stream.queue_is_new:
            return ["the trace queue was gone"]
        return [
            *([_stopped(gone)] if gone else []),
            *([_off(was_off)] if was_off else []),
            *([] if stream.was_bound else [UNBOUND]),
            *([TAKEN] if stream.is_sentinel_gone else []),
            *([RESTORED] if self._is_behind else []),
        ]

    @property
    def _is_behind(self) -> bool:
        """Tell whether the store is older than what the trace queue knows of it."""
        recorder = self._recorder
        return any(
            each.epoch >= recorder.epoch or each.event_id > recorder.restored.last_event_id
            for each in self._stream.bookmarks
        )

    async def mark_place(self) -> None:
        """Have the trace queue know how far the store is. Raises `OutageError`."""
        recorder = self._recorder
        await self._stream.mark_place(recorder.epoch, recorder.last_event_id)

    async def watch(self) -> None:
        """Keep the lag up to date, and check from time to time; ends only by a failure."""
        settings, checked = self._pipeline.settings, time.monotonic()
        while True:
            await asyncio.sleep(LAG_SECONDS)
            with contextlib.suppress(OutageError):  # the consumer reports a lost stream
                await self._measure()
            is_behind = (self.lag or 0) > settings.batch_events or self._gaps.is_losing(FULL)
            pause = min(settings.check_seconds, STATISTICS_SECONDS if is_behind else math.inf)
            if time.monotonic() >= checked + pause:
                checked = time.monotonic()
                # Without the management API nothing is known of tracing; the next check may tell.
                with contextlib.suppress(OutageError):
                    await self._check()
                with contextlib.suppress(OutageError):  # the next time will do
                    await self._pipeline.store.aliases.learn(self._pipeline.trace.id)

    async def mark(self) -> None:
        """Publish marks as long as something is traced; ends only by a failure."""
        seconds = self._pipeline.settings.mark_seconds
        if not seconds:
            return
        marks, publishers = self._pipeline.marks, None
        compares = self._recorder.audit.compares
        before = -1
        try:
            while not self._ending.when_empty:  # then tracing is off on purpose
                await asyncio.sleep(seconds)
                publishers = publishers or await self._publishers()
                # Where nothing else happens none are published: the broker's counters come to
                # rest, and can be compared. Where they cannot be, marks are all there is.
                seen = self._recorder.traffic
                is_traffic = seen != before or (self.lag or 0) > IDLE_LAG or not compares.publishes
                if publishers and (is_traffic or marks.is_asked):
                    before = seen
                    await marks.publish(publishers, self._gaps.here)
        finally:
            await marks.close()

    async def suspect_standstills(self, clock: Callable[[], float] = _elapsed) -> None:
        """Notice that the event loop stood still; ends only by a failure."""
        gaps, recorder = self._gaps, self._recorder
        seen, traffic_at = recorder.traffic, -TRAFFIC_SECONDS
        while True:
            here, began = gaps.here, clock()
            if recorder.traffic != seen:
                seen, traffic_at = recorder.traffic, began
            await asyncio.sleep(TICK_SECONDS)
            is_late = clock() - began > TICK_SECONDS + STILL_SECONDS
            if is_late and began - traffic_at < TRAFFIC_SECONDS:
                with contextlib.suppress(OutageError):  # then the next run sees what is gone
                    gaps.suspect(STOOD_STILL, await self._stream.queued(), here.event_id)
                    await gaps.write()

    async def _publishers(self) -> Sequence[MarkPublisher] | None:
        with contextlib.suppress(OutageError):
            trace = self._pipeline.trace
            return await self._pipeline.source.mark_publishers(trace.vhost, trace.taken)
        return None

    async def _measure(self) -> None:
        """Count what waits; once nothing does or comes, no mark may be missing."""
        asked_at = now()
        queued = await self._stream.queued()
        self._measured(asked_at, queued - self._stream.unacknowledged)
        self.lag = queued
        self._stood.append(self._settled(self._gaps.here, queued))
        await self._see_room()
        seen = self._recorder.seen
        if queued or self._still is None or self._still[0] != seen:
            self._still = (seen, asked_at)
        before = asked_at - int(OVERDUE_SECONDS * 1e6)
        if queued or self._still[1] > before or self._ending.when_empty:
            return
        marks, gaps = self._pipeline.marks, self._gaps
        begins = marks.overdue(before)
        if begins is None:
            await gaps.ended(MARKS_MISSING, 0)
        elif not gaps.is_losing(MARKS_MISSING):
            await self._check(begins)  # which may know why
            if not gaps.is_open:
                await gaps.losing(MARKS_MISSING, begins=begins, tentative=True)

    async def _check(self, begins: Point | None = None) -> None:
        """See that tracing is on, and that the queue is as it should be.

        What is found to be off has been so since the last check, or since ``begins``.
        """
        if self._ending.when_empty:  # tracing is off on purpose
            return
        gaps, here = self._gaps, self._gaps.here
        was_off = await self._pipeline.source.switch_on(self._pipeline.trace.vhost)
        if gone := await self._gone():
            await gaps.lost(_stopped(gone), await self._stream.queued())
        if was_off:
            await gaps.lost(_off(was_off), await self._stream.queued(), begins=begins)
        await self._look_at_queue(begins)
        gaps.is_well(self._settled(here, self.lag or 0))
        await gaps.write()
        await self.mark_place()

    def _settled(self, here: Point, queued: int) -> Point:
        """``here``, with the time until when all that was traced is stored.

        What waits in the queue, beside our sentinel, was traced earlier, and is lost with it. Since
        when it waits only marks tell.
        """
        recorder = self._recorder
        if queued <= 1 or not self._pipeline.settings.mark_seconds:
            return here
        return Point(here.event_id, recorder.settled.at or recorder.restored.recorded_at)

    async def _gone(self) -> frozenset[str]:
        """The nodes that ran when capture was last well, and do not any more.

        What they traced last may never have left them.
        """
        before, self._gaps.nodes = self._gaps.nodes, await self._pipeline.source.nodes()
        return before - self._gaps.nodes

    async def _look_at_queue(self, begins: Point | None = None) -> None:
        """See that our queue is as declared: bound, bounded by nobody else, and not full."""
        pipeline, gaps = self._pipeline, self._gaps
        queue = await pipeline.source.look(pipeline.trace.vhost, pipeline.trace.taken)
        self._remarks = queue.remarks
        if queue.fault:  # our own is gone; this ends our consumer
            await gaps.losing(f"the trace queue was another's: {queue.fault}")
            await pipeline.source.delete_queue(pipeline.trace.vhost)
            return
        if not queue.is_bound or queue.excess:
            await self._stream.bind(queue.excess)
        queued = await self._stream.queued()
        if not queue.is_bound:
            await gaps.lost(UNBOUND, queued, begins=begins)
        had_room = self._has_room
        self._most_bytes, self._largest = queue.most_bytes, 0
        if had_room:
            await gaps.ended(TIGHT, queued)
        await self._note_harm(queue.harm, queued)
        await self._see_room()
        if queue.is_nearly_full:
            # What it has dropped was behind all that had come when it had room.
            await gaps.losing(FULL, begins=self._had_room)
        elif queue.is_nearly_full is not None:  # if the broker cannot say now, nothing changes
            self._had_room = self._stood[0]
            await gaps.ended(FULL, queued)

    async def _see_room(self) -> None:
        """See that the queue does not drop messages long before it looks full."""
        self._largest = max(self._largest, self._stream.take_largest())
        if not self._has_room:
            await self._gaps.losing(TIGHT)

    @property
    def _has_room(self) -> bool:
        return self._most_bytes is None or ROOM * self._largest <= self._most_bytes

    async def _note_harm(self, harm: str | None, queued: int) -> None:
        if self._harm is not None and harm != self._harm:
            await self._gaps.ended(self._harm, queued)
        if harm is not None:
            await self._gaps.losing(harm)
        self._harm = harm


def _off(nodes: list[str]) -> str:
    return f"tracing was off on {', '.join(nodes)}"


def _stopped(nodes: Iterable[str]) -> str:
    return f"{', '.join(sorted(nodes))} stopped, and what was traced there last may be lost"
