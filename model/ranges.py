"""Looking for the first of a participant's events from which on something holds.

A participant's events are totally ordered, so those at or after an event are a suffix of them, and
those with a greater id than another's too. Nothing here does I/O: whoever looks events up is asked
step by step, one question for all participants at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from itc import packed_height_at


class Dot(NamedTuple):
    """An event's place: a clock with at least ``height`` on ``interval`` is at or after it."""

    interval: str
    height: int

    def reached_by(self, clock: bytes) -> bool:
        """Tell whether an event with this packed clock is the dot's event or happened after it."""
        return packed_height_at(clock, self.interval) >= self.height


class ParticipantSpan(NamedTuple):
    """A participant with events in a span of ids; ``base``: its interval's height when it came."""

    number: int
    interval: str
    base: int


class Mark(NamedTuple):
    """One event of a participant, as a lookup finds it."""

    height: int
    seq: int
    id: int
    clock: bytes


Asked: TypeAlias = Sequence[tuple[int, int]]
"""(participant, height) pairs: the first event of each at or above that height is asked for."""
Probe: TypeAlias = Callable[[Asked], Mapping[int, Mark]]
Holds: TypeAlias = Callable[[Mark], bool]
"""What does not hold for an event, and does for all of its participant's from some event on."""
Search: TypeAlias = Generator[Asked, Mapping[int, Mark], dict[int, Mark]]


def first_reached(tops: Mapping[int, Mark], holds: Holds, probe: Probe) -> dict[int, Mark]:
    """The event that `search` finds, where ``probe`` answers at once."""
    steps = search(tops, holds)
    try:
        asked = next(steps)
        while True:
            asked = steps.send(probe(asked))
    except StopIteration as end:
        found: dict[int, Mark] = end.value
        return found


def search(tops: Mapping[int, Mark], holds: Holds) -> Search:
    """The first event of each participant for which it holds, as a dialogue of look-ups.

    ``tops`` has an event of each participant for which it does. Steps down from there double until
    one is too far and are then halved, so that the cost depends on the answer's length and not on
    the participant's; all participants take a step in the same question.
    """
    searches = {participant: _Search(top) for participant, top in tops.items()}
    while pending := [(p, s.next) for p, s in searches.items() if not s.done]:
        found = yield pending
        for participant, height in pending:
            mark = found[participant]
            searches[participant].learn(height, mark, holds(mark))
    return {participant: each.best for participant, each in searches.items()}


class _Search:
    """Bisection in one participant: below ``low`` it does not hold, for ``best`` it does."""

    def __init__(self, top: Mark) -> None:
        self.best = top
        self.low = 0
        self.high = top.height  # no event for which it holds stands in [high, best.height)
        self.step = 1
        self.galloping = True

    @property
    def done(self) -> bool:
        return self.low >= self.high

    @property
    def next(self) -> int:
        if self.galloping:
            return max(self.low, self.high - self.step)
        return (self.low + self.high) // 2

    def learn(self, height: int, mark: Mark, holds: bool) -> None:
        self.step *= 2
        if holds:
            self.best, self.high = mark, height
        else:
            self.low, self.galloping = mark.height + 1, False
