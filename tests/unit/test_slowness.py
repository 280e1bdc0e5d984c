"""The test for what became slow, against traffic of which it is known whether it did."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Iterator

import pytest

from app.stored.durations import slow_owners
from model import slowness
from model.durations import (
    BY_MINUTE,
    HOUR,
    MINUTE,
    CountedPeriod,
    DurationCounts,
    Measured,
    OwnerKind,
    OwnerRow,
    parts_of,
    slowdown,
)
from model.slowness import LEVEL, change_in

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
    alike: float = 0.0,
) -> list[OwnerRow]:
    """Rows of a service that takes about 0.2 s, three times as long since a minute.

    Minutes are ``alike`` the ones before them, as correlated numbers are.
    """
    counts, drift = DurationCounts(), 0.0
    for minute in range(minutes):
        drift = alike * drift + 0.3 * math.sqrt(1 - alike**2) * dice.gauss(0, 1)
        slower = 3 if slow_at is not None and minute >= slow_at else 1
        for _ in range(max(0, round(dice.gauss(rate, math.sqrt(rate))))):
            took = slower * 200_000 * math.exp(dice.gauss(0, 0.8) + (drift if alike else 0))
            at = BEGIN + minute * MINUTE + dice.randrange(MINUTE)
            counts.handled([(OwnerKind.service, "stock")], at, int(took))
    return [
        OwnerRow(1, key.at, key.kind, key.name, dict(cells))
        for key, cells in counts.rows().items()
        if key.part == MINUTE
    ]


def found_in(rows: list[OwnerRow], minutes: int, looks: float) -> int | None:
    """The minute since when it is slower, if it is, in the last hour until some minutes on."""
    until = BEGIN + minutes * MINUTE
    parts = parts_of(rows, CountedPeriod(until - 2 * HOUR, until, BY_MINUTE, MINUTE))
    those = parts[Measured.handling]
    before = [each for each in those if each.at < until - HOUR]
    change = slowdown(before, those[len(before) :], looks)
    return None if change is None else (change.since - BEGIN) // MINUTE


@pytest.mark.parametrize(("rate", "alike"), [(3, 0.0), (10, 0.0), (10, 0.5)])
def test_it_tells_no_more_changes_where_there_is_none_than_it_says(
    rate: int, alike: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At a level of 5 % and of changes of any size, as there are too few of one in 1,000."""
    monkeypatch.setattr(slowness, "LEAST_RATIO", 1.0)
    monkeypatch.setattr("model.durations.LEAST_RATIO", 1.0)
    looks = LOOKS * LEVEL / 0.05
    every = [traffic(random.Random(n), 120, rate, alike=alike) for n in range(SIMULATIONS)]
    told = sum(found_in(rows, 120, looks) is not None for rows in every)
    at_most = 0.05 * SIMULATIONS + 3 * math.sqrt(0.05 * 0.95 * SIMULATIONS)
    assert told <= at_most


def test_of_stationary_traffic_it_tells_none() -> None:
    for number in range(SIMULATIONS):
        dice = random.Random(number)
        rate, alike = dice.choice((1, 3, 10)), dice.choice((0.0, 0.3, 0.7))
        assert found_in(traffic(dice, 120, rate, alike=alike), 120, LOOKS) is None


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
                counts.handled([(OwnerKind.queue, name)], at, took)
                counts.handed_over([(OwnerKind.service, f"of {name}")], at, took)
    for key, cells in counts.rows().items():
        if key.part == MINUTE:
            rows.append(OwnerRow(7, key.at, key.kind, key.name, dict(cells)))
    found = slow_owners(rows, {7: "shop"}, now, now)
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
