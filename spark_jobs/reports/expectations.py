"""Expectations, learnt from briefs: how often, how many, how soon messages lead to others.

Tallies need bounded memory and can be merged. A message too young for an effect says nothing about
it, so ages of messages are counted too, and shares are taken among those that are old enough, which
follows from the times themselves (`slow_from`). Nothing here does I/O.
"""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from model.reports.learning import Strangeness
from model.sketch import Sketch
from spark_jobs.reports.brief import Brief, Case

Json: TypeAlias = dict[str, Any]
Pair: TypeAlias = tuple[str, str]

MOST_TYPES = 1_000
MOST_PAIRS = 10_000
"""Types, and pairs of types, that are counted; later ones are reported as left out."""
MOST_MANY = 8
"""Effects of one message are counted apart up to this many."""
LEAST_FOR_SLOW = 200
"""Nothing is called slow among fewer times."""
_FALSE_ALARMS = 0.01
_MARGIN = 2.0
_LEAST_MARGIN = 10_000  # µs: capture tells no finer times


@dataclass
class Effect:
    """A direct effect of a type: ``ages`` of the messages that had it (µs), times to the first."""

    ages: Sketch = field(default_factory=Sketch)
    delays: Sketch = field(default_factory=Sketch)
    numbers: Counter[int] = field(default_factory=Counter)

    def merge(self, effect: Effect) -> None:
        self.ages.merge(effect.ages)
        self.delays.merge(effect.delays)
        self.numbers.update(effect.numbers)


class CaseCounts:
    """Counts of cases.

    Attributes:
        messages: by type, how old its messages were when the record ended.
        waits: by type, until all copies of a message were first handed over.
        effects: by type and the type of the effect.
        predecessors: by type and a type that was before: of how many messages.
        marks: by type and how they failed, or that they wait: how many messages.
        is_all: whether all types and pairs were counted.
    """

    def __init__(self) -> None:
        self.messages: defaultdict[str, Sketch] = defaultdict(Sketch)
        self.waits: defaultdict[str, Sketch] = defaultdict(Sketch)
        self.effects: defaultdict[Pair, Effect] = defaultdict(Effect)
        self.predecessors: Counter[Pair] = Counter()
        self.marks: Counter[Pair] = Counter()
        self.is_all = True

    def add(self, case: Case, observed_until: int) -> None:
        """Count a case that was observed up to a time (µs)."""
        if not self._has_room(self.messages, case.type, MOST_TYPES):
            return
        age = max(0, observed_until - case.published_at)
        self.messages[case.type].add(age)
        if case.wait is not None:
            self.waits[case.type].add(case.wait)
        for name, (count, delay) in case.effects.items():
            if self._has_room(self.effects, (case.type, name), MOST_PAIRS):
                effect = self.effects[case.type, name]
                effect.ages.add(age)
                effect.delays.add(delay)
                effect.numbers[min(count, MOST_MANY)] += 1
        for table, names in ((self.predecessors, case.predecessors), (self.marks, case.marks)):
            for name in names:
                pair = (case.type, name)
                if pair in table or self._has_room(table, pair, MOST_PAIRS):
                    table[pair] += 1

    def merge(self, tally: CaseCounts) -> None:
        self.is_all = self.is_all and tally.is_all
        for name, ages in tally.messages.items():
            if self._has_room(self.messages, name, MOST_TYPES):
                self.messages[name].merge(ages)
        for name, waits in tally.waits.items():
            if name in self.messages:
                self.waits[name].merge(waits)
        for pair, effect in tally.effects.items():
            if self._has_room(self.effects, pair, MOST_PAIRS):
                self.effects[pair].merge(effect)
        for table, addition in ((self.predecessors, tally.predecessors), (self.marks, tally.marks)):
            for pair, times in addition.items():
                if self._has_room(table, pair, MOST_PAIRS):
                    table[pair] += times

    def _has_room(self, table: Any, key: Any, limit: int) -> bool:
        if key in table or len(table) < limit:
            return True
        self.is_all = False
        return False

    def to_text(self) -> str:
        """All counts as one line, for `of_text`."""
        return json.dumps(
            [
                {name: ages.to_json() for name, ages in self.messages.items()},
                {name: waits.to_json() for name, waits in self.waits.items()},
                [
                    [*pair, effect.ages.to_json(), effect.delays.to_json(), effect.numbers]
                    for pair, effect in self.effects.items()
                ],
                [[*pair, times] for pair, times in self.predecessors.items()],
                [[*pair, times] for pair, times in self.marks.items()],
                self.is_all,
            ]
        )

    @classmethod
    def of_text(cls, text: str) -> CaseCounts:
        messages, waits, effects, earlier, marks, is_all = json.loads(text)
        tally = cls()
        tally.messages.update((name, Sketch.of_json(ages)) for name, ages in messages.items())
        tally.waits.update((name, Sketch.of_json(text)) for name, text in waits.items())
        for a, b, ages, delays, effect_counts in effects:
            numbers = Counter({int(text): times for text, times in effect_counts.items()})
            tally.effects[a, b] = Effect(Sketch.of_json(ages), Sketch.of_json(delays), numbers)
        tally.predecessors = Counter({(a, b): times for a, b, times in earlier})
        tally.marks = Counter({(a, b): times for a, b, times in marks})
        tally.is_all = is_all
        return tally


