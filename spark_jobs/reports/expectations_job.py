"""The report ``expectations``: what normally follows what in a period, and what was otherwise.

From briefs of its conversations (`brief`): what messages of each type lead to (`expectations`), the
variants and their counts, the conversations out of the ordinary and why, and what distinguishes
these from the others (`contrast`). Conversations that are too young to tell, or may lack events,
are counted apart.
"""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from pyspark.sql import DataFrame, SparkSession

from model.reports.learning import (
    ExpectationsReport,
    Lasted,
    LearntEffect,
    LearntOrder,
    LearntType,
    LearntVariant,
    Multiplicity,
    Outlier,
    OutlierGroup,
    OutlierReason,
    Strangeness,
    TimesTaken,
)
from model.sketch import Sketch
from model.times import Duration, Microseconds, iso_time
from model.variants import Flow
from model.words import Via
from spark_jobs.progress import Meter
from spark_jobs.reports.brief import Brief, Horizon, feature
from spark_jobs.reports.brief_job import STORAGE, Briefs, briefs, collect
from spark_jobs.reports.contrast import candidates, contrasts
from spark_jobs.reports.expectations import (
    MOST_MANY,
    CaseCounts,
    Effect,
    Expectation,
    Norms,
    Reason,
    Thresholds,
    Times,
    TypeOrder,
    VariantCount,
    VariantJudge,
    learn,
    rare_among,
)
from spark_jobs.reports.period import Period
from spark_jobs.reports.proposals import proposals
from spark_jobs.reports.report_request import Json, ReportRequest
from spark_jobs.spark.failures import spark_errors

Group: TypeAlias = tuple[Strangeness, str, str | None]

MOST_VARIANTS = 20_000
"""Variants that are counted; further ones only by their conversations."""
VARIANTS_SHOWN = 200
MOST_STRANGE = 5_000
"""Conversations out of the ordinary whose common features are counted."""
STRANGE_SHOWN = 1_000
GROUPS_SHOWN = 100
EXAMPLES = 5
_LEAST_RATIO, _LEAST_EXPECTED = 10, 20
_SPANS = 12  # of the period, for what happened at one time


def make(
    spark: SparkSession, request: ReportRequest, period: Period, meter: Meter
) -> ExpectationsReport:
    """The report of a period's conversations.

    ``asked``: ``via``, ``wait`` (seconds after the period in which effects are looked for),
    ``share`` and ``cases`` (what is expected), ``rare`` (below which share a variant is rare).
    """
    thresholds = Thresholds(*(request.asked[name] for name in Thresholds._fields))
    wait = round(request.asked["wait"] * 1_000_000)
    facts = request.facts(period)
    with spark_errors():
        period_briefs = briefs(spark, request.database, period, Via(request.asked["via"]), wait)
        if period_briefs is None:
            no_norms = Norms((), (), {}, {}, {}, {}, True)
            return _report(facts, no_norms, Sums(), [], OutlierTally(), thresholds)
        frame = period_briefs.frame.persist(STORAGE)
        try:
            results = _learn(Briefs(frame, period_briefs.observed), period, thresholds, meter)
            return _report(facts, *results, thresholds)
        finally:
            frame.unpersist()


def _learn(
    period_briefs: Briefs, period: Period, thresholds: Thresholds, meter: Meter
) -> tuple[Norms, Sums, list[VariantCount], OutlierTally]:
    [tally] = tally_cases(period_briefs)
    norms = learn(tally, thresholds)
    judge = VariantJudge(norms, thresholds)
    meter.enter("counting", 60.0)
    sums = sum_variants(period_briefs.frame, period_briefs.observed, judge)
    variants = rare_among(
        [(*key, sample.count) for key, sample in sums.variants.items()], thresholds
    )
    rare = frozenset(
        (variant.type, variant.digest)
        for variant in variants
        if variant.rare and is_odd(variant, sums, tally)
    )
    meter.enter("counting", 75.0)
    strange = _strange(period_briefs, judge, rare, period)
    meter.enter("counting", 90.0)
    strange.compare(period_briefs, judge, rare, period)
    return norms, sums, variants, strange


