"""Keeps tracing on during a run, and notes where the firehose may have lost something.

Four things go on beside the consuming. The trace queue is **measured**, every second. **Marks**
are published while there is traffic: they show any loss within a second. Every ``check_seconds``,
and at once when a mark does not come, it is **checked** whether tracing is on, and whether the
queue is as we declared it. A loss is suspected wherever this process **stood still**: stopped,
swapped out or starved it publishes no marks, so a purge in that time would leave no trace of itself
until the audit has a quiet moment.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.errors import OutageError
from app.traces.losses.audit import Tally
from app.traces.losses.marks import Point
from app.traces.pipeline import Ending, Pipeline
from app.traces.recorder import Recorder
from model.times import now

if TYPE_CHECKING:
    from app.broker.consumer import TraceStream
    from app.broker.marks import MarkPublisher

LAG_SECONDS = 1.0
# If the broker took a mark this long ago, and since then the queue was empty and nothing came, it
# will not come. While messages come it may wait inside the broker, where no queue shows it.
OVERDUE_SECONDS = 2.0
# Marks on their way are no traffic.
IDLE_LAG = 20
# The greatest age of the broker's queue statistics, and how often it is asked while much waits.
STATISTICS_SECONDS = 5.0
TICK_SECONDS = 0.5
# A loop under load is late by less.
STILL_SECONDS = 2.0
# Traffic this long before a standstill makes traffic during it likely. Without traffic the audit
# knows both sides, and proves any loss.
TRAFFIC_SECONDS = 5.0
# The queue has to have room for this many messages as large as the largest.
ROOM = 4
TIGHT = (
    f"the trace queue's limit in bytes has no room for {ROOM} messages like the largest one "
    "(ITC_TRACE_QUEUE_MAX_BYTES, or a policy of the broker's)"
)
UNBOUND = "the trace queue was not bound to the trace exchange"
FULL = "the trace queue reached its limit, and drops its oldest messages"
HEAD_GONE = (
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


def _boot_clock() -> float:
    """Seconds, with those in which the machine was suspended."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


