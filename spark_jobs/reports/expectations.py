"""Expectations, learnt from briefs: how often, how many, within which time messages lead to others.

A tally counts in bounded memory, and parts that were counted apart can be put together. A message
that is not old enough yet for an effect says nothing about it, neither for nor against: how old
messages are is counted too, and so shares are taken among those that are old enough. What is old
enough follows from the times themselves, see `slow_from`. Nothing here does I/O.
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
"""So many types, and pairs of types, are counted; what comes after is left out, and said."""
MOST_MANY = 8
"""Effects of one message are counted apart up to this many."""
LEAST_FOR_SLOW = 200
"""Of fewer times nothing is called slow."""
_FALSE_ALARMS = 0.01
_MARGIN = 2.0
_LEAST_MARGIN = 10_000  # µs: capture tells no finer times


@dataclass
class Effect:
    """A direct effect of a type: ``ages`` of the messages that had it (µs), times to the first."""

    ages: Sketch = field(default_factory=Sketch)
    delays: Sketch = field(default_factory=Sketch)
    many: Counter[int] = field(default_factory=Counter)

    def merge(self, other: Effect) -> None:
        """Count all that another one did."""
        self.ages.merge(other.ages)
        self.delays.merge(other.delays)
        self.many.update(other.many)


class CaseCounts:
    """Counts of cases.

    Attributes:
        messages: by type, how old its messages were when the record ended.
        waits: by type, until all copies of a message were first handed over.
        effects: by type and the type of the effect.
        before: by type and a type that was before: of how many messages.
        marks: by type and how they failed, or that they wait: how many messages.
        is_all: whether all types and pairs were counted.
    """

    def __init__(self) -> None:
        self.messages: defaultdict[str, Sketch] = defaultdict(Sketch)
        self.waits: defaultdict[str, Sketch] = defaultdict(Sketch)
        self.effects: defaultdict[Pair, Effect] = defaultdict(Effect)
        self.before: Counter[Pair] = Counter()
        self.marks: Counter[Pair] = Counter()
        self.is_all = True

    def add(self, case: Case, observed_until: int) -> None:
        """Count a case that was observed up to a time (µs)."""
        if not self._has_room(self.messages, case.type, MOST_TYPES):
            return
        age = max(0, observed_until - case.at)
        self.messages[case.type].add(age)
        if case.waited is not None:
            self.waits[case.type].add(case.waited)
        for name, (many, delay) in case.effects.items():
            if self._has_room(self.effects, (case.type, name), MOST_PAIRS):
                effect = self.effects[case.type, name]
                effect.ages.add(age)
                effect.delays.add(delay)
                effect.many[min(many, MOST_MANY)] += 1
        for table, names in ((self.before, case.before), (self.marks, case.marks)):
            for name in names:
                pair = (case.type, name)
                if pair in table or self._has_room(table, pair, MOST_PAIRS):
                    table[pair] += 1

    def merge(self, other: CaseCounts) -> None:
        """Count all that another one did."""
        self.is_all = self.is_all and other.is_all
        for name, ages in other.messages.items():
            if self._has_room(self.messages, name, MOST_TYPES):
                self.messages[name].merge(ages)
        for name, waits in other.waits.items():
            if name in self.messages:
                self.waits[name].merge(waits)
        for pair, effect in other.effects.items():
            if self._has_room(self.effects, pair, MOST_PAIRS):
                self.effects[pair].merge(effect)
        for mine, theirs in ((self.before, other.before), (self.marks, other.marks)):
            for pair, times in theirs.items():
                if self._has_room(mine, pair, MOST_PAIRS):
                    mine[pair] += times

    def _has_room(self, table: Any, key: Any, most: int) -> bool:
        if key in table or len(table) < most:
            return True
        self.is_all = False
        return False

    def to_text(self) -> str:
        """All of it as a line; `of_text` reads it."""
        return json.dumps(
            [
                {name: ages.to_json() for name, ages in self.messages.items()},
                {name: waits.to_json() for name, waits in self.waits.items()},
                [
                    [*pair, one.ages.to_json(), one.delays.to_json(), one.many]
                    for pair, one in self.effects.items()
                ],
                [[*pair, times] for pair, times in self.before.items()],
                [[*pair, times] for pair, times in self.marks.items()],
                self.is_all,
            ]
        )

    @classmethod
    def of_text(cls, text: str) -> CaseCounts:
        """The value that `to_text` wrote."""
        messages, waits, effects, before, marks, is_all = json.loads(text)
        made = cls()
        made.messages.update((name, Sketch.of_json(ages)) for name, ages in messages.items())
        made.waits.update((name, Sketch.of_json(each)) for name, each in waits.items())
        for a, b, ages, delays, many in effects:
            counts = Counter({int(each): times for each, times in many.items()})
            made.effects[a, b] = Effect(Sketch.of_json(ages), Sketch.of_json(delays), counts)
        made.before = Counter({(a, b): times for a, b, times in before})
        made.marks = Counter({(a, b): times for a, b, times in marks})
        made.is_all = is_all
        return made


class Times(NamedTuple):
    """Times (µs): quantiles, and from when on it is slow; None if too few tell."""

    p50: float
    p99: float
    p999: float
    slow_from: float | None
    patience: float

    @classmethod
    def of(cls, sketch: Sketch) -> Times:
        """The times that a sketch counted, at least one."""
        p50, p99, p999, most = (sketch.quantile(share) or 0.0 for share in (0.5, 0.99, 0.999, 1.0))
        slow = slow_from(sketch)
        return cls(p50, p99, p999, slow, _MARGIN * most + _LEAST_MARGIN if slow is None else slow)


def slow_from(times: Sketch) -> float | None:
    """Find the time from which one is out of the ordinary (µs); None below `LEAST_FOR_SLOW` cases.

    A tail that goes on as it does from p90 to p99 would be longer than half of it in one of a
    hundred periods like this one. "As it does" is by a Weibull distribution, which is exact for
    times that are exponential; the factor of two is for tails that are heavier.
    """
    if times.count < LEAST_FOR_SLOW:
        return None
    p90, p99 = times.quantile(0.9) or 0.0, times.quantile(0.99) or 0.0
    shape = math.log(p99 / p90) / math.log(2) if p90 else 1.0
    grown = math.log(times.count / _FALSE_ALARMS) / math.log(100)
    return _MARGIN * p99 * math.pow(grown, min(max(shape, 0.25), 3.0)) + _LEAST_MARGIN


@dataclass(frozen=True)
class Expectation:
    """The effects of messages of a type, of those that are old enough.

    ``cases`` are these, ``led`` of them did, ``left_out`` are too young to tell. ``usual`` is how
    many it led to where nearly all of these led to the same number.
    """

    type: str
    effect: str
    cases: int
    led: int
    left_out: int
    times: Times
    many: dict[int, int]
    usual: int | None

    @property
    def share(self) -> float:
        """Of the cases that were old enough, how many led to it."""
        return self.led / self.cases if self.cases else 0.0


class TypeOrder(NamedTuple):
    """Messages of a type, and how many of them had one of another type before them."""

    type: str
    after: str
    cases: int
    held: int


class Thresholds(NamedTuple):
    """The thresholds: an effect in this share of at least so many cases is expected.

    A variant or an exception is rare below the share ``rare``.
    """

    share: float = 0.95
    cases: int = 100
    rare: float = 0.01


@dataclass(frozen=True)
class Learnt:
    """All that a tally says. ``patience`` is by type: how old a message must be to be judged."""

    expectations: tuple[Expectation, ...]
    orders: tuple[TypeOrder, ...]
    waits: dict[str, Times]
    messages: dict[str, int]
    marks: dict[Pair, int]
    patience: dict[str, float]
    is_all: bool


def learn(tally: CaseCounts, asked: Thresholds) -> Learnt:
    """The expectations of each type, by a tally."""
    found = [_expectation(tally, pair, asked) for pair in tally.effects]
    found.sort(key=lambda one: (one.type, -one.led, one.effect))
    waits = {name: Times.of(each) for name, each in tally.waits.items()}
    patience = {name: times.patience for name, times in waits.items()}
    for one in found:
        if one.share >= asked.rare:
            patience[one.type] = max(patience.get(one.type, 0.0), one.times.patience)
    return Learnt(
        tuple(found),
        tuple(_orders(tally, asked)),
        waits,
        {name: ages.count for name, ages in tally.messages.items()},
        dict(tally.marks),
        patience,
        tally.is_all,
    )


def _expectation(tally: CaseCounts, pair: Pair, asked: Thresholds) -> Expectation:
    effect, ages = tally.effects[pair], tally.messages[pair[0]]
    times = Times.of(effect.delays)
    cases, led = ages.above(times.patience), effect.ages.above(times.patience)
    [(usual, most)] = effect.many.most_common(1)
    is_usual = most >= (1 - asked.rare) * effect.many.total() and usual < MOST_MANY
    return Expectation(
        *pair,
        cases,
        led,
        ages.count - cases,
        times,
        dict(sorted(effect.many.items())),
        usual if is_usual else None,
    )


def _orders(tally: CaseCounts, asked: Thresholds) -> Iterable[TypeOrder]:
    """Find what nearly always was before a type, of enough messages; not what follows from that."""
    found = {
        (name, after)
        for (name, after), held in tally.before.items()
        if name != after
        and tally.messages[name].count >= asked.cases
        and held >= asked.share * tally.messages[name].count
    }
    afters: defaultdict[str, set[str]] = defaultdict(set)
    for name, after in found:
        afters[name].add(after)
    for name, after in sorted(found):
        # Of two that are always before each other neither follows from the other.
        if not any(after in afters[mid] and mid not in afters[after] for mid in afters[name]):
            yield TypeOrder(name, after, tally.messages[name].count, tally.before[name, after])


class Reason(NamedTuple):
    """A reason why a conversation is out of the ordinary, told of a message.

    ``kind``: ``missing`` (an effect that it nearly always has), ``unexpected`` (one that it hardly
    ever has), ``many`` (not as many as usual), ``order`` (not after what otherwise was before),
    ``slow`` (until an effect), ``waited`` (until it was handed over), ``failed`` (in a way in which
    hardly any fail, or it still waits), or ``variant`` (parts that are not seen together).
    ``other`` is the effect, what should have been before, the failure or the variant; ``value`` how
    many, or µs; ``event`` the message.
    """

    kind: Strangeness
    type: str
    other: str | None
    event: int
    value: float | None = None

    @property
    def group(self) -> tuple[Strangeness, str, str | None]:
        """The features that conversations have which are so for the same reason."""
        return self.kind, self.type, self.other


class VariantJudge:
    """Judges conversations by what was learnt from all of them."""

    def __init__(self, learnt: Learnt, asked: Thresholds) -> None:
        self._patience = learnt.patience
        self._waits = {name: times.slow_from for name, times in learnt.waits.items()}
        self._effects: defaultdict[str, list[tuple[Expectation, str]]] = defaultdict(list)
        for one in learnt.expectations:
            self._effects[one.type].append((one, _nature(one, asked)))
        self._rare_marks = {
            pair
            for pair, times in learnt.marks.items()
            if learnt.messages[pair[0]] >= asked.cases
            and times < asked.rare * learnt.messages[pair[0]]
        }
        self._orders: defaultdict[str, list[str]] = defaultdict(list)
        for order in learnt.orders:
            if order.held >= (1 - asked.rare) * order.cases:
                self._orders[order.type].append(order.after)

    def is_young(self, brief: Brief, observed_until: int) -> bool:
        """Tell whether more of a conversation may be still to come."""
        patience = self._patience
        return any(observed_until - case.at <= patience.get(case.type, 0.0) for case in brief.cases)

    def reasons(self, brief: Brief) -> list[Reason]:
        """Find why a conversation is out of the ordinary, but for its variant's being rare."""
        return [reason for case in brief.cases for reason in self._of(case)]

    def _of(self, case: Case) -> Iterable[Reason]:
        limit = self._waits.get(case.type)
        if limit is not None and case.waited is not None and case.waited > limit:
            yield Reason("waited", case.type, None, case.event, case.waited)
        for mark in case.marks:
            if (case.type, mark) in self._rare_marks:
                yield Reason("failed", case.type, mark, case.event)
        for one, nature in self._effects.get(case.type, ()):
            found = case.effects.get(one.effect)
            if found is None:
                if nature == "always":
                    yield Reason("missing", case.type, one.effect, case.event)
                continue
            many, delay = found
            if nature == "hardly":
                yield Reason("unexpected", case.type, one.effect, case.event)
            elif one.usual is not None and many != one.usual and nature != "unclear":
                yield Reason("many", case.type, one.effect, case.event, many)
            if one.times.slow_from is not None and delay > one.times.slow_from:
                yield Reason("slow", case.type, one.effect, case.event, delay)
        for name in self._orders.get(case.type, ()):
            if name not in case.before:
                yield Reason("order", case.type, name, case.event)