def tally_cases(
    period_briefs: Briefs, spans: int = 1, span_of: Callable[[Brief], int] = lambda brief: 0
) -> list[CaseCounts]:
    """The tallies, by span, of all conversations that are known and not cut."""
    observed = period_briefs.observed

    def summarize(briefs: Iterator[Brief]) -> Iterable[str]:
        tallies = [CaseCounts() for _ in range(spans)]
        for brief in briefs:
            if observed.is_known(brief) and not brief.is_cut:
                for case in brief.cases:
                    tallies[span_of(brief)].add(case, observed.end_for(brief))
        yield json.dumps([tally.to_text() for tally in tallies])

    tallies = [CaseCounts() for _ in range(spans)]
    for line in collect(period_briefs.frame, summarize):
        for tally, text in zip(tallies, json.loads(line), strict=True):
            tally.merge(CaseCounts.of_text(text))
    return tallies


@dataclass
class VariantSample:
    """Conversations of a variant: some of their first events, how long they took (µs).

    ``shape`` stays JSON text: there may be many.
    """

    count: int = 0
    examples: list[int] = field(default_factory=list)
    lasted: Sketch = field(default_factory=Sketch)
    shape: str | None = None

    def add(self, brief: Brief) -> None:
        self.count += 1
        self.examples = sorted([*self.examples, brief.root])[:EXAMPLES]
        self.lasted.add(brief.ended_at - brief.began_at)

    def merge(self, sample: VariantSample) -> None:
        self.count += sample.count
        self.examples = sorted([*self.examples, *sample.examples])[:EXAMPLES]
        self.lasted.merge(sample.lasted)
        self.shape = self.shape or sample.shape


@dataclass
class Sums:
    """The number of conversations of each variant, and how many are left out and why."""

    variants: dict[tuple[str, str], VariantSample] = field(default_factory=dict)
    shapes: dict[str, str] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)
    uncounted: int = 0

    @property
    def conversations(self) -> int:
        """The number of conversations that could be judged."""
        return sum(sample.count for sample in self.variants.values()) + self.uncounted

    def add(self, brief: Brief, state: str | None) -> None:
        """Count a conversation, or why it is left out."""
        if brief.shape is not None and len(self.shapes) < 2 * MOST_VARIANTS:
            self.shapes.setdefault(brief.variant, json.dumps(brief.shape))
        if state is not None:
            self.left_out[state] += 1
        elif (sample := self._sample_of((brief.type, brief.variant))) is not None:
            sample.add(brief)
        else:
            self.uncounted += 1

    def _sample_of(self, key: tuple[str, str]) -> VariantSample | None:
        """The sample of a variant; None if there are too many variants."""
        if key in self.variants or len(self.variants) < MOST_VARIANTS:
            return self.variants.setdefault(key, VariantSample())
        return None

    def lines(self) -> Iterator[str]:
        """All counts as lines, for `take`."""
        yield json.dumps([self.left_out, self.uncounted])
        for key, sample in self.variants.items():
            shape = self.shapes.get(key[1])
            yield json.dumps([*key, sample.count, sample.examples, sample.lasted.to_json(), shape])

    def take(self, line: str) -> None:
        first, second, *rest = json.loads(line)
        if not rest:
            self.left_out.update(first)
            self.uncounted += second
            return
        count, examples, lasted, shape = rest
        if (sample := self._sample_of((first, second))) is not None:
            sample.merge(VariantSample(count, examples, Sketch.of_json(lasted), shape))
        else:
            self.uncounted += count


def sum_variants(frame: DataFrame, observed: Horizon, judge: VariantJudge) -> Sums:
    """The variants of all conversations that can be judged."""

    def summarize(briefs: Iterator[Brief]) -> Iterable[str]:
        sums = Sums()
        for brief in briefs:
            sums.add(brief, state_of(brief, observed, judge))
        yield from sums.lines()

    sums = Sums()
    for line in collect(frame, summarize):
        sums.take(line)
    return sums


def is_odd(variant: VariantCount, sums: Sums, tally: CaseCounts) -> bool:
    """Tell whether a rare variant is rarer than what it is made of would have it.

    Where two things happen now and then, both together are rare, and that says nothing. But what
    would come together `_LEAST_RATIO` times as often, if each step were by itself, is kept apart.
    """
    text = sums.variants[variant.type, variant.digest].shape
    shape = None if text is None else json.loads(text)
    if shape is None or shape["truncated"]:
        return False
    expected = math.exp(_log_share(shape["steps"], tally)) * variant.size / variant.share
    return expected >= _LEAST_EXPECTED and expected >= _LEAST_RATIO * variant.size


