"""Judges assertions by some events: looked up in the store when their time is over.

Each is held, violated, or unknown. It is unknown wherever something that is not stored could change
the answer: a gap, participants that may be parts of one program, a walk that was cut, an event that
retention has removed, or a trace that lagged when the time was over. What leads to what is what
`model.assertions` says: messages, and the links that they carry.
"""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from app.errors import BadRequestError, NotFoundError
from app.stored.assertions import (
    AssertionScope,
    NewViolation,
    Reach,
    ViolationKind,
)
from app.watch.waiting import SettledPoint, Wait
from itc import Relation, compare
from model.assertions.assertion import Acknowledged, AtMost, LeadsTo, NeverConcurrent, Precedence
from model.assertions.judging import (
    AssertionVerdict,
    Judgement,
    WatchedEvent,
    hedge,
    judge_effect,
    judge_precedence,
    judge_settlement,
)
from model.event import CLOCK_ALONE, NOTHING_LARGE
from model.gaps import Gap
from model.words import Via

if TYPE_CHECKING:
    from app.store import Store

# How long events are judged one by one before others have their turn.
MOST_SECONDS = 0.5
# Of a conversation so many events are looked at.
MOST_MESSAGES = 1_000


class EventOutcome(NamedTuple):
    """The outcome of one event; nothing at all where the assertion does not speak of it.

    One event may show several violations.
    """

    verdict: AssertionVerdict | None = None
    violations: tuple[NewViolation, ...] = ()


HELD, UNKNOWN = EventOutcome(AssertionVerdict.holds), EventOutcome(AssertionVerdict.unknown)
NOTHING = EventOutcome()


def violated(*violations: NewViolation) -> EventOutcome:
    return EventOutcome(AssertionVerdict.violated, violations)


class _Case(NamedTuple):
    """An event that is judged, by what is known of its trace."""

    kind: ViolationKind
    wait: Wait
    proof: SettledPoint
    gaps: Sequence[Gap]

    def is_whole(self, first: int) -> bool:
        """Tell whether nothing is missing from an event on, as far as is known."""
        return not any(gap.spanned_by(first, self.proof.event_id + 1) for gap in self.gaps)

    def outcome(
        self, finding: Judgement, event: WatchedEvent, root: int | None = None, *, is_whole: bool
    ) -> EventOutcome:
        """What a finding comes to: its absence may be what is missing where not all is known."""
        verdict = hedge(finding, is_whole=is_whole).verdict
        if verdict is AssertionVerdict.violated:
            return violated(self.new(event, finding.sentence, root))
        return HELD if verdict is AssertionVerdict.holds else UNKNOWN

    def new(self, event: WatchedEvent, sentence: str, root: int | None = None) -> NewViolation:
        return NewViolation(
            event=event.id,
            last_id=max(self.proof.event_id, self.wait.id),
            root=root,
            kind=self.kind,
            type=event.message_type,
            recorded_at=event.at,
            sentence=f"event {event.id}: {sentence}",
        )


