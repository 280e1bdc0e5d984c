"""Whether assertions hold for some events: looked up in the store when their time is over.

Each is held, violated, or unknown. It is unknown wherever something that is not stored could change
the answer: a gap, participants that may be parts of one program, a walk that was cut, an event that
retention has removed, or a trace that lagged when the time was over.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from app.errors import BadRequestError, NotFoundError
from app.stored.assertions import Caused, NewViolation, Reach, Seen, ViolationKind
from app.watch.ports import ClockStore, ConversationStore, DoubtStore, GapStore, ReachStore
from app.watch.subjects import Subject
from app.watch.waiting import Settled, Wait
from itc import Relation, compare
from model.event import Large
from model.gaps import Gap
from model.words import Via

# So many of the moments at which all was known to be stored are remembered of a trace.
MOST_PROOFS = 2_000
_CLOCK_ALONE: Large = frozenset({"clock"})
# Of a conversation so many events are looked at.
MOST_MESSAGES = 1_000


class Outcome(NamedTuple):
    """What came of one event."""

    is_held: bool = False
    is_unknown: bool = False
    violation: NewViolation | None = None


HELD, UNKNOWN, NOTHING = Outcome(is_held=True), Outcome(is_unknown=True), Outcome()


class Proofs:
    """The moments of one trace at which all was known to be stored, oldest first."""

    def __init__(self) -> None:
        self._known: deque[Settled] = deque(maxlen=MOST_PROOFS)

    @property
    def newest(self) -> Settled:
        """The last of them."""
        return self._known[-1] if self._known else Settled(0, 0)

    def add(self, settled: Settled) -> None:
        """Note another one."""
        if settled.at > self.newest.at:
            self._known.append(settled)

    def of(self, moment: int) -> Settled:
        """The first that says that all until a moment (µs) is stored."""
        at = bisect_left(self._known, moment, key=lambda each: each.at)
        return self._known[min(at, len(self._known) - 1)]


class _Case(NamedTuple):
    """An event that is judged, by what is known of its trace."""

    trace_id: int
    subject: Subject
    wait: Wait
    proof: Settled
    gaps: Sequence[Gap]

    def is_whole(self, first: int) -> bool:
        """Whether nothing is missing from an event on, as far as is known."""
        return not any(gap.spanned_by(first, self.proof.event_id + 1) for gap in self.gaps)

    def violated(self, event: Seen, sentence: str, root: int | None = None) -> Outcome:
        """That it does not hold, in a sentence."""
        new = NewViolation(
            event=event.id,
            last_id=max(self.proof.event_id, self.wait.id),
            root=root,
            kind=self.subject.kind,
            type=event.type,
            recorded_at=event.recorded_at,
            sentence=sentence,
        )
        return Outcome(violation=new)


class Judges:
    """The judges of each kind of assertion."""

    def __init__(
        self,
        reach: ReachStore,
        conversations: ConversationStore,
        events: ClockStore,
        gaps: GapStore,
        doubts: DoubtStore,
    ) -> None:
        self._reach = reach
        self._conversations = conversations
        self._events = events
        self._gaps = gaps
        self._doubts = doubts

    async def judge(
        self, trace_id: int, subject: Subject, waits: Sequence[Wait], proofs: Proofs
    ) -> list[Outcome]:
        """What comes of events whose time is over, in their order. Raises `OutageError`."""
        judge = {
            ViolationKind.overdue: self._led,
            ViolationKind.unpreceded: self._preceded,
            ViolationKind.concurrent: self._ordered,
            ViolationKind.storm: self._calm,
        }[subject.kind]
        last = proofs.newest.event_id + 1
        gaps = await self._gaps.between(trace_id, 0, last)
        cases = [_Case(trace_id, subject, wait, proofs.of(wait.due), gaps) for wait in waits]
        return await judge(cases)

    async def _led(self, cases: Sequence[_Case]) -> list[Outcome]:
        """Whether each led to what it should in time."""
        found = await self._reached(cases, 1)
        outcomes = [_led(case, found.get(case.wait.id)) for case in cases]
        return [await self._if_sound(*each) for each in zip(cases, outcomes, strict=True)]

    async def _reached(
        self, cases: Sequence[_Case], towards: Literal[1, -1]
    ) -> Mapping[int, Reach]:
        ids = [case.wait.id for case in cases]
        via = cases[0].subject.via
        return await self._reach.reached(cases[0].trace_id, ids, via, towards)

    async def _preceded(self, cases: Sequence[_Case]) -> list[Outcome]:
        """Whether what should come before each is in its past."""
        found = await self._reached(cases, -1)
        outcomes = [_preceded(case, found.get(case.wait.id)) for case in cases]
        return [await self._if_sound(*each) for each in zip(cases, outcomes, strict=True)]

    async def _ordered(self, cases: Sequence[_Case]) -> list[Outcome]:
        """Whether each is in an order with those of its conversation before it."""
        return [await self._ordered_one(case) for case in cases]

    async def _ordered_one(self, case: _Case) -> Outcome:
        event_id, subject = case.wait.id, case.subject
        try:
            found = await self._conversations.of_event(
                event_id, subject.via, limit=MOST_MESSAGES, after=None
            )
        except (NotFoundError, BadRequestError):  # removed meanwhile, or it takes too long
            return UNKNOWN
        told = {each.it.id: each.it.message_type for each in found.conversation.messages}
        if event_id not in told:
            return UNKNOWN
        rival = subject.other if told[event_id] == subject.one else subject.one
        before = [each for each, name in told.items() if name == rival and each < event_id]
        clocks = await self._events.some([event_id, *before], _CLOCK_ALONE)
        stamps = {each.id: each.stamp for each in clocks}
        own = stamps.pop(event_id, None)
        if own is None:
            return UNKNOWN
        apart = [each for each in stamps if compare(stamps[each], own) is Relation.concurrent]
        if not apart:
            return HELD if found.next is None and case.is_whole(found.root) else UNKNOWN
        if not case.is_whole(apart[0]):
            return UNKNOWN
        event = Seen(event_id, case.wait.recorded_at, True, told[event_id])
        sentence = f"event {event_id}, {event.type}, and event {apart[0]}, {rival}, are concurrent"
        outcome = case.violated(event, sentence, found.root)
        return await self._if_sound(case, outcome, apart[0])

    async def _calm(self, cases: Sequence[_Case]) -> list[Outcome]:
        """Whether what led to each led to no more than it may, up to it."""
        ids = [case.wait.id for case in cases]
        causes = await self._reach.counted(cases[0].trace_id, ids)
        return [_calm(case, causes.get(case.wait.id, ())) for case in cases]

    async def _if_sound(self, case: _Case, outcome: Outcome, first: int | None = None) -> Outcome:
        """An outcome, or that nobody knows, where participants may be parts of one program."""
        if outcome.violation is None or case.subject.via is Via.links:
            return outcome
        first = case.wait.id if first is None else first
        doubts = await self._doubts.between(case.trace_id, first, outcome.violation.last_id)
        return UNKNOWN if doubts.doubts else outcome


def _led(case: _Case, reach: Reach | None) -> Outcome:
    if reach is None:  # retention has removed it
        return UNKNOWN
    event, subject = reach.event, case.subject
    effects = [each for each in reach.events if each.is_publish and subject.is_other(each)]
    if any(each.recorded_at <= case.wait.due for each in effects):
        return HELD
    # What came before the trace was known to have caught up may have been in time.
    if any(each.id <= case.proof.event_id for each in effects):
        return UNKNOWN
    if not reach.is_whole or not case.is_whole(event.id):
        return UNKNOWN
    within = subject.within / 1e6
    sentence = f"event {event.id}, {event.type}, led to no {subject.other} within {within:g} s"
    if effects:
        late = (min(each.recorded_at for each in effects) - event.recorded_at) / 1e6
        sentence += f", but after {late:.1f} s"
    return case.violated(event, sentence)


def _preceded(case: _Case, past: Reach | None) -> Outcome:
    if past is None:
        return UNKNOWN
    if any(map(case.subject.is_other, past.events)):
        return HELD
    event = past.event
    began = past.events[0] if past.events else event
    # Whatever led to a delivery whose publish is not stored is not known.
    if not past.is_whole or not began.is_publish or not case.is_whole(began.id):
        return UNKNOWN
    sentence = f"event {event.id}, {event.type}, has no {case.subject.other} in its past"
    return case.violated(event, sentence, began.id)


def _calm(case: _Case, causes: Sequence[Caused]) -> Outcome:
    found = [each for each in causes if case.subject.is_one(each.cause)]
    over = [each.cause for each in found if each.effects == case.subject.most + 1]
    if over:  # the first that is too many says so, once
        cause = over[0]
        sentence = f"event {cause.id}, {cause.type}, caused more than {case.subject.most:,}"
        return case.violated(cause, sentence)
    return HELD if found and all(each.effects <= case.subject.most for each in found) else NOTHING
