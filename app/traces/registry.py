"""All traces of the service: one supervised pipeline a virtual host."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from functools import partial

from app.errors import BadRequestError, NotFoundError
from app.store.traces import Trace
from app.traces.feed import Feed
from app.traces.pipeline import Pipeline, PipelineSettings
from app.traces.ports import Source, TraceStore
from app.traces.status import Snapshot, TraceState, TraceStatus
from app.traces.supervisor import Supervisor
from app.tracker import Policy, Tracker

DRAIN_SECONDS = 15.0


class RunningTrace:
    """One virtual host's trace while the service cares for it."""

    def __init__(
        self,
        trace: Trace,
        store: TraceStore,
        source: Source,
        feed: Feed,
        settings: PipelineSettings,
    ) -> None:
        self.trace = trace
        self.supervisor = Supervisor(trace.vhost, self._run, clock=time.monotonic)
        self._make = partial(Pipeline, trace, store, source, feed, self.supervisor, settings)
        self.pipeline = self._make(well_until=0)
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
        )

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
        if self._ending:
            return
        self.pipeline = self._make(well_until=self.pipeline.well_until)
        await self.pipeline.run()


class TraceRegistry:
    """Starts, stops and describes traces."""

    def __init__(self, store: TraceStore, source: Source, settings: PipelineSettings) -> None:
        self._store = store
        self._source = source
        self._settings = settings
        self._feed = Feed()
        self._running: dict[str, RunningTrace] = {}
        self._changing: dict[str, asyncio.Lock] = {}

    async def resume(self) -> None:
        """Start every trace that was wanted when the service last ran."""
        self._feed.advance(await self._store.last_event_id())
        for trace in await self._store.traces():
            if trace.wanted:
                self._run(trace)

    async def shutdown(self, deadline: float) -> None:
        """End all runs within ``deadline`` seconds; their queues go on collecting."""
        running = list(self._running.values())
        await asyncio.gather(*(each.end(drain=False, deadline=deadline) for each in running))

    async def start(self, vhost: str, policy: str | None) -> bool:
        """Start a trace; True where it is new or was stopped, False where it runs.

        :raises NotFoundError: for a virtual host that the broker does not have.
        :raises ConflictError: for another policy than the stored events have.
        :raises BadRequestError: for a policy that is none.
        :raises OutageError: when the broker or the database is away.
        """
        if policy is not None and policy not in list(Policy):
            raise BadRequestError(f"a participant is one of {', '.join(Policy)}")
        if not await self._source.has_vhost(vhost):
            raise NotFoundError(f"the broker has no virtual host {vhost!r}")
        async with self._lock(vhost):
            known = await self._store.find_trace(vhost)
            wanted = policy or (known.policy if known else Policy.channel)
            trace = await self._store.create_trace(vhost, wanted)
            present = self._running.get(vhost)
            if present is not None and present.is_alive:
                return False
            await self._store.set_wanted(trace.id, True)
            self._run(trace)
            return True

    async def stop(self, vhost: str) -> None:
        """Stop a trace: tracing off, the queue emptied into the store, and deleted.

        :raises NotFoundError: where there never was one.
        """
        async with self._lock(vhost):
            trace = await self._known(vhost)
            present = self._running.get(vhost)
            if present is None:
                await self._store.set_wanted(trace.id, False)
                return
            present.pipeline.drain()
            await self._source.switch_off(vhost)
            await self._store.set_wanted(trace.id, False)
            del self._running[vhost]
            since = time.time_ns() // 1000
            await present.end(drain=True, deadline=DRAIN_SECONDS)
            await self._source.delete_queue(vhost)
            await self._store.open_gap(
                trace.id,
                after_event_id=present.pipeline.last_event_id,
                since=since,
                reason="the trace was stopped",
            )

    async def status(self, vhost: str) -> TraceStatus:
        """Describe one trace; `NotFoundError` where there never was one."""
        return await self._describe(await self._known(vhost))

    async def statuses(self) -> Sequence[TraceStatus]:
        """Describe every trace, stopped ones too, by virtual host."""
        traces = sorted(await self._store.traces(), key=lambda trace: trace.vhost)
        return [await self._describe(trace) for trace in traces]

    def subscribe(self) -> Feed:
        """Return the signal that new events are stored, over all virtual hosts."""
        return self._feed

    def _run(self, trace: Trace) -> None:
        self._running[trace.vhost] = RunningTrace(
            trace, self._store, self._source, self._feed, self._settings
        )

    async def _known(self, vhost: str) -> Trace:
        trace = await self._store.find_trace(vhost)
        if trace is None:
            raise NotFoundError(f"virtual host {vhost!r} was never traced")
        return trace

    async def _describe(self, trace: Trace) -> TraceStatus:
        running = self._running.get(trace.vhost)
        now = running.snapshot() if running else Snapshot(TraceState.stopped)
        totals = now.totals or Tracker.stored_totals(trace.checkpoint)
        return TraceStatus(
            vhost=trace.vhost,
            state=now.state,
            participant=trace.policy,
            wanted=trace.wanted,
            created_at=trace.created_at,
            waiting_for=now.waiting_for,
            last_error=now.last_error,
            restarts=now.restarts,
            counters=totals.counters,
            events=trace.events,
            participants=totals.participants,
            pending_copies=totals.pending_copies,
            last_event_id=now.last_event_id or trace.last_event_id,
            rate=now.rate,
            lag=now.lag,
            gaps=[*await self._store.gaps(trace.id)],
        )

    def _lock(self, vhost: str) -> asyncio.Lock:
        return self._changing.setdefault(vhost, asyncio.Lock())
