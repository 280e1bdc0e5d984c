"""Durations over time: how long messages waited in queues, and how long they were handled.

They are counted by the minute and by the hour in which they ended, on a logarithmic scale with
steps of 10 %: figures are within 5 %. A row has the counts of a queue or a service for an hour's
minutes, or for a day's hours; one row has all counts since the first.
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
from model.times import DAY, HOUR, LATEST, MINUTE, Duration, Microseconds

WIDTH = 5  # buckets of `model.sketch` in a step
LONGEST = 254  # the step of all beyond 32 h
HANDED_OVER = 255  # in place of a step: any delivery
ROW_STEPS = 3  # steps in a row of the picture
MOST_OWNERS = 1_000
"""Queues of a virtual host, and services, that have counts of their own in a row's time."""
MOST_SPANS = 120  # in the picture
LEAST_KNOWN = 20  # durations before a change, and since
MOST_SAMPLED = 100  # durations of a span
ENOUGH_SAMPLED = 5  # rather than to leave spans out
MOST_ERRORS = 3  # standard errors
MOST_LOCATED = 4  # rounds
LEAST_TOLD = 10_000  # µs: the resolution of trace messages' times


class OwnerKind(enum.IntEnum):
    """The owner of messages: the queue they are from, or the service they go to."""

    queue = 0
    service = 1


class Measured(enum.IntEnum):
    """The measured duration."""

    waiting = 0
    handling = 1


class Resolution(NamedTuple):
    """The length of a row's parts, of a row's whole time, and how long rows are kept (µs)."""

    part: int
    row: int
    retention: int


BY_MINUTE, BY_HOUR = Resolution(MINUTE, HOUR, 2 * DAY), Resolution(HOUR, DAY, 35 * DAY)
EVER = Resolution(0, 0, LATEST)
"""One row of all counts, which has the ends of copies and sums, too."""

Cells: TypeAlias = dict[int, int]
"""Counts of a row, by `Measured`, part of the row's time, and step (3, 6 and 8 bits)."""


class CopyEnd(enum.IntEnum):
    """The end of a copy's stay at its consumer or in its queue: back, or dead for a reason."""

    returned = 0
    rejected = 1
    expired = 2
    maxlen = 3
    delivery_limit = 4
    other = 5
    given_back = 6
    channel_closed = 7


RETURNS = {
    CopyEnd.returned: "unknown",
    CopyEnd.given_back: "given_back",
    CopyEnd.channel_closed: "channel_closed",
}
"""The ends by which a copy is in its queue again, and the words for why."""


# In place of a measured duration; those of `SUMS` on are sums of measured ones (µs).
ENDS = len(Measured)
SUMS = ENDS + 1

Owner: TypeAlias = tuple[OwnerKind, str]

REST = ""
"""The name under which owners beyond the bound are counted together."""


def busiest(totals: Mapping[str, tuple[str, int]], limit: int) -> set[str]:
    """The names that are counted by themselves, from each name's user and total.

    Users take turns, each with the busiest of its names, so that nobody crowds others out by names
    alone. Of equal totals the first stay.
    """
    by_user: defaultdict[str, list[str]] = defaultdict(list)
    for name in sorted(totals, key=lambda name: -totals[name][1]):
        by_user[totals[name][0]].append(name)
    ranked = [(rank, name) for names in by_user.values() for rank, name in enumerate(names)]
    ranked.sort(key=lambda place: (place[0], -totals[place[1]][1]))
    return {name for _, name in ranked[:limit]}


class RowKey(NamedTuple):
    """The key of a stored row within its trace: the length of its parts, and its time (µs)."""

    part: int
    begin: int
    kind: OwnerKind
    name: str


