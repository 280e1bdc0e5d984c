"""The traces that run in this service, one supervised pipeline per virtual host."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from app.background import end
from app.errors import ConflictError, NotFoundError, NotTracedError, OutageError
from app.stored.capture import Trace
from app.traces.holding.elsewhere import Elsewhere
from app.traces.life import TraceState
from app.traces.runs.feed import Feed
from app.traces.status import Snapshot
from app.traces.supervisor import patiently
from model.times import now

if TYPE_CHECKING:
    from app.broker.source import TraceSource
    from app.store.store import Store
    from app.traces.runs.attempts import Capture, RunningTrace
    from app.tracker import RestorePoint

log = logging.getLogger(__name__)

DRAIN_SECONDS = 15.0
# Pause between attempts to clean up after a stopped trace at a broker that was away.
TIDY_SECONDS = 5.0
# Time for a run that may write nothing more to end by itself.
DROP_SECONDS = 1.0


@dataclass(eq=False)
class TracesHere:
    """The runs of this service's traces; nothing else begins one or ends one."""

    store: Store
    source: TraceSource
    elsewhere: Elsewhere
    capture: Capture
    feed: Feed

    def __post_init__(self) -> None:
        self._service = self.elsewhere.service
        self.ahead: dict[int, RestorePoint] = {}  # of traces that others are to leave
        self._running: dict[str, RunningTrace] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._tidying: dict[str, asyncio.Task[None]] = {}

    async def resume(self) -> None:
        """Start every trace that was wanted when the service last ran.

        Where there are other services, `app.traces.holding.claims` says which of them run here.
        """
        await self.follow()
        if not (await self.elsewhere.peers()).are_there:
            for trace in await self.store.traces.list():
                if trace.wanted:
                    await self.begin(trace)
                elif trace.holder is not None and await self.store.leases.claim(
                    trace.id, self._service
                ):
                    self._tidy_later(trace.vhost)

    async def follow(self) -> None:
        """Tell the feed of the newest event, also of other services."""
        self.feed.advance(await self.store.events.last_id())

    async def shutdown(self, deadline: float) -> None:
        """End all runs within ``deadline`` seconds; their queues keep collecting."""
        await end(*self._tidying.values())
        runs = [*self._running.values()]
        await asyncio.gather(*(run.end(drain=False, deadline=deadline) for run in runs))

    def snapshots(self) -> dict[int, Snapshot]:
        """The status of the traces that run here, by their ids."""
        return {run.trace.id: run.snapshot() for run in self._running.values()}

    async def check_store(self) -> None:
        """Raise `OutageError` unless the store answers and takes the traces' batches.

        A store whose disk is full answers, as long as nothing is written.
        """
        await self.store.ping()
        for snapshot in self.snapshots().values():
            if snapshot.standing.away == "store":
                raise OutageError(snapshot.standing.waiting_for)

    async def check_failed(self) -> None:
        """Raise `OutageError` if a trace has failed: messages pass it by."""
        for vhost, run in self._running.items():
            standing = run.snapshot().standing
            if standing.state is TraceState.failed:
                raise OutageError(f"the trace of {vhost!r} has failed: {standing.last_error}")

    def out_of_reach(self) -> Collection[str]:
        """The virtual hosts whose traces wait here for a broker that does not answer."""
        runs = self._running.items()
        return [vhost for vhost, run in runs if run.snapshot().standing.away == "broker"]

    def prove(self, trace_id: int) -> None:
        """Have the snapshot's ``settled_at`` of a trace that runs here soon pass this moment."""
        for run in self._running.values():
            if run.trace.id == trace_id:
                run.prove()

    def running(self) -> Collection[str]:
        """The virtual hosts whose traces run here, or have failed here."""
        return [*self._running]

    def present(self, vhost: str) -> RunningTrace | None:
        """A trace's run, also one that is over."""
        return self._running.get(vhost)

    def alive(self, vhost: str) -> RunningTrace | None:
        """A trace's run, None if it does not run."""
        present = self._running.get(vhost)
        return present if present is not None and present.is_alive else None

    async def find(self, vhost: str) -> Trace:
        """A trace as it is stored; raises `NotFoundError` if there never was one."""
        trace = await self.store.traces.find(vhost)
        if trace is None:
            raise NotTracedError(vhost)
        return trace

    def lock(self, vhost: str) -> asyncio.Lock:
        """The lock for beginning or ending a trace's run."""
        return self._locks.setdefault(vhost, asyncio.Lock())

    async def begin(self, trace: Trace) -> None:
        """Claim a trace, and run it by its rules as of then."""
        await self._claim(trace)
        if trace.holder not in (None, self._service):
            log.warning("the trace of %r is taken over from another service", trace.vhost)
            with contextlib.suppress(OutageError):  # the run finds its queue in use, and asks again
                await self.source.cut_off(trace.vhost, {trace.holder})
        self._run(await self.find(trace.vhost))

    async def _claim(self, trace: Trace) -> None:
        if not await self.store.leases.claim(trace.id, self._service):
            await self.elsewhere.check(await self.find(trace.vhost))
            raise ConflictError(f"another service runs the trace of {trace.vhost!r}: ask that one")

    def _run(self, trace: Trace) -> None:
        self._running[trace.vhost] = self.capture.run(trace, self.ahead.pop(trace.id, None))

    async def run_again(self, vhost: str) -> None:
        """Run a trace again as it is stored, after its run has ended for a change."""
        self._run(await patiently(partial(self.find, vhost)))

    async def run_here(self, vhost: str) -> None:
        """Claim a trace that should run, and run it: again if its run here is over.

        A run also ends if a late statement of our own took its lease.
        """
        async with self.lock(vhost):
            if self.alive(vhost) is None:
                await self.begin(await self.find(vhost))

    async def prepare(self, vhost: str) -> None:
        """Read a trace ahead whose service is about to leave it to this one."""
        trace = await self.find(vhost)
        if trace.id not in self.ahead:
            self.ahead[trace.id] = await self.capture.read(trace)

    def forget(self, trace_id: int) -> None:
        """Drop the restore point of a trace that stays where it is."""
        del self.ahead[trace_id]

    async def stop_here(self, vhost: str) -> None:
        """Stop a trace for a request to another service."""
        async with self.lock(vhost):
            trace = await self.find(vhost)
            if vhost in self._tidying:
                return
            if trace.holder == self._service and not trace.wanted:
                await self.stop(vhost, trace)

    async def drop(self, vhost: str) -> None:
        """End the run of a trace that another service has taken."""
        async with self.lock(vhost):
            trace = await self.find(vhost)
            if trace.holder != self._service and (present := self._running.pop(vhost, None)):
                log.warning("the trace of %r is another service's now", vhost)
                await present.end(drain=False, deadline=DROP_SECONDS)

    async def give_up(self, vhost: str, deadline: float = DROP_SECONDS) -> None:
        """End a run within ``deadline`` seconds, and leave its trace to another service."""
        async with self.lock(vhost):
            if present := self._running.get(vhost):
                log.warning("the trace of %r is left to another service", vhost)
                await present.end(drain=False, deadline=deadline)
                self._running.pop(vhost, None)
                await self.store.leases.release(present.trace.id, self._service)

    async def stop(self, vhost: str, trace: Trace) -> None:
        """Stop a trace that no other service runs; its lock is held."""
        present = self._running.get(vhost)
        if present is None and trace.holder is not None:  # its service died
            await self.begin(trace)
            present = self._running[vhost]
        if present is None:
            await self.store.traces.set_wanted(trace.id, False)
            return
        present.drain()  # first, or its next check would switch tracing on again
        is_off = await self._attempt(self.source.switch_off, vhost)
        await self.store.traces.set_wanted(trace.id, False)
        del self._running[vhost]
        stopped_at = now()
        await present.end(drain=is_off, deadline=DRAIN_SECONDS)
        await self.store.gaps.open(
            trace.id,
            after_event_id=present.snapshot().last_event_id,
            since=stopped_at,
            reason="the trace was stopped",
            epoch=await self.store.leases.take(trace.id, self._service),
        )
        if is_off and await self._attempt(self.source.delete_queue, vhost):
            await self.store.leases.release(trace.id, self._service)
        else:
            self._tidy_later(vhost)

    async def _attempt(self, work: Callable[[str], Awaitable[None]], vhost: str) -> bool:
        """Do ``work`` at the broker; False if it is away. Without the virtual host it is done."""
        try:
            await work(vhost)
        except NotFoundError:
            return True
        except OutageError as outage:
            if not await self._has_vhost(vhost):
                return True
            log.warning("the trace of %r is stopped, but not yet at the broker: %s", vhost, outage)
            return False
        return True

    async def _has_vhost(self, vhost: str) -> bool:
        with contextlib.suppress(OutageError):
            return await self.source.has_vhost(vhost)
        return True

    def _tidy_later(self, vhost: str) -> None:
        """Clean up after a stopped trace at the broker once it answers; we hold it until then.

        So the next service to start knows of it.
        """
        if vhost not in self._tidying:
            task = asyncio.create_task(self._tidy(vhost), name=f"what is left of {vhost}")
            self._tidying[vhost] = task
            task.add_done_callback(lambda _: self._tidying.pop(vhost, None))

    async def _tidy(self, vhost: str) -> None:
        while True:
            await asyncio.sleep(TIDY_SECONDS)
            with contextlib.suppress(OutageError):
                async with self.lock(vhost):
                    trace = await self.find(vhost)
                    if trace.wanted or vhost in self._running or trace.holder != self._service:
                        return
                    await self.source.switch_off(vhost)
                    await self.source.delete_queue(vhost)
                    await self.store.leases.release(trace.id, self._service)
                    return

    @contextlib.asynccontextmanager
    async def paused(self, vhost: str) -> AsyncIterator[tuple[Trace, int]]:
        """A trace while it does not run, and the epoch under which it may be written to meanwhile.

        Its queue keeps collecting; then it goes on from the store, perhaps by other rules. Raises
        `NotFoundError` if there never was such a trace, `OutageError` if it does not pause in time,
        `ConflictError` if another service has it.
        """
        async with self.lock(vhost):
            trace = await self.find(vhost)
            present = self.present(vhost)
            if present is None or not present.is_alive:
                await self._claim(trace)
                try:
                    yield await self._take(vhost)
                finally:
                    if present is None:
                        with contextlib.suppress(OutageError):  # then we hold it, idly
                            await self.store.leases.release(trace.id, self._service)
                return
            await present.end(drain=False, deadline=DRAIN_SECONDS)
            try:
                if present.is_alive:
                    raise OutageError(f"the trace of {vhost!r} did not pause in time; ask again")
                yield await self._take(vhost)
            finally:
                await self.run_again(vhost)

    async def _take(self, vhost: str) -> tuple[Trace, int]:
        """A trace that we hold, by its present rules, and its new epoch."""
        trace = await self.find(vhost)
        epoch = await self.store.leases.take(trace.id, self._service)
        return await self.find(vhost), epoch
