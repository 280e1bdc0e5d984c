"""Shapes: every sample is valid by the schema of all, however they were merged."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft7Validator

from spark_jobs.interchange import shapes
from spark_jobs.interchange.shapes import Shape

LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["", "x", "2026-01-01", "2026-01-01T00:00:00Z"])
    | st.uuids().map(str)
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from("abcdefgh"), inner, max_size=6)
    ),
    max_leaves=12,
)


def merged(values: list[Any]) -> Shape:
    """Each looked at by itself and sent, as executors do."""
    whole = Shape()
    for value in values:
        one = Shape()
        one.add(value)
        whole.merge(Shape.from_json(json.loads(json.dumps(one.to_json()))))
    return whole


@given(st.lists(VALUES, max_size=8), st.randoms(), st.integers(2, 100))
def test_the_order_does_not_matter_and_samples_are_valid(
    values: list[Any], dice: Any, most: int
) -> None:
    most_fields, shapes.MOST_FIELDS = shapes.MOST_FIELDS, most
    try:
        shape = Shape()
        for value in values:
            shape.add(value)
        assert merged(values).to_json() == shape.to_json()
        other = [*values]
        dice.shuffle(other)
        assert merged(other).schema() == shape.schema()
    finally:
        shapes.MOST_FIELDS = most_fields
    check = Draft7Validator(shape.schema())
    assert all(check.is_valid(value) for value in values)
