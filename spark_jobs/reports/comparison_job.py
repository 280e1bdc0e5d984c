"""The report ``comparison``: what differs between two periods, or before and after a release.

Both are tallied as for ``expectations``, each twelfth of a period by itself; `comparison` judges
what has changed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession

from model.reports.learning import (
    ComparedEffect,
    ComparedExamples,
    ComparedShare,
    ComparedSide,
    ComparedTime,
    ComparedType,
    ComparedVariant,
    ComparisonReport,
    SideShare,
    State,
)
from model.sketch import Sketch
from model.variants import Flow
from model.words import Via
from spark_jobs.progress import Meter
from spark_jobs.reports.brief import Brief
from spark_jobs.reports.brief_job import STORAGE, Briefs, briefs, collect
from spark_jobs.reports.comparison import HitRate, merge_sketches, share_state, time_state, total
from spark_jobs.reports.expectations import CaseCounts, Pair, Thresholds, Times, VariantJudge, learn
from spark_jobs.reports.expectations_job import (
    EXAMPLES,
    MOST_VARIANTS,
    duration,
    state_of,
    tally_cases,
)
from spark_jobs.reports.period import Period, open_period
from spark_jobs.reports.report_request import Json, ReportRequest
from spark_jobs.spark.failures import spark_errors

SPANS = 12
MOST_SHOWN = 500
_ORDER: Sequence[State] = ("appeared", "vanished", "changed", "same", "unclear")


class Side(NamedTuple):
    """One of the two periods, with its briefs and a tally for each span."""

    period: Period
    briefs: Briefs | None
    tallies: list[CaseCounts]


@dataclass
class VariantCounts:
    """Conversations of each variant, by span, and those left out."""

    variants: dict[Pair, list[int]] = field(default_factory=dict)
    examples: dict[Pair, list[int]] = field(default_factory=dict)
    shapes: dict[str, Json] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)
    is_all: bool = True

    def add(self, pair: Pair, spans: Sequence[int], examples: Sequence[int]) -> None:
        """Count conversations of a variant, by span."""
        if pair not in self.variants and len(self.variants) >= MOST_VARIANTS:
            self.is_all = False
            return
        counts = self.variants.setdefault(pair, [0] * SPANS)
        self.variants[pair] = [a + b for a, b in zip(counts, spans, strict=True)]
        self.examples[pair] = sorted([*self.examples.get(pair, []), *examples])[:EXAMPLES]

    def of_type(self, name: str) -> list[int]:
        """The number of conversations that began with a type, by span."""
        rows = [spans for (row_type, _), spans in self.variants.items() if row_type == name]
        return [sum(column) for column in zip(*rows, strict=True)] if rows else [0] * SPANS

    @property
    def conversations(self) -> int:
        return sum(sum(spans) for spans in self.variants.values())


def make(
    spark: SparkSession, request: ReportRequest, period: Period, meter: Meter
) -> ComparisonReport:
    """The differences between a period and the one before it.

    ``asked``: ``before_since`` and ``before_until`` (µs); ``via``, ``wait`` and ``cases`` as of
    `expectations_job.make`.
    """
    thresholds = Thresholds(cases=request.asked["cases"])
    span_before = (request.asked["before_since"], request.asked["before_until"])
    with (
        spark_errors(),
        open_period(request.database, request.vhost, *span_before) as earlier,
    ):
        frames: list[DataFrame] = []
        try:
            sides = [
                _side(spark, request, side_period, frames) for side_period in (earlier, period)
            ]
            meter.enter("counting", 60.0)
            return _compare(request.facts(period), sides, thresholds, meter)
        finally:
            for frame in frames:
                frame.unpersist()


def _side(
    spark: SparkSession, request: ReportRequest, side_period: Period, frames: list[DataFrame]
) -> Side:
    wait = round(request.asked["wait"] * 1_000_000)
    found_briefs = briefs(spark, request.database, side_period, Via(request.asked["via"]), wait)
    if found_briefs is None:
        return Side(side_period, None, [CaseCounts() for _ in range(SPANS)])
    frame = found_briefs.frame.persist(STORAGE)
    frames.append(frame)
    kept_briefs = Briefs(frame, found_briefs.observed)
    span_of = partial(_span_of, side_period.since, side_period.until)
    return Side(side_period, kept_briefs, tally_cases(kept_briefs, SPANS, span_of))


def _span_of(since: int, until: int, brief: Brief) -> int:
    """The part of a period in which a conversation began."""
    return (brief.began_at - since) * SPANS // (until - since)


def _counts(side: Side, judge: VariantJudge) -> VariantCounts:
    """The variants of the conversations that can be judged."""
    counts = VariantCounts()
    if side.briefs is None:
        return counts
    observed, since, until = side.briefs.observed, side.period.since, side.period.until

    def summarize(briefs: Iterator[Brief]) -> Iterable[str]:
        part = VariantCounts()
        for brief in briefs:
            if brief.shape is not None and len(part.shapes) < 2 * MOST_VARIANTS:
                part.shapes.setdefault(brief.variant, brief.shape)
            state = state_of(brief, observed, judge)
            if state is not None:
                part.left_out[state] += 1
                continue
            spans = [0] * SPANS
            spans[_span_of(since, until, brief)] = 1
            part.add((brief.type, brief.variant), spans, [brief.root])
        yield json.dumps([part.left_out, part.is_all])
        for pair, spans in part.variants.items():
            yield json.dumps([*pair, spans, part.examples[pair], part.shapes.get(pair[1])])

    for line in collect(side.briefs.frame, summarize):
        first, second, *rest = json.loads(line)
        if not rest:
            counts.left_out.update(first)
            counts.is_all = counts.is_all and second
            continue
        spans, examples, shape = rest
        counts.add((first, second), spans, examples)
        if shape is not None and (first, second) in counts.variants:
            counts.shapes[second] = shape
    return counts


def _compare(
    facts: Json, sides: Sequence[Side], thresholds: Thresholds, meter: Meter
) -> ComparisonReport:
    whole = CaseCounts()
    for side in sides:
        for tally in side.tallies:
            whole.merge(tally)
    judge = VariantJudge(learn(whole, thresholds), thresholds)
    counts = [_counts(side, judge) for side in sides]
    meter.enter("counting", 95.0)
    types = _types(sides, whole, thresholds)
    effects = _effects(sides, whole, thresholds)
    variants = _variants(counts, thresholds)
    ranks = [*map(_rank, types), *map(_rank, effects), *map(_rank, variants)]
    side_before, side_after = (
        ComparedSide(
            gaps=side.period.gaps,
            soundness=side.period.sound,
            conversations=side_counts.conversations,
            young=side_counts.left_out["young"],
            unknown=side_counts.left_out["unknown"],
            cut=side_counts.left_out["cut"],
        )
        for side, side_counts in zip(sides, counts, strict=True)
    )
    return ComparisonReport(
        **facts,
        changes=sum(rank < _ORDER.index("same") for rank in ranks),
        before=side_before,
        after=side_after,
        counted_all=whole.is_all and all(side_counts.is_all for side_counts in counts),
        types=types[:MOST_SHOWN],
        effects=effects[:MOST_SHOWN],
        variants=variants[:MOST_SHOWN],
    )


def _rank(change: ComparedShare | ComparedEffect) -> int:
    """The position of a change, or of the first of its parts, in `_ORDER`."""
    parts = (
        (change.share, change.p50, change.p99) if isinstance(change, ComparedEffect) else (change,)
    )
    return min(_ORDER.index(part.state) for part in parts)


def _types(sides: Sequence[Side], whole: CaseCounts, thresholds: Thresholds) -> list[ComparedType]:
    """The share of each type among all messages."""
    totals = [
        [sum(ages.count for ages in tally.messages.values()) for tally in side.tallies]
        for side in sides
    ]

    def parts(name: str) -> list[list[HitRate]]:
        return [
            [
                HitRate(count, tally.messages[name].count if name in tally.messages else 0)
                for count, tally in zip(counts, side.tallies, strict=True)
            ]
            for counts, side in zip(totals, sides, strict=True)
        ]

    types = [ComparedType(type=name, **_share(parts(name), thresholds)) for name in whole.messages]
    return sorted(types, key=lambda compared: (_rank(compared), compared.type))


def _share(parts: Sequence[Sequence[HitRate]], thresholds: Thresholds) -> Json:
    """The members of a `ComparedShare`."""
    earlier, recent = parts
    return {
        "state": share_state(earlier, recent, thresholds.cases),
        "before": SideShare(*total(earlier)),
        "after": SideShare(*total(recent)),
    }


def _effects(
    sides: Sequence[Side], whole: CaseCounts, thresholds: Thresholds
) -> list[ComparedEffect]:
    """The effects of types: their shares, and their delays."""
    effects = []
    for pair in whole.effects:
        patience = Times.from_sketch(whole.effects[pair].delays).patience
        parts = [[_rate_of(tally, pair, patience) for tally in side.tallies] for side in sides]
        effects_of = [[tally.effects.get(pair) for tally in side.tallies] for side in sides]
        delays = [[e.delays if e else Sketch() for e in of_side] for of_side in effects_of]
        effects.append(
            ComparedEffect(
                type=pair[0],
                effect=pair[1],
                share=ComparedShare(**_share(parts, thresholds)),
                p50=_quantile(delays, 0.5, thresholds),
                p99=_quantile(delays, 0.99, thresholds),
            )
        )
    return sorted(effects, key=lambda compared: (_rank(compared), compared.type, compared.effect))


def _rate_of(tally: CaseCounts, pair: Pair, patience: float) -> HitRate:
    ages, effect = tally.messages.get(pair[0]), tally.effects.get(pair)
    return HitRate(
        ages.count_above(patience) if ages else 0,
        effect.ages.count_above(patience) if effect else 0,
    )


def _quantile(
    delays: Sequence[Sequence[Sketch]], quantile: float, thresholds: Thresholds
) -> ComparedTime:
    wholes = [merge_sketches(spans).quantile(quantile) for spans in delays]
    earlier, recent = (
        None if microseconds is None else duration(microseconds) for microseconds in wholes
    )
    state = time_state(delays[0], delays[1], quantile, thresholds.cases)
    return ComparedTime(state, earlier, recent)


def _variants(counts: Sequence[VariantCounts], thresholds: Thresholds) -> list[ComparedVariant]:
    """The share of each variant among the conversations that began with its type."""
    pairs = {pair for side_counts in counts for pair in side_counts.variants}
    totals = {
        name: [side_counts.of_type(name) for side_counts in counts]
        for name in {name for name, _ in pairs}
    }

    def parts(pair: Pair) -> list[list[HitRate]]:
        return [
            [*map(HitRate, of_type, side_counts.variants.get(pair, [0] * SPANS))]
            for of_type, side_counts in zip(totals[pair[0]], counts, strict=True)
        ]

    shapes = {
        digest: shape for side_counts in counts for digest, shape in side_counts.shapes.items()
    }
    variants = [
        ComparedVariant(
            variant=digest,
            type=name,
            **_share(parts((name, digest)), thresholds),
            examples=ComparedExamples(
                *(side_counts.examples.get((name, digest), []) for side_counts in counts)
            ),
            flow=Flow.from_json(shapes[digest]) if digest in shapes else None,
        )
        for name, digest in pairs
    ]
    return sorted(
        variants,
        key=lambda compared: (
            _rank(compared),
            -compared.before.count - compared.after.count,
            compared.variant,
        ),
    )
