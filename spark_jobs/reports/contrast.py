"""Contrasts: what some conversations have in common and others have not, beyond accident.

Nothing here does I/O.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

from model.reports.learning import InCommon
from spark_jobs.reports.brief import parts_of_feature

LEAST_CASES = 5
"""Fewer conversations are not compared."""
MOST_SHOWN = 5
_LEAST_DIFFERENCE = 0.5
_CHANCE = 0.01


def contrasts(
    counts: Mapping[str, int], cases: int, other_counts: Mapping[str, int], other_cases: int
) -> list[InCommon]:
    """The features that most of some conversations have, and fewer others; the clearest first.

    Counts are by feature, see `brief.parts_of`. A difference of shares of at least half counts from
    `LEAST` conversations on if chance alone would give it in less than one report of a hundred,
    however many features are tried (Fisher's exact test, one-sided, by Bonferroni).
    """
    if cases < LEAST_CASES or not other_cases:
        return []
    common, trials = [], sum(hits >= LEAST_CASES for hits in counts.values())
    for feature, hits in counts.items():
        other_hits = other_counts.get(feature, 0)
        score = hits / cases - other_hits / other_cases
        if hits < LEAST_CASES or score < _LEAST_DIFFERENCE:
            continue
        chance = trials * tail_probability(hits, cases, hits + other_hits, cases + other_cases)
        if chance < _CHANCE:
            kind, name, value = parts_of_feature(feature)
            common.append(
                InCommon(
                    kind=kind,
                    type=name,
                    value=value,
                    having=hits,
                    of=cases,
                    others_having=other_hits,
                    of_others=other_cases,
                    score=round(score, 4),
                    chance=chance,
                )
            )
    # Headers and size of a message say nothing more if only some have the message at all.
    types = {entry.type for entry in common if entry.kind == "message"}
    common = [entry for entry in common if entry.kind == "message" or entry.type not in types]
    common.sort(key=lambda entry: (-entry.score, entry.kind, entry.value))
    return common[:MOST_SHOWN]


def tail_probability(sample_hits: int, sample: int, hits: int, total: int) -> float:
    """The likelihood that ``sample_hits`` or more of a random sample are among ``hits`` of all."""
    limit = min(sample, hits)
    logs = [
        _choose(hits, k) + _choose(total - hits, sample - k) - _choose(total, sample)
        for k in range(max(sample_hits, sample - (total - hits)), limit + 1)
    ]
    return min(1.0, math.fsum(math.exp(log) for log in logs))


def _choose(n: int, k: int) -> float:
    """The logarithm of n over k."""
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def candidates(groups: Mapping[Any, Counter[str]]) -> set[str]:
    """Features that enough conversations of a group have to be worth counting in the others."""
    return {
        feature for counts in groups.values() for feature, n in counts.items() if n >= LEAST_CASES
    }
