"""Rules: how they are written, and what messages say under them, bad input included."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.test_link_rules import EVERY, ORDER, keys, of, publish


@given(st.text(max_size=20), st.text(max_size=20), st.text(max_size=20), st.text(max_size=20))
@settings(max_examples=30, deadline=None)
def test_keys_of_several_places_are_equal_for_equal_values_alone(
    a: str, b: str, x: str, y: str
) -> None:
    rules = of(
        {
            **ORDER,
            "child": ["$message.header#/a", "$message.header#/b"],
            "parent": ["$message.header#/x", "$message.header#/y"],
        }
    )
    child, parent = keys(rules, publish({"a": a, "b": b})), rules.read(publish({"x": x, "y": y}))
    if child and parent.ids:
        assert (child == [*parent.ids]) == ((a, b) == (x, y))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=4,
)
HEADERS = sorted(EVERY.indexed.keys() | {"traceparent", "b3", "sw8", "x-death"})


@given(st.dictionaries(st.sampled_from(HEADERS), JSON, max_size=6), JSON)
@settings(max_examples=25, deadline=None)
def test_any_message_is_read_and_never_names_itself(headers: dict[str, Any], body: Any) -> None:
    rules = EVERY
    as_json = json.dumps(body).encode()
    cloudevent = {"content_type": "application/cloudevents+json", "message_id": "1"}
    names = rules.read(publish(headers, as_json, **cloudevent))
    own = set(names.ids)
    for number, key in names.causes:
        assert rules[number].kind.name == "forward" or key not in own
    for found in (names.ids, names.conversations, names.found_by):
        assert len(set(found)) == len(found)
