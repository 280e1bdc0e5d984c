"""Restores a trace from the store, and stores what a run adds.

Every batch goes into one transaction with the tracker's checkpoint and the digests of the messages
that it comes from. So what a run records, the tracker and the window, is what was restored for it.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Sequence

from app.stored.capture import Batch, TraceRedactions
from app.traces.life import Standing
from app.traces.losses.audit import Audit, Ledger, Tally, directions_of
from app.traces.losses.collectors import Collectors
from app.traces.losses.marks import Point
from app.traces.pipeline import Pipeline
from app.traces.runs.resume import Window
from app.traces.status import CaptureCost, Snapshot
from app.traces.supervisor import patiently
from app.tracker import (
    RestorePoint,
    StampedEvent,
)
from app.tracker.links import Rule, merge_rules
from app.tracker.redaction import Redactor
from model.times import now

log = logging.getLogger(__name__)

SPAN_SECONDS = 10.0
# Accounts under which we captured, remembered at most.
MOST_ACCOUNTS = 4


class Rate:
    """Events per second over the last ``span`` seconds, by the given clock."""

    def __init__(self, clock: Callable[[], float], span: float = SPAN_SECONDS) -> None:
        self._clock = clock
        self._span = span
        self._counts: deque[tuple[float, int]] = deque()
        self._sum = 0

    def add(self, count: int) -> None:
        self._counts.append((self._clock(), count))
        self._sum += count
        self._forget()

    def per_second(self) -> float:
        self._forget()
        return self._sum / self._span

    def _forget(self) -> None:
        horizon = self._clock() - self._span
        while self._counts and self._counts[0][0] < horizon:
            self._sum -= self._counts.popleft()[1]


class Recorder:
    """Stores what a run stamps, from the checkpoint on."""

    def __init__(self, pipeline: Pipeline, restored: RestorePoint, epoch: int) -> None:
        settings = pipeline.settings
        self._pipeline = pipeline
        self.epoch = epoch
        self.tracker = settings.tracker(pipeline.trace, restored)
        # Without the large parts, which the tracker has.
        self.restored = RestorePoint(
            restored.state,
            *([], [], [], []),
            last_event_id=restored.last_event_id,
            recorded_at=restored.recorded_at,
            own_rules=restored.own_rules,
        )
        self.link_rules = restored.link_rules  # that the tracker goes by
        self.are_rules_new = False  # and are to be stored
        self._own_rules: Sequence[Rule] = restored.own_rules  # of the virtual host
        # At first: rules may have changed while it did not run, in the file too.
        self._are_rules_due = True
        self._redactions = TraceRedactions()
        self.redactor: Redactor | None = None  # None without rules of redaction
        self.bodies = pipeline.trace.bodies  # they are stored
        self.window = Window(settings.prefetch, restored.window)
        self.last_event_id = restored.last_event_id
        ledger = Ledger.load(restored.ledger)
        # An earlier version stored no ledger; the audit needs only messages from here on.
        self.tally = ledger.seen if ledger else Tally()
        self.quarantined = ledger.quarantined if ledger else Tally()
        self.own = ledger.own if ledger else Tally()
        self.collectors = Collectors(ledger.collectors if ledger else ())
        self.audit = Audit(
            ledger.audit if ledger else None,
            self.tally,
            time.monotonic(),
            directions_of(pipeline.trace.taken),
        )
        if self.tracker.is_taking_anew:
            self.audit.restart(self.last_event_id, now())
        self.sentinel = ledger.sentinel if ledger else None
        self.accounts = ledger.accounts if ledger else ()
        self.marks = 0  # of this run, counted in `tally` too
        self.is_ledger_new = False  # holds unstored ones
        self.settled = Point(0, 0)  # all that was traced before its time is stored up to its event
        self.work = CaptureCost()
        self._rate = Rate(time.monotonic)

    @property
    def traffic(self) -> int:
        """The number of trace messages seen that are not about our own marks."""
        return self.tally.sum - self.marks

    @classmethod
    async def restore(cls, pipeline: Pipeline, point: RestorePoint | None = None) -> Recorder:
        """Take the trace, and continue where it ends in the store.

        The lease comes first: then no earlier run can store anything that is not restored. Raises
        `OutageError`, `LeaseLostError` if another service holds the trace, and `CheckpointError` if
        the stored checkpoint cannot be read.
        """
        trace = pipeline.trace
        pipeline.gaps.epoch = epoch = await pipeline.store.leases.take(trace.id, trace.holder)
        restored = await pipeline.settings.restore(pipeline.store, trace, point)
        recorder = cls(pipeline, restored, epoch)
        await recorder.look_at_redactions()
        return recorder

    @property
    def ledger(self) -> Ledger:
        parts = self.quarantined, self.own, self.collectors.dump()
        return Ledger(self.tally, self.audit.state, self.sentinel, self.accounts, *parts)

    def count_quarantined(self, tally: Tally) -> None:
        """Count messages that cannot be read."""
        self.tally += tally
        self.quarantined += tally

    def capture_as(self, account: str) -> None:
        """Remember the account under which we capture, for when it is another."""
        if account not in self.accounts:
            self.accounts = (*self.accounts, account)[-MOST_ACCOUNTS:]
            self.is_ledger_new = True

    def lose_sentinel(self, token: str) -> None:
        """Note that a sentinel came like a trace message, and will be acknowledged like one."""
        if token == self.sentinel:
            self.sentinel = None

    async def look_at_rules(self) -> None:
        """Read the rules of links that people have set, perhaps at another service.

        Raises `OutageError`.
        """
        pipeline = self._pipeline
        own_rules = tuple(await pipeline.store.link_rules.list_own(pipeline.trace.id))
        if own_rules != self._own_rules:
            self._own_rules, self._are_rules_due = own_rules, True

    async def look_at_redactions(self) -> None:
        """Read the rules of redaction, which hold for all that is taken from now on.

        Raises `OutageError`.
        """
        pipeline = self._pipeline
        redactions = await pipeline.store.redactions.of_trace(pipeline.trace.id)
        if redactions == self._redactions:
            return
        self._redactions = redactions
        key = pipeline.settings.redaction_key
        secret = "" if key is None else key.get_secret_value()
        self.redactor = Redactor(redactions.rules, secret, redactions.former)
        log.info("trace of %r: other rules of redaction hold", pipeline.trace.vhost)

    def take_up_rules(self) -> None:
        """Have the tracker go by the latest rules of links; no batch may be half stamped.

        They are stored with the next batch, which is the first that is read by them.
        """
        if not self._are_rules_due:
            return
        self._are_rules_due = False
        own_rules, settings = self._own_rules, self._pipeline.settings
        rules = merge_rules(settings.rules_of_all, own_rules)
        if rules != self.link_rules:
            self.tracker.take_up(settings.rules(self._pipeline.trace, rules))
            self.link_rules, self.are_rules_new = rules, True
            log.info("trace of %r: other rules of links hold", self._pipeline.trace.vhost)
            if excess := {rule.name for rule in own_rules} - {link.rule.name for link in rules}:
                names = ", ".join(sorted(excess))
                log.error("too many rules of links, so these do not hold: %s", names)

    def snapshot(
        self, standing: Standing, lag: int | None = None, remarks: Sequence[str] = ()
    ) -> Snapshot:
        return Snapshot(
            standing=standing,
            totals=self.tracker.totals(),
            last_event_id=self.last_event_id,
            rate=self._rate.per_second(),
            lag=lag,
            work=self.work,
            ledger=self.ledger,
            remarks=tuple(remarks),
            settled_at=self.settled.moment,
            settled_id=self.settled.event_id,
        )

    def settle(self, moment: int) -> None:
        """Note that everything traced before a time (µs) is stored."""
        if moment > self.settled.moment:
            self.settled = Point(self.last_event_id, moment)

    def batch(self, events: list[StampedEvent]) -> Batch:
        """Make a batch, with the tracker and the window as they are now."""
        rules = self.link_rules if self.are_rules_new else None
        self.is_ledger_new = self.are_rules_new = False
        return Batch(
            events,
            self.tracker.checkpoint(),
            self.window.dump(),
            ledger=self.ledger.dump(),
            link_rules=rules,
            bodies=self.bodies,
        )

    async def append(self, batch: Batch) -> None:
        """Store a batch; waits while the store is away.

        Raises `LeaseLostError` if another run has taken the trace since.
        """
        pipeline = self._pipeline
        start = time.perf_counter()

        async def append() -> range:
            nonlocal start
            start = time.perf_counter()
            return await pipeline.store.batches.append(pipeline.trace.id, batch, self.epoch)

        ids = await patiently(append, pipeline.supervisor)
        newest = batch.events[-1].stamp if batch.events else None
        settled = batch.checkpoint.settlements.settled.values()
        self.work.count_stored(newest, time.perf_counter() - start, settled)
        if ids:
            self.last_event_id = ids[-1]
            self._rate.add(len(ids))
            pipeline.feed.advance(ids[-1])
