"""Expressions: what can be written, what is refused and where, and what is a value."""

from __future__ import annotations

import base64
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.tracker.links.expressions import (
    LONGEST_EXPRESSION,
    LONGEST_VALUE,
    MOST_TOKENS,
    MOST_VALUES,
    TOO_LONG,
    TOO_MANY,
    Expression,
    ExpressionError,
    Source,
    values,
)
from app.tracker.links.takes import TAKES


@pytest.mark.parametrize(
    ("text", "source", "tokens"),
    [
        ("$message.header#/parent_id", Source.header, ("parent_id",)),
        ("$message.header#/a/b", Source.header, ("a", "b")),
        ("$message.payload#/order/id", Source.payload, ("order", "id")),
        ("$message.payload#/lines/0/id", Source.payload, ("lines", "0", "id")),
        ("$message.header#/nameko.call_id_stack/-1", Source.header, ("nameko.call_id_stack", "-1")),
        ("$message.header#/a~1b~0c", Source.header, ("a/b~c",)),
        ("$message.header#/~01", Source.header, ("~1",)),
        ("$message.header#/cloudEvents:id", Source.header, ("cloudEvents:id",)),
        ("$message.property#/correlation_id", Source.property, ("correlation_id",)),
        ("$message.property#/routing_key", Source.property, ("routing_key",)),
    ],
)
def test_an_expression_says_part_and_pointer(
    text: str, source: Source, tokens: tuple[str, ...]
) -> None:
    expression = Expression.parse(text)
    assert (expression.source, expression.tokens) == (source, tokens)
    assert str(expression) == text


@pytest.mark.parametrize(
    ("text", "column", "says"),
    [
        ("", 1, "begins with"),
        ("header#/id", 1, "begins with"),
        ("$message/id", 9, "begins with"),
        ("$request.header#/id", 2, "begins with"),
        ("$message.body#/id", 10, "no part of a message"),
        ("$message.header", 16, "'#'"),
        ("$message.header/id", 10, "no part"),
        ("$message.header#", 17, "stands for everything"),
        ("$message.payload#/", 18, "stands for everything"),
        ("$message.header#id", 17, "begins with '/'"),
        ("$message.header#/a//b", 20, "token is empty"),
        ("$message.header#/a/", 20, "token is empty"),
        ("$message.header#/a~2", 19, "'~0'"),
        ("$message.header#/a/b~", 21, "'~0'"),
        ("$message.property#/headers", 20, "$message.header#/NAME"),
        ("$message.property#/delivery_mode", 20, "cannot be compared"),
        ("$message.property#/message_id/0", 30, "has no fields"),
        ("$message.header#/" + "a" * LONGEST_EXPRESSION, LONGEST_EXPRESSION + 1, "at most"),
    ],
)
def test_an_invalid_expression_is_refused_with_its_place(text: str, column: int, says: str) -> None:
    with pytest.raises(ExpressionError, match=r"\(column \d+\)$") as caught:
        Expression.parse(text)
    assert caught.value.column == column
    assert says in caught.value.reason


def test_a_pointer_has_a_bounded_number_of_tokens() -> None:
    Expression.parse("$message.header#" + "/a" * MOST_TOKENS)
    with pytest.raises(ExpressionError, match=f"at most {MOST_TOKENS} tokens"):
        Expression.parse("$message.header#" + "/a" * (MOST_TOKENS + 1))


@pytest.mark.parametrize(
    ("pointer", "found"),
    [
        ("/0", "first"),
        ("/-1", "last"),
        ("/-3", "first"),
        ("/3", None),
        ("/-4", None),
        ("/-", None),
        ("/-0", None),
        ("/01", None),
        ("/1/x", "in a table"),
        ("/x", None),
        ("/9999999999999999999999", None),
    ],
)
def test_an_index_counts_from_either_end_of_an_array(pointer: str, found: str | None) -> None:
    stack = ["first", {"x": "in a table"}, "last"]
    assert Expression.parse(f"$message.payload#/s{pointer}").find({"s": stack}) == found


