"""Differences between two periods that are not by chance. Nothing here does I/O.

Bursts differ from one hour to the next though nothing has changed. So each period is cut into
spans, whose differences among themselves measure chance: a share has changed if it differs by
`SIGMAS` standard errors of the spans, and enough to matter (`LEAST_ODDS`). A time has changed if
that holds for the share above the common median, or above the common 99th percentile.
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
"""Cases that must have been expected of what appeared or vanished."""


class HitRate(NamedTuple):
    """Cases, and how many of them are hits."""

    cases: int
    hits: int


def total(parts: Sequence[HitRate]) -> HitRate:
    return HitRate(sum(part.cases for part in parts), sum(part.hits for part in parts))


def share_state(earlier: Sequence[HitRate], recent: Sequence[HitRate], minimum: int) -> State:
    """The difference of the share of hits between the spans of two periods.

    ``unclear`` where either has fewer than ``minimum`` cases, or too few to tell.
    """
    total_before, total_after = total(earlier), total(recent)
    if min(total_before.cases, total_after.cases) < minimum:
        return "unclear"
    if not total_before.hits or not total_after.hits:
        return _one_sided(total_before, total_after)
    is_clear = abs(deviation(earlier, recent)) >= SIGMAS
    return (
        "changed" if is_clear and _odds_ratio(total_before, total_after) >= LEAST_ODDS else "same"
    )


def _one_sided(total_before: HitRate, total_after: HitRate) -> State:
    """The state of what only one of two periods has, or neither."""
    if not total_before.hits and not total_after.hits:
        return "same"
    present, absent = (
        (total_after, total_before) if total_after.hits else (total_before, total_after)
    )
    if present.hits / present.cases * absent.cases < LEAST_EXPECTED:
        return "unclear"
    return "appeared" if total_after.hits else "vanished"


def deviation(earlier: Sequence[HitRate], recent: Sequence[HitRate]) -> float:
    """The standard errors by which the shares of two periods differ (a quasi-binomial test).

    The error is that of independent cases, or larger where spans differ by more than these would.
    """
    total_before, total_after = total(earlier), total(recent)
    share = (total_before.hits + total_after.hits) / (total_before.cases + total_after.cases)
    variance = share * (1 - share) * (1 / total_before.cases + 1 / total_after.cases)
    if not variance:
        return 0.0
    spread = max(1.0, _dispersion(earlier, recent))
    return (
        total_after.hits / total_after.cases - total_before.hits / total_before.cases
    ) / math.sqrt(spread * variance)


def _dispersion(*periods: Sequence[HitRate]) -> float:
    """The factor by which spans differ more from their period than independent cases would."""
    deviance, freedom = 0.0, 0
    for parts in periods:
        whole = total(parts)
        share = whole.hits / whole.cases
        spans = [span for span in parts if span.cases]
        if 0 < share < 1 and len(spans) > 1:
            deviance += sum(
                (span.hits - span.cases * share) ** 2 / (span.cases * share * (1 - share))
                for span in spans
            )
            freedom += len(spans) - 1
    return deviance / freedom if freedom else 1.0


def _odds_ratio(total_before: HitRate, total_after: HitRate) -> float:
    """The ratio of their odds, the larger to the smaller, with half a case added."""
    odds = [
        (rate.hits + 0.5) / (rate.cases - rate.hits + 0.5) for rate in (total_before, total_after)
    ]
    return max(odds) / min(odds)


def time_state(
    earlier: Sequence[Sketch], recent: Sequence[Sketch], quantile: float, minimum: int
) -> State:
    """The difference of a quantile of times between the spans of two periods."""
    whole_before, whole_after = merge_sketches(earlier), merge_sketches(recent)
    if min(whole_before.count, whole_after.count) < minimum:
        return "unclear"
    common = merge_sketches([whole_before, whole_after]).quantile(quantile) or 0.0
    parts = [
        [HitRate(sketch.count, sketch.count_above(common)) for sketch in spans]
        for spans in (earlier, recent)
    ]
    quantiles = [sketch.quantile(quantile) or 1.0 for sketch in (whole_before, whole_after)]
    is_much = max(quantiles) >= LEAST_RATIO * min(quantiles)
    return "changed" if is_much and abs(deviation(*parts)) >= SIGMAS else "same"


def merge_sketches(sketches: Sequence[Sketch]) -> Sketch:
    whole = Sketch()
    for sketch in sketches:
        whole.merge(sketch)
    return whole
