"""All traces of the service: one supervised pipeline per virtual host."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from app.errors import (
    BadRequestError,
    CheckpointError,
    ConflictError,
    ItcError,
    NotFoundError,
    OutageError,
)
from app.stored.batches import Batch
from app.stored.traces import Trace
from app.traces.audit import Ledger
from app.traces.elsewhere import Elsewhere, Others
from app.traces.feed import Feed
from app.traces.life import NOT_RUN, Standing, TraceState
from app.traces.patience import patiently
from app.traces.pipeline import PipelineSettings
from app.traces.recorder import unreadable_checkpoint
from app.traces.retention import Pruned, RetentionRule, preview, retain
from app.traces.running import RunningTrace
from app.traces.status import Snapshot, TraceStatus, audit_remarks
from app.traces.wish import Wish, wish
from app.tracker import (
    Checkpoint,
    Counters,
    Policy,
    Quiet,
    Restored,
    Totals,
    Tracker,
    UnreadableCheckpointError,
    rebuilt,
)
from app.tracker.links import merged
from app.tracker.quiet import DEFAULT as QUIET

if TYPE_CHECKING:
    from app.broker.source import TraceSource
    from app.store.store import Store
    from app.traces.introductions import Introducer
    from app.traces.processes import Running

log = logging.getLogger(__name__)

DRAIN_SECONDS = 15.0
# How long another service may take to start a trace, and to stop one.
START_SECONDS = 10.0
STOP_SECONDS = 2 * DRAIN_SECONDS
# How often to try to leave nothing of a stopped trace at a broker that was away.
TIDY_SECONDS = 5.0
# How long a run that may write nothing more has to end by itself.
DROP_SECONDS = 1.0


class TraceRegistry:
    """Starts, stops and describes traces."""

    def __init__(
        self,
        store: Store,
        source: TraceSource,
        settings: PipelineSettings,
        run: Callable[[Trace, Feed], Running] | None = None,
        introductions: Introducer | None = None,
        service: str = "the service",
    ) -> None:
        """Run traces in this process, unless ``run`` starts them elsewhere.

        ``introductions`` say who is behind connections; without them nobody is known. The traces
        that run are held by ``service``.
        """
        self._service = service
        self._elsewhere = Elsewhere(store.services, service)
        self._store = store
        self._source = source
        self._settings = settings
        self._feed = Feed()
        self._start = run or partial(_run_here, store, source, settings, introductions)
        self._running: dict[str, Running] = {}
        self._ids: dict[str, int] = {}
        self._changing: dict[str, asyncio.Lock] = {}
        self._tidying: dict[str, asyncio.Task[None]] = {}
        self._keeping: asyncio.Task[None] | None = None

    async def resume(self) -> None:
        """Start every trace that was wanted when the service last ran.

        Where there are other services, `app.traces.claims` says which of them run here.
        """
        self._feed.advance(await self._store.events.last_id())
        if not await self._elsewhere.living():
            for trace in await self._store.traces.list():
                if trace.wanted:
                    await self._begin(trace)
                elif trace.holder is not None and await self._store.leases.claim(
                    trace.id, self._service
                ):
                    self._tidy_later(trace.vhost)
        if self._settings.retention.is_on:
            self._keeping = asyncio.create_task(self._keep(), name="retention of stopped traces")

    async def shutdown(self, deadline: float) -> None:
        """End all runs within ``deadline`` seconds; their queues keep collecting."""
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.gather(self._keeping, return_exceptions=True)
        for tidying in self._tidying.values():
            tidying.cancel()
        await asyncio.gather(*self._tidying.values(), return_exceptions=True)
        running = list(self._running.values())
        await asyncio.gather(*(each.end(drain=False, deadline=deadline) for each in running))

    async def start(
        self,
        vhost: str,
        policy: str | None,
        quiet: Sequence[str] | None = None,
        *,
        bodies: bool | None = None,
        exchanges: Sequence[str] | None = None,
        queues: Sequence[str] | None = None,
        later: bool = False,
    ) -> bool:
        """Start a trace; False if it is running already.

        One that runs by other rules begins anew by these as long as nothing is stored. One that
        takes ``bodies`` and is to take none, or the other way round, pauses and goes on so; and so
        does one that is to take other ``exchanges`` and ``queues``. Of these None means all if the
        other is given, and otherwise as before. Those that are not there yet may come ``later``.

        Raises `NotFoundError` for a virtual host that the broker does not have, `ConflictError`
        for other rules than the stored events have, `BadRequestError` for rules, exchanges or
        queues that there are not, and `OutageError`, also if no service takes it in time.
        """
        checked_rules(policy, quiet)
        asked = wish(bodies, exchanges, queues, later=later)
        if not await self._source.has_vhost(vhost):
            raise NotFoundError(f"the broker has no virtual host {vhost!r}")
        async with self._lock(vhost):
            trace = await self._ruled(vhost, policy, quiet, asked)
            present = self._running.get(vhost)
            if present is not None and present.is_alive:
                if present.snapshot().standing.state is not TraceState.failed:
                    return False
                await present.end(drain=False, deadline=DRAIN_SECONDS)  # its next try is now
            others = await self._elsewhere.standing()
            runs = trace.wanted and others.name_of(trace.holder) not in (None, self._service)
            await self._store.traces.set_wanted(trace.id, True)
            if not others.are_there or trace.holder == self._service:
                await self._begin(trace)
                return True
        await self._see_taken(vhost)
        return not runs

    async def _ruled(
        self, vhost: str, policy: str | None, quiet: Sequence[str] | None, asked: Wish
    ) -> Trace:
        """The trace by these rules, or by those it has; a run by others has ended then.

        Raises `ConflictError` if events are stored by others, or if others are to be changed while
        another service runs it; its run goes on.
        """
        traces = self._store.traces
        known = await traces.find(vhost)
        bodies, taken = asked.of(known)
        await asked.check(self._source, vhost, known)
        if known is None:
            rules = policy or Policy.client, _or(quiet, QUIET)
            return await traces.create(vhost, *rules, bodies=bodies, taken=taken)
        rules = policy or known.policy, _or(quiet, known.quiet)
        is_as_was = rules == (known.policy, known.quiet)
        if is_as_was and (bodies, taken) == (known.bodies, known.taken):
            return known
        present = self._running.get(vhost)
        if (known.events and not is_as_was) or present is None or not present.is_alive:
            await self._check_here(known)
            return await traces.create(vhost, *rules, bodies=bodies, taken=taken)
        await present.end(drain=False, deadline=DRAIN_SECONDS)
        try:
            if present.is_alive:
                raise OutageError(f"the trace of {vhost!r} did not pause in time; ask again")
            return await traces.create(vhost, *rules, bodies=bodies, taken=taken)
        except ItcError:
            self._run(await patiently(partial(self._known, vhost)))
            raise

    async def stop(self, vhost: str) -> None:
        """Stop a trace: switch tracing off, empty the queue into the store, and delete it.

        Raises `NotFoundError` if there never was one.
        """
        async with self._lock(vhost):
            trace = await self._known(vhost)
            others = await self._elsewhere.standing()
            runs_elsewhere = trace.holder != self._service and others.name_of(trace.holder)
            if not runs_elsewhere:
                await self._stop(vhost, trace)
                return
            await self._store.traces.set_wanted(trace.id, False)
        if not await self._elsewhere.wait(vhost, STOP_SECONDS, lambda held: held.holder is None):
            raise OutageError(
                f"the service {runs_elsewhere} was asked to stop the trace of {vhost!r}, and has "
                f"not done so within {STOP_SECONDS:g} s: it will"
            )

    async def _stop(self, vhost: str, trace: Trace) -> None:
        present = self._running.get(vhost)
        if present is None and trace.holder is not None:  # whose service died
            await self._begin(trace)
            present = self._running[vhost]
        if present is None:
            await self._store.traces.set_wanted(trace.id, False)
            return
        present.drain()  # first, or its next check would switch tracing on again
        is_off = await self._done(self._source.switch_off, vhost)
        await self._store.traces.set_wanted(trace.id, False)
        del self._running[vhost]
        since = time.time_ns() // 1000
        await present.end(drain=is_off, deadline=DRAIN_SECONDS)
        await self._store.gaps.open(
            trace.id,
            after_event_id=present.snapshot().last_event_id,
            since=since,
            reason="the trace was stopped",
            epoch=await self._store.leases.take(trace.id, self._service),
        )
        if is_off and await self._done(self._source.delete_queue, vhost):
            await self._store.leases.release(trace.id, self._service)
        else:
            self._tidy_later(vhost)

    async def _done(self, work: Callable[[str], Awaitable[None]], vhost: str) -> bool:
        """Whether the broker could be asked for this; where it has no such virtual host, it is."""
        try:
            await work(vhost)
        except NotFoundError:
            return True
        except OutageError as outage:
            if not await self._has(vhost):
                return True
            log.warning("the trace of %r is stopped, but not yet at the broker: %s", vhost, outage)
            return False
        return True

    async def _has(self, vhost: str) -> bool:
        with contextlib.suppress(OutageError):
            return await self._source.has_vhost(vhost)
        return True

    def _tidy_later(self, vhost: str) -> None:
        """Leave nothing of a stopped trace at the broker once that lets us; we hold it till then.

        So whoever starts next knows of it.
        """
        if vhost not in self._tidying:
            task = asyncio.create_task(self._tidy(vhost), name=f"what is left of {vhost}")
            self._tidying[vhost] = task
            task.add_done_callback(lambda _: self._tidying.pop(vhost, None))

    async def _tidy(self, vhost: str) -> None:
        while True:
            await asyncio.sleep(TIDY_SECONDS)
            with contextlib.suppress(OutageError):
                async with self._lock(vhost):
                    trace = await self._known(vhost)
                    if trace.wanted or vhost in self._running or trace.holder != self._service:
                        return
                    await self._source.switch_off(vhost)
                    await self._source.delete_queue(vhost)
                    await self._store.leases.release(trace.id, self._service)
                    return

    async def others(self) -> bool:
        """Whether there are other services."""
        return bool(await self._elsewhere.living())

    def snapshots(self) -> dict[int, Snapshot]:
        """How the traces are that run here, by their ids."""
        return {self._ids[vhost]: each.snapshot() for vhost, each in self._running.items()}

    def prove(self, trace_id: int) -> None:
        """Have a trace's snapshot soon say of this moment that all before it is stored.

        A trace that does not run here is left alone.
        """
        for vhost, running in self._running.items():
            if self._ids[vhost] == trace_id:
                running.prove()

    def running(self) -> Collection[str]:
        """The virtual hosts whose traces run here, or have failed here."""
        return [*self._running]

    async def run_here(self, vhost: str) -> None:
        """Claim a trace that should run, and run it."""
        async with self._lock(vhost):
            if vhost not in self._running:
                await self._begin(await self._known(vhost))

    async def stop_here(self, vhost: str) -> None:
        """Stop a trace as another service was asked to."""
        async with self._lock(vhost):
            trace = await self._known(vhost)
            if vhost in self._tidying:
                return
            if trace.holder == self._service and not trace.wanted:
                await self._stop(vhost, trace)

    async def drop(self, vhost: str) -> None:
        """End the run of a trace that another service has taken."""
        async with self._lock(vhost):
            trace = await self._known(vhost)
            if trace.holder != self._service and (present := self._running.pop(vhost, None)):
                log.warning("the trace of %r is another service's now", vhost)
                await present.end(drain=False, deadline=DROP_SECONDS)

    async def _see_taken(self, vhost: str) -> None:
        """Wait until a service runs a trace that is wanted."""
        living = {each.id for each in await self._elsewhere.living()} | {self._service}
        if not await self._elsewhere.wait(vhost, START_SECONDS, lambda held: held.holder in living):
            raise OutageError(
                f"no service has taken the trace of {vhost!r} within {START_SECONDS:g} s; one will"
            )

    async def reset(self, vhost: str) -> str:
        """Replace a checkpoint that cannot be read; returns what is lost, in words.

        Events, participants and their clocks stay. A gap is recorded. The trace runs again if it
        was wanted.

        Raises `NotFoundError` if there never was such a trace, `ConflictError` if its checkpoint
        can be read.
        """
        trace = await self._known(vhost)
        await self._check_here(trace)
        restored = await self._settings.restored(self._store, trace)
        if _is_readable(trace, self._settings, restored):
            raise ConflictError(f"the checkpoint of the trace of {vhost!r} can be read")
        async with self._resting(vhost) as (trace, epoch):
            restored = await self._settings.restored(self._store, trace)
            state, lost = rebuilt(restored)
            reason = f"the trace was reset, as its checkpoint could not be read; lost are {lost}"
            await self._store.gaps.open(
                trace.id,
                after_event_id=restored.last_event_id,
                since=restored.recorded_at,
                reason=reason,
                epoch=epoch,
            )
            checkpoint = Checkpoint(state, [], [], [], [], [])
            batch = Batch([], checkpoint, restored.window)
            await self._store.batches.append(trace.id, batch, epoch)
        async with self._lock(vhost):  # it had failed, and may run again
            trace = await self._known(vhost)
            present = self._running.get(vhost)
            if trace.wanted and (present is None or not present.is_alive):
                await self._begin(trace)
        return lost

    async def prune(
        self,
        vhost: str,
        *,
        keep_events: int | None = None,
        keep_seconds: float | None = None,
        through: int | None = None,
        dry_run: bool = False,
    ) -> Pruned:
        """Remove all but the newest events of a trace now; or only say how many that would be.

        Nothing with an id above ``through`` is removed. Without any bound the service's own
        retention applies. A running trace pauses meanwhile; its queue keeps collecting.

        Raises `BadRequestError` if there is no bound at all, `NotFoundError` if there never was
        such a trace.
        """
        retention = RetentionRule(keep_events, keep_seconds, through=through)
        retention = retention if retention.is_on else self._settings.retention
        if not retention.is_on:
            raise BadRequestError("say how many events to keep, or for how long")
        trace = await self._known(vhost)
        if dry_run:
            return await preview(self._store.retention, trace.id, retention)
        async with self._resting(vhost) as (trace, epoch):
            return await self._retain(trace, retention, epoch)

    @contextlib.asynccontextmanager
    async def paused(self, vhost: str) -> AsyncIterator[int]:
        """Have a trace pause, and then go on from what is stored, perhaps by other rules.

        Its queue keeps collecting. Yields the epoch under which it may be written to meanwhile.
        Raises `NotFoundError` if there never was such a trace, `OutageError` if it does not pause
        in time, `ConflictError` if another service has it.
        """
        async with self._resting(vhost) as (_, epoch):
            yield epoch

    @contextlib.asynccontextmanager
    async def _resting(self, vhost: str) -> AsyncIterator[tuple[Trace, int]]:
        """A trace while it does not run, and the epoch to write under; then it goes on as before.

        Raises as `paused`.
        """
        async with self._lock(vhost):
            trace = await self._known(vhost)
            present = self._running.get(vhost)
            if present is None or not present.is_alive:
                await self._claim(trace)
                try:
                    yield await self._taken(vhost)
                finally:
                    if present is None:
                        with contextlib.suppress(OutageError):  # then we hold it, idly
                            await self._store.leases.release(trace.id, self._service)
                return
            await present.end(drain=False, deadline=DRAIN_SECONDS)
            try:
                if present.is_alive:
                    raise OutageError(f"the trace of {vhost!r} did not pause in time; ask again")
                yield await self._taken(vhost)
            finally:
                self._run(await patiently(partial(self._known, vhost)))

    async def _taken(self, vhost: str) -> tuple[Trace, int]:
        """A trace that we hold, by the rules that it has now, and its new epoch."""
        trace = await self._known(vhost)
        epoch = await self._store.leases.take(trace.id, self._service)
        return await self._known(vhost), epoch

    async def status(self, vhost: str) -> TraceStatus:
        """Describe one trace; raises `NotFoundError` if there never was one."""
        trace = await self._known(vhost)
        return await self._describe(trace, await self._elsewhere.standing())

    async def statuses(self) -> Sequence[TraceStatus]:
        """Describe every trace, including stopped ones, by virtual host."""
        traces = sorted(await self._store.traces.list(), key=lambda trace: trace.vhost)
        others = await self._elsewhere.standing()
        return [await self._describe(trace, others) for trace in traces]

    def subscribe(self) -> Feed:
        """The feed of new events of all virtual hosts."""
        return self._feed

    async def _keep(self) -> None:
        """Carry out retention for traces that are not running; running ones do it themselves."""
        retention = self._settings.retention
        while True:
            with contextlib.suppress(OutageError):
                for vhost in [trace.vhost for trace in await self._store.traces.list()]:
                    present = self._running.get(vhost)
                    if present is None or not present.is_alive:
                        with contextlib.suppress(CheckpointError):  # the trace's state says so
                            async with self._resting(vhost) as (trace, epoch):
                                await self._retain(trace, retention, epoch)
            await asyncio.sleep(retention.check_seconds)

    async def _retain(
        self, trace: Trace, retention: RetentionRule, epoch: int | None = None
    ) -> Pruned:
        settings = self._settings
        restored = await settings.restored(self._store, trace)
        try:
            tracker = settings.tracker(trace, restored)
        except UnreadableCheckpointError as error:
            raise CheckpointError(unreadable_checkpoint(trace.vhost)) from error
        return await retain(self._store.retention, trace.id, tracker, retention, epoch)

    async def _begin(self, trace: Trace) -> None:
        """Claim a trace, and run it by the rules that it has then."""
        await self._claim(trace)
        if trace.holder not in (None, self._service):
            log.warning("the trace of %r is taken over from another service", trace.vhost)
            with contextlib.suppress(OutageError):  # the run finds its queue in use, and asks again
                await self._source.cut_off(trace.vhost, {trace.holder})
        self._run(await self._known(trace.vhost))

    async def _claim(self, trace: Trace) -> None:
        if not await self._store.leases.claim(trace.id, self._service):
            await self._check_here(await self._known(trace.vhost))
            raise ConflictError(f"another service runs the trace of {trace.vhost!r}: ask that one")

    async def check_here(self, vhost: str) -> None:
        """Raise `ConflictError` if a trace runs in another service, and `NotFoundError`."""
        await self._check_here(await self._known(vhost))

    async def _check_here(self, trace: Trace) -> None:
        others = await self._elsewhere.standing()
        if trace.holder != self._service and (name := others.name_of(trace.holder)):
            raise ConflictError(
                f"the trace of {trace.vhost!r} runs in the service {name}: ask that one"
            )

    def _run(self, trace: Trace) -> None:
        self._ids[trace.vhost] = trace.id
        self._running[trace.vhost] = self._start(trace, self._feed)

    async def _known(self, vhost: str) -> Trace:
        trace = await self._store.traces.find(vhost)
        if trace is None:
            raise NotFoundError(f"virtual host {vhost!r} was never traced")
        return trace

    async def _describe(self, trace: Trace, others: Others) -> TraceStatus:
        running = self._running.get(trace.vhost)
        now = others.snapshot(trace.id, trace.wanted, trace.holder)
        if now is None:
            now = running.snapshot() if running else Snapshot(NOT_RUN)
        standing, totals = now.standing, now.totals
        if totals is None:
            try:
                totals = Tracker.stored_totals(trace.checkpoint)
            except UnreadableCheckpointError:
                totals = Totals(Counters(), trace.participants, trace.pending_copies)
                standing = _failed(trace, standing)
        ledger = now.ledger or Ledger.load(trace.ledger)
        return TraceStatus(
            vhost=trace.vhost,
            state=standing.state,
            policy=trace.policy,
            quiet=trace.quiet,
            bodies=trace.bodies,
            taken=trace.taken,
            wanted=trace.wanted,
            created_at=trace.created_at,
            waiting_for=standing.waiting_for,
            last_error=standing.last_error,
            restarts=standing.restarts,
            counters=totals.counters,
            links=totals.links,
            events=trace.events,
            participants=totals.participants,
            pending_copies=totals.pending_copies,
            last_event_id=now.last_event_id or trace.last_event_id,
            rate=now.rate,
            lag=now.lag,
            work=now.work,
            holder=others.name_of(trace.holder),
            gaps=[*await self._store.gaps.newest(trace.id)],
            doubts=[*map(str, await self._store.doubts.of_trace(trace.id))],
            evidence=await self._store.doubts.evidence(trace.id),
            remarks=(
                *now.remarks,
                *await self._left_out(trace),
                *audit_remarks(ledger, trace.taken),
            ),
            ledger=ledger,
        )

    async def _left_out(self, trace: Trace) -> list[str]:
        """What a trace does not take, and what cannot be known for that; a sentence each."""
        partly = [] if trace.taken.is_all else [trace.taken.sentence]
        if trace.bodies:
            return partly
        own = await self._store.link_rules.own(trace.id)
        held = [each.rule for each in merged(self._settings.rules_of_all, own)]
        unread = [rule.name for rule in held if rule.looks_into_bodies]
        named = f", so these rules of links find nothing there: {', '.join(unread)}"
        return [*partly, f"no bodies are taken{named if unread else ''}"]

    def _lock(self, vhost: str) -> asyncio.Lock:
        return self._changing.setdefault(vhost, asyncio.Lock())


def _or(quiet: Sequence[str] | None, present: Sequence[str]) -> tuple[str, ...]:
    return tuple(present if quiet is None else quiet)


def checked_rules(policy: str | None, quiet: Sequence[str] | None) -> None:
    """Raise `BadRequestError` for a policy or for quiet traffic that cannot be."""
    if policy is not None and policy not in list(Policy):
        raise BadRequestError(f"a participant is one of {', '.join(Policy)}")
    try:
        Quiet(quiet or ())
    except ValueError as error:
        raise BadRequestError(str(error)) from error


def _is_readable(trace: Trace, settings: PipelineSettings, restored: Restored) -> bool:
    try:
        settings.tracker(trace, restored)
    except UnreadableCheckpointError:
        return False
    return True


def _failed(trace: Trace, standing: Standing) -> Standing:
    """The standing of a trace whose checkpoint cannot be read, whoever found that out."""
    return msgspec.structs.replace(
        standing, state=TraceState.failed, last_error=unreadable_checkpoint(trace.vhost)
    )


def _run_here(
    store: Store,
    source: TraceSource,
    settings: PipelineSettings,
    introductions: Introducer | None,
    trace: Trace,
    feed: Feed,
) -> Running:
    return RunningTrace(trace, store, source, feed, settings, introductions=introductions)
