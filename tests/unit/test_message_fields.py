"""What is found in a message is what a rule of links would read there."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from app.tracker.links.expressions import Expression, Source, values
from model.texts import storable
from spark_jobs.reports import message_fields
from spark_jobs.reports.message_fields import fields_of

# As messages are stored.
TEXTS = st.text(max_size=6).map(storable)
NAMES = st.text(st.sampled_from("ab/~1é "), max_size=4)
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False),
    TEXTS,
    st.sampled_from(["null", "00000000-0000-0000-0000-000000000000"]),
    st.just({"base64": "aGFsbG8="}),
)
TREES = st.recursive(
    LEAVES,
    lambda below: st.one_of(st.lists(below, max_size=5), st.dictionaries(NAMES, below, max_size=4)),
    max_leaves=20,
)


@given(headers=st.dictionaries(NAMES, TREES, max_size=4), body=TREES, message_id=TEXTS)
def test_each_value_is_one_that_a_rule_reads_there(
    headers: dict[str, Any], body: Any, message_id: str
) -> None:
    properties = {"headers": headers, "message_id": message_id}
    trees = {Source.header: headers, Source.payload: body, Source.property: properties}
    for place, value in fields_of(properties, json.dumps(body).encode(), Counter()):
        expression = Expression.parse(place)
        assert str(expression) == place
        raw = expression.find(trees[expression.source], json.loads)
        of_table = expression.source is not Source.payload
        assert value.encode() in values(raw, Counter(), of_table=of_table)


def test_what_stands_in_a_text_that_is_json_has_a_path_through_it() -> None:
    inner = json.dumps({"id": "a1", "deeper": json.dumps(["b2"])})
    assert fields_of(
        {}, json.dumps({"envelope": inner, "note": "{no json"}).encode(), Counter()
    ) == [
        ("$message.payload#/envelope/id", "a1"),
        ("$message.payload#/envelope/deeper", "b2"),
        ("$message.payload#/envelope/deeper/-1", "b2"),
        ("$message.payload#/note", "{no json"),
    ]


@given(st.binary(max_size=200))
def test_any_body_is_taken(body: bytes) -> None:
    fields_of({}, body, Counter())


def test_the_bounds_are_those_of_rules() -> None:
    assert message_fields.LONGEST_VALUE == 2_048
    assert message_fields.MOST_VALUES == 64
    assert message_fields.MOST_DEPTH < 16
