"""Bundles: what was packed comes out, and what cannot be read is told of as a whole."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp.commands import Basic
from pamqp.header import ContentHeader
from yarl import URL

from app.broker import bundles
from app.broker.consumer import Reading, TraceStream
from app.broker.deliveries import MOST_RECORDS, UNREAD, Arrival
from app.broker.firehose import parse
from app.broker.outages import BrokerAddress
from app.tracker import Publish, Unreadable
from app.tracker.records import LARGE
from drills.fuzz import damaged
from drills.fuzz import messages as traced
from tests.bundles import Message, arrival, bundle, pack
from tests.unit.test_trace_stream import LONG, connection, stream

__all__ = ["connection", "stream"]  # fixtures


def publish(number: int, exchange: str = "") -> Message:
    """The trace message of a publish."""
    table: dict[str, Any] = {
        "node": "rabbit@one",
        "connection": "10.0.0.1:5000 -> 10.0.0.2:5672",
        "channel": 1,
        "user": "alice",
        "exchange_name": exchange,
        "routing_keys": ["q"],
        "properties": {"message_id": f"m{number}"},
        "routed_queues": ["q"],
    }
    body = b"body %d" % number
    header = ContentHeader(0, len(body), Basic.Properties(headers=table)).marshal()
    return f"publish.{exchange}", header, body


messages = st.tuples(st.text(max_size=300).filter(lambda s: len(s) < 60), st.binary(), st.binary())


@given(st.lists(messages, min_size=1, max_size=20), st.integers(0, 2**40), st.integers(1, 2**40))
def test_the_records_of_a_bundle_come_out_as_they_went_in(
    packed: list[Message], first: int, tag: int
) -> None:
    message = arrival(bundle(packed, 3, first), tag, redelivered=True)
    message.bundle, message.at = bundles.read_head(message.header), 50
    unpacked = bundles.open_bundle(message)
    assert [(each.routing_key, each.header, each.body) for each in unpacked] == packed
    assert [each.ordinal for each in unpacked] == [*range(first, first + len(packed))]
    assert [each.at for each in unpacked] == [*range(50, 50 + len(packed))]
    assert all(each.redelivered and each.bundle is message.bundle for each in unpacked)
    assert [each.is_last for each in unpacked] == [False] * (len(packed) - 1) + [True]
    assert [each.tag for each in unpacked] == [tag - 1] * (len(packed) - 1) + [tag]
    assert len({each.digest for each in unpacked}) == len(packed)


@given(st.lists(traced(), min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_a_record_of_a_bundle_is_what_it_would_be_alone(
    packed: list[Message], chance: random.Random
) -> None:
    """Damaged ones and settlements too, which are left to the parser."""
    packed = [
        (key, chance.choice([header, *damaged(header, chance)]), body)
        for key, header, body in packed
    ]
    packed.append((*publish(1)[:2], bytes(LARGE + 1)))
    message = arrival(bundle(packed, 0, 0))
    message.bundle = bundles.read_head(message.header)
    opened = bundles.open_bundle(message)
    assert opened[-1].message is UNREAD, "its digest may be made in a thread"
    for (key, header, body), record in zip(packed, opened, strict=True):
        alone = parse(key, header, body, 0)
        if record.message is UNREAD:
            assert (record.routing_key, record.header, record.body) == (key, header, body)
            continue
        assert repr(record.message) == repr(alone)  # NaN differs from itself
        assert alone.is_event


def test_a_bundle_without_records_is_not_taken_for_the_next_record() -> None:
    empty, full = (arrival(bundle(packed, 0, 5)) for packed in ([], [publish(0)]))
    for message in (empty, full):
        message.bundle = bundles.read_head(message.header)
    opened = bundles.open_bundle(empty)
    assert [each.message for each in opened] == [UNREAD]
    assert opened[0].digest not in {b"", bundles.open_bundle(full)[0].digest}


@given(st.data())
def test_whatever_is_broken_in_a_bundle_is_found_and_never_fails(data: st.DataObject) -> None:
    packed = [publish(number) for number in range(3)]
    key, header, body = bundle(packed, 0, 0)
    changed = bytearray(body)
    for place in data.draw(st.lists(st.integers(0, len(body) - 1), min_size=1, max_size=4)):
        changed[place] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(body)))
    message = arrival((key, header, bytes(changed[:cut]) if cut % 2 else bytes(changed)))
    message.bundle = bundles.read_head(header)
    for record in bundles.open_bundle(message):
        assert record.is_last is (record.tag == 1)
        if record.message is UNREAD:
            parse(record.routing_key, record.header, record.body, 0)


@pytest.mark.parametrize("records", [2, 4])
def test_a_bundle_with_another_number_of_records_is_left_out_as_a_whole(records: int) -> None:
    message = arrival(bundle([publish(number) for number in range(3)], 7, 100, records=records))
    message.bundle = bundles.read_head(message.header)
    (whole,) = bundles.open_bundle(message)
    assert isinstance(whole.message, Unreadable)
    assert not whole.message.is_forged
    for text in ("bundle 7", "rabbit@one", "1700000000000000", f"of {records} records", "101th"):
        assert text in whole.message.reason


@pytest.mark.parametrize(
    "head",
    [
        {"user": "alice"},
        {"records": MOST_RECORDS + 1},
        {"first": -1},
        {"epoch": "yesterday"},
        {"node": None},
    ],
)
def test_only_the_plugin_makes_bundles(head: dict[str, Any]) -> None:
    message = arrival(bundle([publish(1)], 0, **{"first": 0, **head}))
    assert bundles.read_head(message.header) is None
    read = parse(*bundle([publish(1)], 0, **{"first": 0, **head}), 0)
    assert isinstance(read, Unreadable)
    assert read.is_forged is ("user" in head)


def test_a_bundle_within_a_bundle_is_none() -> None:
    inner = bundle([publish(1)], 0, 0)
    message = arrival(bundle([inner], 0, 0))
    message.bundle = bundles.read_head(message.header)
    (record,) = bundles.open_bundle(message)
    assert isinstance(parse(record.routing_key, record.header, record.body, 0), Unreadable)


def test_a_key_longer_than_amqp_allows_comes_in_a_bundle() -> None:
    message = arrival(bundle([publish(1, "x" * 255)], 0, 0))
    message.bundle = bundles.read_head(message.header)
    (record,) = bundles.open_bundle(message)
    assert isinstance(record.message, Publish)
    assert record.message.exchange == "x" * 255


def test_a_queue_asks_for_bundles_of_each_key_or_of_none() -> None:
    assert bundles.wishes(["publish.#", "deliver.q"]) == (
        "itc.batch.1.publish.#",
        "itc.batch.1.deliver.q",
    )
    assert bundles.wishes(["publish.#", "deliver." + "q" * 230]) == ()


async def test_a_stream_counts_records_and_keeps_bundles_whole(stream: TraceStream) -> None:
    several = [
        arrival(bundle([publish(n) for n in range(first, first + 4)], n, first), n + 1)
        for n, first in enumerate((0, 4, 8))
    ]
    stream.take_in([*several, arrival(publish(12), 4)])
    assert stream.unacknowledged == 4
    portion = await stream.batch(5, LONG)
    assert len(portion) == 8, "the second bundle to its end"
    assert stream.records_per_message == 4
    assert stream.most_per_message == MOST_RECORDS
    rest = await stream.batch(5, LONG)
    names = [each.message.properties["message_id"] for each in (*portion, *rest)]
    assert names == [f"m{number}" for number in range(13)]
    times = [each.at for each in (*portion, *rest)]
    assert times == sorted(set(times))


class Channel:
    """As far as a consumer knows it; each call takes as long as an answer."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    async def basic_qos(self, *, prefetch_count: int) -> None:
        await asyncio.sleep(0)
        self.calls.append(f"{prefetch_count} ahead")

    async def basic_consume(self, *_: object, consumer_tag: str, exclusive: bool) -> None:
        self.calls.append(f"consume {consumer_tag}")

    async def basic_cancel(self, consumer_tag: str) -> None:
        await asyncio.sleep(0)
        self.calls.append(f"cancel {consumer_tag}")