class DurationCounts:
    """Counts of events that are read together."""

    def __init__(self) -> None:
        self._by_minute: defaultdict[RowKey, Counter[int]] = defaultdict(Counter)
        self._ever: defaultdict[Owner, Counter[int]] = defaultdict(Counter)

    def count_delivery(self, owners: Iterable[Owner], moment: int, wait: int | None) -> None:
        """Count a delivery, and its message's wait (µs) where that is known."""
        steps = (HANDED_OVER,) if wait is None else (HANDED_OVER, step_of(wait))
        self._add(owners, Measured.waiting, moment, steps, wait or 0)

    def count_handling(self, owners: Iterable[Owner], moment: int, took: int) -> None:
        """Count how long a message was handled (µs), at the end of that time."""
        self._add(owners, Measured.handling, moment, (step_of(took),), took)

    def count_end(self, owners: Iterable[Owner], moment: int, end: CopyEnd) -> None:
        """Count the end of a copy's stay, which became known at this moment (µs)."""
        self._add(owners, Measured.waiting, moment, (), 0)  # a row shows that there was something
        for owner in owners:
            self._ever[owner][ENDS << 14 | end] += 1

    def _add(
        self,
        owners: Iterable[Owner],
        measured: Measured,
        moment: int,
        steps: Sequence[int],
        took: int,
    ) -> None:
        begin = moment - moment % HOUR
        first = measured << 14 | (moment - begin) // MINUTE << 8
        total = SUMS + measured << 14
        for owner in owners:
            row = self._by_minute[RowKey(MINUTE, begin, *owner)]
            for step in steps:
                row[first | step] += 1
            if took:
                self._ever[owner][total] += took

    def rows(self) -> dict[RowKey, Counter[int]]:
        """All counts by minute, by hour, and since the first."""
        rows = {**self._by_minute}
        for owner, cells in self._ever.items():
            rows[RowKey(EVER.part, 0, *owner)] = Counter(cells)
        for (_, begin, kind, name), cells in self._by_minute.items():
            day = begin - begin % DAY
            by_hour = rows.setdefault(RowKey(HOUR, day, kind, name), Counter())
            ever = rows.setdefault(RowKey(EVER.part, 0, kind, name), Counter())
            for cell, times in cells.items():
                by_hour[cell & ~0x3F00 | (begin - day) // HOUR << 8] += times
                ever[cell & ~0x3F00] += times
        return rows


def counts_of(cells: Cells, measured: int = Measured.waiting) -> dict[int, int]:
    """The counts of one measured duration by step, or of `ENDS` by `CopyEnd`."""
    return {cell & 255: times for cell, times in cells.items() if cell >> 14 == measured}


def number_in(cells: Mapping[int, int]) -> int:
    """The number of all that is counted in a row."""
    return sum(times for cell, times in cells.items() if cell >> 14 < SUMS)


class OwnerRow(NamedTuple):
    """A stored row of counts."""

    trace_id: int
    begin: int
    kind: int
    name: str
    cells: Cells


class CountedPeriod(NamedTuple):
    """A period in spans of some width (µs), at the resolution of its counts."""

    begin: int
    end: int
    resolution: Resolution
    width: int


class DurationPart(NamedTuple):
    """The counts of a span of time: all deliveries, and durations by step."""

    begin: int
    handed_over: int
    steps: Mapping[int, int]


class Slowdown(NamedTuple):
    """A change to longer durations that lasts to the end of the period."""

    since: Annotated[Microseconds, "The first span of time with longer ones."]
    quantile: Annotated[QuantileWord, "Which of the two became longer, most clearly."]
    before: Annotated[Duration, "Its value before, the baseline included."]
    after: Annotated[Duration, "Its value since."]
    chance: Annotated[
        float, "Of seeing such a change in any of the compared ones, if nothing changed."
    ]


def counted_period(begin: int, end: int, moment: int) -> CountedPeriod:
    """A period (µs) in as many whole spans as there may be, at the best resolution it has."""
    is_recent = begin >= moment - BY_MINUTE.retention + HOUR
    return _in_spans(begin, end, BY_MINUTE if is_recent else BY_HOUR)


def compared_periods(
    period: CountedPeriod, shift: int, moment: int
) -> tuple[CountedPeriod, CountedPeriod]:
    """The period ``shift`` µs before, and the period itself, in spans of the same width.

    A baseline that ends where the period begins has at least twice the spans a change needs.
    """
    earlier = counted_period(period.begin - shift, period.end - shift, moment)
    if earlier.resolution != period.resolution:
        period = _in_spans(period.begin, period.end, earlier.resolution)
    begin, stop, resolution, width = period
    end = min(stop - shift, begin)
    minimum = 2 * LEAST_BEFORE if end == begin else 1
    spans = max(minimum, -(-(end - begin + shift) // width))
    return CountedPeriod(end - spans * width, end, resolution, width), period


def _in_spans(first: int, end: int, resolution: Resolution) -> CountedPeriod:
    part = resolution.part
    width = part * max(1, -(-(end - first) // (MOST_SPANS * part)))
    begin = first - first % part
    spans = -(-max(1, end - begin) // width)
    return CountedPeriod(begin, begin + spans * width, resolution, width)


def parts_of(rows: Iterable[OwnerRow], period: CountedPeriod) -> dict[Measured, list[DurationPart]]:
    """A period's spans that have counts, in the order of time."""
    spans: defaultdict[tuple[int, int], dict[int, int]] = defaultdict(dict)
    first, end, (part, *_), width = period
    for row in rows:
        begin = row.begin
        for cell, times in row.cells.items():
            moment = begin + (cell >> 8 & 63) * part
            if first <= moment < end:
                steps, step = spans[cell >> 14, moment - (moment - first) % width], cell & 255
                steps[step] = steps.get(step, 0) + times
    parts: dict[Measured, list[DurationPart]] = {measured: [] for measured in Measured}
    for (measured, moment), steps in sorted(spans.items()):
        parts[Measured(measured)].append(DurationPart(moment, steps.pop(HANDED_OVER, 0), steps))
    return parts


def slowdown(
    baseline: Sequence[DurationPart],
    parts: Sequence[DurationPart],
    looks: float,
    earliest: int = 0,
) -> Slowdown | None:
    """The clearest change to longer durations; None where none is sure.

    Those of the ``parts`` are longer. Where the baseline leads up to them, the change may have been
    in it: not before the time ``earliest`` (µs). ``looks``: the number of lists of quantiles that
    the whole answer looks at.
    """
    usual_parts, new_parts = nonempty(baseline), nonempty(parts)
    if usual_parts:
        usual, newest = merge_parts(usual_parts), merge_parts(new_parts[-LEAST_SINCE:])
        if not any(_is_longer(usual, newest, share) for share in SHARES.values()):
            return None  # cheaply: most have no change
    spans, changes = [*usual_parts, *new_parts], []
    if len(spans) < LEAST_BEFORE + LEAST_SINCE:
        return None
    samples = _samples(usual_parts, new_parts)
    first = sum(place < len(usual_parts) for place in samples)
    for word, share in SHARES.items():
        values = [quantile(sample, share) for sample in samples.values()]
        change = change_in(values, looks, first)
        if change is not None:
            changes.append((change.chance, [*samples][change.place], word))
    for chance, place, word in sorted(changes):
        first = _first_longer(spans, place, earliest)
        earlier, current = (merge_parts(portion) for portion in (spans[:first], spans[first:]))
        share = SHARES[word]
        if (
            min(earlier.count, current.count) >= LEAST_KNOWN
            and _is_longer(earlier, current, share)
            and _is_apart(spans[:first], spans[first:], share)
        ):
            quantiles = quantile(earlier, share), quantile(current, share)
            return Slowdown(Microseconds(spans[first].begin), word, *quantiles, chance)
    return None


def _first_longer(spans: Sequence[DurationPart], place: int, earliest: int) -> int:
    """The likeliest first span of a change that is near a place, not before the time ``earliest``.

    All durations count, as longer or not than the length that parts those before and since best:
    whether a span belongs to these is up to its own, so the moment stays as further spans come.
    """
    for _ in range(MOST_LOCATED):
        before, since = (merge_parts(portion) for portion in (spans[:place], spans[place:]))
        lengths = sorted({*before.buckets, *since.buckets})
        length = max(lengths, key=lambda n: _share_above(since, n) - _share_above(before, n))
        middle = (_share_above(before, length) + _share_above(since, length)) / 2
        first, clear, clearest = place, 0.0, 0.0
        for index in range(len(spans) - 1, 0, -1):
            if spans[index].begin < earliest:
                break
            sketch = sketch_of(spans[index].steps)
            clear += sketch.count * (_share_above(sketch, length) - middle)
            if clear > clearest:
                first, clearest = index, clear
        if first == place:
            break
        place = first
    return place


def _share_above(sketch: Sketch, length: int) -> float:
    """The share of durations in buckets beyond one."""
    return sum(n for bucket, n in sketch.buckets.items() if bucket > length) / sketch.count


def comparable(
    baseline: Sequence[DurationPart], parts: Sequence[DurationPart], looks: float
) -> bool:
    """Tell whether there is enough to be sure of a change in which all durations are longer."""
    usual = nonempty(baseline)
    samples = _samples(usual, nonempty(parts))
    first = sum(place < len(usual) for place in samples)
    return can_tell(first, len(samples) - first, looks)


def nonempty(parts: Iterable[DurationPart]) -> list[DurationPart]:
    """The parts that have durations."""
    return [part for part in parts if part.steps]


def _samples(earlier: Sequence[DurationPart], current: Sequence[DurationPart]) -> dict[int, Sketch]:
    """Equally large random samples of the spans' durations, by index; spans with fewer have none.

    Quantiles of samples of different sizes cannot be compared: the 90th percentile of three is
    their longest. At most a quarter of the spans before, of those since and of the last are left
    out.
    """
    parts = [*earlier, *current]
    counts = [sum(part.steps.values()) for part in parts]
    lists = counts[: len(earlier)], counts[len(earlier) :], counts[-LEAST_BEFORE:]
    most = min([MOST_SAMPLED, *(sorted(group)[len(group) // 4] for group in lists if group)])
    size = min(most, max(ENOUGH_SAMPLED, min(counts, default=0)))
    samples = {}
    for place, (part, count) in enumerate(zip(parts, counts, strict=True)):
        if count >= size:
            dice = random.Random(part.begin)  # noqa: S311  the same each time, not secret
            steps, times = zip(*sorted(part.steps.items()), strict=True)
            sample = dice.sample(steps, size, counts=times)
            samples[place] = sketch_of(Counter(sample))
    return samples


def _is_longer(earlier: Sketch, current: Sketch, share: float) -> bool:
    return quantile(current, share) >= max(LEAST_TOLD, LEAST_RATIO * quantile(earlier, share))


def _is_apart(
    earlier: Sequence[DurationPart], current: Sequence[DurationPart], share: float
) -> bool:
    """Tell whether a quantile is longer even where both err by `MOST_ERRORS` (Woodruff).

    For the standard errors a span's messages count together: those of a burst are alike, and there
    may be more bursts than before.
    """
    high, low = merge_parts(earlier), merge_parts(current)
    upper_share = min(1.0, share + MOST_ERRORS * _error(earlier, share))
    lower_share = max(1 / low.count, share - MOST_ERRORS * _error(current, share))
    return quantile(low, lower_share) >= quantile(high, upper_share)


def _error(parts: Sequence[DurationPart], share: float) -> float:
    """The standard error of the share of durations at or below their quantile."""
    whole = merge_parts(parts)
    value, variance = quantile(whole, share), share * (1 - share) * whole.count
    sketches = (sketch_of(part.steps) for part in parts)
    deviations = ((1 - share) * sketch.count - sketch.count_above(value) for sketch in sketches)
    return sqrt(max(variance, sum(deviation**2 for deviation in deviations))) / whole.count


def merge_parts(parts: Iterable[DurationPart]) -> Sketch:
    steps: Counter[int] = Counter()
    for part in parts:
        steps.update(part.steps)
    return sketch_of(steps)


def sketch_of(steps: Mapping[int, int]) -> Sketch:
    return Sketch({WIDTH * step + WIDTH // 2: times for step, times in steps.items()})


def quantile(sketch: Sketch, share: float) -> Duration:
    """The least duration that at least this share does not exceed."""
    number = sketch.count
    return Duration(round(sketch.quantile((ceil(share * number) - 0.5) / max(1, number - 1)) or 0))


def step_of(duration: int) -> int:
    return min(LONGEST, max(0, bucket_of(duration) // WIDTH))