def _log_share(steps: Sequence[Json], tally: CaseCounts) -> float:
    """The logarithm of the steps' likelihood, if each effect were independent of the others."""
    total, stack = 0.0, [*steps]
    while stack:
        step = stack.pop()
        stack += step["steps"]
        counts = Counter[str]()
        for next_step in step["steps"]:
            counts[next_step["type"]] += next_step["count"]
        total += step["count"] * sum(
            math.log(_share_of(effect, counts[pair[1]], tally.messages[pair[0]].count))
            for pair, effect in tally.effects.items()
            if pair[0] == step["type"]
        )
    return total


def _share_of(effect: Effect, effects: int, messages: int) -> float:
    """The share of messages with this many effects; half a message where there is none."""
    times = (
        effect.numbers[min(effects, MOST_MANY)] if effects else messages - effect.numbers.total()
    )
    return max(times, 0.5) / max(messages, 1)


def state_of(brief: Brief, observed: Horizon, judge: VariantJudge) -> str | None:
    """The reason why a conversation is left out; None if it is not."""
    if brief.is_cut:
        return "cut"
    if not observed.is_known(brief):
        return "unknown"
    if judge.is_young(brief, observed.end_for(brief)):
        return "young"
    return None


class Odd(NamedTuple):
    """A conversation out of the ordinary, and why."""

    root: int
    began_at: int
    type: str
    variant: str
    reasons: list[Reason]


@dataclass
class OutlierTally:
    """Conversations out of the ordinary, and the features they share by reason."""

    count: int = 0
    odd: list[Odd] = field(default_factory=list)
    groups: Counter[Group] = field(default_factory=Counter)
    examples: defaultdict[Group, list[int]] = field(default_factory=lambda: defaultdict(list))
    features: dict[Group, Counter[str]] = field(default_factory=dict)
    ordinary_features: Counter[str] = field(default_factory=Counter)
    ordinary_count: int = 0

    def take(self, odd: Odd, features: Sequence[str]) -> None:
        self.count += 1
        if len(self.odd) >= MOST_STRANGE:
            return
        self.odd.append(odd)
        for group in dict.fromkeys(reason.group for reason in odd.reasons):
            self.groups[group] += 1
            if len(self.examples[group]) < EXAMPLES:
                self.examples[group].append(odd.root)
            self.features.setdefault(group, Counter()).update(features)

    def compare(
        self, period_briefs: Briefs, judge: VariantJudge, rare: frozenset[Any], period: Period
    ) -> None:
        """Count the candidate features among ordinary conversations."""
        telling_features = candidates(self.features)
        if not telling_features:
            return
        looks = _looks(period_briefs.observed, judge, rare, period)

        def summarize(briefs: Iterator[Brief]) -> Iterable[str]:
            ordinary_count, ordinary = 0, Counter[str]()
            for _, reasons, features in looks(briefs):
                if not reasons:
                    ordinary_count += 1
                    ordinary.update(telling_features.intersection(features))
            yield json.dumps([ordinary_count, ordinary])

        for line in collect(period_briefs.frame, summarize):
            ordinary_count, ordinary = json.loads(line)
            self.ordinary_count += ordinary_count
            self.ordinary_features.update(ordinary)


Assessment: TypeAlias = tuple[Brief, list[Reason], list[str]]


