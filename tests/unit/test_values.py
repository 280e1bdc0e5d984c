"""Bodies of AMQP 1.0 as text. The bytes are what Qpid Proton 0.40 made of the values."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.tracker import Publish
from app.tracker.values import MOST_BYTES, MOST_VALUES, as_text, readable
from tests.model_broker.broker import channel

VALUES = {
    "a10568656c6c6f": b"hello",
    "b100000258" + "c3a9" * 300: "é".encode() * 300,
    "a30173": b"s",
    "a003726177": b"raw",
    "a001ff": b"\xff",
    "552a": b"42",
    "55fd": b"-3",
    "41": b"true",
    "45": b"[]",
    "800000010000000000": b"1099511627776",
    "830000018bcfe569f4": b"2023-11-14T22:13:20.500000+00:00",
    "7300000063": b"c",
    "827ff8000000000000": b'"nan"',
    "9800000000000000000000000000000007": b"00000000-0000-0000-0000-000000000007",
    "d10000002c00000006a10161a10666696e646d65a10162d0000000100000000355018240040000000000004"
    "05503a10178": b'{"a":"findme","b":[1,2.5,null],"3":"x"}',
    "d00000000a00000002a10178a001ff": b'["x",{"base64":"/w=="}]',
    "f0000000110000000371000000010000000200000003": b"[1,2,3]",
    "d10000000400000000": b"{}",
}


def value(encoded: str) -> bytes:
    return bytes.fromhex("005377" + encoded)


@pytest.mark.parametrize("encoded", VALUES)
def test_a_value_is_the_text_that_it_is_or_json(encoded: str) -> None:
    assert as_text(value(encoded)) == VALUES[encoded]


def test_sequences_are_one_list_and_a_footer_is_none_of_the_body() -> None:
    sequence = bytes.fromhex("005376d00000000a00000002a10161a10162")
    footer = bytes.fromhex("005378c10100")
    assert as_text(sequence + footer) == b'["a","b"]'
    assert as_text(sequence + sequence) == b'["a","b","a","b"]'


def test_a_section_named_at_full_length_is_the_same() -> None:
    assert as_text(bytes.fromhex("0080000000000000007755") + b"\x07") == b"7"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"plain text",
        b"\0",
        b"\0Sw",
        bytes.fromhex("005377a10568656c6c"),  # shorter than it says
        bytes.fromhex("005377a101ff"),  # text that is no UTF-8
        bytes.fromhex("005375a00162"),  # bytes: never seen, they come as they are
        bytes.fromhex("005377c1040355015502"),  # a key without its value
        bytes.fromhex("005377" + "c0ff01" * 200 + "40"),  # nested too deep
        bytes.fromhex("005377f000000006ffffffff40"),  # four billion times nothing
        bytes.fromhex("0053775501005377") + b"U\1",  # two values
        b"\0Sw\x1f",
    ],
)
def test_what_is_no_value_stays_as_it_is(body: bytes) -> None:
    assert as_text(body) is None
    record = Publish(channel("ann"), "x", ("k",), (), {"type": "amqp-1.0"}, body)
    assert readable(record) is record


def array(count: int, element: bytes) -> bytes:
    """An array of elements that begin with their type, and take no room beyond that."""
    return b"\xf0" + (4 + len(element)).to_bytes(4, "big") + count.to_bytes(4, "big") + element


def listed(*elements: bytes) -> bytes:
    body = b"".join(elements)
    return b"\xd0" + (4 + len(body)).to_bytes(4, "big") + len(elements).to_bytes(4, "big") + body


def test_no_more_values_are_made_than_a_message_may_have() -> None:
    """However few bytes they take: 10 kB would be 800 MB, and 25 seconds."""
    at_most = MOST_VALUES - 2  # beside what names the section, and the list
    assert as_text(b"\0Sw" + listed(*[b"\x45"] * at_most)) is not None
    assert as_text(b"\0Sw" + listed(*[b"\x45"] * (at_most + 1))) is None
    assert as_text(b"\0Sw" + listed(*[array(1_000, b"\x45")] * 1_000)) is None
    assert as_text(b"\0Sw" + listed(*[b"\x40"] * MOST_VALUES)) is None
    assert as_text(b"\0Sv\x45" * MOST_VALUES) is None


def test_a_key_is_a_plain_value() -> None:
    """A list within a key within a key would be text within text, twice as long each time."""
    key = b"\xa1\1a"
    for _ in range(60):
        pair = key + b"\x40"
        key = b"\xd1" + (4 + len(pair)).to_bytes(4, "big") + (2).to_bytes(4, "big") + pair
    assert as_text(b"\0Sw" + key) is None


def test_a_large_value_stays_as_it_is() -> None:
    size = MOST_BYTES - 8
    text = b"\0Sw\xb1" + size.to_bytes(4, "big") + b"a" * size
    assert as_text(text) == b"a" * size
    size += 1
    assert as_text(b"\0Sw\xb1" + size.to_bytes(4, "big") + b"a" * size) is None


def test_a_body_has_no_more_values_than_bytes() -> None:
    assert as_text(b"\0Sw" + array(2, b"\x40")) == b"[null,null]"
    assert as_text(b"\0Sw" + array(20, b"\x40")) is None


def test_only_messages_that_say_so_are_looked_at() -> None:
    record = Publish(channel("ann"), "x", ("k",), (), {}, value("552a"))
    assert readable(record) is record
    said = Publish(channel("ann"), "x", ("k",), (), {"type": "amqp-1.0"}, value("552a"))
    assert readable(said).body == b"42"


@given(st.binary(max_size=60), st.sampled_from([b"", b"\0Sw", b"\0Sv", b"\0Sw\xc1", b"\0Sw\xe0"]))
def test_any_bytes_are_read_or_left(body: bytes, before: bytes) -> None:
    text = as_text(before + body)
    if text is not None and text[:1] in (b"{", b"["):
        try:
            json.loads(text)
        except ValueError:
            assert text in body  # a value that is text, and begins as JSON does
