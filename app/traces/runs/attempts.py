"""A running trace: its life, its supervisor, and the attempts to run it.

Every failure ends an attempt: the next one starts from the checkpoint again, and unacknowledged
messages come back from the broker.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.errors import (
    ForeignQueueError,
    QueueInUseError,
    QueueLostError,
    QueueTakenError,
    UndeliverableError,
)
from app.stored.capture import Trace
from app.traces.life import Life, TraceState
from app.traces.losses.gapwatch import GapWatch
from app.traces.losses.marks import Marks
from app.traces.pipeline import Ending, Pipeline, PipelineSettings
from app.traces.recorder import Recorder
from app.traces.runs.feed import Feed
from app.traces.runs.run import Run
from app.traces.runs.sieve import Sieve, SiftedError
from app.traces.status import Snapshot
from app.traces.supervisor import Supervisor
from app.tracker import RestorePoint

if TYPE_CHECKING:
    from app.broker.source import TraceSource
    from app.store.store import Store
    from app.traces.runs.introductions import Introductions

log = logging.getLogger(__name__)


@dataclass(eq=False)
class Capture:
    """Runs traces, with what they share; ``feed`` hears of their events."""

    store: Store
    source: TraceSource
    settings: PipelineSettings
    introductions: Introductions
    feed: Feed

    async def read(self, trace: Trace) -> RestorePoint:
        """Read a trace ahead of its run; raises `OutageError`."""
        return await self.settings.restore(self.store, trace)

    def run(self, trace: Trace, restore_point: RestorePoint | None = None) -> RunningTrace:
        return RunningTrace(trace, self, restore_point)


class RunningTrace:
    """One virtual host's trace while the service runs it."""

    def __init__(self, trace: Trace, capture: Capture, restore_point: RestorePoint | None) -> None:
        """Start at once, from ``restore_point`` if it was read already."""
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
            sieve=Sieve(),
            introductions=capture.introductions,
        )
        self._ending = Ending()
        self._is_passing = False  # reads past messages that the broker cannot hand over
        # The attempt's stage: nothing is known yet, restored, or running.
        self._stage: Recorder | Run | None = None
        self._restore_point = restore_point
        self._task = asyncio.create_task(supervisor.supervise(), name=f"trace of {trace.vhost}")

    @property
    def is_alive(self) -> bool:
        """Tell whether it runs, or tries to."""
        return not self._task.done()

    def snapshot(self) -> Snapshot:
        standing = self._life.standing
        if self._stage is None:
            return Snapshot(standing, last_event_id=self.trace.last_event_id)
        return self._stage.snapshot(standing)

    def drain(self) -> None:
        """Ask the run to end once the queue is empty, and to leave tracing alone until then."""
        self._ending.when_empty = True

    def prove(self) -> None:
        """Ask for a mark, so that `Snapshot.settled_at` soon passes this moment."""
        self.pipeline.marks.ask()

    async def end(self, *, drain: bool, deadline: float) -> None:
        """End the run after the current batch, or once the queue is empty.

        ``deadline`` (s) later it is cancelled; the broker brings unfinished messages again.
        """
        if self._life.state is TraceState.stopped:  # a drained run ends by itself
            return
        is_pausing = self._life.state in (TraceState.waiting, TraceState.failed)
        waits = is_pausing and not self._is_passing
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

    async def _run(self) -> None:
        self._is_passing = False
        while self._life.state is not TraceState.stopping or (
            self._is_passing and self._ending.when_empty
        ):
            try:
                is_over = await self._attempt()
            except SiftedError as sifted:
                log.warning("trace of %r: %s", self.trace.vhost, sifted, exc_info=sifted.__cause__)
            except UndeliverableError as error:
                self._life.waiting(str(error))
                self._is_passing = True
            else:
                if not is_over:
                    return
                self._is_passing = False

    async def _attempt(self) -> bool:
        """Restore, connect, and store what comes, until asked to end.

        Returns whether passing is over. Raises `OutageError` if the broker or the database is away,
        `UndeliverableError` at a message that has to be passed.
        """
        pipeline, source, vhost = self.pipeline, self.pipeline.source, self.trace.vhost
        self._stage = None
        restore_point, self._restore_point = self._restore_point, None
        self._stage = recorder = await Recorder.restore(pipeline, restore_point)
        del restore_point  # which takes room
        try:
            async with source.open(
                vhost,
                recorder.window.span,
                recorder.sentinel,
                self.trace.taken,
                recorder.tracker.took,
                again=len(recorder.window),
                passing=self._is_passing,
            ) as stream:
                self._stage = run = Run(pipeline, recorder, stream, self._ending)
                await run.follow()
                return stream.is_over
        except QueueInUseError:  # perhaps by services that hold the trace no more
            services = {service.id for service in await pipeline.store.services.all()}
            if rivals := services - {self.trace.holder}:
                await source.cut_off(vhost, rivals)
            raise
        except ForeignQueueError as error:
            await self._lost_queue(recorder, str(error))
            await source.delete_queue(vhost)
            raise
        except QueueTakenError:
            await self._lost_queue(recorder, "the trace queue belonged to another service")
            raise
        except QueueLostError as error:
            await self._lost_queue(recorder, error.gap)
            raise

    async def _lost_queue(self, recorder: Recorder, reason: str) -> None:
        """Open a gap that ends when we have a queue again."""
        gaps, restored = self.pipeline.gaps, recorder.restored
        gaps.stand(recorder.last_event_id, restored.recorded_at)
        await gaps.open(reason)
