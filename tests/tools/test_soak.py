"""The soak's report on its curve."""

from __future__ import annotations

from drills.soak import WARM_EVENTS, Look, summary


def test_the_slope_is_that_after_warm_up() -> None:
    warming = [Look(at, 10.0 * at, 1_000 * at, 5) for at in range(1, 11)]
    warm = [Look(at, 100.0 + at / 3600, WARM_EVENTS + at, 7) for at in range(11, 21)]
    lines = summary(warming + warm)
    assert "from 11 s on: +1.0 MiB an hour" in lines[1]
    assert lines[2] == "lag: 6 messages at the median, 7 at most, 7 at the end"


def test_a_soak_that_ends_before_it_is_warm_says_no_slope() -> None:
    assert "no slope" in summary([Look(1.0, 2.0, 3, 4), Look(2.0, 3.0, 4, 5)])[1]
