"""JSON Schemas of samples, by tables."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import Draft7Validator

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