def _looks(
    observed: Horizon, judge: VariantJudge, rare: frozenset[Any], period: Period
) -> Callable[[Iterator[Brief]], Iterator[Assessment]]:
    """Each conversation that can be judged, why it is out of the ordinary, and its features."""
    begin, end = period.since, period.until

    def looks(briefs: Iterator[Brief]) -> Iterator[Assessment]:
        for brief in briefs:
            if state_of(brief, observed, judge) is None:
                reasons = judge.reasons(brief)
                if (brief.type, brief.variant) in rare:
                    reasons.append(Reason("variant", brief.type, brief.variant, brief.root))
                span = (brief.began_at - begin) * _SPANS // (end - begin)
                begins = iso_time(begin + span * (end - begin) // _SPANS)
                yield brief, reasons, [*brief.features, feature("time", "", f"from {begins}")]

    return looks


def _strange(
    period_briefs: Briefs, judge: VariantJudge, rare: frozenset[Any], period: Period
) -> OutlierTally:
    looks = _looks(period_briefs.observed, judge, rare, period)

    def summarize(briefs: Iterator[Brief]) -> Iterable[str]:
        for brief, reasons, features in looks(briefs):
            if reasons:
                odd = [brief.root, brief.began_at, brief.type, brief.variant, reasons]
                yield json.dumps([odd, features])

    strange = OutlierTally()
    for line in collect(period_briefs.frame, summarize):
        (*facts, reasons), features = json.loads(line)
        strange.take(
            Odd._make([*facts, [Reason(*facts_of_reason) for facts_of_reason in reasons]]), features
        )
    strange.odd.sort(key=lambda odd: -odd.root)
    return strange


def _report(
    facts: Json,
    norms: Norms,
    sums: Sums,
    variants: Sequence[VariantCount],
    strange: OutlierTally,
    thresholds: Thresholds,
) -> ExpectationsReport:
    return ExpectationsReport(
        **facts,
        conversations=sums.conversations,
        young=sums.left_out["young"],
        unknown=sums.left_out["unknown"],
        cut=sums.left_out["cut"],
        variants_count=len(variants),
        outliers_count=strange.count,
        counted_all=norms.is_all and not sums.uncounted and strange.count <= MOST_STRANGE,
        types=_types(norms),
        variants=[_variant(variant, sums) for variant in _selection(variants)],
        outliers=[
            Outlier(
                event=odd.root,
                at=Microseconds(odd.began_at),
                type=odd.type,
                variant=odd.variant,
                reasons=[_reason(reason) for reason in odd.reasons],
            )
            for odd in strange.odd[:STRANGE_SHOWN]
        ],
        groups=_groups(strange),
        proposals=proposals(norms, thresholds),
    )


def _types(norms: Norms) -> list[LearntType]:
    effects: defaultdict[str, list[Expectation]] = defaultdict(list)
    orders: defaultdict[str, list[TypeOrder]] = defaultdict(list)
    for expectation in norms.expectations:
        effects[expectation.type].append(expectation)
    for order in norms.orders:
        orders[order.type].append(order)
    return [
        LearntType(
            type=name,
            messages=count,
            waited=_times(norms.waits[name]) if name in norms.waits else None,
            leads_to=[
                LearntEffect(
                    type=expectation.effect,
                    cases=expectation.cases,
                    led=expectation.hits,
                    share=round(expectation.share, 6),
                    young=expectation.left_out,
                    many=[Multiplicity(*pair) for pair in expectation.numbers.items()],
                    within=_times(expectation.times),
                )
                for expectation in effects[name]
            ],
            after=[
                LearntOrder(order.predecessor, order.cases, order.hits) for order in orders[name]
            ],
        )
        for name, count in sorted(norms.messages.items(), key=lambda entry: (-entry[1], entry[0]))
    ]


def _times(times: Times) -> TimesTaken:
    slow_from = None if times.slow_from is None else duration(times.slow_from)
    return TimesTaken(duration(times.p50), duration(times.p99), duration(times.p999), slow_from)


def duration(microseconds: float | None) -> Duration:
    """A time in whole microseconds; 0 for None."""
    return Duration(round(microseconds or 0))


def _selection(variants: Sequence[VariantCount]) -> list[VariantCount]:
    """The commonest variants, and the rarest of the rare ones."""
    if len(variants) <= VARIANTS_SHOWN:
        return [*variants]
    half = VARIANTS_SHOWN // 2
    rare = [variant for variant in variants[half:] if variant.rare]
    return [*variants[:half], *rare[-half:]]


def _variant(variant: VariantCount, sums: Sums) -> LearntVariant:
    sample = sums.variants[variant.type, variant.digest]
    return LearntVariant(
        variant=variant.digest,
        type=variant.type,
        count=variant.size,
        share=round(variant.share, 6),
        rare=variant.rare,
        examples=sample.examples,
        lasted=Lasted(*(duration(sample.lasted.quantile(share)) for share in (0.5, 0.99))),
        flow=None if sample.shape is None else Flow.from_json(json.loads(sample.shape)),
    )


def _reason(reason: Reason) -> OutlierReason:
    is_time = reason.kind in ("slow", "waited")
    return OutlierReason(
        kind=reason.kind,
        type=reason.type,
        other=reason.subject,
        event=reason.event,
        seconds=duration(reason.value) if is_time else None,
        count=int(reason.value or 0) if reason.kind == "many" else None,
    )


def _groups(strange: OutlierTally) -> list[OutlierGroup]:
    """Reasons, with what their conversations have in common; the most frequent first."""
    return [
        OutlierGroup(
            kind=group[0],
            type=group[1],
            other=group[2],
            count=count,
            examples=sorted(strange.examples[group]),
            in_common=contrasts(
                strange.features[group], count, strange.ordinary_features, strange.ordinary_count
            ),
        )
        for group, count in strange.groups.most_common(GROUPS_SHOWN)
    ]
