"""Durations over time: how long messages waited in queues, and how long they were handled.

They are counted by the minute and by the hour, each where it ended, on a scale of logarithms. A
step of the scale is 10 % wide, so what is said of a duration is within 5 %. A row has the counts of
a queue or of a service for an hour's minutes, or for a day's hours.
"""

from __future__ import annotations

import enum
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import ceil, sqrt
from typing import Annotated, NamedTuple, TypeAlias

from model.sketch import Sketch, bucket_of
from model.slowness import (
    LEAST_BEFORE,
    LEAST_RATIO,
    LEAST_SINCE,
    SHARES,
    QuantileWord,
    can_tell,
    change_in,
)
from model.times import DAY, HOUR, MINUTE, Duration, Microseconds

WIDTH = 5  # buckets of `model.sketch` in a step
LONGEST = 254  # the step of all that is beyond 32 h
HANDED_OVER = 255  # stands where a step does, for a delivery of whatever duration
ROW_STEPS = 3  # steps in a row of the picture
MOST_SPANS = 120  # in the picture
LEAST_KNOWN = 20  # durations before a change, and since
MOST_SAMPLED = 100  # durations of a span
MOST_ERRORS = 3  # standard errors
LEAST_TOLD = 10_000  # µs: times of trace messages are known no better


class OwnerKind(enum.IntEnum):
    """Whose messages they are: those from a queue, or to a service."""

    queue = 0
    service = 1


class Measured(enum.IntEnum):
    """Which duration it is."""

    waiting = 0
    handling = 1


class Resolution(NamedTuple):
    """The length of the parts of a row's time, of that, and how long it is kept (µs)."""

    part: int
    row: int
    kept: int


BY_MINUTE, BY_HOUR = Resolution(MINUTE, HOUR, 2 * DAY), Resolution(HOUR, DAY, 35 * DAY)

Cells: TypeAlias = dict[int, int]
"""Counts of a row: by what is measured, the part of the row's time, and the step (1, 6, 8 bits)."""

Owner: TypeAlias = tuple[OwnerKind, str]


OTHERS = ""
"""The name under which those are counted together that have no place of their own."""


def busiest(totals: Mapping[str, tuple[str, int]], most: int) -> set[str]:
    """The names that have a place, at most this many, by their user and total.

    A user has as many places as any other that has more names, those of the busiest of its own: so
    nobody takes the others' by names alone. Of equal totals the first stay.
    """
    by_user: defaultdict[str, list[str]] = defaultdict(list)
    for name in sorted(totals, key=lambda name: -totals[name][1]):
        by_user[totals[name][0]].append(name)
    ranked = [(rank, name) for names in by_user.values() for rank, name in enumerate(names)]
    ranked.sort(key=lambda each: (each[0], -totals[each[1]][1]))
    return {name for _, name in ranked[:most]}


class RowKey(NamedTuple):
    """Where counts are stored in a trace: by the length of their parts, and their time (µs)."""

    part: int
    at: int
    kind: OwnerKind
    name: str


