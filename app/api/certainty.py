"""The certainty of answers: about the events of a span, and of lists over a period."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Annotated, NamedTuple, TypeAlias

import msgspec

from app.api.services import ServiceParts
from app.stored.assertions import ViolationFilter
from app.stored.failures import FailureFilter
from app.stored.reading import EventFilter, TracePeriod
from model.described import json_of
from model.sound import Certainty, Soundness
from model.times import LATEST, Microseconds, now

if TYPE_CHECKING:
    from app.stored.capture import Trace

ListFilter: TypeAlias = EventFilter | FailureFilter | ViolationFilter

FIRST, LAST = 1, 2**63 - 1  # no trace begins before, or goes on after
# Traces that one answer looks through.
MOST_TRACES = 20


class ListPeriod(msgspec.Struct, frozen=True):
    """The period that a list looked at, within what is recorded."""

    since: Microseconds | None
    until: Microseconds | None


class ListCertainty(msgspec.Struct, frozen=True):
    """The certainty of a list; `/itc_db/certainty` gives each virtual host's, with its reasons."""

    complete: Annotated[
        bool | None,
        "No message of the period may be missing. `null`: there are more than 20 virtual hosts, "
        "which one answer does not look through.",
    ]
    sound: Annotated[bool | None, "Participants are those who act; `null` as before."]
    period: ListPeriod | None


class TraceRecord(NamedTuple):
    """A trace's record of a period, and how certain it is."""

    trace: Trace
    period: TracePeriod
    certainty: Certainty

    @property
    def begin(self) -> Microseconds | None:
        """When it begins (µs): with the trace, or after a removal with the oldest event left."""
        return self.period.oldest_at if self.trace.pruned else self.trace.created_at


async def certainty_between(trace_id: int, a: int, b: int, parts: ServiceParts) -> Certainty:
    async def answer() -> Certainty:
        gaps = await parts.store.gaps.between(trace_id, a, b)
        return Certainty(gaps, await parts.store.doubts.between(trace_id, a, b))

    return await parts.store.at_once(answer)


async def record_of(
    trace: Trace, since: int | None, until: int | None, parts: ServiceParts
) -> TraceRecord:
    """The record of a trace from one time up to another (µs; None is no bound)."""
    period = await parts.store.periods.of(trace.id, since, until)
    soundness = await parts.store.doubts.between(trace.id, period.first or 0, period.last or 0)
    return TraceRecord(trace, period, Certainty(period.gaps, soundness))


def merge(parts: Collection[Certainty]) -> Certainty:
    """The certainty of an answer that rests on several traces."""
    gaps = [gap for part in parts for gap in part.gaps]
    doubts = tuple(dict.fromkeys(doubt for part in parts for doubt in part.soundness.doubts))
    return Certainty(gaps, Soundness(doubts, sum(part.quiet for part in parts)))


async def certainty_of_list(criteria: ListFilter, parts: ServiceParts) -> ListCertainty:
    """The certainty of a list of what a filter leaves."""
    traces = await parts.store.traces.list(criteria.visible)
    if len(traces) > MOST_TRACES:
        return ListCertainty(None, None, None)
    since, until = criteria.since, criteria.until
    return list_certainty(
        [await record_of(trace, since, until, parts) for trace in traces], criteria
    )


def list_certainty(records: Sequence[TraceRecord], criteria: ListFilter) -> ListCertainty:
    since, until = criteria.since, criteria.until
    known = [since, *(record.begin for record in records)]
    begins = [begin for begin in known if begin is not None]
    end = min(now(), LATEST if until is None else until)
    period = ListPeriod(Microseconds(max(begins)) if begins else None, Microseconds(end))
    certainty = merge([record.certainty for record in records])
    # Nothing is known about untraced virtual hosts.
    return ListCertainty(bool(records) and certainty.complete, certainty.sound, period)


def certainty_headers(certainty: ListCertainty) -> dict[str, str]:
    """The certainty of a list that is a plain array, as a header."""
    if certainty.period is None:
        return {}
    members = [f"complete=?{certainty.complete:d}", f"sound=?{certainty.sound:d}"]
    for name, moment in json_of(certainty.period).items():
        members += [f'{name}="{moment}"'] * (moment is not None)
    return {"itc-certainty": ", ".join(members)}