@dataclass(eq=False)
class Judges:
    """Judges what is due, by what is stored."""

    store: Store
    timer: Callable[[], float] = time.monotonic

    async def judge(
        self,
        trace_id: int,
        subject: AssertionScope,
        waits: Sequence[Wait],
        proofs: Sequence[SettledPoint],
    ) -> list[EventOutcome]:
        """The outcomes of events whose time is over, in their order. Raises `OutageError`.

        Of the first of them alone where each takes long: of one at least. ``proofs`` are moments at
        which all was known to be stored, oldest first.
        """
        gaps = await self.store.gaps.between(trace_id, 0, proofs[-1].event_id + 1)
        cases = [_Case(subject.kind, wait, _first(proofs, wait.due), gaps) for wait in waits]
        what, ids = subject.what, [wait.id for wait in waits]
        if isinstance(what, LeadsTo | Acknowledged):
            cases = await self._with_doubtful(trace_id, cases, min(ids))
        match what:
            case LeadsTo():
                reached = await self.store.watching.reached(trace_id, ids, 1)
                return [_led(what, case, reached.get(case.wait.id)) for case in cases]
            case Precedence():
                reached = await self.store.watching.reached(trace_id, ids, -1)
                return [_preceded(what, case, reached.get(case.wait.id)) for case in cases]
            case AtMost():
                return await self._counted(trace_id, what, cases)
        until = self.timer() + MOST_SECONDS
        outcomes: list[EventOutcome] = []
        for case in cases:
            if outcomes and self.timer() >= until:
                break
            if isinstance(what, NeverConcurrent):
                outcomes.append(await self._compared(trace_id, what, case))
            else:
                outcomes.append(await self._settled(trace_id, what, case))
        return outcomes

    async def _settled(self, trace_id: int, what: Acknowledged, case: _Case) -> EventOutcome:
        """Judge whether a message was acknowledged from each of its queues in time."""
        event_id = case.wait.id
        try:
            fate = await self.store.copies.fate_of(event_id, NOTHING_LARGE)
        except NotFoundError:  # removed meanwhile
            return UNKNOWN
        verdict, said = judge_settlement(what, fate.message, case.wait.due + 1)
        if verdict is AssertionVerdict.holds:
            return HELD
        if verdict is AssertionVerdict.unknown or fate.truncated or not case.is_whole(event_id):
            return UNKNOWN
        reach = (await self.store.watching.reached(trace_id, [event_id], 1)).get(event_id)
        if reach is None or reach.has_equals:
            return UNKNOWN
        return violated(case.new(reach.event, f"{reach.event.message_type} {said}"))

    async def _with_doubtful(self, trace_id: int, cases: list[_Case], first: int) -> list[_Case]:
        """Cases with what may be missing from an event on because it led to doubtful deliveries."""
        last = max(first, *(case.proof.event_id for case in cases))
        found = (await self.store.doubts.doubtful(trace_id, first, last)).gaps()
        return [case._replace(gaps=[*case.gaps, *found]) for case in cases]

    async def _counted(self, trace_id: int, what: AtMost, cases: list[_Case]) -> list[EventOutcome]:
        """Tell whether what led to each event had led to no more than it may by then."""
        pasts = await self.store.watching.reached(trace_id, [case.wait.id for case in cases], -1)
        causes = {
            each.id
            for past in pasts.values()
            for each in past.events
            if each.is_publish and what.no.fits(each.message_type)
        }
        futures = {
            cause: (future, [each.id for each in future.events if each.is_publish])
            for cause, future in (
                await self.store.watching.reached(trace_id, sorted(causes), 1)
            ).items()
        }
        outcomes = []
        oldest = min([*causes, *(case.wait.id for case in cases)])
        for case in await self._with_doubtful(trace_id, cases, oldest):
            outcomes.append(_calm(what, case, pasts.get(case.wait.id), futures))
            await asyncio.sleep(0)  # a past may be long
        return outcomes

    async def _compared(self, trace_id: int, what: NeverConcurrent, case: _Case) -> EventOutcome:
        """Judge whether a publish is in an order with its rivals of the conversation before it."""
        event_id = case.wait.id
        try:
            found = await self.store.conversations.of_event(
                event_id, Via.links, limit=MOST_MESSAGES, after=None
            )
        except (NotFoundError, BadRequestError):  # removed meanwhile, or it takes too long
            return UNKNOWN
        messages = found.conversation.messages
        types = {each.it.id: each.it.message_type for each in messages if not each.unseen}
        if event_id not in types:
            return UNKNOWN
        unseen = [each.it.message_type for each in messages if each.unseen]
        # Its delivery is known, and not when it was published.
        if any(_are_rivals(what, types[event_id], name) for name in unseen):
            return UNKNOWN
        rivals = [
            each
            for each, name in types.items()
            if each < event_id and _are_rivals(what, types[event_id], name)
        ]
        events = await self.store.events.some([event_id, *rivals], CLOCK_ALONE)
        stamps = {each.id: each.stamp for each in events}
        own = stamps.pop(event_id, None)
        if own is None or found.next is not None or not case.is_whole(found.root):
            return UNKNOWN
        apart = [
            each for each, stamp in stamps.items() if compare(stamp, own) is Relation.concurrent
        ]
        if not apart:
            return HELD
        # A participant that is finer than its program takes what is in order for concurrent.
        if (await self.store.doubts.between(trace_id, apart[0], event_id)).doubts:
            return UNKNOWN
        doubtful = await self.store.doubts.doubtful(trace_id, apart[0], event_id)
        certain = [each for each in apart if not doubtful.behind(each, event_id, own.packed)]
        if not certain:
            return UNKNOWN
        event = WatchedEvent(event_id, case.wait.recorded_at, True, types[event_id])
        other = f"event {certain[0]}, {types[certain[0]]}"
        sentence = f"{event.message_type} is concurrent with {other}"
        return violated(case.new(event, sentence, found.root))


