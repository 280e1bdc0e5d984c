"""Carries out the audit of a run: asks for the broker's counters, and records what they prove."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from app.traces.losses.audit import AuditChange, AuditVerdict, CountRange, Look, Tally
from app.traces.losses.marks import Point
from app.traces.pipeline import Pipeline
from app.traces.runs.recorder import Recorder
from model.times import Microseconds

if TYPE_CHECKING:
    from app.broker.consumer import TraceStream

# One for each time between two rests: it is taken back by name.
SUSPICION = (
    "after the event {} the broker counted more than has come yet: it may be lost, or still on its "
    "way inside the broker"
)


class Auditor:
    """Looks at the counters."""

    def __init__(self, pipeline: Pipeline, recorder: Recorder, stream: TraceStream) -> None:
        self._pipeline = pipeline
        self._recorder = recorder
        self._stream = stream

    async def look(self) -> None:
        """Look once. Raises `OutageError`."""
        pipeline, recorder = self._pipeline, self._recorder
        counts = await pipeline.source.counts(pipeline.trace.vhost)
        if counts is None:
            return
        counted = CountRange(
            Tally(counts.publishes, counts.deliveries_at_least),
            Tally(counts.publishes, counts.deliveries_at_most),
            dict(counts.started),
        )
        queued = await self._stream.queued()
        before = recorder.audit.state
        here = pipeline.gaps.here
        look = Look(counted, recorder.seen, queued, here.event_id, Microseconds(here.at))
        found = recorder.audit.look(look, time.monotonic())
        if recorder.audit.state.news != before.news:
            recorder.is_ledger_new = True  # stored with the next batch, or by itself
        await self._record(found, queued, Point(before.even_event_id, before.began))

    async def _record(self, found: AuditChange, queued: int, even: Point) -> None:
        """Record what was found, from the last even moment on, unless a known gap explains it.

        More traced than counted is no gap: the broker does not count what a transaction that is
        rolled back published, and loses counters of channels that live for a moment (2 to 3 % of
        those that opened and closed one for each message, on 3.10.8 and 4.3.6).
        """
        gaps, suspicion = self._pipeline.gaps, SUSPICION.format(even.event_id)
        is_new = not gaps.has_one_since(even)
        if found.verdict is AuditVerdict.suspected and is_new:
            gaps.suspect(suspicion, queued, even.event_id)
        elif found.verdict is AuditVerdict.missing and (is_new or gaps.suspects(suspicion)):
            reason = f"the broker counted {said(found.missing)} that never came"
            gaps.note(reason, queued, begins=even)
        if gaps.is_pending:
            await gaps.write()
        if found.verdict in (AuditVerdict.missing, AuditVerdict.even):
            await gaps.withdraw(suspicion)


def said(tally: Tally) -> str:
    """The number, in words."""
    parts = [_counted(tally.publishes, "publish", "publishes")] if tally.publishes else []
    parts += [_counted(tally.deliveries, "delivery", "deliveries")] if tally.deliveries else []
    return " and ".join(parts)


def _counted(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}"
