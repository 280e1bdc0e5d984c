"""The compiled reader of trace messages agrees with the Python that it replaces."""

import pytest
from pamqp.commands import Basic
from pamqp.header import ContentHeader

from app.broker import _wire as wire
from app.broker import firehose
from app.broker.deliveries import Arrival
from app.tracker import Unreadable

TABLE = {
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


def header_of(table):
    return ContentHeader(0, 5, Basic.Properties(content_type="a/b", headers=table)).marshal()


def frame(kind, channel, payload):
    return bytes([kind, 0, channel, *len(payload).to_bytes(4, "big")]) + payload + b"\xce"


def test_a_regular_trace_message_is_read_without_the_python(monkeypatch):
    def decode_headers(header):
        raise AssertionError("asked the Python")

    monkeypatch.setattr(firehose, "decode_headers", decode_headers)
    for key in ("publish.orders", "deliver.billing"):
        assert not isinstance(firehose.parse(key, header_of(TABLE), b"", 0), Unreadable)


@pytest.mark.parametrize(
    "odd",
    [
        {"channel": -1},
        {"channel": 2**40},
        {"channel": True},
        {"redelivered": 2},
        {"node": "a\0b"},
        {"routing_keys": ["a\0b"]},
        {"user": None},
        {"properties": []},
        {"properties": {"bytes": bytearray(b"x")}},
        {"properties": {"not a number": float("nan")}},
    ],
)
def test_what_is_odd_is_left_to_the_python(odd):
    assert wire.read_trace(header_of(TABLE), False) is not None
    assert wire.read_trace(header_of({**TABLE, **odd}), False) is None


def test_what_is_twice_in_a_table_is_left_to_the_python():
    table = header_of(TABLE)
    at = table.index(b"\x04node")
    entry = table[at : at + 5 + 1 + 4 + len("rabbit@test")]
    length = len(table) - (table.index(b"\x03a/b") + 4) - 4
    before = table.index(length.to_bytes(4, "big"), 14)
    twice = table[:before] + (length + len(entry)).to_bytes(4, "big") + entry + table[before + 4 :]
    assert wire.read_trace(table, True) is not None
    assert wire.read_trace(twice, True) is None
    assert firehose.parse("publish.", twice, b"", 0) == firehose.parse("publish.", table, b"", 0)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: wire.read_trace("text", True),
        lambda: wire.read_trace(b"", 1),
        lambda: wire.read_trace(b""),
        lambda: wire.read_deliveries(b"", 0, 1),
        lambda: wire.read_deliveries("", 0, 1, Arrival),
        lambda: wire.read_deliveries(b"", "0", 1, Arrival),
        lambda: wire.read_deliveries(b"", 1, 1, Arrival),
        lambda: wire.read_deliveries(b"", -1, 1, Arrival),
        lambda: wire.read_deliveries(b"", 0, -1, Arrival),
        lambda: wire.read_deliveries(b"", 0, 2**80, Arrival),
    ],
)
def test_invalid_arguments_are_refused(wrong):
    with pytest.raises((TypeError, ValueError, OverflowError)):
        wrong()


def delivery_bytes(method, header, body):
    return frame(1, 1, method) + frame(2, 1, header) + frame(3, 1, body)


METHOD = bytes([0, 60, 0, 60]) + b"\x01t" + bytes(8) + b"\x01" + b"\0" + b"\x01k"
HEADER = bytes(4) + (3).to_bytes(8, "big") + bytes(2)


@pytest.mark.parametrize("cut", range(len(METHOD)))
def test_a_delivery_whose_arguments_run_over_is_left_to_the_python(cut):
    data = delivery_bytes(METHOD[:cut], HEADER, b"abc")
    assert wire.read_deliveries(data, 0, 1, Arrival) == ([], 0)


@pytest.mark.parametrize("size", [0, 2, 4, 2**64 - 1])
def test_a_body_of_another_size_than_announced_is_left_to_the_python(size):
    whole = delivery_bytes(METHOD, HEADER, b"abc")
    assert wire.read_deliveries(whole, 0, 1, Arrival)[1] == len(whole)
    other = bytes(4) + size.to_bytes(8, "big") + bytes(2)
    taken, behind = wire.read_deliveries(delivery_bytes(METHOD, other, b"abc"), 0, 1, Arrival)
    assert (len(taken), behind) == ((1, len(whole) - 11) if size == 0 else (0, 0))


def test_an_error_of_the_class_is_raised():
    def refuse(*_):
        raise MemoryError

    with pytest.raises(MemoryError):
        wire.read_deliveries(delivery_bytes(METHOD, HEADER, b"abc"), 0, 1, refuse)
