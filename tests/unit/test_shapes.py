"""JSON Schemas of samples, by tables."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft7Validator

from spark_jobs.interchange import shapes
from spark_jobs.interchange.shapes import MOST_DEPTH, MOST_FIELDS, Shape, formats_of


def shape_of(*values: Any) -> Shape:
    shape = Shape()
    for value in values:
        shape.add(value)
    return shape


@pytest.mark.parametrize(
    ("values", "schema"),
    [
        ([], {}),
        ([1, 2], {"type": "integer"}),
        ([1, 2.5], {"type": "number"}),
        ([True], {"type": "boolean"}),
        ([None, "a"], {"type": ["null", "string"]}),
        (["new", "new"], {"type": "string"}),
        ([[1, "a"], []], {"type": "array", "items": {"type": ["integer", "string"]}}),
        ([[]], {"type": "array"}),
        ([{}], {"type": "object"}),
        (
            [{"a": 1, "b": None}, {"a": 2}],
            {
                "type": "object",
                "properties": {"a": {"type": "integer"}, "b": {"type": "null"}},
                "required": ["a"],
            },
        ),
        ([{"a": 1}, 7], {"type": ["integer", "object"], "properties": {"a": {"type": "integer"}}}),
        (["2026-01-01T10:00:00Z"] * 2, {"type": "string", "format": "date-time"}),
        (["2026-01-01T10:00:00Z", "soon"], {"type": "string"}),
        (["2026-01-01T10:00:00Z", 3], {"type": ["integer", "string"], "format": "date-time"}),
    ],
)
def test_a_schema_says_what_all_samples_have(values: list[Any], schema: Any) -> None:
    assert shape_of(*values).schema() == schema


@pytest.mark.parametrize(
    ("text", "formats"),
    [
        ("2026-01-01", {"date"}),
        ("2026-02-30", set()),
        ("2026-01-01T10:00:00.123+02:00", {"date-time"}),
        ("2026-01-01T10:00:00", set()),
        ("2026-01-01T25:00:00Z", set()),
        ("0F8FAD5B-d9cb-469f-a165-70867728950e", {"uuid"}),
        ("0f8fad5bd9cb469fa16570867728950e", set()),
        ("{0f8fad5b-d9cb-469f-a165-70867728950e}", set()),
        ("٢٠٢٦-01-01", set()),
        ("", set()),
        ("2026-01-01T10:00:00." + "1" * 100 + "Z", set()),
    ],
)
def test_a_format_is_only_said_of_what_is_in_it(text: str, formats: set[str]) -> None:
    assert formats_of(text) == formats


def test_too_many_names_are_data() -> None:
    shape = shape_of({f"order {k}": {"n": k} for k in range(10_000)})
    inner = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    assert shape.schema() == {"type": "object", "additionalProperties": inner}
    slowly = shape_of(*({f"order {k}": {"n": k}} for k in range(MOST_FIELDS + 1)))
    assert slowly.schema() == shape.schema()


def test_a_long_name_is_data_too() -> None:
    assert shape_of({"x" * 1_000: 1}).schema() == {
        "type": "object",
        "additionalProperties": {"type": "integer"},
    }


def test_what_is_deep_is_not_looked_into() -> None:
    value: Any = 1
    for _ in range(50):
        value = {"a": value}
    schema, depth = shape_of(value).schema(), 0
    while "properties" in schema:
        schema, depth = schema["properties"]["a"], depth + 1
    assert (schema, depth) == ({"type": "object"}, MOST_DEPTH)


def test_whether_all_have_something_at_a_place() -> None:
    shape = shape_of({"a": {"b": 1}}, {"a": {"b": 2, "c": 3}})
    places = [(), ("a",), ("a", "b"), ("a", "c"), ("b",), ("a", "b", "d")]
    assert [shape.holds(each) for each in places] == [True, True, True, False, False, False]


def test_a_schema_is_one() -> None:
    Draft7Validator.check_schema(shape_of({"a": [1, None, {"b": "x"}]}, [3]).schema())


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
