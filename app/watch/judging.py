"""Judges assertions by some events: looked up in the store when their time is over.

Each is held, violated, or unknown. It is unknown wherever missing data could change the answer: a
gap, participants that may be parts of one program, a walk that was cut, an event that retention has
removed, or a trace that lagged when the time was over. Causes and effects are by
`model.assertions`: messages, and the links that they carry.
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

# Events are judged one by one for this long before others have their turn.
MOST_SECONDS = 0.5
# Events of a conversation that are looked at.
MOST_MESSAGES = 1_000


class EventOutcome(NamedTuple):
    """The outcome of one event; empty if the assertion does not apply to it.

    One event may show several violations.
    """

    verdict: AssertionVerdict | None = None
    violations: tuple[NewViolation, ...] = ()


HELD, UNKNOWN = EventOutcome(AssertionVerdict.holds), EventOutcome(AssertionVerdict.unknown)
NOTHING = EventOutcome()


def violation_outcome(*violations: NewViolation) -> EventOutcome:
    return EventOutcome(AssertionVerdict.violated, violations)


class _Case(NamedTuple):
    """A judged event, with its trace's state."""

    kind: ViolationKind
    wait: Wait
    proof: SettledPoint
    gaps: Sequence[Gap]

    def is_whole(self, first: int) -> bool:
        """Tell whether nothing is missing from an event on, as far as is known."""
        return not any(gap.is_spanned(first, self.proof.event_id + 1) for gap in self.gaps)

    def outcome(
        self, judgement: Judgement, event: WatchedEvent, root: int | None = None, *, is_whole: bool
    ) -> EventOutcome:
        """The outcome of a judgement: an absence counts only where everything is known."""
        verdict = hedge(judgement, is_whole=is_whole).verdict
        if verdict is AssertionVerdict.violated:
            return violation_outcome(self.new(event, judgement.sentence, root))
        return HELD if verdict is AssertionVerdict.holds else UNKNOWN

    def new(self, event: WatchedEvent, sentence: str, root: int | None = None) -> NewViolation:
        return NewViolation(
            event=event.id,
            last_id=max(self.proof.event_id, self.wait.id),
            root=root,
            kind=self.kind,
            type=event.message_type,
            recorded_at=event.recorded_at,
            sentence=f"event {event.id}: {sentence}",
        )


