"""Ways from one event to another, along messages, links and conversations.

The search goes on from both ends, a level at a time, on the side that has reached fewer events.
Once one side is complete, all between the ends is among the events it reached, which are then
followed one by one, forth from the first and back from the last. So the cost is that of the smaller
side.

Events are numbered from 0 in the order of their ids, where no effect comes before its cause. In a
conversation a delivery leads to all later publishes of its participant. A step for each pair would
be too many: a delivery leads to its participant's part, numbered behind all events, and the part to
each later publish. Steps are sorted by the event they lead to, so none comes before one that leads
to its start.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, TypeAlias, TypeVar

MOST_REACHED = 10_000
"""The most events that are followed from each end while somebody waits for the answer."""

MOST_STEPS = 2_000

Direction: TypeAlias = Literal[1, -1]
"""Towards effects, or towards causes."""


class TooFarError(Exception):
    """Too many events were reached from both ends, or in more than `MOST_STEPS`."""


class Frontier:
    """The events reached from one end towards the ``goal``, and the ``level`` to go on from."""

    def __init__(self, start: int, goal: int) -> None:
        self.reached = {start}
        self.level = {start}
        self.goal = goal
        self.direction: Direction = 1 if start < goal else -1

    def move(self, events: Iterable[int]) -> None:
        """Go on to the events that the level leads to."""
        self.level = {*events} - self.reached
        self.reached |= self.level

    @property
    def has_arrived(self) -> bool:
        """Tell whether the other end was reached."""
        return self.goal in self.reached


Side = TypeVar("Side", bound=Frontier)


def in_turns(sides: Sequence[Side], limit: int | None) -> Iterator[Side]:
    """The side that moves next, until one is complete, which comes last.

    Raises `TooFarError` where both reach more than ``limit`` events, or after `MOST_STEPS`; None is
    no bound.
    """
    steps = 0
    while True:
        side = min(sides, key=lambda side: len(side.reached))
        if limit is not None and (len(side.reached) > limit or steps >= MOST_STEPS):
            raise TooFarError
        yield side
        steps += 1
        if not side.level:
            return


def step_of_part(event: Any, part: Any, is_delivery: Any) -> tuple[Any, Any]:
    """The step from a delivery to its part, or from a part to a publish; of numbers or columns."""
    distance = (part - event) * is_delivery
    return part - distance, event + distance


def _reach(candidates: bytearray, start: int, steps: Iterable[tuple[int, int]]) -> bytearray:
    """A 1 for each place that the steps lead to from ``start``, only through places with a 1."""
    places = bytearray(len(candidates))
    places[start] = 1
    for source, target in steps:
        if places[source]:
            places[target] = candidates[target]
    return places


def effects_of(size: int, first: int, sources: Sequence[int], targets: Sequence[int]) -> bytearray:
    """A 1 for each place that the first leads to, itself included."""
    return _reach(bytearray(b"\1" * size), first, zip(sources, targets, strict=True))


def ways_between(
    size: int, first: int, last: int, sources: Sequence[int], targets: Sequence[int]
) -> bytearray:
    """A 1 for each place on the ways from one to another, both included; none without a way."""
    future = effects_of(size, first, sources, targets)
    if not future[last]:
        return bytearray(size)
    return _reach(future, last, zip(targets[::-1], sources[::-1], strict=True))
