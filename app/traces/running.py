"""A trace that runs in this process: its life, its supervisor, and the current attempt.

Whatever goes wrong ends an attempt: the next one starts from the checkpoint again, and what was not
acknowledged comes back from the broker.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from app.errors import (
    ForeignQueueError,
    QueueInUseError,
    QueueLostError,
    QueueTakenError,
    UndeliverableError,
)
from app.stored.capture import Trace
from app.traces.feed import Feed
from app.traces.gapwatch import GapWatch
from app.traces.life import Life, Standing, TraceState
from app.traces.marks import Marks
from app.traces.pipeline import Ending, Pipeline, PipelineSettings
from app.traces.recorder import Recorder
from app.traces.run import Run
from app.traces.status import Snapshot
from app.traces.supervisor import Supervisor
from app.tracker import RestorePoint

if TYPE_CHECKING:
    from app.broker.source import TraceSource
    from app.store.store import Store
    from app.traces.introductions import Introductions


class Attempt:
    """Opens a trace, which becomes a `Run` once it is connected; a new object for each attempt."""

    def __init__(self, pipeline: Pipeline, ending: Ending, *, passing: bool = False) -> None:
        """Prepare it; ``passing`` reads past messages that the broker cannot hand over."""
        self._pipeline = pipeline
        self._ending = ending
        self.is_passing = passing
        self.is_over = False  # when passing: whether the usual way will do again
        # How far it has come: nothing is known yet, restored, or running.
        self._reached: Recorder | Run | None = None

    def snapshot(self, standing: Standing) -> Snapshot:
        """The numbers as far as they are known."""
        if self._reached is None:
            return Snapshot(standing, last_event_id=self._pipeline.trace.last_event_id)
        return self._reached.snapshot(standing)

    async def run(self, ahead: RestorePoint | None = None) -> None:
        """Restore, connect, and store what comes, until asked to end.

        Raises `OutageError` if the broker or the database is away, `UndeliverableError` at a
        message that has to be passed.
        """
        pipeline = self._pipeline
        self._reached = recorder = await Recorder.restore(pipeline, ahead)
        ahead = None  # which takes room
        try:
            async with pipeline.source.open(
                pipeline.trace.vhost,
                recorder.window.span,
                recorder.sentinel,
                pipeline.trace.taken,
                recorder.tracker.took,
                passing=self.is_passing,
            ) as stream:
                self._reached = run = Run(pipeline, recorder, stream, self._ending)
                await run.follow()
                self.is_over = stream.is_over
        except QueueInUseError:
            await self._cut_off()
            raise
        except ForeignQueueError as error:
            await self._lost_queue(recorder, str(error))
            await pipeline.source.delete_queue(pipeline.trace.vhost)
            raise
        except QueueTakenError:
            await self._lost_queue(recorder, "the trace queue belonged to another service")
            raise
        except QueueLostError as error:
            await self._lost_queue(recorder, error.gap)
            raise

    async def _cut_off(self) -> None:
        """Have services that hold the trace no more leave its queue to us."""
        trace = self._pipeline.trace
        known = {each.id for each in await self._pipeline.store.services.all()}
        if others := known - {trace.holder}:
            await self._pipeline.source.cut_off(trace.vhost, others)

    async def _lost_queue(self, recorder: Recorder, reason: str) -> None:
        """Open a gap that ends when we have a queue again."""
        gaps, restored = self._pipeline.gaps, recorder.restored
        gaps.stand(recorder.last_event_id, restored.recorded_at)
        await gaps.losing(reason)


@dataclass(eq=False)
class Capture:
    """Runs traces in this process, with what they share; ``feed`` hears of their events.

    Those that share a ``turn`` stamp or store one after the other. Use that if other processes use
    the same store: they wait while one trace's transaction is open, and it would stay open longer
    if other traces stamped meanwhile.
    """

    store: Store
    source: TraceSource
    settings: PipelineSettings
    introductions: Introductions
    feed: Feed
    turn: AbstractAsyncContextManager[None] = field(default_factory=contextlib.nullcontext)

    async def read(self, trace: Trace) -> RestorePoint:
        """Read a trace ahead of its run; raises `OutageError`."""
        return await self.settings.restored(self.store, trace)

    def run(self, trace: Trace, ahead: RestorePoint | None = None) -> RunningTrace:
        return RunningTrace(trace, self, ahead)


class RunningTrace:
    """One virtual host's trace while the service runs it."""

    def __init__(self, trace: Trace, capture: Capture, ahead: RestorePoint | None) -> None:
        """Start at once, with what was read ``ahead``."""
        self.trace = trace
        self._life = Life()
        supervisor = Supervisor(trace.vhost, self._run, self._life, clock=time.monotonic)
        self.pipeline = Pipeline(
            trace=trace,
            store=capture.store,
            source=capture.source,
            feed=capture.feed,
            supervisor=supervisor,
            settings=capture.settings,
            gaps=GapWatch(capture.store.gaps, trace.id, trace.vhost),
            marks=Marks(),
            turn=capture.turn,
            introductions=capture.introductions,
        )
        self._ending = Ending()
        self._attempt = Attempt(self.pipeline, self._ending)
        self._ahead = ahead
        self._task = asyncio.create_task(supervisor.supervise(), name=f"trace of {trace.vhost}")

    @property
    def is_alive(self) -> bool:
        """Tell whether it runs, or tries to."""
        return not self._task.done()

    def snapshot(self) -> Snapshot:
        return self._attempt.snapshot(self._life.standing)

    def drain(self) -> None:
        """Ask the run to end once the queue is empty, and to leave tracing alone until then."""
        self._ending.when_empty = True

    def prove(self) -> None:
        """Have the snapshot soon say of this moment that all is stored which was traced before."""
        self.pipeline.marks.ask()

    async def end(self, *, drain: bool, deadline: float) -> None:
        """End the run after the current batch, or once the queue is empty; cancel at the deadline.

        ``deadline`` in seconds from now. What is then unfinished comes back from the broker.
        """
        if self._life.state is TraceState.stopped:  # a drained run ends by itself
            return
        is_pausing = self._life.state in (TraceState.waiting, TraceState.failed)
        waits = is_pausing and not self._attempt.is_passing
        self._life.stopping()
        if drain:
            self.drain()
        else:
            self._ending.at_once = True
        if not waits:  # an outage or a pause may last; nothing can be finished, and nothing is lost
            await asyncio.wait({self._task}, timeout=deadline)
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        self._life.stopped()

    def _take_ahead(self) -> RestorePoint | None:
        ahead, self._ahead = self._ahead, None  # which takes room
        return ahead

    async def _run(self) -> None:
        passing = False
        while self._life.state is not TraceState.stopping or (passing and self._ending.when_empty):
            self._attempt = Attempt(self.pipeline, self._ending, passing=passing)
            try:
                await self._attempt.run(self._take_ahead())
            except UndeliverableError as error:
                self._life.waiting(str(error))
                passing = True
            else:
                if not self._attempt.is_over:
                    return
                passing = False