class Times(NamedTuple):
    """Times (µs): quantiles, and where slow begins; None if there are too few times."""

    p50: float
    p99: float
    p999: float
    slow_from: float | None
    patience: float

    @classmethod
    def from_sketch(cls, sketch: Sketch) -> Times:
        """The times of a sketch, which counted at least one."""
        p50, p99, p999, longest = (
            sketch.quantile(share) or 0.0 for share in (0.5, 0.99, 0.999, 1.0)
        )
        slow = slow_from(sketch)
        return cls(
            p50, p99, p999, slow, _MARGIN * longest + _LEAST_MARGIN if slow is None else slow
        )


def slow_from(times: Sketch) -> float | None:
    """The time from which one is out of the ordinary (µs); None below `LEAST_FOR_SLOW` cases.

    A tail that continues as from p90 to p99 exceeds half of it in one of a hundred such periods.
    The tail is taken as a Weibull distribution, exact for exponential times; the factor of two is
    for heavier tails.
    """
    if times.count < LEAST_FOR_SLOW:
        return None
    p90, p99 = times.quantile(0.9) or 0.0, times.quantile(0.99) or 0.0
    shape = math.log(p99 / p90) / math.log(2) if p90 else 1.0
    growth = math.log(times.count / _FALSE_ALARMS) / math.log(100)
    return _MARGIN * p99 * math.pow(growth, min(max(shape, 0.25), 3.0)) + _LEAST_MARGIN


@dataclass(frozen=True)
class Expectation:
    """An effect of messages of a type.

    Of ``cases`` messages old enough, ``hits`` led to it; ``left_out`` are too young to tell.
    ``usual`` is how many a message led to, where nearly all led to the same number.
    """

    type: str
    effect: str
    cases: int
    hits: int
    left_out: int
    times: Times
    numbers: dict[int, int]
    usual: int | None

    @property
    def share(self) -> float:
        """The share of the cases that led to it."""
        return self.hits / self.cases if self.cases else 0.0


class TypeOrder(NamedTuple):
    """Messages of a type (``cases``), of which ``hits`` had one of another type before them."""

    type: str
    predecessor: str
    cases: int
    hits: int


class Thresholds(NamedTuple):
    """An effect in this ``share`` of at least ``cases`` messages is expected.

    A variant or an exception is rare below the share ``rare``.
    """

    share: float = 0.95
    cases: int = 100
    rare: float = 0.01