@dataclass(eq=False)
class Judges:
    """Judges due events by the store."""

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

        Only the first ones if each takes long, but at least one. ``proofs`` are moments at which
        everything was known to be stored, oldest first.
        """
        gaps = await self.store.gaps.between(trace_id, 0, proofs[-1].event_id + 1)
        cases = [_Case(subject.kind, wait, _first(proofs, wait.due), gaps) for wait in waits]
        assertion, ids = subject.what, [wait.id for wait in waits]
        if isinstance(assertion, LeadsTo | Acknowledged):
            cases = await self._with_doubtful(trace_id, cases, min(ids))
        match assertion:
            case LeadsTo():
                reached = await self.store.watching.reaches(trace_id, ids, 1)
                return [
                    _judge_effects(assertion, case, reached.get(case.wait.id)) for case in cases
                ]
            case Precedence():
                reached = await self.store.watching.reaches(trace_id, ids, -1)
                return [_judge_causes(assertion, case, reached.get(case.wait.id)) for case in cases]
            case AtMost():
                return await self._judge_counts(trace_id, assertion, cases)
        deadline = self.timer() + MOST_SECONDS
        outcomes: list[EventOutcome] = []
        for case in cases:
            if outcomes and self.timer() >= deadline:
                break
            if isinstance(assertion, NeverConcurrent):
                outcomes.append(await self._judge_order(trace_id, assertion, case))
            else:
                outcomes.append(await self._judge_settlement(trace_id, assertion, case))
        return outcomes

    async def _judge_settlement(
        self, trace_id: int, assertion: Acknowledged, case: _Case
    ) -> EventOutcome:
        """Judge whether a message was acknowledged from each of its queues in time."""
        event_id = case.wait.id
        try:
            fate = await self.store.copies.fate_of(event_id, NOTHING_LARGE)
        except NotFoundError:  # removed meanwhile
            return UNKNOWN
        verdict, sentence = judge_settlement(assertion, fate.message, case.wait.due + 1)
        if verdict is AssertionVerdict.holds:
            return HELD
        if verdict is AssertionVerdict.unknown or fate.truncated or not case.is_whole(event_id):
            return UNKNOWN
        reach = (await self.store.watching.reaches(trace_id, [event_id], 1)).get(event_id)
        if reach is None or reach.has_equals:
            return UNKNOWN
        return violation_outcome(case.new(reach.event, f"{reach.event.message_type} {sentence}"))

    async def _with_doubtful(self, trace_id: int, cases: list[_Case], first: int) -> list[_Case]:
        """Cases with gaps where doubtful deliveries may be missing from an event on."""
        last = max(first, *(case.proof.event_id for case in cases))
        gaps = (await self.store.doubts.doubtful(trace_id, first, last)).gaps()
        return [case._replace(gaps=[*case.gaps, *gaps]) for case in cases]

    async def _judge_counts(
        self, trace_id: int, assertion: AtMost, cases: list[_Case]
    ) -> list[EventOutcome]:
        """Judge whether the causes of each event had too many effects by then."""
        pasts = await self.store.watching.reaches(trace_id, [case.wait.id for case in cases], -1)
        causes = {
            event.id
            for past in pasts.values()
            for event in past.events
            if event.is_publish and assertion.subject.fits(event.message_type)
        }
        futures = {
            cause: (future, [event.id for event in future.events if event.is_publish])
            for cause, future in (
                await self.store.watching.reaches(trace_id, sorted(causes), 1)
            ).items()
        }
        outcomes = []
        oldest = min([*causes, *(case.wait.id for case in cases)])
        for case in await self._with_doubtful(trace_id, cases, oldest):
            outcomes.append(_judge_calm(assertion, case, pasts.get(case.wait.id), futures))
            await asyncio.sleep(0)  # a past may be long
        return outcomes

    async def _judge_order(
        self, trace_id: int, assertion: NeverConcurrent, case: _Case
    ) -> EventOutcome:
        """Judge whether a publish is in an order with its rivals of the conversation before it."""
        event_id = case.wait.id
        try:
            page = await self.store.conversations.of_event(
                event_id, Via.links, limit=MOST_MESSAGES, after=None
            )
        except (NotFoundError, BadRequestError):  # removed meanwhile, or it takes too long
            return UNKNOWN
        messages = page.conversation.messages
        types = {
            message.record.id: message.record.message_type
            for message in messages
            if not message.unseen
        }
        if event_id not in types:
            return UNKNOWN
        unseen = [message.record.message_type for message in messages if message.unseen]
        # Its delivery is known, but not when it was published.
        if any(_are_rivals(assertion, types[event_id], name) for name in unseen):
            return UNKNOWN
        rivals = [
            rival
            for rival, name in types.items()
            if rival < event_id and _are_rivals(assertion, types[event_id], name)
        ]
        events = await self.store.events.get_existing([event_id, *rivals], CLOCK_ALONE)
        stamps = {event.id: event.stamp for event in events}
        stamp = stamps.pop(event_id, None)
        if stamp is None or page.next is not None or not case.is_whole(page.root):
            return UNKNOWN
        concurrent = [
            rival for rival in stamps if compare(stamps[rival], stamp) is Relation.concurrent
        ]
        if not concurrent:
            return HELD
        # If participants are finer than programs, ordered events may seem concurrent.
        if (await self.store.doubts.between(trace_id, concurrent[0], event_id)).doubts:
            return UNKNOWN
        doubtful = await self.store.doubts.doubtful(trace_id, concurrent[0], event_id)
        certain = [
            rival for rival in concurrent if not doubtful.doubt(rival, event_id, stamp.packed)
        ]
        if not certain:
            return UNKNOWN
        event = WatchedEvent(event_id, case.wait.recorded_at, True, types[event_id])
        rival = f"event {certain[0]}, {types[certain[0]]}"
        sentence = f"{event.message_type} is concurrent with {rival}"
        return violation_outcome(case.new(event, sentence, page.root))


def _first(proofs: Sequence[SettledPoint], moment: int) -> SettledPoint:
    """The first proof that everything until a moment (µs) is stored, or else the newest."""
    index = bisect_left(proofs, moment, key=lambda proof: proof.at)
    return proofs[min(index, len(proofs) - 1)]


def _judge_effects(assertion: LeadsTo, case: _Case, reach: Reach | None) -> EventOutcome:
    if reach is None:  # retention has removed it
        return UNKNOWN
    fits, event = assertion.leads_to.fits, reach.event
    effects = [effect for effect in reach.events if effect.is_publish and fits(effect.message_type)]
    first = min(effects, key=lambda effect: effect.recorded_at, default=None)
    # Events from before the trace was known to have caught up may have been in time.
    was_late = any(effect.id <= case.proof.event_id for effect in effects)
    is_whole = reach.is_whole and not (reach.has_equals or was_late) and case.is_whole(event.id)
    return case.outcome(
        judge_effect(assertion, event, first, case.wait.due + 1), event, is_whole=is_whole
    )


def _judge_causes(assertion: Precedence, case: _Case, past: Reach | None) -> EventOutcome:
    if past is None:
        return UNKNOWN
    event = past.event
    causes = (cause for cause in past.events if cause.is_publish and cause.id != event.message)
    cause_id = next(
        (cause.id for cause in causes if assertion.precursor.fits(cause.message_type)), None
    )
    judgement = judge_precedence(
        assertion, event.message_type, event.id, cause_id, is_open=_is_open(past)
    )
    # The cause of its first message may be lost: then it only seems to have begun there.
    is_whole = past.is_whole and not any(gap.after_event_id < event.id for gap in case.gaps)
    root = past.events[0].id if past.events else event.id
    return case.outcome(judgement, event, root, is_whole=is_whole)


def _is_open(past: Reach) -> bool:
    """Tell whether a delivery in a past has a publish that is not stored."""
    ids = {event.id for event in past.events}
    events = (past.event, *past.events)
    return any(not event.is_publish and event.message not in ids for event in events)


def _judge_calm(
    assertion: AtMost,
    case: _Case,
    past: Reach | None,
    futures: Mapping[int, tuple[Reach, Sequence[int]]],
) -> EventOutcome:
    """Judge by an event's causes, and by all their effects, with their publishes' ids."""
    if past is None or not past.is_whole:
        return UNKNOWN
    limit, outcome = assertion.causes_more_than, NOTHING
    violations: list[NewViolation] = []
    for cause in past.events:
        if cause.id not in futures:  # of another type
            continue
        future, publishes = futures[cause.id]
        count = bisect_left(publishes, case.wait.id)
        is_whole = future.is_whole and not future.has_equals and case.is_whole(cause.id)
        # The first message too many violates; if some were not counted, any may be the first.
        if count == limit or (count > limit and not future.is_whole):
            sentence = f"{cause.message_type} caused more than {limit:,} messages"
            violations.append(case.new(cause, sentence))
        elif count < limit and not is_whole:
            outcome = UNKNOWN
        elif count < limit and outcome is NOTHING:
            outcome = HELD
    return violation_outcome(*violations) if violations else outcome


def _are_rivals(assertion: NeverConcurrent, name: str, rival: str) -> bool:
    first, second = assertion.types
    return (first.fits(name) and second.fits(rival)) or (first.fits(rival) and second.fits(name))
