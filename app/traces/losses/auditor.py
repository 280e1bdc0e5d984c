"""Carries out the audit of a run: asks for the broker's counters, and records what they prove."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from app.traces.losses.audit import AuditChange, AuditVerdict, CountRange, Look, Tally
from app.traces.losses.marks import Point
from app.traces.pipeline import Pipeline
from app.traces.recorder import Recorder
from model.times import Microseconds

if TYPE_CHECKING:
    from app.broker.consumer import TraceStream

# One for each time between two rests: it is taken back by name.
SUSPICION = (
    "after the event {} the broker counted more than has come yet: it may be lost, or still on its "
    "way inside the broker"
)


class Auditor:
    """The audit of one stream."""

    def __init__(self, pipeline: Pipeline, recorder: Recorder, stream: TraceStream) -> None:
        self._pipeline = pipeline
        self._recorder = recorder
        self._stream = stream

    async def look(self) -> None:
        """Compare once. Raises `OutageError`."""
        pipeline, recorder = self._pipeline, self._recorder
        counts = await pipeline.source.counts(pipeline.trace.vhost)
        if counts is None:
            return
        count = CountRange(
            Tally(counts.publishes, counts.deliveries_at_least),
            Tally(counts.publishes, counts.deliveries_at_most),
            dict(counts.started),
        )
        queued = await self._stream.queued()
        most_queued = queued * self._stream.most_per_message
        state = recorder.audit.state
        point = pipeline.gaps.point
        look = Look(count, recorder.tally, most_queued, point.event_id, Microseconds(point.moment))
        change = recorder.audit.look(look, time.monotonic())
        if recorder.audit.state.news != state.news:
            recorder.is_ledger_new = True  # stored with the next batch, or by itself
        await self._record(change, queued, Point(state.even_event_id, state.begins_at))

    async def _record(self, change: AuditChange, queued: int, rest: Point) -> None:
        """Record a gap from the last rest on, unless a known gap explains the change.

        More traced than counted is no gap: the broker does not count the publishes of a rolled back
        transaction, and loses counters of channels that live for a moment (2 to 3 % of those that
        opened and closed one for each message, on 3.10.8 and 4.3.6).
        """
        gaps, suspicion = self._pipeline.gaps, SUSPICION.format(rest.event_id)
        is_new = not gaps.has_one_since(rest)
        if change.verdict is AuditVerdict.suspected and is_new:
            gaps.suspect(suspicion, queued, rest.event_id)
        elif change.verdict is AuditVerdict.loss and (is_new or gaps.is_suspected(suspicion)):
            reason = f"the broker counted {tally_in_words(change.loss)} that never came"
            gaps.note(reason, queued, begins=rest)
        if gaps.is_pending:
            await gaps.write()
        if change.verdict in (AuditVerdict.loss, AuditVerdict.balanced):
            await gaps.withdraw(suspicion)


def tally_in_words(tally: Tally) -> str:
    """The tally in words."""
    parts = [_quantity(tally.publishes, "publish", "publishes")] if tally.publishes else []
    parts += [_quantity(tally.deliveries, "delivery", "deliveries")] if tally.deliveries else []
    return " and ".join(parts)


def _quantity(count: int, singular: str, plural: str) -> str:
    return f"{count:,} {singular if count == 1 else plural}"
