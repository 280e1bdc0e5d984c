"""Verdicts of clocks on a message of a type in the past of a delivery. Nothing here does I/O.

Of each participant two things are enough to know: the first messages of the type that it published
or was handed, and the first delivery whose publish was not observed. What led to that one is in no
clock, so behind it anything may be.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from itc import packed_height_at
from model.assertions.judging import AssertionVerdict

OPEN = 0
"""Stands for the message of a `First` that was not observed."""


class First(NamedTuple):
    """The height at which a participant, by its interval, first had to do with a message.

    The message is its publish; below 0 if that was not observed, so that it may be any of its type.
    """

    interval: str
    height: int
    message: int


def firsts(seen: Iterable[First]) -> list[First]:
    """Of each participant the first unobserved message, and the first two others.

    Two, because a message is not in its own past.
    """
    kept: dict[str, list[First]] = {}
    unobserved: dict[str, First] = {}
    for one in sorted(seen):
        if one.message == OPEN:
            unobserved.setdefault(one.interval, one)
            continue
        its = kept.setdefault(one.interval, [])
        if len(its) < 2 and all(other.message != one.message for other in its):
            its.append(one)
    return [*(one for its in kept.values() for one in its), *unobserved.values()]


def may_follow(
    clock: bytes, message: int, known: Sequence[First], *, is_alike: bool, is_sure: bool
) -> AssertionVerdict:
    """Judge by the packed clock whether one of the messages may have led to another's delivery.

    ``is_alike``: the delivery is of the same type, so that an unobserved message may be its own.
    ``is_sure``: nothing is missing in its past, as far as gaps, pruning and doubts tell.
    """
    past = [
        one
        for one in known
        if one.message != message and packed_height_at(clock, one.interval) >= one.height
    ]
    if any(one.message > OPEN or (one.message < OPEN and not is_alike) for one in past):
        return AssertionVerdict.holds
    return AssertionVerdict.violated if is_sure and not past else AssertionVerdict.unknown
