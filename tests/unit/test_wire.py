"""The compiled reader: any bytes are headers as JSON has them, or an error says what is wrong."""

from __future__ import annotations

import base64
import datetime
import decimal
import gc
import json
import random
import tracemalloc
from collections.abc import Callable
from typing import Any

import pamqp.encode
import pamqp.frame
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp.commands import Basic
from pamqp.header import ContentHeader

from app.broker import _wire as wire
from app.broker import firehose
from app.broker.deliveries import Arrival
from app.tracker.records import LARGE
from drills.fuzz import damaged, messages
from tests import plain_wire

TABLE: dict[str, Any] = {
    "exchange_name": "orders",
    "routing_keys": ["order.new"],
    "properties": {"headers": {"n": [1, 2.5, None, True, {"deep": {}}]}, "priority": 3},
    "node": "rabbit@test",
    "vhost": "/",
    "connection": "127.0.0.1:1 -> 127.0.0.1:5672",
    "user": "shop",
    "channel": 65_535,
    "routed_queues": ["billing", "b\u00fcro"],
    "redelivered": 1,
}


def header_of(table: dict[str, Any]) -> bytes:
    return ContentHeader(0, 5, Basic.Properties(content_type="a/b", headers=table)).marshal()


def header_with(table: bytes) -> bytes:
    """The payload of a header frame with headers alone, encoded already."""
    return bytes(12) + (1 << 13).to_bytes(2, "big") + table


def decoded(table: bytes) -> dict[str, Any]:
    return wire.decode_headers(header_with(table))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (decimal.Decimal("3.14"), "314e-2"),
        (decimal.Decimal(7), "7"),
        (datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC), 1767312000),
        (bytearray(b"\xff"), {"base64": "/w=="}),
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
    ],
)
def test_what_json_does_not_know_comes_as_something_it_does(value: Any, expected: Any) -> None:
    headers = decoded(pamqp.encode.field_table({"v": value}))
    assert headers == {"v": expected}
    json.dumps(headers, allow_nan=False)


def test_text_that_is_not_utf8_keeps_its_odd_bytes_as_escapes() -> None:
    assert decoded(b"\0\0\0\x09\x01\xffS\0\0\0\x02a\xfe") == {"\\xff": "a\\xfe"}


NO_TEXT = [b"\xff", b"\0", b"\x1b", b"\xed\xa0\x80"]


def long_text(data: bytes) -> bytes:
    return b"S" + len(data).to_bytes(4, "big") + data


def nested(key: bytes, *values: bytes) -> bytes:
    """A table that has a list of values."""
    listed = b"".join(values)
    named = bytes([len(key)]) + key + b"A" + len(listed).to_bytes(4, "big") + listed
    return len(named).to_bytes(4, "big") + named


