"""Expressions: what can be written, what is refused and where, and what is a value."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from app.tracker.links.expressions import (
    Expression,
    ExpressionError,
    Source,
)
from app.tracker.links.takes import TAKES

NAMES = st.text(min_size=1, max_size=12)


@given(st.lists(NAMES, min_size=1, max_size=5))
@settings(max_examples=20, deadline=None)
def test_what_is_written_is_read_back(names: list[str]) -> None:
    expression = Expression(Source.header, tuple(names))
    assert Expression.parse(str(expression)) == expression
    tree: object = "found"
    for name in reversed(names):
        tree = {name: tree}
    assert expression.find(tree) == "found"


@given(st.text(max_size=60), st.sampled_from(["", "$message.", "$message.header#/"]))
@settings(max_examples=25, deadline=None)
def test_any_text_is_an_expression_or_refused_within_it(text: str, start: str) -> None:
    column = 1
    try:
        Expression.parse(start + text)
    except ExpressionError as error:
        column = error.column
    assert 1 <= column <= len(start + text) + 1


@given(st.text(max_size=80), st.sampled_from(sorted(TAKES)))
@settings(max_examples=25, deadline=None)
def test_a_take_survives_any_text(text: str, take: str) -> None:
    assert TAKES[take](text) != ""
