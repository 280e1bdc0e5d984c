"""The test that says since when something is slower: on quantiles, with its level.

It compares spans of time, not messages, since messages of one time share their fate. Each span
gives the median and the 90th percentile of an equal number of its messages. If nothing but rates
changed, the spans may stand in any order. The chance that those since a moment are this far above
those before follows from the number of inverted pairs (Mann and Whitney's test, one-sided, exact
where it matters). Multiplied by the number of moments, quantiles and subjects that were looked at
(Bonferroni) it must be at most `LEVEL`. Where spans resemble their predecessors, as when a queue
fills and empties, several count as one.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from math import ceil, comb, sqrt
from typing import Literal, NamedTuple, TypeAlias

LEVEL = 0.001
"""The chance that an answer calls anything slower where nothing but rates changed."""
LEAST_RATIO = 1.5
"""A quantile must be this many times what it was before."""
LEAST_SINCE, LEAST_BEFORE = 3, 10
"""The least number of spans since the change, and before it."""
MOST_INVERTED = 0.2  # of the pairs: beyond, it is not clearly slower, however sure
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
    """The clearest moment since when spans are slower, if it is clear enough.

    ``values`` are a quantile of each span, in the order of time. ``looks``: the number of such
    lists in an answer. The moment is not before the ``first`` index.
    """
    first = max(first, LEAST_BEFORE)
    end = len(values) - LEAST_SINCE
    earlier, current = sorted(values), list[float]()
    inverted = 0.0  # pairs; equal ones count half
    place, clearest, pairs = 0, 0.0, 0.0
    for index in range(len(values) - 1, first - 1, -1):
        value = values[index]
        del earlier[bisect_left(earlier, value)]
        inverted += len(earlier) - _rank(earlier, value) - _rank(current, value)
        insort(current, value)
        if index > end or _middle(current) < LEAST_RATIO * _middle(earlier):
            continue
        clear = _deviations(inverted, len(current), len(earlier))
        if clear > clearest:
            place, clearest, pairs = index, clear, inverted
    if not place:
        return None
    alike = _alike(values[:place], values[place:])
    effective_counts = int((len(values) - place) / alike), int(place / alike)
    chance = _chance(pairs / alike**2, *effective_counts) * (end - first + 1) * looks
    return ChangePoint(place, chance) if chance <= LEVEL else None


def can_tell(earlier: int, current: int, looks: float) -> bool:
    """Tell whether there are enough spans to notice that all current ones are slower."""
    moments = current - LEAST_SINCE + 1
    is_enough = earlier >= LEAST_BEFORE and current >= LEAST_SINCE
    return is_enough and _chance(0, current, earlier) * moments * looks <= LEVEL


def _rank(values: Sequence[float], value: float) -> float:
    """The number of lesser values; equal ones count half."""
    return (bisect_left(values, value) + bisect_right(values, value)) / 2


def _middle(values: Sequence[float]) -> float:
    return values[len(values) // 2]


def _deviations(inverted: float, current: int, earlier: int) -> float:
    """Standard deviations by which fewer pairs are inverted than half of them."""
    pairs = current * earlier
    return (pairs / 2 - inverted) / sqrt(pairs * (current + earlier + 1) / 12)


def _chance(inverted: float, current: int, earlier: int) -> float:
    """The chance that at most this many pairs are inverted, in any order of the spans.

    That is their share of all choices of ``current`` spans, counted as partitions of the number of
    inverted pairs into ``current`` parts. No part may exceed ``earlier``, which is left out: exact
    for few inverted pairs, too high for many.
    """
    limit = ceil(inverted)
    if not current or limit > MOST_INVERTED * current * earlier:
        return 1.0
    ways = [1] + [0] * limit
    for part in range(1, current + 1):
        for number in range(part, limit + 1):
            ways[number] += ways[number - part]
    return min(1.0, sum(ways) / comb(current + earlier, current))


def _alike(*stretches: Sequence[float]) -> float:
    """The number of spans that say as much as one independent span.

    By the correlation of each span's rank with the next, within each stretch, so that the change
    itself does not count, and beyond the standard error that it has of few spans.
    """
    covariance = alone = 0.0
    number = sum(map(len, stretches))
    for values in stretches:
        ascending, middle = sorted(values), len(values) / 2
        ranks = [_rank(ascending, value) - middle for value in values]
        covariance += sum(rank * successor for rank, successor in itertools.pairwise(ranks))
        alone += sum(rank * rank for rank in ranks)
    correlation = covariance / alone if alone else 0.0
    alike = min(MOST_ALIKE, max(0.0, correlation - 1 / sqrt(number)))
    return (1 + alike) / (1 - alike)
