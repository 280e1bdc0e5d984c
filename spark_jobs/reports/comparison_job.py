"""The report ``comparison``: what differs between two periods, or before and after a release.

Both are learnt from as for ``expectations``, a twelfth of the period at a time; `comparing` says
what has changed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
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
from spark_jobs.reports import period
from spark_jobs.reports.brief import Brief
from spark_jobs.reports.brief_job import KEPT, Briefs, briefs, collected
from spark_jobs.reports.comparison import HitRate, share_state, time_state, total
from spark_jobs.reports.expectations import CaseCounts, Pair, Thresholds, Times, VariantJudge, learn
from spark_jobs.reports.expectations_job import (
    EXAMPLES,
    MOST_VARIANTS,
    duration,
    state_of,
)
from spark_jobs.reports.period import Period
from spark_jobs.reports.request import Json, ReportRequest
from spark_jobs.spark.failures import explained

SPANS = 12
MOST_SHOWN = 500
_ORDER: Sequence[State] = ("appeared", "vanished", "changed", "same", "unclear")


class Side(NamedTuple):
    """One of the two periods: what is there, and its tallies, a span each."""

    period: Period
    got: Briefs | None
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
        """Count so many of a variant."""
        if pair not in self.variants and len(self.variants) >= MOST_VARIANTS:
            self.is_all = False
            return
        mine = self.variants.setdefault(pair, [0] * SPANS)
        self.variants[pair] = [a + b for a, b in zip(mine, spans, strict=True)]
        self.examples[pair] = sorted([*self.examples.get(pair, []), *examples])[:EXAMPLES]

    def of_type(self, name: str) -> list[int]:
        """The number of conversations that began with a type, by span."""
        some = [spans for (each, _), spans in self.variants.items() if each == name]
        return [sum(each) for each in zip(*some, strict=True)] if some else [0] * SPANS

    @property
    def judged(self) -> int:
        """The number of conversations that were counted."""
        return sum(sum(spans) for spans in self.variants.values())


def make(
    spark: SparkSession, request: ReportRequest, opened: Period, meter: Meter
) -> ComparisonReport:
    """The differences between a period and the one before it.

    ``asked``: ``before_since`` and ``before_until`` (µs); ``via``, ``wait`` and ``cases`` as of
    `expectations.make`.
    """
    asked = Thresholds(cases=request.asked["cases"])
    before = (request.asked["before_since"], request.asked["before_until"])
    with (
        explained(),
        period.opened(request.database, request.vhost, *before) as earlier,
    ):
        frames: list[DataFrame] = []
        try:
            sides = [_side(spark, request, each, frames) for each in (earlier, opened)]
            meter.enter("counting", 60.0)
            return _compared(request.facts(opened), sides, asked, meter)
        finally:
            for frame in frames:
                frame.unpersist()


def _side(
    spark: SparkSession, request: ReportRequest, within: Period, frames: list[DataFrame]
) -> Side:
    wait = round(request.asked["wait"] * 1_000_000)
    got = briefs(spark, request.database, within, Via(request.asked["via"]), wait)
    if got is None:
        return Side(within, None, [CaseCounts() for _ in range(SPANS)])
    frame = got.frame.persist(KEPT)
    frames.append(frame)
    kept = Briefs(frame, got.observed)
    return Side(within, kept, _tallies(kept, _bounds(within)))


class _Bounds(NamedTuple):
    """The part of a period that a task needs."""

    since: int
    until: int

    def span_of(self, brief: Brief) -> int:
        return (brief.began_at - self.since) * SPANS // (self.until - self.since)


def _bounds(within: Period) -> _Bounds:
    return _Bounds(within.since, within.until)


def _tallies(got: Briefs, bounds: _Bounds) -> list[CaseCounts]:
    """The counts of the conversations that began in each span."""
    observed = got.observed

    def found(some: Iterator[Brief]) -> Iterable[str]:
        tallies = [CaseCounts() for _ in range(SPANS)]
        for brief in some:
            if observed.is_known(brief) and not brief.is_cut:
                for case in brief.cases:
                    tallies[bounds.span_of(brief)].add(case, observed.until(brief))
        yield json.dumps([tally.to_text() for tally in tallies])

    tallies = [CaseCounts() for _ in range(SPANS)]
    for line in collected(got.frame, found):
        for tally, text in zip(tallies, json.loads(line), strict=True):
            tally.merge(CaseCounts.of_text(text))
    return tallies


def _counts(got: Briefs | None, bounds: _Bounds, judge: VariantJudge) -> VariantCounts:
    """The variants of the conversations that can be judged."""
    counts = VariantCounts()
    if got is None:
        return counts
    observed = got.observed

    def found(some: Iterator[Brief]) -> Iterable[str]:
        mine = VariantCounts()
        for brief in some:
            if brief.shape is not None and len(mine.shapes) < 2 * MOST_VARIANTS:
                mine.shapes.setdefault(brief.variant, brief.shape)
            state = state_of(brief, observed, judge)
            if state is not None:
                mine.left_out[state] += 1
                continue
            spans = [0] * SPANS
            spans[bounds.span_of(brief)] = 1
            mine.add((brief.type, brief.variant), spans, [brief.root])
        yield json.dumps([mine.left_out, mine.is_all])
        for pair, spans in mine.variants.items():
            yield json.dumps([*pair, spans, mine.examples[pair], mine.shapes.get(pair[1])])

    for line in collected(got.frame, found):
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


def _compared(
    facts: Json, sides: Sequence[Side], asked: Thresholds, meter: Meter
) -> ComparisonReport:
    whole = CaseCounts()
    for side in sides:
        for tally in side.tallies:
            whole.merge(tally)
    judge = VariantJudge(learn(whole, asked), asked)
    counts = [_counts(side.got, _bounds(side.period), judge) for side in sides]
    meter.enter("counting", 95.0)
    types = _types(sides, whole, asked)
    effects = _effects(sides, whole, asked)
    variants = _variants(counts, asked)
    ranks = [*map(_rank, types), *map(_rank, effects), *map(_rank, variants)]
    before, after = (_side_of(side.period, each) for side, each in zip(sides, counts, strict=True))
    return ComparisonReport(
        **facts,
        changes=sum(rank < _ORDER.index("same") for rank in ranks),
        before=before,
        after=after,
        counted_all=whole.is_all and all(each.is_all for each in counts),
        types=types[:MOST_SHOWN],
        effects=effects[:MOST_SHOWN],
        variants=variants[:MOST_SHOWN],
    )


def _side_of(within: Period, counts: VariantCounts) -> ComparedSide:
    return ComparedSide(
        gaps=within.gaps,
        soundness=within.sound,
        conversations=counts.judged,
        young=counts.left_out["young"],
        unknown=counts.left_out["unknown"],
        cut=counts.left_out["cut"],
    )


def _rank(item: ComparedShare | ComparedEffect) -> int:
    """Rank what appeared first, then what vanished and what changed: itself, or a part of it."""
    parts = (item.share, item.p50, item.p99) if isinstance(item, ComparedEffect) else (item,)
    return min(_ORDER.index(each.state) for each in parts)


def _types(sides: Sequence[Side], whole: CaseCounts, asked: Thresholds) -> list[ComparedType]:
    """Of all messages, how many are of each type."""
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

    found = [ComparedType(type=name, **_share(parts(name), asked)) for name in whole.messages]
    return sorted(found, key=lambda one: (_rank(one), one.type))


def _share(parts: Sequence[Sequence[HitRate]], asked: Thresholds) -> Json:
    """The members of a `ComparedShare`."""
    before, after = parts
    return {
        "state": share_state(before, after, asked.cases),
        "before": SideShare(*total(before)),
        "after": SideShare(*total(after)),
    }


def _effects(sides: Sequence[Side], whole: CaseCounts, asked: Thresholds) -> list[ComparedEffect]:
    """The types that types lead to: in how many cases, and how soon."""
    found = []
    for pair in whole.effects:
        patience = Times.of(whole.effects[pair].delays).patience
        parts = [[_led(tally, pair, patience) for tally in side.tallies] for side in sides]
        delays = [[_delays_of(tally, pair) for tally in side.tallies] for side in sides]
        found.append(
            ComparedEffect(
                type=pair[0],
                effect=pair[1],
                share=ComparedShare(**_share(parts, asked)),
                p50=_quantile(delays, 0.5, asked),
                p99=_quantile(delays, 0.99, asked),
            )
        )
    return sorted(found, key=lambda one: (_rank(one), one.type, one.effect))


def _led(tally: CaseCounts, pair: Pair, patience: float) -> HitRate:
    ages, effect = tally.messages.get(pair[0]), tally.effects.get(pair)
    return HitRate(
        ages.above(patience) if ages else 0, effect.ages.above(patience) if effect else 0
    )


def _delays_of(tally: CaseCounts, pair: Pair) -> Sketch:
    effect = tally.effects.get(pair)
    return effect.delays if effect else Sketch()


def _quantile(
    delays: Sequence[Sequence[Sketch]], quantile: float, asked: Thresholds
) -> ComparedTime:
    wholes = []
    for spans in delays:
        whole = Sketch()
        for each in spans:
            whole.merge(each)
        wholes.append(whole.quantile(quantile))
    before, after = (None if each is None else duration(each) for each in wholes)
    state = time_state(delays[0], delays[1], quantile, asked.cases)
    return ComparedTime(state, before, after)


def _variants(counts: Sequence[VariantCounts], asked: Thresholds) -> list[ComparedVariant]:
    """Of the conversations that began with a type, how many are of each variant."""
    pairs = {pair for each in counts for pair in each.variants}
    totals = {name: [each.of_type(name) for each in counts] for name in {name for name, _ in pairs}}

    def parts(pair: Pair) -> list[list[HitRate]]:
        return [
            [*map(HitRate, of_type, each.variants.get(pair, [0] * SPANS))]
            for of_type, each in zip(totals[pair[0]], counts, strict=True)
        ]

    shapes = {digest: shape for each in counts for digest, shape in each.shapes.items()}
    found = [
        ComparedVariant(
            variant=digest,
            type=name,
            **_share(parts((name, digest)), asked),
            examples=ComparedExamples(*(each.examples.get((name, digest), []) for each in counts)),
            flow=Flow.of(shapes[digest]) if digest in shapes else None,
        )
        for name, digest in pairs
    ]
    return sorted(
        found, key=lambda one: (_rank(one), -one.before.count - one.after.count, one.variant)
    )
