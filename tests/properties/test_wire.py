"""Field tables off the wire: any bytes, JSON-safe, read as the client library does if it can."""

from __future__ import annotations

import json
from typing import Any

import pamqp.encode
import pamqp.frame
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.broker.wire import (
    MAX_DEPTH,
    UnreadableTableError,
    decode_headers,
    decode_table,
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
    assert decode_table(pamqp.encode.field_table(table)) == table


def nested_table(depth: int) -> bytes:
    table = b"\0\0\0\0"
    for _ in range(depth):
        inner = b"\x01kF" + table
        table = len(inner).to_bytes(4, "big") + inner
    return table


def test_depth_is_bounded_without_harm() -> None:
    assert decode_table(nested_table(MAX_DEPTH))
    with pytest.raises(UnreadableTableError, match="deeper"):
        decode_table(nested_table(20_000))


@given(st.binary(max_size=120))
def test_any_bytes_are_a_table_or_an_error(data: bytes) -> None:
    try:
        decoded = decode_table(data)
    except UnreadableTableError:
        return
    json.dumps(decoded, allow_nan=False)


@given(
    st.dictionaries(st.text(max_size=8), nested, max_size=4).map(pamqp.encode.field_table),
    st.data(),
)
def test_a_damaged_table_is_a_table_or_an_error(table: bytes, data: st.DataObject) -> None:
    position = data.draw(st.integers(0, max(0, len(table) - 1)))
    damaged = table[:position] + data.draw(st.binary(max_size=3)) + table[position + 1 :]
    try:
        json.dumps(decode_table(damaged), allow_nan=False)
    except UnreadableTableError:
        return


@given(st.binary(max_size=60))
def test_any_bytes_are_a_content_header_or_an_error(data: bytes) -> None:
    try:
        json.dumps(decode_headers(data), allow_nan=False)
    except UnreadableTableError:
        return
