"""A run: one stream of trace messages, from the checkpoint on, until it is asked to end.

    trace messages → records → stamped events → one transaction with the checkpoint → ack

While a batch is being stored the next one is already parsed and stamped; never more than that, so
memory is bounded by two batches and the prefetch.

A batch is stored once there is nothing more to add for now. Where messages come faster than we can
store small batches it grows: a transaction writes every page that it has touched, a page for each
participant among them, so a larger one does less for each event. With batches of 8,000 instead of
2,000 a message takes 21.3 instead of 25.5 µs of processor time with 64 participants, and 30.9
instead of 37.2 with 1,000. Where they come slowly a batch is small, and a transaction's fixed cost
is most of it: so it waits a fifth of a second for more (`bench.steady`).
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.background import end
from app.errors import ItcError, OutageError, UnfitError
from app.traces.life import Standing
from app.traces.losses.auditor import Auditor
from app.traces.losses.monitor import MARKS_MISSING, Monitor
from app.traces.losses.queuewatch import QueueWatch
from app.traces.pipeline import Ending, Pipeline
from app.traces.recorder import Recorder
from app.traces.retention import AT_MOST, retain_some
from app.traces.runs.acquaintance import Acquaintance
from app.traces.runs.redaction import redact
from app.traces.runs.sieve import SiftedError
from app.traces.runs.stamper import Stamper, Stretch, identity
from app.traces.status import Snapshot
from app.traces.supervisor import failure_in_words, patiently
from app.tracker import Tracker
from app.tracker.events import NO_EVENT_ID

if TYPE_CHECKING:
    from app.broker.consumer import TraceStream
    from app.broker.deliveries import Arrival

CANCEL_SECONDS = 0.5
# Pauses between reads of people's rules of links, and between looks for waiting copies.
RULES_SECONDS, QUEUE_SECONDS = 2.0, 30.0
# The pause between two questions to the broker's channels: each answers with a record.
ASKING_SECONDS = 10.0
# Messages taken at once: their participants must be known before the first is stamped.
PORTION = 1_000
# A batch of large bodies is stored early; memory holds several copies of it meanwhile.
BATCH_BYTES = 16 * 1024 * 1024
# As long as whole portions come, a batch may wait this many times `batch_seconds`.
PATIENCE = 2
# A message traced this long (µs) before a mark was sent is certainly queued before it.
SETTLING = 500_000

PUBLISH_MISSING = (
    "a queue handed out a message that came into it while tracing was on, and whose publish was "
    "not seen"
)

CAUSE_FORGOTTEN = (
    "a message was handed out whose publish may be one of those that the trace had to forget "
    "(ITC_PENDING_COPIES, or older than a day)"
)


@dataclass(eq=False)
class Run:
    """A trace that is restored and connected."""

    pipeline: Pipeline
    recorder: Recorder
    stream: TraceStream
    ending: Ending

    def __post_init__(self) -> None:
        pipeline, recorder, stream, ending = self.pipeline, self.recorder, self.stream, self.ending
        self._stamper = Stamper(recorder, stream, pipeline.sieve)
        self._acquaintance = Acquaintance(
            pipeline.trace.vhost,
            recorder.tracker,
            pipeline.introductions,
            stream,
            recorded_at=recorder.restored.recorded_at,
        )
        self._monitor = Monitor(pipeline, recorder, stream, ending, self._acquaintance.note_measure)
        self._auditor = Auditor(pipeline, recorder, stream)
        self._queues = QueueWatch(pipeline, recorder, ending)
        self._next_retention = time.monotonic()
        self._retained_at: int | None = None  # the newest event at the previous part
        self._next_asking = self._batch_began = 0.0
        self._is_doubt_noted = False

    @property
    def tracker(self) -> Tracker:
        return self.recorder.tracker

    def snapshot(self, standing: Standing) -> Snapshot:
        monitor = self._monitor
        return self.recorder.snapshot(standing, monitor.lag, monitor.remarks)

    async def follow(self) -> None:
        """Switch tracing on, and store what arrives, until asked to end. Raises `OutageError`."""
        await self._monitor.begin()
        self._report()
        watching = asyncio.create_task(self._watch())
        try:
            await self._consume(watching)
            await self._close_window()
        finally:
            while not watching.done():
                watching.cancel()
                # The client library may make an outage of it, if its channel closes meanwhile.
                await asyncio.wait({watching}, timeout=CANCEL_SECONDS)
            await asyncio.gather(watching, return_exceptions=True)

    async def _watch(self) -> None:
        """Run the tasks beside the consumer; ends only by a failure of one of them."""
        settings, recorder = self.pipeline.settings, self.recorder
        auditing = settings.audit_seconds if any(recorder.audit.compares) else 0.0
        tasks = [
            asyncio.create_task(loop)
            for loop in (
                self._monitor.watch(),
                self._monitor.mark(),
                self._monitor.suspect_standstills(),
                self._look(auditing, self._auditor.look),
                self._look(RULES_SECONDS, recorder.look_at_rules, to_the_end=True),
                self._look(RULES_SECONDS, recorder.look_at_redactions, to_the_end=True),
                # Without marks no times are known.
                self._look(QUEUE_SECONDS if settings.mark_seconds else 0.0, self._queues.look),
            )
        ]
        try:
            await asyncio.gather(*tasks)
        finally:
            await end(*tasks)

    async def _look(
        self, seconds: float, look: Callable[[], Awaitable[None]], *, to_the_end: bool = False
    ) -> None:
        """Look every ``seconds`` (0: never), until the queue is to be emptied or the run ends."""
        while seconds and (to_the_end or not self.ending.when_empty):
            await asyncio.sleep(seconds)
            with contextlib.suppress(OutageError):  # the next look will do
                await look()

    async def _consume(self, watching: asyncio.Task[None]) -> None:
        stream, retention = self.stream, self.pipeline.settings.retention
        storing: asyncio.Task[None] | None = None
        try:
            while not self.ending.at_once:
                if watching.done():  # it ends only by a failure
                    watching.result()
                is_due = retention.is_on and time.monotonic() >= self._next_retention
                if self._stamper.is_new and is_due:
                    if storing is not None:
                        await storing
                        storing = None
                    await self._retain_some()
                records, is_empty = await self._stamp_portion()
                await asyncio.sleep(0)  # for others that wait for the event loop
                is_more = records >= PORTION or stream.buffer_size or self._stamper.is_behind
                if is_more and self._may_grow():
                    continue
                stretch = self._stamper.complete()
                if storing is not None:
                    await storing
                    storing = None
                if stretch is not None:
                    storing = asyncio.create_task(self._commit(stretch))
                elif is_empty and self.ending.when_empty:
                    return
                elif stream.is_over and not self.ending.when_empty:
                    await self._leave()
                    return
        except asyncio.CancelledError:
            if storing is not None:  # it may be waiting for the database for any length of time
                storing.cancel()
            raise
        finally:
            if storing is not None:
                await storing

    async def _stamp_portion(self) -> tuple[int, bool]:
        """Stamp the next messages, for the batch in the making.

        :returns: how many records came, and whether the queue is known to be empty.
        """
        settings, stream, stamper = self.pipeline.settings, self.stream, self._stamper
        limit = min(PORTION, self._batch_limit - stamper.stretch.records)
        messages: Sequence[Arrival] = ()
        if not stamper.is_behind:
            messages = await stream.batch(limit, settings.batch_seconds)
            if self.recorder.redactor is not None:
                await redact(messages, self.recorder, stream, stamper.resume)
        try:
            return await self._stamp(messages)
        except ItcError:
            raise
        except Exception as failure:
            self._sift([*stamper.stretch.every_digest, *map(identity, messages)], failure)
            raise

    async def _stamp(self, messages: Sequence[Arrival]) -> tuple[int, bool]:
        stream, stamper = self.stream, self._stamper
        silent = not messages and not stamper.is_behind and await self._is_silent()
        # Asked before the batch on its way is acknowledged, which may end the waiting.
        is_empty = silent and not stream.waits
        held_back = stamper.resume.is_holding or stamper.is_behind
        await self._acquaintance.meet(messages, held_back=held_back)
        if stamper.is_new:
            self.recorder.take_up_rules()
            self._queues.take_up()
            self._batch_began = time.monotonic()
        begins = self.pipeline.gaps.take_new()
        if begins is not None:
            self.recorder.tracker.settlements.forget(begins)
        most = None  # whole bundles, but where one of their records is looked for
        if self.pipeline.sieve.batch_limit is not None:
            most = self._batch_limit - stamper.stretch.records
        steps = stamper.steps(messages, silent, most)
        while not stamper.stamp(steps):  # noqa: ASYNC110  no polling: each call stamps some more
            await asyncio.sleep(0)
        await self._ask_channels()
        return len(messages), is_empty

    async def _ask_channels(self) -> None:
        """Once a loss is over, ask channels where they stand: no count is right until then."""
        settlements, moment = self.recorder.tracker.settlements, time.monotonic()
        if settlements.is_anew and moment >= self._next_asking and not self.pipeline.gaps.is_open:
            settlements.is_anew, self._next_asking = False, moment + ASKING_SECONDS
            await self.stream.ask_channels()

    @property
    def _batch_limit(self) -> int:
        return self.pipeline.sieve.batch_limit or self.pipeline.settings.batch_events

    def _sift(self, digests: Iterable[bytes], failure: Exception) -> None:
        """Raise `SiftedError` if one of these messages may have made this attempt fail."""
        sieve = self.pipeline.sieve
        if sieve.narrow([*dict.fromkeys(digests)], failure_in_words(failure)):
            raise SiftedError(sieve) from failure

    def _may_grow(self) -> bool:
        settings, stamper = self.pipeline.settings, self._stamper
        return (
            not self.ending.at_once
            and stamper.stretch.records < self._batch_limit
            and stamper.stretch.size < BATCH_BYTES
            and time.monotonic() - self._batch_began < PATIENCE * settings.batch_seconds
        )

    def _report(self) -> None:
        """Report that it runs, or the remark that holds it up."""
        supervisor, remark = self.pipeline.supervisor, self.stream.remark
        if remark is None:
            supervisor.running()
        else:
            supervisor.waiting(remark)

    async def _leave(self) -> None:
        """Store that everything is acknowledged: none of it comes again."""
        self.recorder.window.clear()
        await self.recorder.append(self.recorder.batch([]))

    async def _close_window(self) -> None:
        """Store which messages are acknowledged, so that a restart has less to recognise."""
        recorder = self.recorder
        size = len(recorder.window)
        with contextlib.suppress(OutageError):  # it can be recognised all the same
            await self.stream.ready_messages()
            recorder.window.confirm(self.stream.taken)
        if len(recorder.window) < size:
            await recorder.append(recorder.batch([]))
        with contextlib.suppress(OutageError):  # the last bookmark does nearly as well
            await self._monitor.leave_bookmark()

    async def _is_silent(self) -> bool:
        """Tell whether the queue is empty and not just pausing; False if nothing depends on it."""
        if not (self.ending.when_empty or self._stamper.resume.is_holding):
            return False
        if self.stream.waits:  # until `Resume` has decided
            return True
        if self.ending.when_empty and not await self.stream.is_last_bundle_here():
            return False
        return await self.stream.ready_messages() == 0 and self.stream.buffer_size == 0

    async def _retain_some(self) -> None:
        """Carry out a part of the retention; no batch may be on its way into the store.

        Consecutive parts remove at least as much as is stored between them.
        """
        pipeline, retention = self.pipeline, self.pipeline.settings.retention
        tracker, epoch = self.recorder.tracker, self.recorder.epoch
        store, trace_id = pipeline.store.retention, pipeline.trace.id
        newest = self.recorder.last_event_id
        backlog = 0 if self._retained_at is None else newest - self._retained_at
        self._retained_at = newest
        while True:
            count = (await retain_some(store, trace_id, tracker, retention, epoch)).events
            backlog -= count
            if count < AT_MOST:
                self._next_retention = time.monotonic() + retention.check_seconds
                self._retained_at = None
                return
            if backlog <= 0:
                return

    def _settle(self, stretch: Stretch) -> None:
        """Note until when everything traced is stored, if a mark came that proves it."""
        moment = self.pipeline.marks.settled
        if stretch.marks and moment is not None:
            moment -= SETTLING
            oldest = stretch.held_since
            self.recorder.settle(moment if oldest is None else min(moment, oldest))

    def _note_suspicions(self, stretch: Stretch) -> None:
        """Note suspected gaps. Those that end in this batch are closed once it is stored."""
        gaps, newest = self.pipeline.gaps, self.recorder.last_event_id
        # While bad messages are passed they are removed one by one: no whole batches come again.
        is_passing = self.stream.remark is not None
        if self._stamper.resume.doubt is not None and not self._is_doubt_noted and not is_passing:
            self._is_doubt_noted = True
            gaps.suspect(self._stamper.resume.doubt, stretch.messages, newest)
            self._forget_settlements(stretch, newest)
        suspects = [suspect for suspect in stretch.suspects if suspect is not None]
        if suspects:
            # Ids are dealt out as events are stored: those of this batch come after all others.
            ids = [suspect.id for suspect in suspects if suspect.id is not None]
            begins = min(ids, default=newest)
            gaps.suspect(PUBLISH_MISSING, stretch.messages, begins)
            self._forget_settlements(stretch, begins)
        if len(suspects) < len(stretch.suspects):
            gaps.suspect(CAUSE_FORGOTTEN, stretch.messages, newest)

    def _forget_settlements(self, stretch: Stretch, event_id: int = NO_EVENT_ID) -> None:
        """Note that deliveries may be missing since an event, so that no count is right."""
        self.recorder.tracker.settlements.forget(event_id)
        if stretch.batch is not None:
            checkpoint = stretch.batch.checkpoint
            checkpoint.settlements = checkpoint.settlements.forget(event_id)

    async def _commit(self, stretch: Stretch) -> None:
        """Store a batch, then acknowledge it.

        Gaps that it proves are written first: a crash after it must not forget them.
        """
        recorder, gaps, marks = self.recorder, self.pipeline.gaps, self.pipeline.marks
        for missing in stretch.missing:
            gaps.note(missing.reason, stretch.messages, begins=missing.begins)
        begins = marks.loss(stretch.marks)
        if begins and not gaps.covers(begins, stretch.messages):
            gaps.note(MARKS_MISSING, stretch.messages, begins=begins)
        if not gaps.is_open:
            self._note_suspicions(stretch)
        if gaps.is_pending:
            await patiently(gaps.write, self.pipeline.supervisor)
        if gaps.is_open:
            self._forget_settlements(stretch)
        if stretch.batch is not None:
            try:
                await recorder.append(stretch.batch)
            except UnfitError as failure:
                self._sift(stretch.every_digest, failure)
                raise
            self.pipeline.sieve.widen(stretch.every_digest, self.pipeline.settings.batch_events)
        if stretch.messages:
            await self.stream.acknowledge(stretch.tag)
        if self.stream.remark is not None:
            self._report()
        gaps.note_stored(stretch.messages, recorder.last_event_id, stretch.held_since)
        self._monitor.take_since()
        marks.note_stored(stretch.marks, gaps.point)
        self._settle(stretch)
        if gaps.is_pending:
            with contextlib.suppress(OutageError):  # the next batch's turn
                await (self._settle_marks(begins is None) if stretch.marks else gaps.write())

    async def _settle_marks(self, all_arrived: bool) -> None:
        """Decide on marks that were overdue, now that marks came. Raises `OutageError`.

        A flood can keep them inside the broker for as long as nothing comes: then they come later.
        """
        gaps, have_come = self.pipeline.gaps, self.pipeline.marks.have_come()
        if all_arrived and have_come:
            await gaps.take_back(MARKS_MISSING)
        elif all_arrived and have_come is False:
            await gaps.write()
        else:
            await gaps.close(MARKS_MISSING, 0)
