"""What is read of the event exchange's messages: recorded ones, and ones that lie."""

from __future__ import annotations

from typing import Any

from hypothesis import given, strategies

from app.broker.announced import connection_of, properties_of
from tests.unit.test_announced import created, opened

texts = strategies.text(
    strategies.characters(exclude_categories=()) | strategies.sampled_from('{}<>",\\[]')
)
values = strategies.recursive(
    strategies.none() | strategies.booleans() | strategies.integers() | texts,
    lambda inner: strategies.lists(inner) | strategies.dictionaries(texts, inner),
    max_leaves=8,
)


@given(
    strategies.fixed_dictionaries(
        {},
        optional=dict.fromkeys(
            ("client_properties", "variable_map", "user_provided_name", "pid", "vhost"), values
        ),
    )
)
def test_whatever_is_said_what_is_read_can_be_stored(said: dict[str, Any]) -> None:
    for found in (opened(created() | said), connection_of(created() | said)):
        assert found is not None
        for text in (
            found.vhost,
            found.pid or "",
            found.client or "",
            *properties_of(created() | said).values(),
        ):
            assert "\0" not in text
            text.encode()


@given(texts)
def test_a_term_that_is_anything_is_read_or_left(term: str) -> None:
    opened(created(term, f'{{<<"connection_name">>,longstr,{term}}}'))