def _first(proofs: Sequence[SettledPoint], moment: int) -> SettledPoint:
    """The first that says that all until a moment (µs) is stored, or else the newest."""
    at = bisect_left(proofs, moment, key=lambda each: each.at)
    return proofs[min(at, len(proofs) - 1)]


def _led(what: LeadsTo, case: _Case, reach: Reach | None) -> EventOutcome:
    if reach is None:  # retention has removed it
        return UNKNOWN
    fits, event = what.leads_to.fits, reach.event
    effects = [each for each in reach.events if each.is_publish and fits(each.message_type)]
    first = min(effects, key=lambda each: each.at, default=None)
    # What came before the trace was known to have caught up may have been in time.
    was_late = any(each.id <= case.proof.event_id for each in effects)
    is_whole = reach.is_whole and not (reach.has_equals or was_late) and case.is_whole(event.id)
    return case.outcome(
        judge_effect(what, event, first, case.wait.due + 1), event, is_whole=is_whole
    )


def _preceded(what: Precedence, case: _Case, past: Reach | None) -> EventOutcome:
    if past is None:
        return UNKNOWN
    event = past.event
    others = (each for each in past.events if each.is_publish and each.id != event.message)
    before = next((each.id for each in others if what.after.fits(each.message_type)), None)
    finding = judge_precedence(what, event.message_type, event.id, before, is_open=_is_open(past))
    # What led to its first message may be lost: then it only seems to have begun there.
    is_whole = past.is_whole and not any(gap.after_event_id < event.id for gap in case.gaps)
    root = past.events[0].id if past.events else event.id
    return case.outcome(finding, event, root, is_whole=is_whole)


def _is_open(past: Reach) -> bool:
    """Tell whether something in a past has a publish that is not stored, nor its causes."""
    known = {each.id for each in past.events}
    seen = (past.event, *past.events)
    return any(not each.is_publish and each.message not in known for each in seen)


def _calm(
    what: AtMost,
    case: _Case,
    past: Reach | None,
    futures: Mapping[int, tuple[Reach, Sequence[int]]],
) -> EventOutcome:
    """Judge by what led to an event, and by all that this led to, with its publishes' ids."""
    if past is None or not past.is_whole:
        return UNKNOWN
    most, outcome = what.causes_more_than, NOTHING
    found: list[NewViolation] = []
    for cause in past.events:
        if cause.id not in futures:  # of another type
            continue
        future, publishes = futures[cause.id]
        before = bisect_left(publishes, case.wait.id)
        is_whole = future.is_whole and not future.has_equals and case.is_whole(cause.id)
        # The first that is too many says so; where others were not counted, any may be the first.
        if before == most or (before > most and not future.is_whole):
            sentence = f"{cause.message_type} caused more than {most:,} messages"
            found.append(case.new(cause, sentence))
        elif before < most and not is_whole:
            outcome = UNKNOWN
        elif before < most and outcome is NOTHING:
            outcome = HELD
    return violated(*found) if found else outcome


def _are_rivals(what: NeverConcurrent, one: str, other: str) -> bool:
    first, second = what.types
    return (first.fits(one) and second.fits(other)) or (first.fits(other) and second.fits(one))
