"""The test for what became slow, against traffic of which it is known whether it did."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Iterable, Iterator

import pytest

from app.stored.durations import slow_owners
from model import slowness
from model.durations import (
    BY_MINUTE,
    CountedPeriod,
    DurationCounts,
    Measured,
    OwnerKind,
    OwnerRow,
    compared_periods,
    counted_period,
    parts_of,
    slowdown,
)
from model.slowness import LEAST_BEFORE, LEVEL, can_tell, change_in
from model.times import HOUR, MINUTE

BEGIN = 1_767_323_045_000_000 // HOUR * HOUR
SIMULATIONS = 200
# One answer looks at two quantiles of two durations of each.
LOOKS = 4


def traffic(
    dice: random.Random,
    minutes: int,
    rate: float,
    *,
    slow_at: int | None = None,
    slower: int = 3,
    alike: float = 0.0,
    later: float | None = None,
    burst: int = 1,
) -> list[OwnerRow]:
    """Rows of a service that takes about 0.2 s, and ``slower`` times that since a minute.

    Minutes are ``alike`` the ones before them, as correlated numbers are. ``later`` is the
    rate in the last third; then one message in eight takes ten times as long, all the time. Each of
    these is a ``burst`` of messages.
    """
    counts, drift = DurationCounts(), 0.0
    for minute in range(minutes):
        drift = alike * drift + 0.3 * math.sqrt(1 - alike**2) * dice.gauss(0, 1)
        times = slower if slow_at is not None and minute >= slow_at else 1
        if later is not None and minute >= minutes * 2 // 3:
            rate = later
        for _ in range(max(0, round(dice.gauss(rate, math.sqrt(rate))))):
            took = times * 200_000 * math.exp(dice.gauss(0, 0.8) + (drift if alike else 0))
            if later is not None and dice.random() < 1 / 8:
                took *= 10
            at = BEGIN + minute * MINUTE + dice.randrange(MINUTE)
            counts.count_handling([(OwnerKind.service, "stock")] * burst, at, int(took))
    return [
        OwnerRow(1, key.begin, key.kind, key.name, dict(cells))
        for key, cells in counts.rows().items()
        if key.part == MINUTE
    ]


def found_in(rows: list[OwnerRow], minutes: int, looks: float) -> int | None:
    """The minute since when it is slower, if it is, in the last hour until some minutes on."""
    until = BEGIN + minutes * MINUTE
    parts = parts_of(rows, CountedPeriod(until - 2 * HOUR, until, BY_MINUTE, MINUTE))
    those = parts[Measured.handling]
    before = [each for each in those if each.begin < until - HOUR]
    change = slowdown(before, those[len(before) :], looks)
    return None if change is None else (change.since - BEGIN) // MINUTE


@pytest.mark.parametrize(
    ("rate", "alike", "later"),
    [
        (3, 0.0, None),
        pytest.param(10, 0.0, None, marks=pytest.mark.long(4)),
        pytest.param(10, 0.5, None, marks=pytest.mark.long(6)),
        (1, 0.0, 9),
        (1, 0.5, 9),
        pytest.param(9, 0.0, 1, marks=pytest.mark.long(8)),
    ],
)
def test_it_tells_no_more_changes_where_there_is_none_than_it_says(
    rate: int, alike: float, later: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the order of spans alone."""
    monkeypatch.setattr("model.durations.MOST_ERRORS", 0)
    every = (
        traffic(random.Random(n), 120, rate, alike=alike, later=later) for n in range(SIMULATIONS)
    )
    at_most = 0.05 * SIMULATIONS + 3 * math.sqrt(0.05 * 0.95 * SIMULATIONS)
    assert told_at_5_percent(every, monkeypatch) <= at_most


