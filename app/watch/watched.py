"""One trace's assertions: reads its events, and has those judged whose time is over."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from app.stored.assertions import (
    AssertionScope,
    HeldAssertion,
    JudgingStep,
    WebhookState,
    subject_of,
)
from app.watch.judging import HELD, UNKNOWN, EventOutcome
from app.watch.waiting import Line, SettledPoint, Wait

if TYPE_CHECKING:
    from app.store.watch.assertions import Assertions
    from app.store.watch.watching import Watching

log = logging.getLogger(__name__)

# Events read together, and reads within one look.
READ_TOGETHER, MOST_READS = 1_000, 20
# Rounds of an assertion within one look, `waiting.MOST_TOGETHER` events each.
MOST_ROUNDS = 10
# One look judges for this long (s) before other traces have their turn: publishers decide how large
# the conversations are.
MOST_SECONDS = 1.0
# While none waits, the place is stored after this many events, which are read again after a kill.
STORE_EVERY = 5_000

# Moments of a trace at which everything was known to be stored, that are remembered.
MOST_PROOFS = 2_000

Judge: TypeAlias = Callable[
    [int, AssertionScope, Sequence[Wait], Sequence[SettledPoint]], Awaitable[list[EventOutcome]]
]


class WatchedAssertion(NamedTuple):
    """A watched assertion, with the stored progress of its line."""

    name: str
    text: str
    subject: AssertionScope
    line: Line


@dataclass(eq=False)
class WatchedTrace:
    """A trace whose assertions are watched."""

    trace_id: int
    assertions: Assertions
    events: Watching
    judge: Judge
    delivery: WebhookState
    timer: Callable[[], float] = time.monotonic
    _watched: dict[str, WatchedAssertion] = field(default_factory=dict, init=False)
    _unread: set[str] = field(default_factory=set, init=False)
    _proofs: deque[SettledPoint] = field(
        default_factory=lambda: deque(maxlen=MOST_PROOFS), init=False
    )
    _last: str | None = field(default=None, init=False)

    @property
    def next_due(self) -> int | None:
        """The time at which the next of its events is to be judged (µs); None if none waits."""
        times = [assertion.line.next_due for assertion in self._watched.values()]
        return min((time for time in times if time is not None), default=None)

    def take_up(self, assertions: Sequence[HeldAssertion]) -> None:
        """Watch these assertions and no others; known ones go on where they are."""
        watched = self._watched
        self._watched = {}
        for assertion in assertions:
            present = watched.get(assertion.name)
            if present is None or (present.text, present.line.judged_id) != (
                assertion.text,
                assertion.judged_id,
            ):
                present = self._begin(assertion)
            if present is not None:
                self._watched[assertion.name] = present

    def _begin(self, assertion: HeldAssertion) -> WatchedAssertion | None:
        try:
            if (subject := subject_of(assertion.text)) is None:
                return None
            line = Line(subject.picks, subject.within, assertion.judged_id)
            return WatchedAssertion(assertion.name, assertion.text, subject, line)
        except ValueError as error:  # of another version
            if assertion.text not in self._unread:
                self._unread.add(assertion.text)
                log.warning(
                    "the assertion %r cannot be read, and is not watched: %s", assertion, error
                )
            return None

    async def look(self, settled: SettledPoint) -> tuple[int, bool]:
        """Read on, and judge due events: the number of violations, and whether it goes on.

        Raises `OutageError`; then nothing is lost.
        """
        if not self._proofs or settled.at > self._proofs[-1].at:
            self._proofs.append(settled)
        more_to_read = await self._read()
        total, deadline = 0, self.timer() + MOST_SECONDS
        for assertion in self._turns():
            violations, goes_on = await self._judge_due(assertion, deadline)
            total += violations
            more_to_read |= goes_on
            if self.timer() >= deadline:
                return total, True
        return total, more_to_read

    def _turns(self) -> list[WatchedAssertion]:
        """All assertions, from the one whose turn it is: time may be over before the last."""
        watched = [*self._watched.values()]
        names = [assertion.name for assertion in watched]
        start = names.index(self._last) + 1 if self._last in names else 0
        return watched[start:] + watched[:start]

    async def leave(self) -> None:
        """Store the progress of all assertions, so that less is read again."""
        for assertion in [*self._watched.values()]:
            if assertion.line.judgement_bound(0) > assertion.line.judged_id:
                await self._store(assertion, [], [])

    async def _read(self) -> bool:
        for _ in range(MOST_READS):
            places = [
                assertion.line.read_id
                for assertion in self._watched.values()
                if assertion.line.has_room
            ]
            if not places:
                return False
            start = min(places)
            page = await self.events.page(self.trace_id, start, READ_TOGETHER)
            for assertion in self._watched.values():
                assertion.line.see(start, page.events, page.through)
            if len(page.events) < READ_TOGETHER:
                return False
        return True

    async def _judge_due(self, assertion: WatchedAssertion, deadline: float) -> tuple[int, bool]:
        count = 0
        self._last = assertion.name
        for _ in range(MOST_ROUNDS):
            due = assertion.line.due(self._proofs[-1])
            if not due:
                if assertion.line.judgement_bound(0) >= assertion.line.judged_id + STORE_EVERY:
                    await self._store(assertion, [], [])
                return count, False
            outcomes = await self.judge(self.trace_id, assertion.subject, due, self._proofs)
            if not await self._store(assertion, due[: len(outcomes)], outcomes):
                return count, True
            count += sum(bool(outcome.violations) for outcome in outcomes)
            if self.timer() >= deadline:
                break
        return count, True

    async def _store(
        self, assertion: WatchedAssertion, due: Sequence[Wait], outcomes: Sequence[EventOutcome]
    ) -> bool:
        line = assertion.line
        step = JudgingStep(
            name=assertion.name,
            text=assertion.text,
            before=line.judged_id,
            judged_id=line.judgement_bound(len(due)),
            waiting=len(line) - len(due),
            held=outcomes.count(HELD),
            unknown=outcomes.count(UNKNOWN),
            violations=tuple(new for outcome in outcomes for new in outcome.violations),
        )
        if not await self.assertions.note_judgement(self.trace_id, step, self.delivery):
            # Another service has judged them, or set another assertion: the stored state is taken
            # up anew.
            self._watched.pop(assertion.name, None)
            return False
        line.judge(len(due))
        return True
