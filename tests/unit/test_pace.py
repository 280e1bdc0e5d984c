"""How long a participant is waited for, by its own past."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Set

import pytest

from model.conversations.pace import (
    LEAST_ENDS,
    LEAST_STEPS,
    Course,
    Handling,
    Pace,
    Passage,
    Share,
    last_shares,
    longest_to_expect,
)

MILLISECOND, SECOND = 1_000, 1_000_000


def steady(count: int, took: int, every: int, until: int | None = None) -> Pace:
    """Deliveries at intervals, each answered by a publish after some time, to an end."""
    first = 0 if until is None else until - took - (count - 1) * every
    steps = [Handling(first + turn * every, first + turn * every + took) for turn in range(count)]
    return Pace(steps, [step.published_at for step in steps])


@pytest.mark.parametrize(
    ("ago", "has_had_time"), [(0, False), (290, False), (310, True), (1_000, True)]
)
def test_who_is_at_work_has_had_its_time_soon(ago: int, has_had_time: bool) -> None:
    pace = steady(300, 200 * MILLISECOND, 50 * MILLISECOND)
    last = (299 * 50 + 200) * MILLISECOND
    assert pace.has_had_time(last - ago * MILLISECOND) is has_had_time


def test_who_stands_still_has_not_however_long() -> None:
    pace = steady(300, 200 * MILLISECOND, 50 * MILLISECOND)
    last = (299 * 50 + 200) * MILLISECOND
    assert not pace.has_had_time(last + 1)
    assert not pace.has_had_time(last + 3_600 * SECOND)


def test_a_stop_counts_as_little_as_what_was_put_off_by_it() -> None:
    """Without that one stop of an hour would have all wait for hours."""
    before = [Handling(turn * SECOND, turn * SECOND + 100 * MILLISECOND) for turn in range(100)]
    hour = 3_600 * SECOND
    after = [Handling(each.received_at + hour, each.published_at + hour) for each in before]
    over = Handling(before[-1].received_at + 200 * MILLISECOND, after[0].published_at)
    steps = sorted([*before, over, *after])
    pace = Pace(steps, sorted(step.published_at for step in steps))
    assert 0.1 * SECOND < pace.patience < 2 * SECOND


@pytest.mark.parametrize("count", [0, 1, LEAST_STEPS - 1])
def test_few_steps_tell_nothing(count: int) -> None:
    pace = steady(count, 1, 1)
    assert not pace.has_had_time(-SECOND)


def test_the_more_steps_are_known_the_sooner_their_longest_tells() -> None:
    times = [longest_to_expect([1, 2] * (steps // 2)) for steps in (LEAST_STEPS, 64, 300, 10_000)]
    assert times == sorted(times, reverse=True)
    assert times[0] == pytest.approx(2 + 0.5 * 4.2, abs=0.01)
    assert times[-1] == 3.0, "half as long again as the longest, at least"


def test_the_less_steps_differ_the_sooner_their_longest_tells() -> None:
    times = [longest_to_expect([usual] * 63 + [100]) for usual in (100, 90, 50, 10, 0)]
    assert times == sorted(times)
    assert times[0] == 150
    assert times[-1] == pytest.approx(312, abs=1)


@pytest.mark.parametrize("count", [LEAST_STEPS, 64, 256])
def test_a_step_spread_exponentially_hardly_ever_takes_longer(count: int) -> None:
    chance, longer, trials = random.Random(count), 0, 2_000
    for _ in range(trials):
        durations = [chance.expovariate(1 / SECOND) for _ in range(count + 1)]
        longer += durations[0] > longest_to_expect(durations[1:])
    assert longer <= 2


def test_each_way_has_a_pace_of_its_own_where_enough_steps_of_it_are_known() -> None:
    quick, slow, rare = (Course(name, "x", (name,)) for name in ("quick", "slow", "rare"))
    steps = {
        quick: [Handling(turn, turn + 1) for turn in range(0, 400, 10)],
        slow: [Handling(turn, turn + 40) for turn in range(0, 400, 20)],
        rare: [Handling(5, 6)],
    }
    every = sorted(step for own in steps.values() for step in own)
    pace = Pace(every, sorted(step.published_at for step in every), steps)
    assert pace.of_course(quick).longest < pace.of_course(slow).longest
    assert pace.of_course(quick).patience < pace.of_course(slow).patience
    assert pace.of_course(rare) is pace


ITEM, DONE, OTHER = (
    Course("items", "", ("item",)),
    Course(None, "", ("done",)),
    Course(None, "", ()),
)
WHOLE = [ITEM, ITEM, DONE, DONE]


def ends(*conversations: list[Course], old_until: int = 9) -> Set[Share]:
    return last_shares(
        [[Passage(course, 9) for course in each] for each in conversations], old_until
    )


def test_a_share_is_an_end_where_nothing_more_was_published_often_and_ever() -> None:
    many = [WHOLE] * LEAST_ENDS
    assert ends(*many) == {frozenset(Counter(WHOLE).items())}
    assert ends(*many[1:]) == ends(*many, old_until=8) == frozenset()
    assert ends(*many, [*WHOLE, DONE]) == frozenset(), "it may go on"
    assert ends(*many, [*WHOLE, ITEM, DONE]) == ends(*many), "only when it was handed more"
    assert ends(*[[ITEM]] * LEAST_ENDS) == frozenset(), "nothing was published"


def test_who_is_through_has_published_all_that_it_ever_does() -> None:
    through = Pace(ends=ends(*[WHOLE] * LEAST_ENDS), publishes={DONE})
    assert through.is_through(Counter(WHOLE))
    assert not through.is_through(Counter(WHOLE[:3]))
    through = Pace(ends=ends(*[WHOLE] * LEAST_ENDS), publishes={DONE, OTHER})
    assert not through.is_through(Counter(WHOLE))