@pytest.mark.long(14)
def test_more_bursts_of_messages_with_one_fate_are_no_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The longest of as many messages is longer if they are of two bursts."""
    every = (traffic(random.Random(n), 120, 1, later=20, burst=10) for n in range(SIMULATIONS))
    assert told_at_5_percent(every, monkeypatch) <= 0.01 * SIMULATIONS


def told_at_5_percent(every: Iterable[list[OwnerRow]], monkeypatch: pytest.MonkeyPatch) -> int:
    """In how many a change of any size is told; there are too few of one in 1,000."""
    monkeypatch.setattr(slowness, "LEAST_RATIO", 1.0)
    monkeypatch.setattr("model.durations.LEAST_RATIO", 1.0)
    looks = LOOKS * LEVEL / 0.05
    return sum(found_in(rows, 120, looks) is not None for rows in every)


def test_of_stationary_traffic_it_tells_none() -> None:
    for number in range(SIMULATIONS):
        dice = random.Random(number)
        rate, alike = dice.choice((1, 3, 10)), dice.choice((0.0, 0.3, 0.7))
        later = dice.choice((None, 1, 9))
        assert found_in(traffic(dice, 120, rate, alike=alike, later=later), 120, LOOKS) is None


@pytest.mark.parametrize("hours", [1, 6, 24, 7 * 24, 40 * 24])
@pytest.mark.parametrize("shift", [1, 24, 7 * 24])
def test_a_period_and_its_baseline_have_spans_of_one_length(hours: int, shift: int) -> None:
    at = BEGIN + 17 * MINUTE + 1
    shown = counted_period(at - hours * HOUR, at, at)
    before, period = compared_periods(shown, shift * HOUR, at)
    assert (before.width, before.resolution) == (period.width, period.resolution)
    assert before.resolution == counted_period(before.begin, before.end, at).resolution
    for each in (before, period):
        assert each.end - each.begin > 0 == (each.end - each.begin) % each.width
    assert before.end <= period.begin <= shown.begin
    assert before.begin <= period.begin - shift * HOUR
    if shift <= hours:
        assert before.end == period.begin
        assert (before.end - before.begin) // before.width >= 2 * LEAST_BEFORE


def test_it_says_where_there_are_too_few_spans_to_be_sure() -> None:
    for before, since in ((1, 1), (2, 60), (9, 9), (10, 3), (10, 6), (10, 10), (60, 3), (60, 60)):
        change = change_in([1.0] * before + [9.0] * since, LOOKS, before)
        told = change is not None and change.place == before
        assert can_tell(before, since, LOOKS) == told


def test_what_is_slower_than_the_whole_baseline_is_told_where_it_can_be() -> None:
    """Though some before the period are as slow by chance, and spans have few messages."""
    for number in range(50):
        rows = traffic(random.Random(number), 120, 1, slow_at=60, slower=9)
        assert found_in(rows, 120, LOOKS) in range(56, 65), number


@pytest.mark.parametrize(("rate", "looks", "most"), [(30, LOOKS, 6), (30, 400, 8), (3, LOOKS, 30)])
def test_what_takes_three_times_as_long_is_found_within_minutes(
    rate: int, looks: int, most: int
) -> None:
    slow_at, late, off = 100, [], []
    for number in range(10):
        rows = traffic(random.Random(number), 130, rate, slow_at=slow_at)
        [first, at] = next(
            [minutes, at]
            for minutes in itertools.count(slow_at + 1)
            if (at := found_in(rows, minutes, looks)) is not None
        )
        late.append(first - slow_at)
        off.append(at - slow_at)
    assert max(late) <= most
    assert sorted(off)[5] in (-1, 0, 1)


def slower_from(dice: random.Random, before: int, minutes: int, rate: float) -> list[OwnerRow]:
    """Rows of a service that takes about 0.2 s, and 1.5 s more from 17 s after a minute on."""
    counts = DurationCounts()
    for minute in range(before + minutes):
        for _ in range(max(0, round(dice.gauss(rate, math.sqrt(rate))))):
            second = dice.random() * 60
            took = 200_000 * math.exp(dice.gauss(0, 0.5))
            took += 1_500_000 * (minute * 60 + second >= before * 60 + 17)
            at = BEGIN + minute * MINUTE + int(second * 1e6)
            counts.count_handling([(OwnerKind.service, "stock")], at, int(took))
    return [
        OwnerRow(1, key.begin, key.kind, key.name, dict(cells))
        for key, cells in counts.rows().items()
        if key.part == MINUTE
    ]


OF_A_SHOP = 92  # quantiles of the two durations of 12 services and 11 queues


@pytest.mark.parametrize(
    ("before", "rate", "most", "times"),
    [(39, 10, 10, 2), pytest.param(39, 10, 10, 8, marks=pytest.mark.long(30))],
)
def test_what_became_slow_is_named_within_minutes_and_its_moment_stays(
    before: int, rate: int, most: int, times: int
) -> None:
    """Asked for as minutes pass, for as long as that lies within the last hour."""
    for number in range(times):
        rows = slower_from(random.Random(number), before, 60, rate)
        moments = [found_in(rows, before + age, OF_A_SHOP) for age in range(1, 61)]
        named = next(age for age, moment in enumerate(moments, 1) if moment is not None)
        assert named <= most, number
        assert {*moments[named - 1 :]} <= {before, before + 1}, number
        assert len({*moments[named - 1 :]}) == 1, number


def chances(since: int, before: int) -> Iterator[tuple[int, float]]:
    """The chance of at most each number of inverted pairs, from all choices there are."""
    counts: Counter[int] = Counter()
    for those in itertools.combinations(range(since + before), since):
        others = [each for each in range(since + before) if each not in those]
        counts[sum(other > each for each in those for other in others)] += 1
    every, seen = sum(counts.values()), 0
    for inverted in sorted(counts):
        seen += counts[inverted]
        yield inverted, seen / every


@pytest.mark.parametrize(("since", "before"), [(1, 9), (3, 10), (5, 8)])
def test_the_chance_is_that_of_all_orders(since: int, before: int) -> None:
    for inverted, chance in chances(since, before):
        if inverted <= slowness.MOST_INVERTED * since * before:
            said = slowness._chance(inverted, since, before)
            assert said == pytest.approx(chance) if inverted <= before else said >= chance


def test_a_change_begins_where_it_does_and_equal_values_are_none() -> None:
    assert change_in([1.0] * 120, 1) is None
    change = change_in([1.0] * 110 + [2.0] * 10, 1)
    assert change is not None
    assert change.place == 110
    assert change_in([1.0] * 110 + [1.4] * 10, 1) is None


def test_what_became_slow_is_told_with_the_slowest_first() -> None:
    now = BEGIN + 2 * HOUR - 1
    names, rows = ("a", "b", "c"), []
    counts = DurationCounts()
    for minute in range(120):
        for name, factor in zip(names, (1, 3, 9), strict=True):
            took = 100_000 * (factor if minute >= 100 else 1)
            for second in range(3):
                at = BEGIN + minute * MINUTE + second * 1_000_000
                counts.count_handling([(OwnerKind.queue, name)], at, took)
                counts.count_delivery([(OwnerKind.service, f"of {name}")], at, took)
    counts.count_handling(
        [(OwnerKind.queue, "seldom")], now, 100_000
    )  # not looked through, as it cannot be
    for key, cells in counts.rows().items():
        if key.part == MINUTE:
            rows.append(OwnerRow(7, key.begin, key.kind, key.name, dict(cells)))
    found = slow_owners(rows, True, {7: "shop"}, now, now)
    said = [
        (each.queue, each.service, each.measured.name, round(each.change.after / 1e6, 1))
        for each in found.items
    ]
    assert said == [
        ("c", None, "handling", 0.9),
        (None, "of c", "waiting", 0.9),
        ("b", None, "handling", 0.3),
        (None, "of b", "waiting", 0.3),
    ]
    assert {each.change.since for each in found.items} == {BEGIN + 100 * MINUTE}
    assert {round(each.change.before / 1e6, 2) for each in found.items} == {0.1}
    assert {each.vhost for each in found.items} == {"shop"}
    assert found.looked_at == 6
    soon = [row for row in rows if row.begin < BEGIN + 20 * MINUTE]
    assert slow_owners(soon, True, {7: "shop"}, now, now).looked_at == 0
    often = [row for row in rows if row.name != "seldom"]
    assert slow_owners(often, True, {7: "shop"}, now, now).items == found.items