def _nature(one: Expectation, asked: Thresholds) -> str:
    """The nature of an effect: always or hardly, but for rare ones, or sometimes."""
    if one.cases < asked.cases:
        return "unclear"
    if one.share >= 1 - asked.rare:
        return "always"
    return "hardly" if one.share < asked.rare else "sometimes"


class VariantCount(NamedTuple):
    """A variant: of what type its conversations are, how many (``size``), whether they are rare.

    ``rare`` is None where there are too few conversations of the type to say so, or where too many
    of them would be.
    """

    type: str
    digest: str
    size: int
    share: float
    rare: bool | None


# Where more than this share of a type's conversations are rare, being rare says nothing.
_VARIED = 0.1


def rare_among(counts: Sequence[tuple[str, str, int]], asked: Thresholds) -> list[VariantCount]:
    """Variants by type, digest and count, with which of them are rare; the commonest first."""
    totals: Counter[str] = Counter()
    rare: Counter[str] = Counter()
    for name, _, count in counts:
        totals[name] += count
    for name, _, count in counts:
        rare[name] += count if count < asked.rare * totals[name] else 0
    can_tell = {
        name
        for name in totals
        if totals[name] >= asked.cases and rare[name] <= _VARIED * totals[name]
    }
    found = [
        VariantCount(
            name,
            digest,
            count,
            count / totals[name],
            count < asked.rare * totals[name] if name in can_tell else None,
        )
        for name, digest, count in counts
    ]
    return sorted(found, key=lambda one: (-one.size, one.type, one.digest))