@dataclass(frozen=True)
class Norms:
    """Norms by a tally. ``patience``: the age from which a type's messages are judged."""

    expectations: tuple[Expectation, ...]
    orders: tuple[TypeOrder, ...]
    waits: dict[str, Times]
    messages: dict[str, int]
    marks: dict[Pair, int]
    patience: dict[str, float]
    is_all: bool


def learn(tally: CaseCounts, thresholds: Thresholds) -> Norms:
    expectations = [_expectation(tally, pair, thresholds) for pair in tally.effects]
    expectations.sort(
        key=lambda expectation: (expectation.type, -expectation.hits, expectation.effect)
    )
    waits = {name: Times.from_sketch(sketch) for name, sketch in tally.waits.items()}
    patience = {name: times.patience for name, times in waits.items()}
    for expectation in expectations:
        if expectation.share >= thresholds.rare:
            patience[expectation.type] = max(
                patience.get(expectation.type, 0.0), expectation.times.patience
            )
    return Norms(
        tuple(expectations),
        tuple(_orders(tally, thresholds)),
        waits,
        {name: ages.count for name, ages in tally.messages.items()},
        dict(tally.marks),
        patience,
        tally.is_all,
    )


def _expectation(tally: CaseCounts, pair: Pair, thresholds: Thresholds) -> Expectation:
    effect, ages = tally.effects[pair], tally.messages[pair[0]]
    times = Times.from_sketch(effect.delays)
    cases, hits = ages.count_above(times.patience), effect.ages.count_above(times.patience)
    [(usual, times_usual)] = effect.numbers.most_common(1)
    is_usual = times_usual >= (1 - thresholds.rare) * effect.numbers.total() and usual < MOST_MANY
    return Expectation(
        *pair,
        cases,
        hits,
        ages.count - cases,
        times,
        dict(sorted(effect.numbers.items())),
        usual if is_usual else None,
    )


def _orders(tally: CaseCounts, thresholds: Thresholds) -> Iterable[TypeOrder]:
    """The types that nearly always precede a type, without those that follow from others."""
    pairs = {
        (name, predecessor)
        for (name, predecessor), hits in tally.predecessors.items()
        if name != predecessor
        and tally.messages[name].count >= thresholds.cases
        and hits >= thresholds.share * tally.messages[name].count
    }
    predecessors: defaultdict[str, set[str]] = defaultdict(set)
    for name, predecessor in pairs:
        predecessors[name].add(predecessor)
    for name, predecessor in sorted(pairs):
        # Neither of two types that always precede each other follows from the other.
        if not any(
            predecessor in predecessors[mid] and mid not in predecessors[predecessor]
            for mid in predecessors[name]
        ):
            yield TypeOrder(
                name, predecessor, tally.messages[name].count, tally.predecessors[name, predecessor]
            )


class Reason(NamedTuple):
    """A reason why a conversation is out of the ordinary, given for a message.

    ``kind``: ``missing`` (an effect that it nearly always has), ``unexpected`` (one that it hardly
    ever has), ``many`` (not as many as usual), ``order`` (not after its predecessor), ``slow``
    (until an effect), ``waited`` (until it was handed over), ``failed`` (in a rare way, or it still
    waits), or ``variant`` (parts that rarely come together). ``subject`` is the effect, the
    predecessor, the failure or the variant; ``value`` a number or µs; ``event`` the message.
    """

    kind: Strangeness
    type: str
    subject: str | None
    event: int
    value: float | None = None

    @property
    def group(self) -> tuple[Strangeness, str, str | None]:
        """The key by which conversations with the same reason are grouped."""
        return self.kind, self.type, self.subject


