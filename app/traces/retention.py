"""Retention, carried out by the owner of the trace's tracker between two batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from app.stored.capture import PrunePlan
from app.tracker import Tracker
from model.times import now

if TYPE_CHECKING:
    from app.store.capture.retention import Retention

# Events that one transaction removes: few enough that no batch of this trace, or on SQLite of any,
# waits long for it.
AT_MOST = 8_000


class RetentionLimits(msgspec.Struct, frozen=True):
    """The events that are kept: the newest by number, by age (seconds), or all (None).

    No event with an id above ``through``, where the archive ends, is ever removed. If only
    ``through`` is given, everything up to it is removed.
    """

    keep_events: int | None = None
    keep_seconds: float | None = None
    check_seconds: float = 600.0
    through: int | None = None

    @property
    def is_on(self) -> bool:
        bounds = (self.keep_events, self.keep_seconds, self.through)
        return any(bound is not None for bound in bounds)


class PruneCount(msgspec.Struct, frozen=True):
    """The events and participants that retention has removed from a trace, or would remove."""

    events: int = 0
    participants: int = 0

    def __add__(self, count: PruneCount) -> PruneCount:
        return PruneCount(self.events + count.events, self.participants + count.participants)


async def preview(store: Retention, trace_id: int, rule: RetentionLimits) -> PruneCount:
    """The events and participants that `retain` would remove."""
    plan = await _plan(store, trace_id, rule, at_most=None)
    return PruneCount(plan.events, len(plan.participants)) if plan else PruneCount()


async def retain(
    store: Retention,
    trace_id: int,
    tracker: Tracker,
    rule: RetentionLimits,
    epoch: int | None = None,
) -> PruneCount:
    """Remove all that the rule does not keep, then reclaim space; raises as `retain_some`.

    No batch may be on its way into the store.
    """
    total, is_last = PruneCount(), False
    while not is_last:
        count = await retain_some(store, trace_id, tracker, rule, epoch)
        total += count
        is_last = count.events < AT_MOST
    while await store.reclaim():
        pass
    return total


async def retain_some(
    store: Retention,
    trace_id: int,
    tracker: Tracker,
    rule: RetentionLimits,
    epoch: int | None = None,
) -> PruneCount:
    """Remove the oldest events that the rule does not keep, `AT_MOST` in one transaction.

    Then some space is reclaimed, so that a later failure leaves little. The tracker's state must be
    stored. Raises `LeaseLostError` once another run has taken the trace since ``epoch``.
    """
    plan = await _plan(store, trace_id, rule, at_most=AT_MOST)
    if plan is None:
        return PruneCount()
    tracker.forget_before(plan.before_id)
    await store.prune(plan, tracker.checkpoint(), epoch)
    await store.reclaim()
    return PruneCount(plan.events, len(plan.participants))


async def _plan(
    store: Retention, trace_id: int, rule: RetentionLimits, at_most: int | None
) -> PrunePlan | None:
    seconds = rule.keep_seconds
    older_than = None if seconds is None else now() - int(seconds * 1_000_000)
    return await store.plan(
        trace_id,
        keep_events=rule.keep_events,
        older_than=older_than,
        last_id=rule.through,
        limit=at_most,
    )
