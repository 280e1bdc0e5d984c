"""Verdicts by clocks on a message of a type in a delivery's past. Nothing here does I/O.

Two facts about each participant suffice: the first messages of the type that it published or was
handed, and its first delivery whose publish was not observed. No clock has the cause of that one,
so anything may be behind it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from itc import packed_height_at
from model.assertions.judging import AssertionVerdict

OPEN = 0
"""The message of a `First` that was not observed."""


class First(NamedTuple):
    """The height at which a participant, by its interval, first had to do with a message.

    The message is its publish; below 0 if that was not observed, so that it may be any of its type.
    """

    interval: str
    height: int
    message: int


def firsts(starts: Iterable[First]) -> list[First]:
    """The first unobserved message of each participant, and its first two others.

    Two, because a message is not in its own past.
    """
    observed: dict[str, list[First]] = {}
    unobserved: dict[str, First] = {}
    for start in sorted(starts):
        if start.message == OPEN:
            unobserved.setdefault(start.interval, start)
            continue
        own_starts = observed.setdefault(start.interval, [])
        if len(own_starts) < 2 and all(earlier.message != start.message for earlier in own_starts):
            own_starts.append(start)
    return [
        *(start for own_starts in observed.values() for start in own_starts),
        *unobserved.values(),
    ]


def may_follow(
    clock: bytes, message: int, starts: Sequence[First], *, is_alike: bool, is_sure: bool
) -> AssertionVerdict:
    """Judge by the packed clock whether one of the messages may have led to another's delivery.

    ``is_alike``: the delivery is of the same type, so that an unobserved message may be its own.
    ``is_sure``: nothing is missing in its past, as far as gaps, pruning and doubts tell.
    """
    past = [
        start
        for start in starts
        if start.message != message and packed_height_at(clock, start.interval) >= start.height
    ]
    if any(start.message > OPEN or (start.message < OPEN and not is_alike) for start in past):
        return AssertionVerdict.holds
    return AssertionVerdict.violated if is_sure and not past else AssertionVerdict.unknown