@dataclass(eq=False)
class Monitor:
    """Watches one stream.

    ``lag`` is about how many trace messages wait to be taken, None before it was first measured:
    those in bundles are as many as in the last portion. ``measured`` is called with the time of a
    look (µs) and the messages held for us.
    """

    pipeline: Pipeline
    recorder: Recorder
    stream: TraceStream
    ending: Ending
    measured: Callable[[int, int], None]

    def __post_init__(self) -> None:
        self._gaps = self.pipeline.gaps
        self._harm: str | None = None
        self._most_bytes: int | None = None
        self._largest = 0  # body since the last check
        self._remarks: Sequence[str] = ()
        self._quiet: tuple[Tally, int] | None = None  # the tally that has not changed since (µs)
        self._old_due = 0  # when the last message is stored that was queued at the beginning
        # The trace's points in the last seconds, and the last at which the queue surely had room.
        self._points: deque[Point] = deque(maxlen=round(STATISTICS_SECONDS / LAG_SECONDS) + 1)
        self._had_room: Point | None = None
        self.lag: int | None = None

    @property
    def remarks(self) -> list[str]:
        """Sentences on faults of the queue or the marks."""
        trouble = self.pipeline.marks.trouble
        return [*self._remarks, *([f"no marks can be published: {trouble}"] if trouble else [])]

    async def begin(self) -> None:
        """Switch tracing on, and record a gap if messages were certainly missed before."""
        pipeline, stream, gaps = self.pipeline, self.stream, self._gaps
        restored = self.recorder.restored
        point = Point(restored.last_event_id, now())
        if stream.sentinel != self.recorder.sentinel:
            self.recorder.sentinel = stream.sentinel
            self.recorder.is_ledger_new = True
        if stream.queue_is_new:
            self.recorder.collectors.forget()
        stream.know_accounts(self.recorder.accounts)
        self.recorder.capture_as(stream.account)
        await stream.wait_for_bundles()
        was_off = await pipeline.source.switch_on(pipeline.trace.vhost)
        self.recorder.audit.begin(self.recorder.tally, time.monotonic())
        stored = await pipeline.store.gaps.newest(pipeline.trace.id)
        declared = await pipeline.store.gaps.open_declared(pipeline.trace.id)
        queued = await stream.queued()
        point = self._wait_start(point, queued)
        self._points.append(point)
        gaps.resume(
            restored.last_event_id,
            restored.recorded_at,
            stored,
            queued,
            held_since=self.recorder.tracker.held_since,
            # The newest is about the present selection.
            lifted=declared if pipeline.trace.taken.is_all else declared[:-1],
        )
        self._old_due = gaps.processed + queued
        if not restored.state:
            # From here on every start is a resumption, even if there is no event yet.
            await self.recorder.append(self.recorder.batch([]))
        if not gaps.is_open and (reasons := await self._loss_reasons(was_off)):
            await gaps.record("; ".join(reasons), queued)
        await self._look_at_queue()
        gaps.is_well(point)
        await gaps.write()
        await self.leave_bookmark()  # the gap that the last bookmark tells of is stored by now
        self.take_since()

    def take_since(self) -> None:
        """Tell the tracker once everything is stored that was queued under the old selection.

        Until then an unmatched delivery tells of no loss.
        """
        recorder = self.recorder
        if recorder.tracker.is_taking_anew and self._gaps.processed >= self._old_due:
            recorder.tracker.take_since(recorder.last_event_id)
            recorder.is_ledger_new = True  # to be stored soon

    async def _loss_reasons(self, was_off: list[str]) -> list[str]:
        """The reasons, as far as known, why messages are missing since capture last worked."""
        stream, nodes = self.stream, await self._stopped_nodes()
        if not self.recorder.restored.state:
            return [RESTORED] if self._is_behind else []
        if stream.queue_is_new:
            return ["the trace queue was gone"]
        return [
            *([_stop_reason(nodes)] if nodes else []),
            *([_off_reason(was_off)] if was_off else []),
            *([] if stream.was_bound else [UNBOUND]),
            *([HEAD_GONE] if stream.is_sentinel_gone else []),
            *([RESTORED] if self._is_behind else []),
        ]

    @property
    def _is_behind(self) -> bool:
        """Tell whether the store is older than the trace queue's bookmarks."""
        recorder = self.recorder
        return any(
            bookmark.epoch >= recorder.epoch or bookmark.event_id > recorder.restored.last_event_id
            for bookmark in self.stream.bookmarks
        )

    async def leave_bookmark(self) -> None:
        """Leave a bookmark of the store's progress in the trace queue. Raises `OutageError`."""
        recorder = self.recorder
        await self.stream.leave_bookmark(recorder.epoch, recorder.last_event_id)

    async def watch(self) -> None:
        """Keep the lag up to date, and check from time to time; ends only by a failure."""
        settings, checked_at = self.pipeline.settings, time.monotonic()
        while True:
            await asyncio.sleep(LAG_SECONDS)
            with contextlib.suppress(OutageError):  # the consumer reports a lost stream
                await self._measure()
            is_behind = (self.lag or 0) > settings.batch_events or self._gaps.is_losing(FULL)
            pause = min(settings.check_seconds, STATISTICS_SECONDS if is_behind else math.inf)
            if time.monotonic() >= checked_at + pause:
                checked_at = time.monotonic()
                with contextlib.suppress(OutageError):  # of the management API: the next may tell
                    await self._check()
                with contextlib.suppress(OutageError):  # the next time will do
                    await self.pipeline.store.aliases.learn(self.pipeline.trace.id)

    async def mark(self) -> None:
        """Publish marks as long as something is traced; ends only by a failure."""
        seconds = self.pipeline.settings.mark_seconds
        if not seconds:
            return
        marks, publishers = self.pipeline.marks, None
        compares = self.recorder.audit.compares
        last_traffic = -1
        try:
            while not self.ending.when_empty:  # then tracing is off on purpose
                await asyncio.sleep(seconds)
                publishers = publishers or await self._publishers()
                # Without traffic none are published: the broker's counters come to rest, and can
                # be compared. Where they cannot be, marks are all there is.
                traffic = self.recorder.traffic
                is_busy = traffic != last_traffic or (self.lag or 0) > IDLE_LAG
                if publishers and (is_busy or not compares.publishes or marks.is_asked):
                    last_traffic = traffic
                    await marks.publish(publishers, self._gaps.point)
        finally:
            await marks.close()

    async def suspect_standstills(self, clock: Callable[[], float] = _boot_clock) -> None:
        """Notice that the event loop stood still; ends only by a failure."""
        gaps, recorder = self._gaps, self.recorder
        traffic, traffic_at = recorder.traffic, -TRAFFIC_SECONDS
        while True:
            point, start = gaps.point, clock()
            if recorder.traffic != traffic:
                traffic, traffic_at = recorder.traffic, start
            await asyncio.sleep(TICK_SECONDS)
            is_late = clock() - start > TICK_SECONDS + STILL_SECONDS
            if is_late and start - traffic_at < TRAFFIC_SECONDS:
                with contextlib.suppress(OutageError):  # then the next run sees the loss
                    gaps.suspect(STOOD_STILL, await self.stream.queued(), point.event_id)
                    await gaps.write()

    async def _publishers(self) -> Sequence[MarkPublisher] | None:
        with contextlib.suppress(OutageError):
            trace = self.pipeline.trace
            return await self.pipeline.source.mark_publishers(trace.vhost, trace.taken)
        return None

    async def _measure(self) -> None:
        """Count waiting messages; once none wait or come, no mark may be missing."""
        asked_at = now()
        queued = await self.stream.queued()
        self.measured(asked_at, queued - self.stream.unacknowledged)
        self.lag = round(queued * self.stream.records_per_message)
        self._points.append(self._wait_start(self._gaps.point, queued))
        await self._see_room()
        tally = self.recorder.tally
        if queued or self._quiet is None or self._quiet[0] != tally:
            self._quiet = (tally, asked_at)
        limit = asked_at - int(OVERDUE_SECONDS * 1e6)
        if queued or self._quiet[1] > limit or self.ending.when_empty:
            return
        gaps, begins = self._gaps, self.pipeline.marks.overdue(limit)
        if begins is None:
            await gaps.close(MARKS_MISSING, 0)
        elif not gaps.is_losing(MARKS_MISSING):
            await self._check(begins)  # which may know why
            if not gaps.is_open:
                await gaps.open(MARKS_MISSING, begins=begins, tentative=True)

    async def _check(self, begins: Point | None = None) -> None:
        """See that tracing is on, and that the queue is as it should be.

        A fault has lasted since the last check, or since ``begins``.
        """
        if self.ending.when_empty:  # tracing is off on purpose
            return
        gaps, point = self._gaps, self._gaps.point
        was_off = await self.pipeline.source.switch_on(self.pipeline.trace.vhost)
        if nodes := await self._stopped_nodes():
            await gaps.record(_stop_reason(nodes), await self.stream.queued())
        if was_off:
            await gaps.record(_off_reason(was_off), await self.stream.queued(), begins=begins)
        await self._look_at_queue(begins)
        gaps.is_well(self._wait_start(point, self.lag or 0))
        await gaps.write()
        await self.leave_bookmark()

    def _wait_start(self, point: Point, queued: int) -> Point:
        """``point``, with the time before which everything traced is stored.

        Messages that wait in the queue, beside our sentinel, were traced earlier, and are lost with
        it. Only marks tell since when they wait.
        """
        recorder = self.recorder
        if queued <= 1 or not self.pipeline.settings.mark_seconds:
            return point
        return Point(point.event_id, recorder.settled.moment or recorder.restored.recorded_at)

    async def _stopped_nodes(self) -> frozenset[str]:
        """The nodes that ran when capture last worked, and do not any more.

        Their last trace messages may never have left them.
        """
        nodes, self._gaps.nodes = self._gaps.nodes, await self.pipeline.source.nodes()
        return nodes - self._gaps.nodes

    async def _look_at_queue(self, begins: Point | None = None) -> None:
        """See that our queue is as declared: bound, bounded by nobody else, and not full."""
        pipeline, gaps = self.pipeline, self._gaps
        queue = await pipeline.source.look(pipeline.trace.vhost, pipeline.trace.taken)
        self._remarks = queue.remarks
        if queue.fault:  # our own is gone; this ends our consumer
            await gaps.open(f"the trace queue was another's: {queue.fault}")
            await pipeline.source.delete_queue(pipeline.trace.vhost)
            return
        if queue.missing or queue.excess:
            await self.stream.bind(queue.missing, queue.excess)
        queued = await self.stream.queued()
        if not queue.is_bound:
            await gaps.record(UNBOUND, queued, begins=begins)
        had_room = self._has_room
        self._most_bytes, self._largest = queue.most_bytes, 0
        if had_room:
            await gaps.close(TIGHT, queued)
        await self._note_harm(queue.harm, queued)
        await self._see_room()
        if queue.is_nearly_full:
            # It has dropped only messages behind those that had come when it had room.
            await gaps.open(FULL, begins=self._had_room)
        elif queue.is_nearly_full is not None:  # if the broker cannot say now, nothing changes
            self._had_room = self._points[0]
            await gaps.close(FULL, queued)

    async def _see_room(self) -> None:
        """See that the queue does not drop messages long before it looks full."""
        self._largest = max(self._largest, self.stream.take_largest())
        if not self._has_room:
            await self._gaps.open(TIGHT)

    @property
    def _has_room(self) -> bool:
        return self._most_bytes is None or ROOM * self._largest <= self._most_bytes

    async def _note_harm(self, harm: str | None, queued: int) -> None:
        if self._harm is not None and harm != self._harm:
            await self._gaps.close(self._harm, queued)
        if harm is not None:
            await self._gaps.open(harm)
        self._harm = harm


def _off_reason(nodes: list[str]) -> str:
    return f"tracing was off on {', '.join(nodes)}"


def _stop_reason(nodes: Iterable[str]) -> str:
    return f"{', '.join(sorted(nodes))} stopped, and what was traced there last may be lost"
