"""Quantiles from buckets, against numbers in order."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest

from model.sketch import RELATIVE_ERROR, Sketch


def sketch_of(values: Iterable[float]) -> Sketch:
    sketch = Sketch()
    for value in values:
        sketch.add(value)
    return sketch


SHARES = (0.0, 0.5, 0.9, 0.99, 0.999, 1.0)


@pytest.mark.parametrize("seed", range(10))
def test_a_quantile_is_as_near_as_is_said_and_parts_come_to_the_whole(seed: int) -> None:
    dice = random.Random(seed)
    values = [dice.lognormvariate(10, 3) for _ in range(dice.randrange(1, 3_000))]
    whole, merged = sketch_of(values), Sketch()
    for part in (values[::2], values[1::2]):
        merged.merge(Sketch.of_json(sketch_of(part).to_json()))
    assert merged.to_json().items() == whole.to_json().items()
    ordered = sorted(values)
    for share in SHARES:
        truth = ordered[int(share * (len(values) - 1))]
        found = whole.quantile(share)
        assert found is not None
        assert abs(found - truth) <= max(RELATIVE_ERROR * truth * 1.0001, 1)
    assert len(whole.buckets) < 1_600


def test_above_counts_what_is_larger_by_more_than_the_error() -> None:
    sketch = sketch_of([0, 10, 100, 1_000])
    assert [sketch.count_above(value) for value in (0, 10, 50, 100, 5_000)] == [3, 2, 2, 1, 0]


def test_of_nothing_there_is_no_quantile() -> None:
    assert Sketch().quantile(0.5) is None
    assert sketch_of([-5]).quantile(0.5) == 0