@pytest.mark.parametrize("odd", NO_TEXT)
@pytest.mark.parametrize("size", [120_000, 4_500, 250])
def test_many_bytes_that_are_no_text_take_less_than_twice_their_room(odd: bytes, size: int) -> None:
    text = odd * (size // len(odd))
    table = decoded(nested(b"v", *[long_text(text)] * (120_000 // size)))
    assert len(json.dumps(table)) < 240_000
    assert table["v"][-1] == {"base64": base64.b64encode(text).decode()}


@pytest.mark.parametrize("odd", NO_TEXT)
def test_texts_with_few_of_them_are_texts(odd: bytes) -> None:
    [text] = decoded(nested(b"v", long_text(b"a text\n" * 10_000 + odd * 300)))["v"]
    assert text.startswith("a text\n" * 10_000)


@pytest.mark.parametrize("odd", NO_TEXT)
def test_names_and_keys_that_are_no_texts_are_refused_where_they_are_many(odd: bytes) -> None:
    name = odd * (250 // len(odd))
    named = b"".join(bytes([len(name)]) + name + b"V" for _ in range(470))
    with pytest.raises(ValueError, match="too many values"):
        decoded(nested(b"v", b"F" + len(named).to_bytes(4, "big") + named))
    trace = (
        pamqp.encode.field_table(TABLE)[4:] + nested(b"routing_keys", *[long_text(name)] * 470)[4:]
    )
    with pytest.raises(ValueError, match="routing_keys holds what is no text"):
        wire.read_record("publish.", header_with(len(trace).to_bytes(4, "big") + trace), b"")


def test_a_date_beyond_any_calendar_is_a_number() -> None:
    assert decoded(b"\0\0\0\x0b\x01tT" + b"\xff" * 8) == {"t": 2**64 - 1}


def test_a_value_of_a_type_that_amqp_does_not_have_is_named() -> None:
    with pytest.raises(ValueError, match=r"unknown type \(122\)"):
        decoded(b"\0\0\0\x03\x01kz")


def headers_of(properties: Basic.Properties) -> dict[str, Any]:
    return wire.decode_headers(ContentHeader(0, 5, properties).marshal())


def test_headers_are_found_after_the_properties_before_them() -> None:
    full = Basic.Properties(content_type="a/b", content_encoding="c", headers={"h": 1}, priority=3)
    assert headers_of(full) == {"h": 1}
    assert headers_of(Basic.Properties(headers={"h": 1})) == {"h": 1}
    assert headers_of(Basic.Properties(content_type="a/b")) == {}


def test_a_user_is_found_after_the_properties_before_it() -> None:
    full = Basic.Properties(
        content_type="a/b",
        headers={"h": 1},
        delivery_mode=2,
        priority=3,
        timestamp=datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC),
        user_id="shop",
        app_id="other",
    )
    assert wire.user_of(ContentHeader(0, 5, full).marshal()) == "shop"
    assert wire.user_of(header_of({})) is None


def test_the_last_counts_of_what_is_twice_in_a_table() -> None:
    table = header_of(TABLE)
    at = table.index(b"\x04node")
    entry = table[at : at + 5 + 1 + 4 + len("rabbit@test")]
    length = len(table) - (table.index(b"\x03a/b") + 4) - 4
    before = table.index(length.to_bytes(4, "big"), 14)
    other = entry.replace(b"test", b"live")
    twice = table[:before] + (length + len(other)).to_bytes(4, "big") + other + table[before + 4 :]
    assert firehose.parse("publish.", twice, b"", 0) == firehose.parse("publish.", table, b"", 0)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: wire.read_record("publish.", "text", b""),  # type: ignore[arg-type]
        lambda: wire.read_record(b"publish.", b"", b""),  # type: ignore[arg-type]
        lambda: wire.read_record("publish.", b"", None),  # type: ignore[arg-type]
        lambda: wire.read_record("publish.", b""),  # type: ignore[call-arg]
        lambda: wire.decode_headers(None),  # type: ignore[arg-type]
        lambda: wire.user_of("text"),  # type: ignore[arg-type]
        lambda: wire.DeliverySplitter().feed("text"),  # type: ignore[arg-type]
        lambda: wire.DeliverySplitter().divert(-1, print),
        lambda: wire.DeliverySplitter().divert(2**80, print),
    ],
)
def test_invalid_arguments_are_refused(wrong: Any) -> None:
    with pytest.raises((TypeError, ValueError, OverflowError)):
        wrong()


def frame(kind: int, payload: bytes) -> bytes:
    return bytes([kind, 0, 1, *len(payload).to_bytes(4, "big")]) + payload + b"\xce"


def delivery_bytes(method: bytes, header: bytes, body: bytes) -> bytes:
    return frame(1, method) + frame(2, header) + frame(3, body)


METHOD = bytes([0, 60, 0, 60]) + b"\x01t" + bytes(8) + b"\x01" + b"\0" + b"\x01k"
HEADER = bytes(4) + (3).to_bytes(8, "big") + bytes(2)


def split(data: bytes) -> tuple[list[Arrival], bytes]:
    """The deliveries in these bytes, and what is left to the library."""
    taken: list[Arrival] = []
    splitter = wire.DeliverySplitter()
    splitter.divert(1, taken.extend)
    return taken, splitter.feed(data)


@pytest.mark.parametrize("cut", range(4, len(METHOD)))
def test_a_delivery_whose_arguments_run_over_is_left_to_the_library(cut: int) -> None:
    data = delivery_bytes(METHOD[:cut], HEADER, b"abc")
    assert split(data) == ([], data)


@pytest.mark.parametrize("size", [0, 2])
def test_a_body_that_is_longer_than_announced_is_left_to_the_library(size: int) -> None:
    header = bytes(4) + size.to_bytes(8, "big") + bytes(2)
    data = delivery_bytes(METHOD, header, b"abc")
    taken, left = split(data)
    assert (len(taken), left) == (int(size == 0), frame(3, b"abc"))


def test_a_body_that_is_shorter_than_announced_is_waited_for() -> None:
    header = bytes(4) + (4).to_bytes(8, "big") + bytes(2)
    assert split(delivery_bytes(METHOD, header, b"abc")) == ([], b"")


@pytest.mark.parametrize("size", [2**30 + 1, 2**64 - 1])
def test_a_body_larger_than_any_takes_no_room_and_is_left_to_the_library(size: int) -> None:
    header = bytes(4) + size.to_bytes(8, "big") + bytes(2)
    passed = delivery_bytes(METHOD, header, b"abc")
    assert split(passed) == ([], passed[passed.index(b"\xce") + 1 :])


def test_an_error_of_whoever_takes_deliveries_is_raised() -> None:
    def refuse(_: list[Arrival]) -> None:
        raise MemoryError

    splitter = wire.DeliverySplitter()
    splitter.divert(1, refuse)
    with pytest.raises(MemoryError):
        splitter.feed(delivery_bytes(METHOD, HEADER, b"abc"))


def test_the_library_reads_a_reason_that_is_cut_within_a_character() -> None:
    import app.broker.connection  # noqa: F401  where this is seen to

    reason = "no queue 'é".encode()[:-1]
    close = b"\0\x14\0\x28\x01\x94" + bytes([len(reason)]) + reason + b"\0\0\0\0"
    data = b"\x01\0\x01" + len(close).to_bytes(4, "big") + close + b"\xce"
    _, _, read = pamqp.frame.unmarshal(data)
    assert read.reply_text == "no queue '\\xc3"


plain = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False, width=32),
    st.text(max_size=20),
)
nested_values = st.recursive(
    plain,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.text(max_size=20), nested_values, max_size=6))
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
    for key in ("publish.orders", "deliver.b\0ll", "deliver", "delivery", "settle.closed", ""):
        for body in (b"", bytes(LARGE + 1)):
            expected = read(plain_wire.read_record, key, header, body)
            assert read(wire.read_record, key, header, body) == expected


@given(st.binary(max_size=120))
def test_any_bytes_are_a_table_or_an_error(data: bytes) -> None:
    is_read_as_in_python(header_with(data))


@given(
    st.dictionaries(st.text(max_size=8), nested_values, max_size=4).map(pamqp.encode.field_table),
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
                read(wire.read_record, "publish.", each, b"")
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
