"""The test that says since when something is slower: on quantiles, with its level.

It compares spans of time and not messages, since messages of the same time share their fate: each
gives the median and the 90th percentile of as many of its messages as of each other's. If nothing
changed but how many messages there are, and a span's messages may stand in any order, the spans
may, too. So the chance that the spans since a moment are as far above those before it follows
from the number of pairs, one of each, that are the other way around (Mann and Whitney's test, to
one side, exact where it matters). Multiplied by the number of moments, quantiles and subjects that
were looked at (Bonferroni) it has to be at most `LEVEL`. Where spans resemble the ones before them,
as when a queue fills and empties, as many of them count as one as that takes.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from math import ceil, comb, sqrt
from typing import Literal, NamedTuple, TypeAlias

LEVEL = 0.001
"""The chance that anything is called slower in an answer, where nothing but rates changed."""

LEAST_RATIO = 1.5
"""A quantile must be this many times what it was before."""

LEAST_SINCE, LEAST_BEFORE = 3, 10
"""The least number of spans since the change, and before it."""

# More pairs than this share are inverted: not clearly slower, however sure that is.
MOST_INVERTED = 0.2
MOST_ALIKE = 0.9

QuantileWord: TypeAlias = Literal["median", "p90"]
SHARES: dict[QuantileWord, float] = {"median": 0.5, "p90": 0.9}


class ChangePoint(NamedTuple):
    """The place of the first span that is slower, and the chance of that where nothing changed."""

    place: int
    chance: float


def change_in(
    values: Sequence[float], looks: float, first: int = LEAST_BEFORE
) -> ChangePoint | None:
    """The moment since when spans are slower most clearly, if it is clear enough.

    ``values`` are a quantile of each span, in the order of time. ``looks``: the number of such
    lists that an answer looks through. It is not before the ``first`` place.
    """
    first = max(first, LEAST_BEFORE)
    end = len(values) - LEAST_SINCE
    before, since = sorted(values), list[float]()
    inverted = 0.0  # pairs, those that are equal by half
    place, clearest, pairs = 0, 0.0, 0.0
    for at in range(len(values) - 1, first - 1, -1):
        value = values[at]
        del before[bisect_left(before, value)]
        inverted += len(before) - _below(before, value) - _below(since, value)
        insort(since, value)
        if at > end or _middle(since) < LEAST_RATIO * _middle(before):
            continue
        clear = _deviations(inverted, len(since), len(before))
        if clear > clearest:
            place, clearest, pairs = at, clear, inverted
    if not place:
        return None
    alike = _alike(values[:place], values[place:])
    apart = int((len(values) - place) / alike), int(place / alike)
    chance = _chance(pairs / alike**2, *apart) * (end - first + 1) * looks
    return ChangePoint(place, chance) if chance <= LEVEL else None


def can_tell(before: int, since: int, looks: float) -> bool:
    """Whether it is told if each of the spans since is slower than all of those before."""
    moments = since - LEAST_SINCE + 1
    is_enough = before >= LEAST_BEFORE and since >= LEAST_SINCE
    return is_enough and _chance(0, since, before) * moments * looks <= LEVEL


def _below(ordered: Sequence[float], value: float) -> float:
    """The number of values below one, those that equal it by half."""
    return (bisect_left(ordered, value) + bisect_right(ordered, value)) / 2


def _middle(ordered: Sequence[float]) -> float:
    return ordered[len(ordered) // 2]


def _deviations(inverted: float, since: int, before: int) -> float:
    """Standard deviations by which fewer pairs are inverted than half of them."""
    pairs = since * before
    return (pairs / 2 - inverted) / sqrt(pairs * (since + before + 1) / 12)


def _chance(inverted: float, since: int, before: int) -> float:
    """The chance that at most this many of the pairs are inverted, in any order of the spans.

    It is that share of all choices of ``since`` spans, which are counted as partitions of the
    number of inverted pairs into ``since`` parts. That none of the parts may be above ``before`` is
    left out: exact for few inverted pairs, and too high for many.
    """
    most = ceil(inverted)
    if not since or most > MOST_INVERTED * since * before:
        return 1.0
    ways = [1] + [0] * most
    for part in range(1, since + 1):
        for number in range(part, most + 1):
            ways[number] += ways[number - part]
    return min(1.0, sum(ways) / comb(since + before, since))


def _alike(*stretches: Sequence[float]) -> float:
    """The number of spans that tell as much as one would that is like no other.

    By the correlation of each one's rank with the next, each within its stretch, so that the change
    itself does not count.
    """
    together = alone = 0.0
    for values in stretches:
        ordered, middle = sorted(values), len(values) / 2
        ranks = [_below(ordered, value) - middle for value in values]
        together += sum(one * other for one, other in itertools.pairwise(ranks))
        alone += sum(rank * rank for rank in ranks)
    alike = min(MOST_ALIKE, max(0.0, together / alone if alone else 0.0))
    return (1 + alike) / (1 - alike)
