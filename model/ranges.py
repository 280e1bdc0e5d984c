"""Search for the first of a participant's events from which on a condition holds.

A participant's events are totally ordered, so those at or after an event are a suffix of them, and
those of a greater id too. Nothing here does I/O: the search asks step by step, one question for all
participants at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from itc import packed_height_at


class Dot(NamedTuple):
    """An event's place: a clock with at least ``height`` on ``interval`` is at or after it."""

    interval: str
    height: int

    def is_reached(self, clock: bytes) -> bool:
        """Tell whether an event with this packed clock is the dot's event or happened after it."""
        return packed_height_at(clock, self.interval) >= self.height


class ParticipantSpan(NamedTuple):
    """A participant with events in a span of ids; ``base``: its interval's height when it came."""

    number: int
    interval: str
    base: int


class RangeEnd(NamedTuple):
    """One event of a participant, as a lookup finds it."""

    height: int
    seq: int
    id: int
    clock: bytes


HeightPairs: TypeAlias = Sequence[tuple[int, int]]
"""Pairs (participant, height), for the first event of each at or above that height."""
Probe: TypeAlias = Callable[[HeightPairs], Mapping[int, RangeEnd]]
Holds: TypeAlias = Callable[[RangeEnd], bool]
"""A condition that holds for all of a participant's events from some event on, and none before."""
Search: TypeAlias = Generator[HeightPairs, Mapping[int, RangeEnd], dict[int, RangeEnd]]


def first_reached(tops: Mapping[int, RangeEnd], holds: Holds, probe: Probe) -> dict[int, RangeEnd]:
    """The result of `search`, where ``probe`` answers at once."""
    steps = search(tops, holds)
    try:
        question = next(steps)
        while True:
            question = steps.send(probe(question))
    except StopIteration as end:
        marks: dict[int, RangeEnd] = end.value
        return marks


def search(tops: Mapping[int, RangeEnd], holds: Holds) -> Search:
    """The first event of each participant for which the condition holds, as a dialogue.

    ``tops`` has an event of each for which it does. Steps down from there double until one is too
    far and are then halved, so that the cost depends on the answer's length, not the participant's.
    """
    searches = {participant: _Search(top) for participant, top in tops.items()}
    while pending := [(p, s.next) for p, s in searches.items() if not s.is_done]:
        marks = yield pending
        for participant, height in pending:
            mark = marks[participant]
            searches[participant].learn(height, mark, holds(mark))
    return {participant: search.best for participant, search in searches.items()}


class _Search:
    """Bisection in one participant: below ``low`` it does not hold, for ``best`` it does."""

    def __init__(self, top: RangeEnd) -> None:
        self.best = top
        self.low = 0
        self.high = top.height  # no event for which it holds stands in [high, best.height)
        self.step = 1
        self.galloping = True

    @property
    def is_done(self) -> bool:
        return self.low >= self.high

    @property
    def next(self) -> int:
        if self.galloping:
            return max(self.low, self.high - self.step)
        return (self.low + self.high) // 2

    def learn(self, height: int, mark: RangeEnd, holds: bool) -> None:
        self.step *= 2
        if holds:
            self.best, self.high = mark, height
        else:
            self.low, self.galloping = mark.height + 1, False
