"""A trace that runs in this process: its life, its supervisor, and the current attempt."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING

from app.errors import UndeliverableError
from app.stored.capture import Trace
from app.traces.attempt import Attempt
from app.traces.feed import Feed
from app.traces.gapwatch import GapWatch
from app.traces.life import Life, TraceState
from app.traces.marks import Marks
from app.traces.pipeline import Pipeline, PipelineSettings
from app.traces.status import Snapshot
from app.traces.supervisor import Supervisor

if TYPE_CHECKING:
    from app.broker.source import TraceSource
    from app.store.store import Store
    from app.traces.introductions import Introductions


class RunningTrace:
    """One virtual host's trace while the service runs it."""

    def __init__(
        self,
        trace: Trace,
        store: Store,
        source: TraceSource,
        feed: Feed,
        settings: PipelineSettings,
        introductions: Introductions,
        turn: asyncio.Lock | None = None,
    ) -> None:
        """Start at once.

        Traces that share a ``turn`` stamp or store one after the other. Use that if other processes
        use the same store: they wait while one trace's transaction is open, and it would stay open
        longer if other traces stamped meanwhile.
        """
        self.trace = trace
        self._life = Life()
        supervisor = Supervisor(trace.vhost, self._run, self._life, clock=time.monotonic)
        self.pipeline = Pipeline(
            trace=trace,
            store=store,
            source=source,
            feed=feed,
            supervisor=supervisor,
            settings=settings,
            gaps=GapWatch(store.gaps, trace.id, trace.vhost),
            marks=Marks(),
            turn=turn or contextlib.nullcontext(),
            introductions=introductions,
        )
        self._attempt = Attempt(self.pipeline)
        self._ending = self._draining = False
        self._task = asyncio.create_task(supervisor.supervise(), name=f"trace of {trace.vhost}")

    @property
    def is_alive(self) -> bool:
        """Tell whether it runs, or tries to."""
        return not self._task.done()

    def snapshot(self) -> Snapshot:
        """Its status now."""
        return self._attempt.snapshot(self._life.standing)

    def drain(self) -> None:
        """Ask the run to end once the queue is empty, and to leave tracing alone until then."""
        self._draining = True
        self._attempt.drain()

    def prove(self) -> None:
        """Have the snapshot soon say of this moment that all is stored which was traced before."""
        self.pipeline.marks.ask()

    async def end(self, *, drain: bool, deadline: float) -> None:
        """End the run after the current batch, or once the queue is empty; cancel at the deadline.

        ``deadline`` in seconds from now. What is then unfinished comes back from the broker.
        """
        self._ending = True
        if self._life.state is TraceState.stopped:  # a drained run ends by itself
            return
        is_pausing = self._life.state in (TraceState.waiting, TraceState.failed)
        waits = is_pausing and not self._attempt.is_passing
        self._life.stopping()
        if drain:
            self.drain()
        else:
            self._attempt.stop()
        if not waits:  # an outage or a pause may last; nothing can be finished, and nothing is lost
            await asyncio.wait({self._task}, timeout=deadline)
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        self._life.stopped()

    async def _run(self) -> None:
        passing = False
        while not self._ending or (passing and self._draining):
            self._attempt = Attempt(self.pipeline, passing=passing)
            if self._draining:
                self._attempt.drain()
            try:
                await self._attempt.run()
            except UndeliverableError as error:
                self._life.waiting(str(error))
                passing = True
            else:
                if not self._attempt.is_over:
                    return
                passing = False
