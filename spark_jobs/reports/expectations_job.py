"""The report ``expectations``: what normally follows what in a period, and what was otherwise.

From briefs of its conversations (`brief`): what messages of each type lead to (`expecting`), the
variants with how many are of each, those that are out of the ordinary and why, and what these have
in common that the others have not (`contrast`). Conversations that are too young to tell, or of
which something may be missing, are counted apart.
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
from spark_jobs.reports.brief_job import KEPT, Briefs, briefs, collected
from spark_jobs.reports.contrast import candidates, contrasts
from spark_jobs.reports.expectations import (
    MOST_MANY,
    CaseCounts,
    Effect,
    Expectation,
    Learnt,
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
from spark_jobs.reports.request import Json, ReportRequest
from spark_jobs.spark.failures import explained

Group: TypeAlias = tuple[Strangeness, str, str | None]

MOST_VARIANTS = 20_000
"""So many variants are counted; of further ones only how many conversations."""
VARIANTS_SHOWN = 200
MOST_STRANGE = 5_000
"""Of so many conversations out of the ordinary it is looked at what they have in common."""
STRANGE_SHOWN = 1_000
GROUPS_SHOWN = 100
EXAMPLES = 5
_TOGETHER, _LEAST_TOGETHER = 10, 20
_SPANS = 12  # of the period, for what happened at one time


def make(
    spark: SparkSession, request: ReportRequest, period: Period, meter: Meter
) -> ExpectationsReport:
    """The report of a period's conversations.

    ``asked``: ``via``, ``wait`` (seconds after the period in which effects are looked for),
    ``share`` and ``cases`` (what is expected), ``rare`` (below which share a variant is rare).
    """
    asked = Thresholds(*(request.asked[name] for name in Thresholds._fields))
    wait = round(request.asked["wait"] * 1_000_000)
    facts = request.facts(period)
    with explained():
        got = briefs(spark, request.database, period, Via(request.asked["via"]), wait)
        if got is None:
            nothing = Learnt((), (), {}, {}, {}, {}, True)
            return _report(facts, nothing, Sums(), [], Strange(), asked)
        frame = got.frame.persist(KEPT)
        try:
            found = _learnt(Briefs(frame, got.observed), period, asked, meter)
            return _report(facts, *found, asked)
        finally:
            frame.unpersist()


def _learnt(
    got: Briefs, period: Period, asked: Thresholds, meter: Meter
) -> tuple[Learnt, Sums, list[VariantCount], Strange]:
    tally = tallied(got.frame, got.observed)
    learnt = learn(tally, asked)
    judge = VariantJudge(learnt, asked)
    meter.enter("counting", 60.0)
    sums = summed(got.frame, got.observed, judge)
    counted = rare_among([(*key, one.count) for key, one in sums.variants.items()], asked)
    rare = frozenset(
        (one.type, one.digest) for one in counted if one.rare and is_odd(one, sums, tally)
    )
    meter.enter("counting", 75.0)
    strange = _strange(got, judge, rare, period)
    meter.enter("counting", 90.0)
    strange.compare(got, judge, rare, period)
    return learnt, sums, counted, strange


def tallied(frame: DataFrame, observed: Horizon) -> CaseCounts:
    """The tally of all conversations that are known and whole."""

    def found(briefs: Iterator[Brief]) -> Iterable[str]:
        tally = CaseCounts()
        for brief in briefs:
            if observed.is_known(brief) and not brief.is_cut:
                until = observed.until(brief)
                for case in brief.cases:
                    tally.add(case, until)
        yield tally.to_text()

    tally = CaseCounts()
    for line in collected(frame, found):
        tally.merge(CaseCounts.of_text(line))
    return tally


@dataclass
class VariantSample:
    """Conversations of a variant: some of their first events, how long they took (µs).

    ``shape`` is JSON as text: there may be many.
    """

    count: int = 0
    examples: list[int] = field(default_factory=list)
    lasted: Sketch = field(default_factory=Sketch)
    shape: str | None = None

    def add(self, brief: Brief) -> None:
        """Count one."""
        self.count += 1
        self.examples = sorted([*self.examples, brief.root])[:EXAMPLES]
        self.lasted.add(brief.ended_at - brief.began_at)

    def merge(self, other: VariantSample) -> None:
        """Count all that another one did."""
        self.count += other.count
        self.examples = sorted([*self.examples, *other.examples])[:EXAMPLES]
        self.lasted.merge(other.lasted)
        self.shape = self.shape or other.shape


@dataclass
class Sums:
    """The number of conversations of each variant, and how many are left out and why."""

    variants: dict[tuple[str, str], VariantSample] = field(default_factory=dict)
    shapes: dict[str, str] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)
    uncounted: int = 0

    @property
    def judged(self) -> int:
        """The number that are of one of the variants."""
        return sum(one.count for one in self.variants.values()) + self.uncounted

    def add(self, brief: Brief, state: str | None) -> None:
        """Count a conversation, or why it is left out."""
        if brief.shape is not None and len(self.shapes) < 2 * MOST_VARIANTS:
            self.shapes.setdefault(brief.variant, json.dumps(brief.shape))
        if state is not None:
            self.left_out[state] += 1
        elif (mine := self._of((brief.type, brief.variant))) is not None:
            mine.add(brief)
        else:
            self.uncounted += 1

    def _of(self, key: tuple[str, str]) -> VariantSample | None:
        """What is counted of a variant; None if there are too many."""
        if key in self.variants or len(self.variants) < MOST_VARIANTS:
            return self.variants.setdefault(key, VariantSample())
        return None

    def lines(self) -> Iterator[str]:
        """All of it, a line each."""
        yield json.dumps([self.left_out, self.uncounted])
        for key, one in self.variants.items():
            shape = self.shapes.get(key[1])
            yield json.dumps([*key, one.count, one.examples, one.lasted.to_json(), shape])

    def take(self, line: str) -> None:
        """Count what a line says."""
        first, second, *rest = json.loads(line)
        if not rest:
            self.left_out.update(first)
            self.uncounted += second
            return
        count, examples, lasted, shape = rest
        if (mine := self._of((first, second))) is not None:
            mine.merge(VariantSample(count, examples, Sketch.of_json(lasted), shape))
        else:
            self.uncounted += count


def summed(frame: DataFrame, observed: Horizon, judge: VariantJudge) -> Sums:
    """The variants of all conversations that can be judged."""

    def found(briefs: Iterator[Brief]) -> Iterable[str]:
        sums = Sums()
        for brief in briefs:
            sums.add(brief, state_of(brief, observed, judge))
        yield from sums.lines()

    sums = Sums()
    for line in collected(frame, found):
        sums.take(line)
    return sums


def is_odd(one: VariantCount, sums: Sums, tally: CaseCounts) -> bool:
    """Tell whether a rare variant is rarer than what it is made of would have it.

    Where two things happen now and then, both together are rare, and that says nothing. But what
    would come together `_TOGETHER` times as often, if each step were by itself, is kept apart.
    """
    text = sums.variants[one.type, one.digest].shape
    shape = None if text is None else json.loads(text)
    if shape is None or shape["truncated"]:
        return False
    expected = math.exp(_log_share(shape["steps"], tally)) * one.size / one.share
    return expected >= _LEAST_TOGETHER and expected >= _TOGETHER * one.size


def _log_share(steps: Sequence[Json], tally: CaseCounts) -> float:
    """The logarithm of how often steps lead to what they do, if each effect were by itself."""
    found, waiting = 0.0, [*steps]
    while waiting:
        step = waiting.pop()
        waiting += step["steps"]
        counts = Counter[str]()
        for below in step["steps"]:
            counts[below["type"]] += below["count"]
        found += step["count"] * sum(
            math.log(_share_of(effect, counts[pair[1]], tally.messages[pair[0]].count))
            for pair, effect in tally.effects.items()
            if pair[0] == step["type"]
        )
    return found


def _share_of(effect: Effect, many: int, messages: int) -> float:
    """Of how many messages there are so many effects; a half where there is no such message."""
    times = effect.many[min(many, MOST_MANY)] if many else messages - effect.many.total()
    return max(times, 0.5) / max(messages, 1)


def state_of(brief: Brief, observed: Horizon, judge: VariantJudge) -> str | None:
    """Explain why a conversation is left out; None if it is not."""
    if brief.is_cut:
        return "cut"
    if not observed.is_known(brief):
        return "unknown"
    if judge.is_young(brief, observed.until(brief)):
        return "young"
    return None


class Odd(NamedTuple):
    """A conversation out of the ordinary, and why."""

    root: int
    at: int
    type: str
    variant: str
    reasons: list[Reason]


@dataclass
class Strange:
    """Conversations out of the ordinary, and what those of one reason have in common."""

    count: int = 0
    odd: list[Odd] = field(default_factory=list)
    groups: Counter[Group] = field(default_factory=Counter)
    examples: defaultdict[Group, list[int]] = field(default_factory=lambda: defaultdict(list))
    features: dict[Group, Counter[str]] = field(default_factory=dict)
    others: Counter[str] = field(default_factory=Counter)
    of_others: int = 0

    def take(self, odd: Odd, features: Sequence[str]) -> None:
        """Count one."""
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
        self, got: Briefs, judge: VariantJudge, rare: frozenset[Any], period: Period
    ) -> None:
        """Count the features of what is in the ordinary, those that may tell something."""
        wanted = candidates(self.features)
        if not wanted:
            return
        looks = _looks(got.observed, judge, rare, period)

        def found(briefs: Iterator[Brief]) -> Iterable[str]:
            of_others, others = 0, Counter[str]()
            for _, reasons, features in looks(briefs):
                if not reasons:
                    of_others += 1
                    others.update(wanted.intersection(features))
            yield json.dumps([of_others, others])

        for line in collected(got.frame, found):
            of_others, others = json.loads(line)
            self.of_others += of_others
            self.others.update(others)


Looked: TypeAlias = tuple[Brief, list[Reason], list[str]]


def _looks(
    observed: Horizon, judge: VariantJudge, rare: frozenset[Any], period: Period
) -> Callable[[Iterator[Brief]], Iterator[Looked]]:
    """Of each conversation that can be judged why it is out of the ordinary, and its features."""
    since, until = period.since, period.until

    def looks(briefs: Iterator[Brief]) -> Iterator[Looked]:
        for brief in briefs:
            if state_of(brief, observed, judge) is None:
                reasons = judge.reasons(brief)
                if (brief.type, brief.variant) in rare:
                    reasons.append(Reason("variant", brief.type, brief.variant, brief.root))
                span = (brief.began_at - since) * _SPANS // (until - since)
                begins = iso_time(since + span * (until - since) // _SPANS)
                yield brief, reasons, [*brief.features, feature("time", "", f"from {begins}")]

    return looks


def _strange(got: Briefs, judge: VariantJudge, rare: frozenset[Any], period: Period) -> Strange:
    looks = _looks(got.observed, judge, rare, period)

    def found(briefs: Iterator[Brief]) -> Iterable[str]:
        for brief, reasons, features in looks(briefs):
            if reasons:
                odd = [brief.root, brief.began_at, brief.type, brief.variant, reasons]
                yield json.dumps([odd, features])

    strange = Strange()
    for line in collected(got.frame, found):
        (*facts, reasons), features = json.loads(line)
        strange.take(Odd._make([*facts, [Reason(*each) for each in reasons]]), features)
    strange.odd.sort(key=lambda odd: -odd.root)
    return strange


def _report(
    facts: Json,
    learnt: Learnt,
    sums: Sums,
    counted: Sequence[VariantCount],
    strange: Strange,
    asked: Thresholds,
) -> ExpectationsReport:
    return ExpectationsReport(
        **facts,
        conversations=sums.judged,
        young=sums.left_out["young"],
        unknown=sums.left_out["unknown"],
        cut=sums.left_out["cut"],
        variants_count=len(counted),
        outliers_count=strange.count,
        counted_all=learnt.is_all and not sums.uncounted and strange.count <= MOST_STRANGE,
        types=_types(learnt),
        variants=[_variant(one, sums) for one in _shown(counted)],
        outliers=[_outlier(one) for one in strange.odd[:STRANGE_SHOWN]],
        groups=_groups(strange),
        proposals=proposals(learnt, asked),
    )


def _types(learnt: Learnt) -> list[LearntType]:
    effects: defaultdict[str, list[Expectation]] = defaultdict(list)
    orders: defaultdict[str, list[TypeOrder]] = defaultdict(list)
    for one in learnt.expectations:
        effects[one.type].append(one)
    for order in learnt.orders:
        orders[order.type].append(order)
    return [
        LearntType(
            type=name,
            messages=count,
            waited=_times(learnt.waits[name]) if name in learnt.waits else None,
            leads_to=[_effect(one) for one in effects[name]],
            after=[LearntOrder(each.after, each.cases, each.held) for each in orders[name]],
        )
        for name, count in sorted(learnt.messages.items(), key=lambda one: (-one[1], one[0]))
    ]


def _effect(one: Expectation) -> LearntEffect:
    return LearntEffect(
        type=one.effect,
        cases=one.cases,
        led=one.led,
        share=round(one.share, 6),
        young=one.left_out,
        many=[Multiplicity(each, times) for each, times in one.many.items()],
        within=_times(one.times),
    )


def _times(times: Times) -> TimesTaken:
    slow_from = None if times.slow_from is None else duration(times.slow_from)
    return TimesTaken(duration(times.p50), duration(times.p99), duration(times.p999), slow_from)


def duration(microseconds: float | None) -> Duration:
    """A time as counted, in whole microseconds; none as well."""
    return Duration(round(microseconds or 0))


def _shown(counted: Sequence[VariantCount]) -> list[VariantCount]:
    """The commonest variants, and the rarest of those that are rare."""
    if len(counted) <= VARIANTS_SHOWN:
        return [*counted]
    half = VARIANTS_SHOWN // 2
    rare = [one for one in counted[half:] if one.rare]
    return [*counted[:half], *rare[-half:]]


def _variant(one: VariantCount, sums: Sums) -> LearntVariant:
    seen = sums.variants[one.type, one.digest]
    return LearntVariant(
        variant=one.digest,
        type=one.type,
        count=one.size,
        share=round(one.share, 6),
        rare=one.rare,
        examples=seen.examples,
        lasted=Lasted(*(duration(seen.lasted.quantile(share)) for share in (0.5, 0.99))),
        flow=None if seen.shape is None else Flow.of(json.loads(seen.shape)),
    )


def _outlier(odd: Odd) -> Outlier:
    return Outlier(
        event=odd.root,
        at=Microseconds(odd.at),
        type=odd.type,
        variant=odd.variant,
        reasons=[_reason(each) for each in odd.reasons],
    )


def _reason(reason: Reason) -> OutlierReason:
    is_time = reason.kind in ("slow", "waited")
    return OutlierReason(
        kind=reason.kind,
        type=reason.type,
        other=reason.other,
        event=reason.event,
        seconds=duration(reason.value) if is_time else None,
        count=int(reason.value or 0) if reason.kind == "many" else None,
    )


def _groups(strange: Strange) -> list[OutlierGroup]:
    """Reasons, with what their conversations have in common; those of most first."""
    return [
        OutlierGroup(
            kind=group[0],
            type=group[1],
            other=group[2],
            count=count,
            examples=sorted(strange.examples[group]),
            in_common=contrasts(strange.features[group], count, strange.others, strange.of_others),
        )
        for group, count in strange.groups.most_common(GROUPS_SHOWN)
    ]
