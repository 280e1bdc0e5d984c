"""One run of one trace: from the checkpoint to the firehose, until it is asked to end.

    trace messages → records → stamped events → one transaction with the checkpoint → ack

While a batch is being stored the next one is already parsed and stamped; never more than that, so
memory is bounded by two batches and the prefetch. Whatever goes wrong ends the run: the next one
begins with the checkpoint again, and what was not acknowledged comes back from the broker.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager

import msgspec

from app.errors import OutageError
from app.stored.batches import Batch
from app.stored.traces import Trace
from app.traces.feed import Feed
from app.traces.gapwatch import GapWatch
from app.traces.ports import Received, Source, Stream, TraceStore
from app.traces.rate import Rate
from app.traces.resume import Resume, Window, digest
from app.traces.retention import Retention, retain
from app.traces.status import Work
from app.traces.supervisor import FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS, Supervisor
from app.tracker import Bounds, Policy, Restored, StampedEvent, Tracker, Unreadable

LAG_SECONDS = 2.0
# From here on the broker may already be dropping the oldest trace messages.
NEARLY_FULL = 0.95
FULL = "the trace queue reached its limit, and drops its oldest messages"


class PipelineSettings(msgspec.Struct, frozen=True):
    """The bounds of a run; times in seconds."""

    bounds: Bounds = Bounds()
    batch_events: int = 2000
    batch_seconds: float = 0.1
    prefetch: int = 8000
    queue_max_bytes: int = 1 << 30
    check_seconds: float = 15.0
    retention: Retention = Retention()


class Prepared(msgspec.Struct):
    """A batch to be stored, and the delivery tag that acknowledges all of it."""

    batch: Batch | None  # None where every message was stored before
    tag: int
    messages: int


class Pipeline:
    """One trace's run; a new object for each."""

    def __init__(
        self,
        trace: Trace,
        store: TraceStore,
        source: Source,
        feed: Feed,
        supervisor: Supervisor,
        settings: PipelineSettings,
        gaps: GapWatch,
        turn: AbstractAsyncContextManager[None],
    ) -> None:
        """Prepare a run, which stamps and stores in its ``turn``; that and ``gaps`` outlive it."""
        self._trace = trace
        self._store = store
        self._source = source
        self._feed = feed
        self._supervisor = supervisor
        self._settings = settings
        self._gaps = gaps
        self._turn = turn
        self._stopping = asyncio.Event()
        self._draining = False
        self._next_retention = time.monotonic()
        self.tracker: Tracker | None = None
        self.rate = Rate(time.monotonic)
        self.work = Work()
        self.lag: int | None = None
        self.last_event_id = trace.last_event_id

    def stop(self) -> None:
        """Ask the run to end after the batch at hand; the queue goes on collecting."""
        self._stopping.set()

    def drain(self) -> None:
        """Ask the run to end once the queue is empty."""
        self._draining = True

    async def run(self) -> None:
        """Restore, connect, and store what comes, until asked to end.

        Raises `OutageError` when the broker or the database is away, `UndeliverableError` at a
        message that has to be passed by `pass_undeliverable`.
        """
        restored = await self._restore()
        prefetch = max(self._settings.prefetch, len(self._window))
        async with self._source.open(self._trace.vhost, prefetch) as stream:
            await self._follow(stream, restored)

    async def pass_undeliverable(self, before: int) -> None:
        """Store the first ``before`` messages, and put the one behind them into quarantine."""
        restored = await self._restore()
        if before:
            self._draining = True
            async with self._source.open(self._trace.vhost, before, before) as stream:
                await self._follow(stream, restored)
        unreadable = await self._source.take_undeliverable(self._trace.vhost)
        if unreadable is not None:
            tracker = self._running_tracker()
            tracker.counters.quarantined += 1
            await self._append(Batch([], tracker.checkpoint(), self._window.dump(), [unreadable]))

    async def _restore(self) -> Restored:
        restored = await self._store.checkpoints.restore(
            self._trace.id, self._settings.bounds.handovers
        )
        self.last_event_id = restored.last_event_id
        self._window = Window(self._settings.prefetch, restored.window)
        self._resume: Resume[tuple[Received, bytes]] = Resume(self._window)
        self.tracker = Tracker(Policy(self._trace.policy), self._settings.bounds, restored)
        return restored

    async def _follow(self, stream: Stream, restored: Restored) -> None:
        await self._begin(stream, restored)
        self._supervisor.running()
        monitor = asyncio.create_task(self._monitor(stream))
        try:
            await self._consume(stream, monitor)
        finally:
            monitor.cancel()
            await asyncio.gather(monitor, return_exceptions=True)

    async def _begin(self, stream: Stream, restored: Restored) -> None:
        """Switch tracing on, and record what was certainly missed before."""
        tracker = self._running_tracker()
        tracker.reorder(stream.is_cluster)
        vhost, gaps = self._trace.vhost, self._gaps
        was_off = await self._source.switch_on(vhost)
        queued = 0 if stream.queue_is_new else stream.queued_before
        stored = await self._store.gaps.newest(self._trace.id)
        gaps.resume(restored.last_event_id, restored.recorded_at, stored, queued)
        since, gaps.well_until = gaps.well_until, _now()
        if not restored.state:
            # From here on a start is a return, also while there is no event yet.
            await self._append(Batch([], tracker.checkpoint(), self._window.dump()))
        elif gaps.is_open:
            pass  # it covers this moment too
        elif stream.queue_is_new:
            await gaps.lost("the trace queue was gone", since, queued)
        elif was_off:
            await gaps.lost(_off(was_off), since, queued)
        await self._look_at_limit(since)
        await gaps.write()

    async def _consume(self, stream: Stream, monitor: asyncio.Task[None]) -> None:
        storing: asyncio.Task[None] | None = None
        try:
            while not self._stopping.is_set():
                if monitor.done():  # it has no end but a failure
                    monitor.result()
                if self._retention_is_due():
                    if storing is not None:
                        await storing
                        storing = None
                    await self._retain()
                received = await stream.batch(
                    self._settings.batch_events, self._settings.batch_seconds
                )
                silent = not received and await self._is_silent(stream)
                async with self._turn:
                    prepared = self._prepare(stream, received, silent)
                if storing is not None:
                    await storing
                    storing = None
                if prepared is not None:
                    storing = asyncio.create_task(self._commit(stream, prepared))
                elif silent and self._draining:
                    return
        except asyncio.CancelledError:
            if storing is not None:  # it may be waiting for the database, for who knows how long
                storing.cancel()
            raise
        finally:
            if storing is not None:
                await storing

    async def _is_silent(self, stream: Stream) -> bool:
        """Whether the queue is empty, where it matters that it is more than a pause."""
        if not (self._draining or self._resume.is_holding):
            return False
        return await stream.ready_messages() == 0 and stream.buffered == 0

    def _retention_is_due(self) -> bool:
        return self._settings.retention.is_on and time.monotonic() >= self._next_retention

    async def _retain(self) -> None:
        """Carry retention out; nothing may be on its way into the store."""
        self._next_retention = time.monotonic() + self._settings.retention.check_seconds
        tracker = self._running_tracker()
        await retain(self._store.retention, self._trace.id, tracker, self._settings.retention)

    def _prepare(
        self, stream: Stream, received: Sequence[Received], silent: bool
    ) -> Prepared | None:
        """Stamp what is new among the received; None where there is nothing to acknowledge."""
        tracker = self._running_tracker()
        events: list[StampedEvent] = []
        unreadable: list[Unreadable] = []
        digests: list[bytes] = []
        tag = messages = 0
        began = time.perf_counter()
        for arrival, mark, is_new in self._decided(received, silent):
            tag, messages = arrival.tag, messages + 1
            if not is_new:
                continue
            digests.append(mark)
            message = arrival.message
            if isinstance(message, Unreadable):
                unreadable.append(message)
            elif not stream.is_own(message):
                events += tracker.apply(message, arrival.at)
        events += tracker.close_overdue(_now())
        self.work.count_stamped(len(events), time.perf_counter() - began)
        tracker.counters.quarantined += len(unreadable)
        batch = None
        if digests or events:
            self._window.add(digests)
            batch = Batch(events, tracker.checkpoint(), self._window.dump(), unreadable)
        return Prepared(batch, tag, messages) if batch or messages else None

    def _decided(
        self, received: Sequence[Received], silent: bool
    ) -> list[tuple[Received, bytes, bool]]:
        """Give (message, digest, is new) of those of which it is clear whether they are stored."""
        marked = [(arrival, digest(arrival.message)) for arrival in received]
        if self._resume.settled:
            return [(arrival, mark, True) for arrival, mark in marked]
        decided: list[tuple[Received, bytes, bool]] = []
        for arrival, mark in marked:
            for held, is_new in self._resume.push((arrival, mark), mark, arrival.redelivered):
                decided.append((*held, is_new))
        if silent and self._resume.is_holding:
            decided += [(*held, is_new) for held, is_new in self._resume.settle()]
        return decided

    async def _commit(self, stream: Stream, prepared: Prepared) -> None:
        """Store a batch, then acknowledge it; an outage of the store is sat out here."""
        if prepared.batch is not None:
            ids = await self._append(prepared.batch)
            if ids:
                self.last_event_id = ids[-1]
                self.rate.add(len(ids))
                self._feed.advance(ids[-1])
        if prepared.messages:
            await stream.acknowledge(prepared.tag)
        self._gaps.stored(prepared.messages, self.last_event_id)
        if self._gaps.is_open:
            with contextlib.suppress(OutageError):  # the next batch's turn
                await self._gaps.write()

    async def _append(self, batch: Batch) -> range:
        pause = FIRST_PAUSE_SECONDS
        while True:
            began = time.perf_counter()
            try:
                async with self._turn:
                    ids = await self._store.batches.append(self._trace.id, batch)
            except OutageError as outage:
                self._supervisor.waiting(str(outage))
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE_SECONDS)
            else:
                if pause > FIRST_PAUSE_SECONDS:
                    self._supervisor.running()
                newest = batch.events[-1].stamp if batch.events else None
                self.work.count_stored(newest, time.perf_counter() - began)
                return ids

    async def _monitor(self, stream: Stream) -> None:
        """Keep the lag known, and look from time to time whether tracing is still on."""
        next_check = time.monotonic() + self._settings.check_seconds
        while True:
            await asyncio.sleep(LAG_SECONDS)
            with contextlib.suppress(OutageError):  # a lost stream is the consumer's to report
                self.lag = await stream.ready_messages() + stream.buffered
            if time.monotonic() >= next_check:
                next_check = time.monotonic() + self._settings.check_seconds
                # Without the management API nothing can be said of tracing; the next look may.
                with contextlib.suppress(OutageError):
                    await self._check()

    async def _check(self) -> None:
        if self._draining:  # tracing is off on purpose
            return
        gaps = self._gaps
        was_off = await self._source.switch_on(self._trace.vhost)
        since, gaps.well_until = gaps.well_until, _now()
        if was_off:
            await gaps.lost(_off(was_off), since, self.lag or 0)
        await self._look_at_limit(since)
        await gaps.write()

    async def _look_at_limit(self, since: int) -> None:
        queued_bytes = await self._source.queued_bytes(self._trace.vhost)
        if queued_bytes is None:  # the broker cannot say now, so what was is taken to go on
            return
        if queued_bytes > NEARLY_FULL * self._settings.queue_max_bytes:
            await self._gaps.losing(FULL, since)
        else:
            await self._gaps.ended(FULL, self.lag or 0)

    def _running_tracker(self) -> Tracker:
        if self.tracker is None:
            raise RuntimeError("the run has not begun")
        return self.tracker


def _off(nodes: list[str]) -> str:
    return f"tracing was off on {', '.join(nodes)}"


def _now() -> int:
    return time.time_ns() // 1000
