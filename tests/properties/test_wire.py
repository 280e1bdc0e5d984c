"""Headers off the wire: any bytes, JSON-safe, read as plain Python reads them."""

from __future__ import annotations

import gc
import json
import random
import tracemalloc
from collections.abc import Callable
from typing import Any

import pamqp.encode
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.broker import _wire as wire
from drills.fuzz import damaged, messages
from tests import plain_wire
from tests.unit.test_wire import (
    HEADER,
    METHOD,
    TABLE,
    decoded,
    delivery_bytes,
    header_of,
    header_with,
)

plain = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False, width=32),
    st.text(max_size=20),
)
nested = st.recursive(
    plain,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.text(max_size=20), nested, max_size=6))
def test_what_was_encoded_comes_back(table: dict[str, Any]) -> None:
    assert decoded(pamqp.encode.field_table(table)) == table


def nested_table(depth: int) -> bytes:
    table = b"\0\0\0\0"
    for _ in range(depth):
        inner = b"\x01kF" + table
        table = len(inner).to_bytes(4, "big") + inner
    return table


def test_depth_is_bounded_without_harm() -> None:
    assert decoded(nested_table(plain_wire.MAX_DEPTH))
    with pytest.raises(ValueError, match="deeper"):
        decoded(nested_table(20_000))


def read(reader: Callable[..., Any], *given: object) -> str | None:
    """What is read, as text, since NaN differs from itself; None where it cannot be."""
    try:
        return repr(reader(*given))
    except ValueError:
        return None


def is_read_as_in_python(header: bytes) -> None:
    assert read(wire.decode_headers, header) == read(plain_wire.decode_headers, header)
    for is_publish in (True, False):
        expected = read(plain_wire.read_trace, header, is_publish)
        assert read(wire.read_trace, header, is_publish) == expected


@given(st.binary(max_size=120))
def test_any_bytes_are_a_table_or_an_error(data: bytes) -> None:
    is_read_as_in_python(header_with(data))


@given(
    st.dictionaries(st.text(max_size=8), nested, max_size=4).map(pamqp.encode.field_table),
    st.data(),
)
def test_a_damaged_table_is_a_table_or_an_error(table: bytes, data: st.DataObject) -> None:
    position = data.draw(st.integers(0, max(0, len(table) - 1)))
    broken = table[:position] + data.draw(st.binary(max_size=3)) + table[position + 1 :]
    is_read_as_in_python(header_with(broken))


@given(st.binary(max_size=60))
def test_any_bytes_are_a_content_header_or_an_error(data: bytes) -> None:
    is_read_as_in_python(data)
    try:
        wire.user_of(data)
        json.dumps(wire.decode_headers(data), allow_nan=False)
    except ValueError:
        return


@given(messages(), st.integers(0, 2**32))
def test_any_damaged_message_is_read_as_in_python(
    message: tuple[str, bytes, bytes], seed: int
) -> None:
    for header in damaged(message[1], random.Random(seed)):
        is_read_as_in_python(header)


def test_nothing_is_leaked() -> None:
    header, chance = header_of(TABLE), random.Random(1)
    broken = list(damaged(header, chance)) * 20
    data = delivery_bytes(METHOD, HEADER, b"abc") * 3
    odd_key = delivery_bytes(METHOD[:-1] + b"\xff", HEADER, b"abc")

    def bytes_held_after(rounds: int) -> int:
        for _ in range(rounds):
            for each in broken:
                read(wire.read_trace, each, True)
            splitter = wire.DeliverySplitter()
            splitter.divert(1, lambda _: None)
            splitter.feed(data + odd_key + data[:-1])
            splitter.feed(b"\xce" + data[:9] + b"odd" + data)
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        before = bytes_held_after(3)
        assert bytes_held_after(30) - before < 1_000
    finally:
        tracemalloc.stop()
