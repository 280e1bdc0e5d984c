"""The parser accepts anything: every message is a record, or says why it is not one."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp.commands import Basic
from pamqp.encode import field_table
from pamqp.header import ContentHeader

from app.broker.firehose import parse
from app.tracker import (
    NOWHERE,
    Bounds,
    Channel,
    Deliver,
    Policy,
    Publish,
    RestorePoint,
    Settlement,
    Tracker,
    Unreadable,
)
from app.tracker.records import QUARANTINED_BODY

COMMON: dict[str, Any] = {
    "exchange_name": "orders",
    "node": "rabbit@test",
    "vhost": "/",
    "connection": "127.0.0.1:1 -> 127.0.0.1:5672",
    "user": "shop",
    "channel": 1,
    "routing_keys": ["order.new", "copy"],
    "properties": {"delivery_mode": 2, "headers": {"a": 1}},
}
PUBLISH = {**COMMON, "routed_queues": ["billing", "shipping"]}
DELIVER = {**COMMON, "redelivered": 1}
# As the broker plugin's messages have it.
SETTLED = {
    "itc": "0.1.0",
    "node": "rabbit@test",
    "vhost": "/",
    "at": 1_795_683_162_797_638,
    "connection": "127.0.0.1:1 -> 127.0.0.1:5672",
    "channel": 1,
    "user": "shop",
    "outcome": "rejected",
    "delivery_tag": 4,
    "multiple": True,
}
CHANNEL = Channel("rabbit@test", "127.0.0.1:1 -> 127.0.0.1:5672", 1, "shop")


def read(key: str, headers: dict[str, Any], body: bytes = b"b") -> Any:
    return parse(
        key, ContentHeader(0, len(body), Basic.Properties(headers=headers)).marshal(), body, 7
    )


def test_queues_that_are_stored_as_one_text_are_one() -> None:
    names = ["a\0", "a\\x00", "b", "b", bytearray(b"c")]
    assert isinstance(read("publish.orders", {**PUBLISH, "routed_queues": names}), Unreadable)
    publish = read("publish.orders", {**PUBLISH, "routed_queues": names[:4]})
    assert publish.routed_queues == ("a\\x00", "b")


@pytest.mark.parametrize("header", ["node", "connection", "user", "routed_queues"])
def test_a_name_is_as_long_as_names_can_be_and_not_longer(header: str) -> None:
    longest = "\0" * 255  # each of which is stored as four characters
    for name, is_one in ((longest, True), ("é" * 510, True), (longest + "\0", False)):
        said = [name] if header == "routed_queues" else name
        result = read("publish.orders", {**PUBLISH, header: said})
        assert isinstance(result, Publish if is_one else Unreadable)
        if not is_one:
            assert result.reason == f"header {header} is longer than any name"
    longer = read("publish.orders", {**PUBLISH, "routing_keys": ["k" * 5_000]})
    assert longer.routing_keys == ("k" * 5_000,)  # from a header of the sender's, of any length


def read_settlement(event: str, fields: dict[str, Any], user: str | None = "rmq-internal") -> Any:
    body, properties = field_table(fields), Basic.Properties(user_id=user)
    return parse(f"settle.{event}", ContentHeader(0, len(body), properties).marshal(), body, 7)


def test_a_settlement_is_the_broker_s_own_word() -> None:
    expected = Settlement(
        "settled",
        CHANNEL,
        SETTLED["at"],
        outcome="rejected",
        delivery_tag=4,
        multiple=True,
    )
    assert read_settlement("settled", SETTLED) == expected
    for other in ("shop", "rmq-internal2", "", None):
        result = read_settlement("settled", SETTLED, other)
        assert isinstance(result, Unreadable)
        assert result.reason == "somebody other than the broker published this settlement"


def test_what_is_said_of_a_node_names_no_channel() -> None:
    of_node = {name: SETTLED[name] for name in ("itc", "node", "vhost", "at")}
    nobody = Channel("rabbit@test", "", 0, "")
    assert read_settlement("began", of_node) == Settlement("began", nobody, SETTLED["at"])


@pytest.mark.parametrize("header", sorted(SETTLED.keys() - {"vhost"}))
@pytest.mark.parametrize("value", ["absent", -1, 1.5, None, {"no": "such"}])
def test_a_settlement_that_lacks_something_is_quarantined(header: str, value: Any) -> None:
    if header == "itc" and value != "absent":
        return  # any version will do
    said = {**SETTLED, header: value}
    if value == "absent":
        del said[header]
    result = read_settlement("settled", said)
    assert isinstance(result, Unreadable)
    assert header in result.reason


def test_a_settlement_that_is_longer_than_any_is_not_read() -> None:
    result = read_settlement("settled", {**SETTLED, "more": "x" * 4096})
    assert isinstance(result, Unreadable)
    assert result.reason.startswith("a settlement of 4,")


def test_an_event_of_settlements_that_is_not_known_is_quarantined() -> None:
    assert isinstance(read_settlement("requeued", SETTLED), Unreadable)


def test_a_publish() -> None:
    assert read("publish.orders", PUBLISH) == Publish(
        CHANNEL,
        "orders",
        ("order.new", "copy"),
        ("billing", "shipping"),
        COMMON["properties"],
        b"b",
    )


def test_a_deliver_from_a_queue_whose_name_holds_dots() -> None:
    assert read("deliver.a.b.c", DELIVER) == Deliver(
        CHANNEL, "orders", ("order.new", "copy"), "a.b.c", True, COMMON["properties"], b"b"
    )


def test_a_publish_to_the_default_exchange_without_properties() -> None:
    bare = {key: value for key, value in PUBLISH.items() if key != "properties"}
    record = read("publish.", {**bare, "exchange_name": ""})
    assert (record.exchange, record.properties) == ("", {})


@pytest.mark.parametrize("header", sorted(PUBLISH.keys() - {"vhost", "properties"}))
def test_a_missing_header_is_named(header: str) -> None:
    broken = {key: value for key, value in PUBLISH.items() if key != header}
    result = read("publish.orders", broken)
    assert isinstance(result, Unreadable)
    assert header in result.reason
    assert "missing" in result.reason


@pytest.mark.parametrize("header", sorted(PUBLISH.keys() - {"vhost"}))
@pytest.mark.parametrize("value", [3.5, {"no": "such"}, [1], None])
def test_a_header_of_the_wrong_type_is_named(header: str, value: Any) -> None:
    if header == "properties" and isinstance(value, dict):
        return
    result = read("publish.orders", {**PUBLISH, header: value})
    assert isinstance(result, Unreadable)
    assert header in result.reason


@pytest.mark.parametrize("number", [-1, 65_536, 2**40])
def test_a_channel_that_amqp_cannot_have_is_refused(number: int) -> None:
    result = read("publish.orders", {**PUBLISH, "channel": number})
    assert isinstance(result, Unreadable)
    assert str(number) in result.reason


@pytest.mark.parametrize("header", ["channel", "redelivered"])
@pytest.mark.parametrize(
    "value", [True, False, 1.0, 0.0, Decimal("1"), "1", bytearray(b"1"), [1], {"n": 1}]
)
def test_a_number_is_an_integer_and_nothing_that_passes_for_one(header: str, value: Any) -> None:
    """A flag for a channel was read as one, and the checkpoint that held it could not be."""
    result = read("deliver.q", {**DELIVER, header: value})
    assert isinstance(result, Unreadable)
    assert result.reason == f"header {header} is no number"


@pytest.mark.parametrize("value", [-1, 2, 65_535, 2**31, -(2**63), 2**63 - 1])
def test_a_redelivery_is_flagged_by_one_or_zero(value: int) -> None:
    result = read("deliver.q", {**DELIVER, "redelivered": value})
    assert isinstance(result, Unreadable)
    assert result.reason == f"header redelivered is {value}: no such number in AMQP"


@pytest.mark.parametrize("header", ["routing_keys", "routed_queues"])
@pytest.mark.parametrize("value", [True, 1, 1.0, None, bytearray(b"k"), ["k"], {"k": "k"}])
def test_lists_of_names_hold_text_alone(header: str, value: Any) -> None:
    result = read("publish.x", {**PUBLISH, header: ["k", value]})
    assert isinstance(result, Unreadable)
    assert result.reason == f"header {header} holds what is no text"


def test_garbage_is_kept_in_part_and_its_whole_size_noted() -> None:
    result = read("rubbish", {"x": 1}, b"r" * 10_000)
    assert isinstance(result, Unreadable)
    assert (len(result.body), result.body_bytes) == (QUARANTINED_BODY, 10_000)
    assert (result.headers, result.recorded_at) == ('{"x":1}', 7)


def test_a_table_that_cannot_be_decoded_is_named_as_the_reason() -> None:
    result = parse("publish.", b"no header", b"", 0)
    assert isinstance(result, Unreadable)
    assert result.reason.startswith("not a content header")


def test_a_publish_without_a_point_is_one() -> None:
    assert isinstance(read("publish", {**PUBLISH, **DELIVER}), Publish)


@pytest.mark.parametrize("key", ["rubbish", "delivery.q", ""])
def test_what_is_neither_published_nor_delivered_is_shown_as_it_came(key: str) -> None:
    result = read(key, {**PUBLISH, **DELIVER})
    assert isinstance(result, Unreadable)
    assert "neither publish. nor deliver." in result.reason
    assert '"node":"rabbit@test"' in result.headers


def test_nul_in_a_name_is_escaped() -> None:
    assert read("deliver.a\0b", DELIVER).queue == "a\\x00b"


def deep(levels: int) -> dict[str, Any]:
    return {"a": deep(levels - 1)} if levels else {"end": 1}


# What a client may have put into a message, or somebody into a trace message.
UNREAD: dict[str, dict[str, Any]] = {
    "deep": {"properties": {"headers": deep(80)}},
    "deep list": {"properties": {"headers": {"a": [[deep(70)]]}}},
    "no table": {"properties": "none"},
    "no list": {"routing_keys": 7},
    "no text": {"exchange_name": [1]},
    "large": {"properties": {"headers": {"a": "x" * 100_000, "b": deep(80)}}},
}


@pytest.mark.parametrize("what", sorted(UNREAD))
@pytest.mark.parametrize("is_last", [True, False])
@pytest.mark.parametrize("key", ["publish.orders", "deliver.q"])
def test_what_cannot_be_read_says_of_which_channel_it_is(
    key: str, is_last: bool, what: str
) -> None:
    good = {**PUBLISH, **DELIVER}
    for name in UNREAD[what]:
        del good[name]
    headers = {**good, **UNREAD[what]} if is_last else {**UNREAD[what], **good}
    result = read(key, headers)
    assert isinstance(result, Unreadable)
    assert (result.channel, result.is_forged) == (CHANNEL, False)
    assert (result.kind, result.queue) == (key.split(".")[0], "q" if "deliver" in key else None)


@pytest.mark.parametrize("header", ["outcome", "delivery_tag", "multiple", "at"])
def test_a_settlement_that_cannot_be_read_says_of_which_channel_it_is(header: str) -> None:
    result = read_settlement("settled", {**SETTLED, header: deep(80)})
    assert (result.channel, result.is_forged) == (CHANNEL, False)
    assert read_settlement("settled", {**SETTLED, header: deep(80)}, "shop").is_forged


def test_a_cut_message_is_of_the_channel_that_stands_before_the_cut() -> None:
    place = {"channel": 1, "node": CHANNEL.node, "connection": CHANNEL.connection, "user": "shop"}
    whole = ContentHeader(0, 0, Basic.Properties(headers={**place, **PUBLISH})).marshal()
    ends = len(whole) - len(ContentHeader(0, 0, Basic.Properties(headers=PUBLISH)).marshal())
    found = {}
    for end in range(len(whole)):
        result = parse("publish.x", whole[:end], b"", 0)
        assert isinstance(result, Unreadable)
        found[end] = result.channel
    assert found[len(whole) - 1] == CHANNEL
    assert found[ends // 2] == NOWHERE
    assert {*found.values()} == {CHANNEL, NOWHERE}


@pytest.mark.parametrize("header", ["node", "connection", "user", "channel"])
@pytest.mark.parametrize("value", [None, {}, 2**40, "x" * 2_000])
def test_a_channel_that_cannot_be_told_is_none(header: str, value: Any) -> None:
    result = read("deliver.q", {**DELIVER, header: value, "properties": {"headers": deep(80)}})
    assert isinstance(result, Unreadable)
    assert result.channel == NOWHERE


@pytest.mark.parametrize("key", ["rubbish", "", "settle.settled"])
def test_what_the_broker_has_not_written_is_known_for_that(key: str) -> None:
    assert read(key, {**SETTLED, **PUBLISH}).is_forged


numbers: st.SearchStrategy[Any] = st.one_of(
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(width=32),
    st.text(max_size=3),
    st.none(),
)


@given(
    numbers,
    numbers,
    st.lists(st.one_of(numbers, st.dictionaries(st.text(max_size=3), numbers)), max_size=3),
)
def test_whatever_is_taken_for_a_delivery_is_read_back_from_a_checkpoint(
    number: Any, redelivered: Any, deaths: list[Any]
) -> None:
    headers = {"headers": {"x-death": deaths, "timestamp_in_ms": number}}
    forged = {**DELIVER, "channel": number, "redelivered": redelivered, "properties": headers}
    for record in (
        read("deliver.q", forged),
        read("deliver.q", {**DELIVER, "properties": headers}),
    ):
        if isinstance(record, Unreadable):
            continue
        tracker = Tracker(Policy.channel, Bounds(reorder_window=1_000_000))
        assert tracker.apply(record, 0) == []
        state = tracker.checkpoint().state
        again = Tracker(Policy.channel, Bounds(), RestorePoint(state, [], [], [], []))
        assert len(again._window) == 1


anything: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**63), 2**63 - 1), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=5,
)


@given(
    st.one_of(st.text(max_size=12), st.sampled_from(("publish.x", "deliver.q", "publish."))),
    st.dictionaries(st.sampled_from(sorted({**PUBLISH, **DELIVER})), anything),
    st.binary(max_size=8),
)
def test_any_message_becomes_a_record_or_a_reason(
    key: str, changes: dict[str, Any], body: bytes
) -> None:
    result = read(key, {**PUBLISH, **DELIVER, **changes}, body)
    assert isinstance(result, Publish | Deliver | Unreadable)