@pytest.mark.parametrize(
    ("raw", "found"),
    [
        ("abc", [b"abc"]),
        ("ü", ["ü".encode()]),
        (17, [b"17"]),
        (-3, [b"-3"]),
        (0, [b"0"]),
        (["a", "b"], [b"a", b"b"]),
        (["a", None, True, {"x": 1}, ["c"]], [b"a"]),
        ({"base64": base64.b64encode(b"abc").decode()}, [b"abc"]),
        ({"base64": "a"}, []),
        ({"base64": "YWJj", "more": 1}, []),
        (True, []),
        (False, []),
        (1.5, []),
        (float("nan"), []),
        ("NaN", []),
        (None, []),
        ("", []),
        ("null", []),
        ("undefined", []),
        ("00000000-0000-0000-0000-000000000000", []),
        ({"a": "b"}, []),
        (2**80, []),
        ("\ud800", [b"\xed\xa0\x80"]),
    ],
)
def test_texts_whole_numbers_and_bytes_are_values(raw: object, found: list[bytes]) -> None:
    refused: Counter[str] = Counter()
    assert values(raw, refused) == found
    assert not refused


def test_a_table_in_a_body_is_no_byte_array() -> None:
    assert values({"base64": "YWJj"}, Counter(), of_table=False) == []


def test_a_value_of_many_bytes_is_refused_and_counted() -> None:
    refused: Counter[str] = Counter()
    assert values("x" * LONGEST_VALUE, refused)
    assert values("x" * (LONGEST_VALUE + 1), refused) == []
    assert values("ü" * LONGEST_VALUE, refused) == []
    assert refused == {TOO_LONG: 2}


def test_a_list_of_many_values_is_refused_whole_and_counted() -> None:
    refused: Counter[str] = Counter()
    assert len(values([str(n) for n in range(MOST_VALUES)], refused)) == MOST_VALUES
    assert values([str(n) for n in range(10_000)], refused) == []
    assert refused == {TOO_MANY: 1}


TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SW8 = "-".join(
    [
        "1",
        base64.b64encode(b"a4ec6fc8.74.16").decode(),
        base64.b64encode(b"a4ec6fc8.74.15").decode(),
        "2",
        *(base64.b64encode(part).decode() for part in (b"orders", b"1@host", b"/get", b"b:80")),
    ]
)


@pytest.mark.parametrize(
    ("take", "text", "found"),
    [
        ("traceparent", f"00-{TRACE}-00f067aa0ba902b7-01", TRACE),
        ("traceparent", f"00-{TRACE}-00f067aa0ba902b7-00", TRACE),
        ("traceparent", f"01-{TRACE}-00f067aa0ba902b7-01-more", TRACE),
        ("traceparent", f"ff-{TRACE}-00f067aa0ba902b7-01", None),
        ("traceparent", f"00-{'0' * 32}-00f067aa0ba902b7-01", None),
        ("traceparent", f"00-{TRACE}", None),
        ("traceparent", TRACE, None),
        ("traceparent", "", None),
        ("b3", f"{TRACE}-00f067aa0ba902b7-1-05e3ac9a4f6e3b90", TRACE),
        ("b3", f"{TRACE}-00f067aa0ba902b7", TRACE),
        ("b3", "A3CE929D0E0E4736-00f067aa0ba902b7-d", "0" * 16 + "a3ce929d0e0e4736"),
        ("b3", "0", None),
        ("b3", "d", None),
        ("b3", f"{'0' * 32}-00f067aa0ba902b7", None),
        ("b3-trace-id", "a3ce929d0e0e4736", "0" * 16 + "a3ce929d0e0e4736"),
        ("b3-trace-id", TRACE.upper(), TRACE),
        ("b3-trace-id", "0" * 16, None),
        ("b3-trace-id", "17", None),
        ("uber-trace-id", f"{TRACE}:fe2c9a7:0:1", TRACE),
        ("uber-trace-id", f"{TRACE}%3Afe2c9a7%3A0%3A1", TRACE),
        ("uber-trace-id", "1:2:0:1", "1".zfill(32)),
        ("uber-trace-id", "0:2:0:1", None),
        ("uber-trace-id", "x", None),
        ("datadog", "1234567890123456789", "1234567890123456789"),
        ("datadog", "0", None),
        ("datadog", "abc", None),
        ("sw8", SW8, "a4ec6fc8.74.16"),
        ("sw8", "1-YQ==", None),
        ("sw8", SW8.replace("1-", "7-", 1), None),
        ("sw8", "1-%-a-2-b-c-d-e", None),
    ],
)
def test_a_take_finds_the_trace_id_or_nothing(take: str, text: str, found: str | None) -> None:
    assert TAKES[take](text) == found


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
