"""All traces of the service, as those who ask for them see them.

`here` has those that run in this service, `elsewhere` says what the others hold, and `upkeep` is
what is done to a trace while it pauses.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec.structs import replace

from app.errors import BadRequestError, ItcError, NotFoundError, OutageError
from app.stored.capture import Trace
from app.traces.holding.elsewhere import Elsewhere, Peers
from app.traces.holding.here import DRAIN_SECONDS, TracesHere
from app.traces.life import NOT_RUN, TraceState
from app.traces.losses.audit import Ledger
from app.traces.pipeline import PipelineSettings, unreadable_checkpoint
from app.traces.runs.attempts import Capture
from app.traces.runs.feed import Feed
from app.traces.status import Snapshot, TraceStatus, audit_status
from app.traces.upkeep import Upkeep
from app.tracker import Counters, Policy, Quiet, Totals, Tracker, UnreadableCheckpointError
from app.tracker.links import merge_rules
from app.tracker.quiet import DEFAULT as QUIET
from app.tracker.redaction import redaction_sentence
from app.tracker.taken import ALL, Selection
from app.tracker.taken import make_selection as selection_of

if TYPE_CHECKING:
    from app.broker.source import TraceSource
    from app.store.store import Store
    from app.traces.runs.introductions import Introductions

# Time for another service to start a trace, and to stop one.
START_SECONDS = 10.0
STOP_SECONDS = 2 * DRAIN_SECONDS
# Pause between looks whether a run has stored what somebody waits for.
SETTLE_PAUSE = 0.1
# Missing exchanges and queues that an error names.
MOST_NAMED = 5


@dataclass(eq=False)
class TraceRegistry:
    """Starts, stops and describes traces.

    ``introductions`` say who is behind connections; ``service`` holds running traces.
    """

    store: Store
    source: TraceSource
    settings: PipelineSettings
    introductions: Introductions
    service: str = "the service"

    def __post_init__(self) -> None:
        store, source, settings = self.store, self.source, self.settings
        self._elsewhere = Elsewhere(store.services, self.service)
        self.feed = Feed()  # of new events of all virtual hosts
        capture = Capture(store, source, settings, self.introductions, self.feed)
        self.here = TracesHere(store, source, self._elsewhere, capture, self.feed)
        self.upkeep = Upkeep(store, self.here, self._elsewhere, settings)

    async def resume(self) -> None:
        await self.here.resume()
        if self.settings.retention.is_on:
            self.upkeep.start()

    async def shutdown(self, deadline: float) -> None:
        """End everything within ``deadline`` seconds; the traces' queues keep collecting."""
        await self.upkeep.stop()
        await self.here.shutdown(deadline)

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

        A trace that runs by other rules begins anew by these as long as nothing is stored. It
        pauses and goes on if ``bodies``, ``exchanges`` or ``queues`` change. None of the last two
        means all if the other is given, and otherwise as before; missing ones may come ``later``.

        Raises `NotFoundError` for a virtual host that the broker does not have, `ConflictError`
        for other rules than the stored events have, `BadRequestError` for invalid rules, missing
        exchanges or queues and a broker without a firehose, and `OutageError`, also if no service
        takes it in time.
        """
        checked_rules(policy, quiet)
        request = checked_selection(exchanges, queues)
        await self.source.check_firehose()
        if not await self.source.has_vhost(vhost):
            raise NotFoundError(f"no such virtual host: the broker has no {vhost!r}")
        async with self.here.lock(vhost):
            trace = await self._apply_rules(vhost, policy, quiet, bodies, request, later=later)
            present = self.here.alive(vhost)
            if present is not None:
                if present.snapshot().standing.state is not TraceState.failed:
                    return False
                await present.end(drain=False, deadline=DRAIN_SECONDS)  # its next try is now
            peers = await self._elsewhere.peers()
            runs = trace.wanted and peers.name_of(trace.holder) is not None
            await self.store.traces.set_wanted(trace.id, True)
            if not peers.are_there or trace.holder == self.service:
                await self.here.begin(trace)
                return True
        name_of = (await self._elsewhere.peers()).name_of
        if not await self._elsewhere.wait(
            vhost,
            START_SECONDS,
            lambda lease: name_of(lease.holder) or lease.holder == self.service,
        ):
            raise OutageError(
                f"no service has taken the trace of {vhost!r} within {START_SECONDS:g} s; one will"
            )
        return not runs

    async def _apply_rules(
        self,
        vhost: str,
        policy: str | None,
        quiet: Sequence[str] | None,
        bodies: bool | None,
        request: Selection | None,
        *,
        later: bool,
    ) -> Trace:
        """The trace by these rules, or by its own; a run by other rules has ended then.

        Raises `ConflictError` if events are stored by other rules, or another service runs it; its
        run goes on. Raises `BadRequestError` if a new selection covers nothing at the broker.
        """
        traces = self.store.traces
        trace = await traces.find(vhost)
        takes_bodies, selection = (trace.bodies, trace.taken) if trace else (True, ALL)
        bodies = takes_bodies if bodies is None else bodies
        is_new, selection = request not in (None, selection), request or selection
        if is_new and not later and (unknown := await self.source.unknown(vhost, selection)):
            raise _unknown(vhost, unknown)
        if trace is None:
            rules = policy or Policy.client, _quiet_or(quiet, QUIET)
            return await traces.create(vhost, *rules, bodies=bodies, selection=selection)
        rules = policy or trace.policy, _quiet_or(quiet, trace.quiet)
        is_as_was = rules == (trace.policy, trace.quiet)
        if is_as_was and (bodies, selection) == (trace.bodies, trace.taken):
            return trace
        present = self.here.alive(vhost)
        if (trace.events and not is_as_was) or present is None:
            await self._elsewhere.check(trace)
            return await traces.create(vhost, *rules, bodies=bodies, selection=selection)
        await present.end(drain=False, deadline=DRAIN_SECONDS)
        try:
            if present.is_alive:
                raise OutageError(f"the trace of {vhost!r} did not pause in time; ask again")
            return await traces.create(vhost, *rules, bodies=bodies, selection=selection)
        except ItcError:
            await self.here.run_again(vhost)
            raise

    async def stop(self, vhost: str) -> None:
        """Stop a trace: switch tracing off, empty the queue into the store, and delete it.

        Raises `NotFoundError` if there never was one.
        """
        async with self.here.lock(vhost):
            trace = await self.here.find(vhost)
            peers = await self._elsewhere.peers()
            runs_elsewhere = trace.holder != self.service and peers.name_of(trace.holder)
            if not runs_elsewhere:
                await self.here.stop(vhost, trace)
                return
            await self.store.traces.set_wanted(trace.id, False)
        if not await self._elsewhere.wait(vhost, STOP_SECONDS, lambda lease: lease.holder is None):
            raise OutageError(
                f"the service {runs_elsewhere} was asked to stop the trace of {vhost!r}, and has "
                f"not done so within {STOP_SECONDS:g} s: it will"
            )

    async def settle(self, vhost: str, moment: int, seconds: float) -> int:
        """Wait, ``seconds`` at most, until everything traced before ``moment`` (µs) is stored.

        Returns until when everything is stored (µs); 0 where that is not known. A trace of another
        service is not waited for. Raises `NotFoundError`.
        """
        deadline = time.monotonic() + seconds
        while (running := self.here.alive(vhost)) is not None:
            running.prove()
            settled = running.snapshot().settled_at
            if settled >= moment or time.monotonic() > deadline:
                return settled
            await asyncio.sleep(SETTLE_PAUSE)
        trace = await self.here.find(vhost)
        peers = await self._elsewhere.peers()
        snapshot = peers.snapshot(trace.id, trace.wanted, trace.holder)
        return snapshot.settled_at if snapshot else 0

    async def status(self, vhost: str) -> TraceStatus:
        """Describe one trace; raises `NotFoundError` if there never was one."""
        trace = await self.here.find(vhost)
        return await self._describe(trace, await self._elsewhere.peers())

    async def statuses(self) -> Sequence[TraceStatus]:
        """Describe every trace, including stopped ones, by virtual host."""
        traces = sorted(await self.store.traces.list(), key=lambda trace: trace.vhost)
        peers = await self._elsewhere.peers()
        return [await self._describe(trace, peers) for trace in traces]

    async def check_here(self, vhost: str) -> None:
        """Raise `ConflictError` if a trace runs in another service, and `NotFoundError`."""
        await self._elsewhere.check(await self.here.find(vhost))

    async def others(self) -> bool:
        return (await self._elsewhere.peers()).are_there

    async def _describe(self, trace: Trace, peers: Peers) -> TraceStatus:
        running = self.here.present(trace.vhost)
        snapshot = peers.snapshot(trace.id, trace.wanted, trace.holder)
        if snapshot is None:
            snapshot = running.snapshot() if running else Snapshot(NOT_RUN)
        standing, totals = snapshot.standing, snapshot.totals
        if totals is None:
            try:
                totals = Tracker.stored_totals(trace.checkpoint)
            except UnreadableCheckpointError:
                totals = Totals(Counters(), trace.participants, trace.pending_copies)
                reason = unreadable_checkpoint(trace.vhost)
                standing = replace(standing, state=TraceState.failed, last_error=reason)
        ledger = snapshot.ledger or Ledger.load(trace.ledger)
        return TraceStatus(
            vhost=trace.vhost,
            state=standing.state,
            policy=Policy(trace.policy),
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
            unread=totals.unread,
            events=trace.events,
            participants=totals.participants,
            pending_copies=totals.pending_copies,
            last_event_id=snapshot.last_event_id or trace.last_event_id,
            rate=snapshot.rate,
            lag=snapshot.lag,
            work=snapshot.work,
            holder=peers.name_of(trace.holder),
            gaps=[*await self.store.gaps.newest(trace.id)],
            doubts=[*map(str, await self.store.doubts.of_trace(trace.id))],
            evidence=await self.store.doubts.evidence(trace.id),
            remarks=(
                *snapshot.remarks,
                *await self._exclusions(trace),
                *(audit_status(ledger, trace.taken).remarks() if ledger else ()),
            ),
            ledger=ledger,
        )

    async def _exclusions(self, trace: Trace) -> list[str]:
        """Sentences on what a trace does not take, and the rules that find nothing for that."""
        partly = [] if trace.taken.is_all else [trace.taken.sentence]
        rules = (await self.store.redactions.of_trace(trace.id)).rules
        if rules:
            partly.append(
                redaction_sentence(rules, has_key=self.settings.redaction_key is not None)
            )
        if trace.bodies:
            return partly
        own_rules = await self.store.link_rules.list_own(trace.id)
        unread = [
            link_rule.rule.name
            for link_rule in merge_rules(self.settings.rules_of_all, own_rules)
            if link_rule.rule.looks_into_bodies
        ]
        names = f", so these rules of links find nothing there: {', '.join(unread)}"
        return [*partly, f"no bodies are taken{names if unread else ''}"]


def _quiet_or(quiet: Sequence[str] | None, present: Sequence[str]) -> tuple[str, ...]:
    return tuple(present if quiet is None else quiet)


def checked_rules(policy: str | None, quiet: Sequence[str] | None) -> None:
    """Raise `BadRequestError` for an invalid policy or quiet traffic."""
    if policy is not None and policy not in list(Policy):
        raise BadRequestError(f"a participant is one of {', '.join(Policy)}")
    try:
        Quiet(quiet or ())
    except ValueError as error:
        raise BadRequestError(str(error)) from error


def checked_selection(
    exchanges: Sequence[str] | None, queues: Sequence[str] | None
) -> Selection | None:
    """The selection; None of either means all if the other is given, else as before.

    Raises `BadRequestError` for names that no broker can have.
    """
    if exchanges is None and queues is None:
        return None
    try:
        return selection_of(exchanges, queues)
    except ValueError as error:
        raise BadRequestError(str(error)) from error


def _unknown(vhost: str, unknown: Sequence[str]) -> BadRequestError:
    excess = len(unknown) - MOST_NAMED
    listed = ", ".join(unknown[:MOST_NAMED]) + (f" and {excess} more" if excess > 0 else "")
    return BadRequestError(
        f"the virtual host {vhost!r} has no {listed}. In patterns * is one whole word and "
        "# any number of words, parted by dots. With later (--later) they may come later"
    )
