"""Contrasts: what some conversations have in common that others have not, and whether by accident.

Nothing here does I/O.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

from model.reports.learning import InCommon
from spark_jobs.reports.brief import parts_of

LEAST = 5
"""Of fewer conversations nothing is said."""
MOST_SHOWN = 5
_LEAST_DIFFERENCE = 0.5
_CHANCE = 0.01


def contrasts(
    some: Mapping[str, int], of: int, others: Mapping[str, int], of_others: int
) -> list[InCommon]:
    """The features that most of some have, and fewer of the others; the clearest first.

    Counts are by feature, see `brief.parts_of`. A difference of shares of at least half counts from
    `LEAST` conversations on if chance alone would give it in less than one report of a hundred,
    however many features are tried (Fisher's exact test, one-sided, by Bonferroni).
    """
    if of < LEAST or not of_others:
        return []
    found, tried = [], sum(having >= LEAST for having in some.values())
    for feature, having in some.items():
        theirs = others.get(feature, 0)
        score = having / of - theirs / of_others
        if having < LEAST or score < _LEAST_DIFFERENCE:
            continue
        chance = tried * tail(having, of, having + theirs, of + of_others)
        if chance < _CHANCE:
            kind, name, value = parts_of(feature)
            found.append(
                InCommon(
                    kind=kind,
                    type=name,
                    value=value,
                    having=having,
                    of=of,
                    others_having=theirs,
                    of_others=of_others,
                    score=round(score, 4),
                    chance=chance,
                )
            )
    # Where only some have a message at all, its headers and size say nothing more.
    telling = {one.type for one in found if one.kind == "message"}
    found = [one for one in found if one.kind == "message" or one.type not in telling]
    found.sort(key=lambda one: (-one.score, one.kind, one.value))
    return found[:MOST_SHOWN]


def tail(drawn_having: int, drawn: int, having: int, total: int) -> float:
    """The likelihood that so many of those drawn at random have what ``having`` of all have."""
    most = min(drawn, having)
    logs = [
        _choose(having, k) + _choose(total - having, drawn - k) - _choose(total, drawn)
        for k in range(max(drawn_having, drawn - (total - having)), most + 1)
    ]
    return min(1.0, math.fsum(math.exp(each) for each in logs))


def _choose(n: int, k: int) -> float:
    """The logarithm of n over k."""
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def candidates(groups: Mapping[Any, Counter[str]]) -> set[str]:
    """Features that enough conversations of a group have: what need be counted of the others."""
    return {feature for counts in groups.values() for feature, n in counts.items() if n >= LEAST}
