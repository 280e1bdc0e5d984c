"""Differences between two periods that are not by chance. Nothing here does I/O.

What comes in bursts differs from one hour to the next without anything having changed. So each
period is cut into spans, and how much these differ among themselves is the measure of chance: a
share has changed if it differs by `SIGMAS` standard errors of what the spans show, and enough to
matter (`LEAST_ODDS`). A time has changed if as much holds for the share of those above the median,
or above the 99th percentile, of both periods together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from model.reports.learning import State
from model.sketch import Sketch

SIGMAS = 5.0
LEAST_ODDS = 1.25
LEAST_RATIO = 1.1
LEAST_EXPECTED = 10
"""So many cases must have been expected of what is said to have appeared or vanished."""


class HitRate(NamedTuple):
    """Of so many cases so many hits."""

    cases: int
    hits: int


def total(parts: Sequence[HitRate]) -> HitRate:
    """All parts together."""
    return HitRate(sum(each.cases for each in parts), sum(each.hits for each in parts))


def share_state(before: Sequence[HitRate], after: Sequence[HitRate], least: int) -> State:
    """The difference of the share of hits between the spans of two periods.

    ``unclear`` where either has fewer than ``least`` cases, or too few to tell.
    """
    was, now = total(before), total(after)
    if min(was.cases, now.cases) < least:
        return "unclear"
    if not was.hits or not now.hits:
        return _one_sided(was, now)
    is_clear = abs(deviation(before, after)) >= SIGMAS
    return "changed" if is_clear and _odds_ratio(was, now) >= LEAST_ODDS else "same"


def _one_sided(was: HitRate, now: HitRate) -> State:
    """For what only one of two periods has, or neither."""
    if not was.hits and not now.hits:
        return "same"
    some, other = (now, was) if now.hits else (was, now)
    if some.hits / some.cases * other.cases < LEAST_EXPECTED:
        return "unclear"
    return "appeared" if now.hits else "vanished"


def deviation(before: Sequence[HitRate], after: Sequence[HitRate]) -> float:
    """By how many standard errors the shares of two periods differ, as their spans have it.

    At least the error that independent cases would have; more where spans differ by more than
    these would (a quasi-binomial test).
    """
    was, now = total(before), total(after)
    share = (was.hits + now.hits) / (was.cases + now.cases)
    even = share * (1 - share) * (1 / was.cases + 1 / now.cases)
    if not even:
        return 0.0
    spread = max(1.0, _dispersion(before, after))
    return (now.hits / now.cases - was.hits / was.cases) / math.sqrt(spread * even)


def _dispersion(*periods: Sequence[HitRate]) -> float:
    """The factor by which spans differ more from their period than independent cases would."""
    found, freedom = 0.0, 0
    for parts in periods:
        whole = total(parts)
        share = whole.hits / whole.cases
        used = [each for each in parts if each.cases]
        if 0 < share < 1 and len(used) > 1:
            found += sum(
                (each.hits - each.cases * share) ** 2 / (each.cases * share * (1 - share))
                for each in used
            )
            freedom += len(used) - 1
    return found / freedom if freedom else 1.0


def _odds_ratio(was: HitRate, now: HitRate) -> float:
    """Return the ratio of their odds, the larger to the smaller; half a case is added."""
    odds = [(each.hits + 0.5) / (each.cases - each.hits + 0.5) for each in (was, now)]
    return max(odds) / min(odds)


def time_state(
    before: Sequence[Sketch], after: Sequence[Sketch], quantile: float, least: int
) -> State:
    """The difference of a quantile of times between the spans of two periods."""
    was, now = _merged(before), _merged(after)
    if min(was.count, now.count) < least:
        return "unclear"
    common = _merged([was, now]).quantile(quantile) or 0.0
    parts = [
        [HitRate(each.count, each.above(common)) for each in spans] for spans in (before, after)
    ]
    quantiles = [each.quantile(quantile) or 1.0 for each in (was, now)]
    is_much = max(quantiles) >= LEAST_RATIO * min(quantiles)
    return "changed" if is_much and abs(deviation(*parts)) >= SIGMAS else "same"


def _merged(sketches: Sequence[Sketch]) -> Sketch:
    whole = Sketch()
    for each in sketches:
        whole.merge(each)
    return whole