async def test_of_bundles_the_broker_sends_fewer_ahead(connection: Any) -> None:
    channel: Any = Channel()
    place = BrokerAddress.of(URL("amqp://guest:guest@localhost"), "/")
    stream = TraceStream(channel, "q", connection, place, Reading(800), queue_is_new=True)

    async def after(*messages: Message) -> list[str]:
        tag = stream.unacknowledged
        stream.take_in([arrival(each, tag + n) for n, each in enumerate(messages, 1)])
        await stream.batch(1_000, 0)
        for _ in range(10):
            await asyncio.sleep(0)
        calls, channel.calls = channel.calls, []
        return calls

    await stream.consume()
    few, many, one = "10 ahead", "800 ahead", bundle([publish(1)], 0, 0)
    assert await after(*[publish(1)] * 4) == [few, "consume q.1"], "nobody waits for more"
    assert await after(publish(1)) == ["cancel q.1", many, "consume q.2"], "half are outstanding"
    assert await after(publish(1)) == []
    assert await after(publish(1), one) == ["cancel q.2", few, "consume q.3"]
    assert await after(one) == []


async def test_as_many_are_sent_ahead_as_may_come_again(connection: Any) -> None:
    channel: Any = Channel()
    place = BrokerAddress.of(URL("amqp://guest:guest@localhost"), "/")
    reading = Reading(800, again=300)
    await TraceStream(channel, "q", connection, place, reading, queue_is_new=True).consume()
    assert channel.calls[0] == "300 ahead"


async def test_a_bundle_wakes_who_waits_for_its_records(stream: TraceStream) -> None:
    stream.take_in([arrival(bundle([publish(1), publish(2)], 0, 0))])
    assert len(await stream.batch(2, LONG)) == 2


async def test_an_empty_bundle_is_acknowledged_like_others(stream: TraceStream) -> None:
    stream.take_in([arrival(bundle([], 0, 0, end=True), 9)])
    (whole,) = await stream.batch(1, LONG)
    assert (whole.tag, whole.is_last) == (9, True)


def test_nothing_is_packed_for_nothing() -> None:
    assert pack([]) == b""
    assert Arrival(1, False, *publish(1)).bundle is None
