"""Answers on how long messages wait and are handled, over time, and what became slower."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Annotated

import msgspec

from model.durations import (
    BY_MINUTE,
    ROW_STEPS,
    WIDTH,
    CountedPeriod,
    DurationPart,
    Measured,
    Owner,
    OwnerKind,
    OwnerRow,
    Slowdown,
    comparable,
    merge_parts,
    nonempty,
    parts_of,
    quantile,
    sketch_of,
    slowdown,
)
from model.sketch import limit_of
from model.slowness import LEAST_BEFORE, LEAST_SINCE, LEVEL, SHARES
from model.times import HOUR, MINUTE, Duration, Microseconds


class DurationSpan(msgspec.Struct, frozen=True):
    """The durations that ended in a span of time."""

    at: Microseconds
    count: int
    median: Duration
    p90: Annotated[Duration, "What 9 of 10 of them were at most."]
    counts: Annotated[list[int], "By length, as `limits` say."]


class UsualDurations(msgspec.Struct, frozen=True):
    """The durations of a whole period; `null` where there are none."""

    count: int
    median: Duration | None
    p90: Duration | None
    spans: Annotated[int, "The number of spans in which any ended."]


class DurationSeries(msgspec.Struct, frozen=True, kw_only=True):
    """Durations over time; unknown ones are left out."""

    usual: UsualDurations
    baseline: Annotated[UsualDurations, "Of the period that it is compared with."]
    limits: Annotated[list[Duration], "The greatest length of those in each of a span's `counts`."]
    spans: Annotated[list[DurationSpan], "Those in which any ended."]
    change: Annotated[Slowdown | None, "Since when they are longer; `null` where that is not sure."]
    comparable: Annotated[
        bool, "Whether there are spans enough, of the baseline and of the period, to be sure."
    ]


class DurationMap(msgspec.Struct, frozen=True, kw_only=True):
    """Waiting and handling times over time, of a queue or of a service."""

    vhost: str
    queue: str | None
    service: str | None
    since: Microseconds
    until: Microseconds
    seconds: Annotated[Duration, "How long each span is."]
    baseline_since: Microseconds
    baseline_until: Microseconds
    as_of: Annotated[
        Microseconds | None, "Events until then are counted; `null`: all that are stored."
    ]
    level: Annotated[float, "The chance of telling a change, at most, where only rates changed."]
    handed_over: Annotated[int, "Deliveries in the period, whether or not more is known of them."]
    waiting: Annotated[
        DurationSeries, "From a publish to the first delivery, where the publish is known."
    ]
    handling: Annotated[
        DurationSeries,
        "From a delivery until it was acknowledged or rejected, as the broker plugin says; without "
        "its word until the first publish that names the delivery as its cause.",
    ]
    queues: Annotated[
        list[str],
        "Those of these days; at most 1000 a day, as of services: the busiest of each user.",
    ]
    services: list[str]
    other_queues: Annotated[int, "Deliveries of these days from all others, counted together."]
    other_services: Annotated[int, "The same of services."]


class UsualTimes(msgspec.Struct, frozen=True):
    """The usual waiting or handling time, before it became longer where it did."""

    usual: Annotated[UsualDurations, "Of the two hours up to the time, or the two days."]
    slower: Annotated[Slowdown | None, "Since when they are longer, in the later half."]


class UsualOwner(msgspec.Struct, frozen=True, kw_only=True):
    """The usual times of a queue or of a service."""

    queue: str | None = None
    service: str | None = None
    waiting: UsualTimes
    handling: UsualTimes


class SlowOwner(msgspec.Struct, frozen=True, kw_only=True):
    """A queue or service with longer times than before."""

    vhost: str
    queue: str | None
    service: str | None
    measured: Measured
    change: Slowdown


class SlowOwners(msgspec.Struct, frozen=True):
    """Queues and services that became slow in the last hour, against the hour before."""

    as_of: Annotated[Microseconds, "Events until then are counted."]
    looked_at: Annotated[int, "Queues and services with enough messages to compare."]
    looked_at_all: Annotated[
        bool, "Whether all that had messages were; else the busiest of each user."
    ]
    level: Annotated[float, "The chance of telling any, at most, where only rates changed."]
    items: list[SlowOwner]


def map_of(
    periods: Sequence[CountedPeriod], rows: Sequence[Sequence[OwnerRow]], **facts: object
) -> DurationMap:
    """The map of a period, compared with one before; ``facts`` are fields of the map.

    ``periods`` and ``rows``: the map's, the baseline's, and the map's in spans of the baseline's
    length.
    """
    current, previous, compared = (parts_of(*part) for part in zip(rows, periods, strict=True))
    period, baseline, whole = periods
    # A baseline of another day has no moment at which it became the period.
    earliest = baseline.begin if baseline.end == whole.begin else whole.begin
    waiting, handling = (_series(current[e], previous[e], compared[e], earliest) for e in Measured)
    return DurationMap(
        since=Microseconds(period.begin),
        until=Microseconds(period.end),
        seconds=Duration(period.width),
        baseline_since=Microseconds(baseline.begin),
        baseline_until=Microseconds(baseline.end),
        level=LEVEL,
        handed_over=sum(part.handed_over for part in current[Measured.waiting]),
        waiting=waiting,
        handling=handling,
        **facts,  # type: ignore[arg-type]  # what the caller knows
    )


def usual_owners(
    period: CountedPeriod, rows: Mapping[Owner, Iterable[OwnerRow]]
) -> list[UsualOwner]:
    """The usual times of these owners, by the counts of a period that ends at the time."""
    middle = (period.begin + period.end) // 2
    looks = len(rows) * len(Measured) * len(SHARES)
    owners = []
    for (kind, name), owner_rows in rows.items():
        times = {}
        for measured, parts in parts_of(owner_rows, period).items():
            earlier = [part for part in parts if part.begin < middle]
            slower = slowdown(earlier, parts[len(earlier) :], looks)
            end = period.end if slower is None else slower.since
            usual = _usual(part for part in parts if part.begin < end)
            times[measured.name] = UsualTimes(usual, slower)
        owners.append(UsualOwner(**{kind.name: name}, **times))  # type: ignore[arg-type]
    return owners


def slow_owners(
    rows: Iterable[OwnerRow], are_all: bool, vhosts: Mapping[int, str], moment: int, as_of: int
) -> SlowOwners:
    """Owners that became slow in the last hour, by the counts of two hours by the minute."""
    end = moment - moment % MINUTE + MINUTE
    whole = CountedPeriod(end - 2 * HOUR, end, BY_MINUTE, MINUTE)
    owner = attrgetter("trace_id", "kind", "name")
    owners = [[*group] for _, group in groupby(sorted(rows, key=owner), owner)]
    histories = [
        (group[0], measured, parts)
        for group in owners
        for measured, series in parts_of(group, whole).items()
        if len(parts := nonempty(series)) >= LEAST_BEFORE + LEAST_SINCE
    ]
    slow, compared = [], set()
    for (trace_id, _, kind, name, _), measured, parts in histories:
        earlier = [part for part in parts if part.begin < end - HOUR]
        current, looks = parts[len(earlier) :], len(histories) * len(SHARES)
        change = slowdown(earlier, current, looks)
        if change is not None or comparable(earlier, current, looks):
            compared.add((trace_id, kind, name))
        if change is not None:
            owner_fields = {"queue": None, "service": None, OwnerKind(kind).name: name}
            vhost = vhosts[trace_id]
            slow.append(SlowOwner(vhost=vhost, measured=measured, change=change, **owner_fields))
    slow.sort(key=lambda item: item.change.before / item.change.after)
    return SlowOwners(Microseconds(as_of), len(compared), are_all, LEVEL, slow)


def _series(
    parts: Sequence[DurationPart],
    baseline: Sequence[DurationPart],
    compared: Sequence[DurationPart],
    earliest: int,
) -> DurationSeries:
    looks = len(Measured) * len(SHARES)
    rows = sorted({step // ROW_STEPS for part in parts for step in part.steps})
    heights = range(rows[0], rows[-1] + 1) if rows else range(0)
    return DurationSeries(
        usual=_usual(parts),
        baseline=_usual(baseline),
        limits=[Duration(int(limit_of((row + 1) * ROW_STEPS * WIDTH - 1))) for row in heights],
        spans=[_span(part, heights) for part in nonempty(parts)],
        change=slowdown(baseline, compared, looks, earliest),
        comparable=comparable(baseline, compared, looks),
    )


def _span(part: DurationPart, heights: range) -> DurationSpan:
    counts = [0] * len(heights)
    for step, times in part.steps.items():
        counts[step // ROW_STEPS - heights.start] += times
    sketch = sketch_of(part.steps)
    median, p90 = (quantile(sketch, share) for share in SHARES.values())
    return DurationSpan(Microseconds(part.begin), sketch.count, median, p90, counts)


def _usual(parts: Iterable[DurationPart]) -> UsualDurations:
    known = nonempty(parts)
    sketch = merge_parts(known)
    median, p90 = (quantile(sketch, e) if sketch.count else None for e in SHARES.values())
    return UsualDurations(sketch.count, median, p90, len(known))