class DurationCounts:
    """Counts of events that are read together."""

    def __init__(self) -> None:
        self._by_minute: defaultdict[RowKey, Counter[int]] = defaultdict(Counter)

    def handed_over(self, owners: Iterable[Owner], at: int, waited: int | None) -> None:
        """Count a delivery at a time, and how long its message waited where that is known (µs)."""
        self._add(owners, Measured.waiting, at, HANDED_OVER)
        if waited is not None:
            self._add(owners, Measured.waiting, at, step_of(waited))

    def handled(self, owners: Iterable[Owner], at: int, took: int) -> None:
        """Count how long a message was handled until a time (µs)."""
        self._add(owners, Measured.handling, at, step_of(took))

    def _add(self, owners: Iterable[Owner], measured: Measured, at: int, step: int) -> None:
        begin = at - at % HOUR
        cell = measured << 14 | (at - begin) // MINUTE << 8 | step
        for kind, name in owners:
            self._by_minute[RowKey(MINUTE, begin, kind, name)][cell] += 1

    def rows(self) -> dict[RowKey, Counter[int]]:
        """All counts by minute, and by hour."""
        rows = {**self._by_minute}
        for (_, begin, kind, name), cells in self._by_minute.items():
            day = begin - begin % DAY
            by_hour = rows.setdefault(RowKey(HOUR, day, kind, name), Counter())
            for cell, times in cells.items():
                by_hour[cell & ~0x3F00 | (begin - day) // HOUR << 8] += times
        return rows


def deliveries_in(cells: Cells) -> int:
    """The number of deliveries among some counts."""
    return sum(times for cell, times in cells.items() if cell & 255 == HANDED_OVER)


class OwnerRow(NamedTuple):
    """A stored row of counts."""

    trace_id: int
    at: int
    kind: int
    name: str
    cells: Cells


class CountedPeriod(NamedTuple):
    """A period by the resolution that its counts have, in spans of some length (µs)."""

    since: int
    until: int
    resolution: Resolution
    width: int


class DurationPart(NamedTuple):
    """The counts of a span of time: of all deliveries, and of durations by step."""

    at: int
    handed_over: int
    steps: Mapping[int, int]


class Slowdown(NamedTuple):
    """A change to longer durations that lasts to the end of the period."""

    since: Annotated[Microseconds, "The first span of time with longer ones."]
    quantile: Annotated[QuantileWord, "Which of the two became longer, most clearly."]
    before: Annotated[Duration, "Its value before, the baseline included."]
    after: Annotated[Duration, "Its value since."]
    chance: Annotated[
        float, "Of seeing such a change in any of what was looked at, where nothing changed."
    ]


def counted_period(since: int, until: int, now: int) -> CountedPeriod:
    """A period (µs) in whole spans, as many as there may be, by the best resolution it has."""
    is_recent = since >= now - BY_MINUTE.kept + HOUR
    return _in_spans(since, until, BY_MINUTE if is_recent else BY_HOUR)


def compared_periods(
    period: CountedPeriod, shift: int, now: int
) -> tuple[CountedPeriod, CountedPeriod]:
    """The period this much before (µs), and the period itself, in spans of the same length.

    What is just before a period has twice as many spans as there must be before a change, at least.
    """
    earlier = counted_period(period.since - shift, period.until - shift, now)
    if earlier.resolution != period.resolution:
        period = _in_spans(period.since, period.until, earlier.resolution)
    since, until, resolution, width = period
    end = min(until - shift, since)
    least = 2 * LEAST_BEFORE if end == since else 1
    spans = max(least, -(-(end - since + shift) // width))
    return CountedPeriod(end - spans * width, end, resolution, width), period


def _in_spans(since: int, until: int, resolution: Resolution) -> CountedPeriod:
    part = resolution.part
    width = part * max(1, -(-(until - since) // (MOST_SPANS * part)))
    begin = since - since % part
    spans = -(-max(1, until - begin) // width)
    return CountedPeriod(begin, begin + spans * width, resolution, width)


def parts_of(rows: Iterable[OwnerRow], period: CountedPeriod) -> dict[Measured, list[DurationPart]]:
    """The counts of a period's spans that have any, in the order of time."""
    spans: defaultdict[tuple[int, int], dict[int, int]] = defaultdict(dict)
    since, until, (part, *_), width = period
    for row in rows:
        begin = row.at
        for cell, times in row.cells.items():
            at = begin + (cell >> 8 & 63) * part
            if since <= at < until:
                steps, step = spans[cell >> 14, at - (at - since) % width], cell & 255
                steps[step] = steps.get(step, 0) + times
    parts: dict[Measured, list[DurationPart]] = {each: [] for each in Measured}
    for (measured, at), steps in sorted(spans.items()):
        parts[Measured(measured)].append(DurationPart(at, steps.pop(HANDED_OVER, 0), steps))
    return parts


def slowdown(
    baseline: Sequence[DurationPart], parts: Sequence[DurationPart], looks: float
) -> Slowdown | None:
    """The clearest change in some spans to longer durations; None where none is sure.

    Where it is with the first of the ``parts``, it was then or before. The spans have the same
    length. ``looks``: at how many lists of quantiles the whole answer looks.
    """
    before, those = known(baseline), known(parts)
    if before:
        usual, newest = together(before), together(those[-LEAST_SINCE:])
        if not any(_is_longer(usual, newest, each) for each in SHARES.values()):
            return None  # at a glance
    every, found = [*before, *those], []
    if len(every) < LEAST_BEFORE + LEAST_SINCE:
        return None
    samples = _samples(before, those)
    first = sum(place < len(before) for place in samples)
    for word, share in SHARES.items():
        values = [quantile(each, share) for each in samples.values()]
        change = change_in(values, looks, first)
        if change is not None:
            found.append((change.chance, [*samples][change.place], word))
    for chance, place, word in sorted(found):
        was, since = (together(some) for some in (every[:place], every[place:]))
        share = SHARES[word]
        if (
            min(was.count, since.count) >= LEAST_KNOWN
            and _is_longer(was, since, share)
            and _is_apart(every[:place], every[place:], share)
        ):
            both = quantile(was, share), quantile(since, share)
            return Slowdown(Microseconds(every[place].at), word, *both, chance)
    return None


def comparable(
    baseline: Sequence[DurationPart], parts: Sequence[DurationPart], looks: float
) -> bool:
    """Whether a change to longer durations is sure if all are longer than in the baseline."""
    before = known(baseline)
    samples = _samples(before, known(parts))
    first = sum(place < len(before) for place in samples)
    return can_tell(first, len(samples) - first, looks)


def known(parts: Iterable[DurationPart]) -> list[DurationPart]:
    """Those of which a duration is known."""
    return [part for part in parts if part.steps]


def _samples(before: Sequence[DurationPart], since: Sequence[DurationPart]) -> dict[int, Sketch]:
    """As many durations of each span, drawn by chance, by its place; not of spans with fewer.

    A quantile of more numbers is another: 9 of 10 of three take at most what the longest does. So
    spans can be compared only as if they had the same number. That leaves out at most a quarter of
    those before, of those since, and of the last ones.
    """
    parts = [*before, *since]
    counts = [sum(part.steps.values()) for part in parts]
    lists = counts[: len(before)], counts[len(before) :], counts[-LEAST_BEFORE:]
    most = min([MOST_SAMPLED, *(sorted(some)[len(some) // 4] for some in lists if some)])
    samples = {}
    for place, (part, count) in enumerate(zip(parts, counts, strict=True)):
        if count >= most:
            dice = random.Random(part.at)  # noqa: S311  the same each time, not secret
            those, times = zip(*sorted(part.steps.items()), strict=True)
            some = dice.sample(those, most, counts=times)
            samples[place] = sketch_of(Counter(some))
    return samples


def _is_longer(was: Sketch, since: Sketch, share: float) -> bool:
    return quantile(since, share) >= max(LEAST_TOLD, LEAST_RATIO * quantile(was, share))


def _is_apart(was: Sequence[DurationPart], since: Sequence[DurationPart], share: float) -> bool:
    """Whether a quantile is longer even if both are as wrong as they may be.

    That is a share more and less by standard errors (Woodruff), to which the messages of a span
    count together: those of a burst are alike, and there may be more bursts than before.
    """
    high, low = together(was), together(since)
    most = min(1.0, share + MOST_ERRORS * _error(was, share))
    least = max(1 / low.count, share - MOST_ERRORS * _error(since, share))
    return quantile(low, least) >= quantile(high, most)


def _error(parts: Sequence[DurationPart], share: float) -> float:
    """The standard error of the share that is at or below its quantile."""
    whole = together(parts)
    value, even = quantile(whole, share), share * (1 - share) * whole.count
    sketches = (sketch_of(part.steps) for part in parts)
    off = ((1 - share) * each.count - each.above(value) for each in sketches)
    return sqrt(max(even, sum(each**2 for each in off))) / whole.count


def together(parts: Iterable[DurationPart]) -> Sketch:
    steps: Counter[int] = Counter()
    for each in parts:
        steps.update(each.steps)
    return sketch_of(steps)


def sketch_of(steps: Mapping[int, int]) -> Sketch:
    return Sketch({WIDTH * step + WIDTH // 2: times for step, times in steps.items()})


def quantile(sketch: Sketch, share: float) -> Duration:
    """The least duration that at least this share is at or below."""
    number = sketch.count
    return Duration(round(sketch.quantile((ceil(share * number) - 0.5) / max(1, number - 1)) or 0))


def step_of(duration: int) -> int:
    """The step that a duration (µs) falls into."""
    return min(LONGEST, max(0, bucket_of(duration) // WIDTH))
