"""Field tables off the wire: any bytes, JSON-safe, read as the client library does if it can."""

from __future__ import annotations

import datetime
import decimal
import json
from typing import Any

import pamqp.encode
import pamqp.frame
import pytest
from pamqp.commands import Basic
from pamqp.header import ContentHeader

from app.broker.wire import (
    decode_headers,
    decode_table,
    install_tolerant_names,
)


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
    decoded = decode_table(pamqp.encode.field_table({"v": value}))
    assert decoded == {"v": expected}
    json.dumps(decoded, allow_nan=False)


def test_text_that_is_not_utf8_keeps_its_odd_bytes_as_escapes() -> None:
    assert decode_table(b"\0\0\0\x09\x01\xffS\0\0\0\x02a\xfe") == {"\\xff": "a\\xfe"}


def test_a_date_beyond_any_calendar_is_a_number() -> None:
    assert decode_table(b"\0\0\0\x0b\x01tT" + b"\xff" * 8) == {"t": 2**64 - 1}


def headers_of(properties: Basic.Properties) -> dict[str, Any]:
    return decode_headers(ContentHeader(0, 5, properties).marshal())


def test_headers_are_found_after_the_properties_before_them() -> None:
    full = Basic.Properties(content_type="a/b", content_encoding="c", headers={"h": 1}, priority=3)
    assert headers_of(full) == {"h": 1}
    assert headers_of(Basic.Properties(headers={"h": 1})) == {"h": 1}
    assert headers_of(Basic.Properties(content_type="a/b")) == {}


def test_the_library_reads_a_reason_that_is_cut_within_a_character() -> None:
    install_tolerant_names()
    reason = "no queue 'é".encode()[:-1]
    close = b"\0\x14\0\x28\x01\x94" + bytes([len(reason)]) + reason + b"\0\0\0\0"
    data = b"\x01\0\x01" + len(close).to_bytes(4, "big") + close + b"\xce"
    _, _, read = pamqp.frame.unmarshal(data)
    assert read.reply_text == "no queue '\\xc3"
