"""Ways from one event to another, along messages, links and conversations.

Both ends are gone on from, a level at a time, always on the side where fewer events were reached.
Once one side is complete, whatever lies between is among what it reached, and is found by following
these one by one: forth from the first event, and back from the last. So it costs what the smaller
side does, which is near the answer.

Events are places from 0 on, in the order of their ids, in which no effect comes before its cause.
In a conversation, what a participant was handed leads to all that it publishes in it later. A step
for each pair would be too many: a delivery leads to its participant's part, which has a place
behind all events, and that to each later publish. Steps are followed event by event, first those
that lead to it: so none comes before one that leads to where it starts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, TypeAlias, TypeVar

MOST_REACHED = 10_000
"""From neither end more events are followed than this while somebody waits for the answer."""

MOST_STEPS = 2_000

Direction: TypeAlias = Literal[1, -1]
"""Towards effects, or towards causes."""


class TooFarError(Exception):
    """Too many events were reached from both ends, or in more than `MOST_STEPS`."""


class Frontier:
    """The events reached from one end, and of those the ``level`` to go on from."""

    def __init__(self, start: int, bound: int) -> None:
        """Go on up to ``bound``, the id of the other end."""
        self.reached = {start}
        self.level = {start}
        self.bound = bound
        self.towards: Direction = 1 if start < bound else -1

    def move(self, found: Iterable[int]) -> None:
        """Go on to what the level leads to."""
        self.level = {*found} - self.reached
        self.reached |= self.level

    @property
    def arrived(self) -> bool:
        """Tell whether the other end was reached."""
        return self.bound in self.reached


Side = TypeVar("Side", bound=Frontier)


def in_turns(sides: Sequence[Side], most: int | None) -> Iterator[Side]:
    """Give the side that is to move, until one is complete, which is the last.

    Raises `TooFarError` where both reach more than ``most`` events, or after `MOST_STEPS`; without
    a number neither counts.
    """
    steps = 0
    while True:
        side = min(sides, key=lambda each: len(each.reached))
        if most is not None and (len(side.reached) > most or steps >= MOST_STEPS):
            raise TooFarError
        yield side
        steps += 1
        if not side.level:
            return


def step_of_part(event: Any, part: Any, is_delivery: Any) -> tuple[Any, Any]:
    """The step from a delivery to its part of a conversation, or from there to a publish.

    Of numbers, or of columns of them.
    """
    apart = (part - event) * is_delivery
    return part - apart, event + apart


def _reached(among: bytearray, start: int, steps: Iterable[tuple[int, int]]) -> bytearray:
    """A 1 for each place that the steps lead to from ``start``, only through places with a 1."""
    places = bytearray(len(among))
    places[start] = 1
    for source, target in steps:
        if places[source]:
            places[target] = among[target]
    return places


def led_to(size: int, first: int, sources: Sequence[int], targets: Sequence[int]) -> bytearray:
    """A 1 for each place that the first leads to, itself included."""
    return _reached(bytearray(b"\1" * size), first, zip(sources, targets, strict=True))


def lying_between(
    size: int, first: int, last: int, sources: Sequence[int], targets: Sequence[int]
) -> bytearray:
    """A 1 for each place on the ways from one to another, both included; none without a way."""
    after = led_to(size, first, sources, targets)
    if not after[last]:
        return bytearray(size)
    return _reached(after, last, zip(targets[::-1], sources[::-1], strict=True))