class VariantJudge:
    """Judges conversations by what is normal in a period."""

    def __init__(self, norms: Norms, thresholds: Thresholds) -> None:
        self._patience = norms.patience
        self._waits = {name: times.slow_from for name, times in norms.waits.items()}
        self._effects: defaultdict[str, list[tuple[Expectation, str]]] = defaultdict(list)
        for expectation in norms.expectations:
            self._effects[expectation.type].append((expectation, _nature(expectation, thresholds)))
        self._rare_marks = {
            pair
            for pair, times in norms.marks.items()
            if norms.messages[pair[0]] >= thresholds.cases
            and times < thresholds.rare * norms.messages[pair[0]]
        }
        self._orders: defaultdict[str, list[str]] = defaultdict(list)
        for order in norms.orders:
            if order.hits >= (1 - thresholds.rare) * order.cases:
                self._orders[order.type].append(order.predecessor)

    def is_young(self, brief: Brief, observed_until: int) -> bool:
        """Tell whether more of a conversation may still come."""
        patience = self._patience
        return any(
            observed_until - case.published_at <= patience.get(case.type, 0.0)
            for case in brief.cases
        )

    def reasons(self, brief: Brief) -> list[Reason]:
        """The reasons why a conversation is out of the ordinary, other than a rare variant."""
        return [reason for case in brief.cases for reason in self._reasons_of(case)]

    def _reasons_of(self, case: Case) -> Iterable[Reason]:
        limit = self._waits.get(case.type)
        if limit is not None and case.wait is not None and case.wait > limit:
            yield Reason("waited", case.type, None, case.event, case.wait)
        for mark in case.marks:
            if (case.type, mark) in self._rare_marks:
                yield Reason("failed", case.type, mark, case.event)
        for expectation, nature in self._effects.get(case.type, ()):
            effect = case.effects.get(expectation.effect)
            if effect is None:
                if nature == "always":
                    yield Reason("missing", case.type, expectation.effect, case.event)
                continue
            count, delay = effect
            if nature == "hardly":
                yield Reason("unexpected", case.type, expectation.effect, case.event)
            elif (
                expectation.usual is not None and count != expectation.usual and nature != "unclear"
            ):
                yield Reason("many", case.type, expectation.effect, case.event, count)
            if expectation.times.slow_from is not None and delay > expectation.times.slow_from:
                yield Reason("slow", case.type, expectation.effect, case.event, delay)
        for name in self._orders.get(case.type, ()):
            if name not in case.predecessors:
                yield Reason("order", case.type, name, case.event)


def _nature(expectation: Expectation, thresholds: Thresholds) -> str:
    """The nature of an effect: always or hardly, but for rare ones, or sometimes."""
    if expectation.cases < thresholds.cases:
        return "unclear"
    if expectation.share >= 1 - thresholds.rare:
        return "always"
    return "hardly" if expectation.share < thresholds.rare else "sometimes"


class VariantCount(NamedTuple):
    """A variant: the type of its conversations, how many (``size``), whether it is rare.

    ``rare`` is None where the type has too few conversations to tell, or too many would be rare.
    """

    type: str
    digest: str
    size: int
    share: float
    rare: bool | None


# Being rare says nothing if more than this share of a type's conversations are.
_VARIED = 0.1


def rare_among(
    counts: Sequence[tuple[str, str, int]], thresholds: Thresholds
) -> list[VariantCount]:
    """The variants of these types, digests and counts; the commonest first."""
    totals: Counter[str] = Counter()
    rare: Counter[str] = Counter()
    for name, _, count in counts:
        totals[name] += count
    for name, _, count in counts:
        rare[name] += count if count < thresholds.rare * totals[name] else 0
    can_tell = {
        name
        for name in totals
        if totals[name] >= thresholds.cases and rare[name] <= _VARIED * totals[name]
    }
    variants = [
        VariantCount(
            name,
            digest,
            count,
            count / totals[name],
            count < thresholds.rare * totals[name] if name in can_tell else None,
        )
        for name, digest, count in counts
    ]
    return sorted(variants, key=lambda variant: (-variant.size, variant.type, variant.digest))
