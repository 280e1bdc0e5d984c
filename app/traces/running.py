"""A trace that runs within this process: a supervisor, and the pipeline of its present run."""

from __future__ import annotations

import asyncio
import contextlib
import time
from functools import partial

from app.errors import UndeliverableError
from app.stored.traces import Trace
from app.traces.feed import Feed
from app.traces.gapwatch import GapWatch
from app.traces.pipeline import Pipeline, PipelineSettings
from app.traces.ports import Source, TraceStore
from app.traces.status import Snapshot, TraceState
from app.traces.supervisor import Supervisor
from app.traces.undeliverable import MOST_IN_A_ROW, deliverable


class RunningTrace:
    """One virtual host's trace while the service cares for it."""

    def __init__(
        self,
        trace: Trace,
        store: TraceStore,
        source: Source,
        feed: Feed,
        settings: PipelineSettings,
        turn: asyncio.Lock | None = None,
    ) -> None:
        """Begin at once.

        Traces that share a ``turn`` stamp or store one after the other. That is right where other
        processes use the same store: while one trace's transaction is open those have to wait, and
        it would be open longer by what the others stamp meanwhile.
        """
        self.trace = trace
        self._source = source
        self._settings = settings
        self.supervisor = Supervisor(trace.vhost, self._run, clock=time.monotonic)
        gaps = GapWatch(store.gaps, trace.id)
        self._make = partial(
            Pipeline,
            trace,
            store,
            source,
            feed,
            self.supervisor,
            settings,
            gaps,
            turn or contextlib.nullcontext(),
        )
        self.pipeline = self._make()
        self._ending = False
        self._task = asyncio.create_task(
            self.supervisor.supervise(), name=f"trace of {trace.vhost}"
        )

    @property
    def is_alive(self) -> bool:
        """Whether it runs, or tries to."""
        return not self._task.done()

    def snapshot(self) -> Snapshot:
        """Return how it stands."""
        supervisor, pipeline = self.supervisor, self.pipeline
        return Snapshot(
            state=supervisor.state,
            waiting_for=supervisor.waiting_for,
            last_error=supervisor.last_error,
            restarts=supervisor.restarts,
            totals=pipeline.tracker.totals() if pipeline.tracker else None,
            last_event_id=pipeline.last_event_id,
            rate=pipeline.rate.per_second(),
            lag=pipeline.lag,
            work=pipeline.work,
        )

    def drain(self) -> None:
        """Ask the run to end once the queue is empty, and to leave tracing alone till then."""
        self.pipeline.drain()

    async def end(self, *, drain: bool, deadline: float) -> None:
        """End the run: after the batch at hand, or once the queue is empty; cut it at the deadline.

        ``deadline`` in seconds from now. What a cut leaves unfinished comes back from the broker.
        """
        self._ending = True
        waits = self.supervisor.state is TraceState.waiting
        self.supervisor.state = TraceState.stopping
        if drain:
            self.pipeline.drain()
        else:
            self.pipeline.stop()
        if not waits:  # an outage may last: nothing can be finished, and nothing is lost
            await asyncio.wait({self._task}, timeout=deadline)
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        self.supervisor.state = TraceState.stopped

    async def _run(self) -> None:
        while not self._ending:
            self.pipeline = self._make()
            try:
                await self.pipeline.run()
            except UndeliverableError as error:
                self.supervisor.waiting(str(error))
                await self._pass_undeliverable()
            else:
                return

    async def _pass_undeliverable(self) -> None:
        for _ in range(MOST_IN_A_ROW):
            before = await deliverable(self._source, self.trace.vhost, self._settings.prefetch)
            if before is None or self._ending:
                return
            self.pipeline = self._make()
            await self.pipeline.pass_undeliverable(before)
