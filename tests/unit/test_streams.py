"""Deliveries from streams find their publishes: what comes out of one differs from what went in.

The pairs are as RabbitMQ traced them (3.10.8, 4.0.5 and 4.3.6; `tests/integration/test_streams.py`
asks the real ones).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
import pytest

from app.tracker import Bounds, Channel, Deliver, Policy, Publish, Record, StampedEvent, Tracker
from app.tracker.fingerprint import BYTES, fingerprint
from app.tracker.streams import changes
from itc import Relation, compare
from model.words import EdgeKind, Match
from tests.model_broker.broker import channel
from tests.unit.test_tracker import Store

MQTT, AMQP = 0, 1  # the channels


class Changed(NamedTuple):
    """A publish's properties, and those of its delivery without the place in the stream."""

    published: dict[str, Any]
    delivered: dict[str, Any]
    channel: int = AMQP


MODE = {"delivery_mode": 1}
HEADERS = {"b": "x", "n": 1, "void": None, "x-mine": "y"}
UUID = "urn:uuid:F81D4FAE-7DEC-11D0-A765-00A0C91E6BF6"
CHANGED = {
    "nothing but the place": Changed({"delivery_mode": 2}, {"delivery_mode": 2}),
    "no delivery mode": Changed({}, MODE),
    "no delivery mode, before 4.0": Changed({}, {}),
    "a delivery mode": Changed(MODE, MODE),
    "headers": Changed({"headers": HEADERS}, {**MODE, "headers": HEADERS}),
    "cluster_id": Changed({"cluster_id": "c", "app_id": "a"}, {**MODE, "app_id": "a"}),
    "a table": Changed(
        {"headers": {"a": {"b": 1}, **HEADERS}, "delivery_mode": 2},
        {"headers": HEADERS, "delivery_mode": 2},
    ),
    "only a table": Changed({"headers": {"a": {"b": 1}}}, MODE),
    "an array": Changed({"headers": {"a": [1, None], **HEADERS}}, {**MODE, "headers": HEADERS}),
    "a table that is kept": Changed(
        {"headers": {"x-a": {"b": [1]}}}, {**MODE, "headers": {"x-a": {"b": [1]}}}
    ),
    "one that is kept and one that is not": Changed(
        {"headers": {"x-a": {"b": [1]}, "a": [2]}}, {**MODE, "headers": {"x-a": {"b": [1]}}}
    ),
    "a table that is not kept before 4.0": Changed({"headers": {"x-a": {"b": [1]}}}, {}),
    "bytes": Changed({"headers": {"a": {"base64": "YWJj"}}}, {**MODE, "headers": {"a": "abc"}}),
    "bytes that are no text": Changed(
        {"headers": {"a": {"base64": "AP8B"}}}, {**MODE, "headers": {"a": "\x00\\xff\x01"}}
    ),
    "bytes, before 4.0": Changed(
        {"headers": {"a": {"base64": "AP8B"}}}, {"headers": {"a": {"base64": "AP8B"}}}
    ),
    "a table that looks like bytes": Changed(
        {"headers": {"a": {"base64": "no base64"}}}, {**MODE, "headers": {}}
    ),
    "copies": Changed({"headers": {"CC": ["n"], "BCC": ["m"]}}, {**MODE, "headers": {"CC": ["n"]}}),
    "names of the broker's": Changed(
        {"headers": {"x-basic-type": "v", "x-routing-key": "v", "x-exchange": "v"}},
        {**MODE, "type": "v"},
    ),
    "a type by the broker's name for it": Changed(
        {"headers": {"x-basic-type": "v", "k": 1}}, {**MODE, "headers": {"k": 1}, "type": "v"}
    ),
    "a type beside its own": Changed(
        {"type": "w", "headers": {"x-basic-type": "v"}}, {**MODE, "type": "w"}
    ),
    "a priority by the broker's name": Changed(
        {"headers": {"x-basic-priority": 3}}, {**MODE, "priority": 3}
    ),
    "a priority by the broker's name, before 4.0": Changed(
        {"headers": {"x-basic-priority": 3}}, {"headers": {"x-basic-priority": 3}}
    ),
    "an id by the broker's name": Changed({"headers": {"x-basic-correlation-id": "c"}}, MODE),
    "no time where the broker notes its own": Changed(
        {"timestamp": 1_795_876_107, "headers": {"timestamp_in_ms": 1_795_876_107_677}},
        {**MODE, "headers": {"timestamp_in_ms": 1_795_876_107_677}},
    ),
    "a time where the broker notes its own": Changed(
        {"timestamp": 1_795_876_107, "headers": {"timestamp_in_ms": 1_795_876_107_677}},
        {**MODE, "timestamp": 17, "headers": {"timestamp_in_ms": 1_795_876_107_677}},
    ),
    "a death that a client copied": Changed(
        {"headers": {"x-death": [{"queue": "q", "reason": "expired", "count": 1}]}}, MODE
    ),
    "UUIDs in capitals": Changed(
        {"message_id": UUID, "correlation_id": UUID},
        {**MODE, "message_id": UUID.lower(), "correlation_id": UUID.lower()},
    ),
    "MQTT 5, all of it": Changed(
        {
            "delivery_mode": 2,
            "content_type": "text/plain",
            "correlation_id": "corr",
            "expiration": "600000",
            "timestamp": 1795357288,
            "headers": {"k": "v", "x-k": "w", "x-reply-to-topic": "a.b/ c"},
        },
        {
            "delivery_mode": 2,
            "content_type": "text/plain",
            "reply_to": "/exchanges/amq.topic/a.b%2F%20c",
            "headers": {"k": "v", "x-k": "w", "x-correlation-id": {"base64": "Y29ycg=="}},
        },
        MQTT,
    ),
    "MQTT 5, correlation data that are no text": Changed(
        {"delivery_mode": 1, "headers": {"x-correlation-id": "\x00\\xff"}},
        {"delivery_mode": 1, "headers": {"x-correlation-id": {"base64": "AP8="}}},
        MQTT,
    ),
    "AMQP 1.0": Changed(
        {"delivery_mode": 2, "correlation_id": "c", "expiration": "9", "timestamp": 7},
        {"delivery_mode": 2, "correlation_id": "c", "expiration": "9", "timestamp": 7},
        MQTT,
    ),
}


def publish(number: int = AMQP, *queues: str, body: bytes = b"m", **properties: Any) -> Publish:
    channel = Channel("rabbit@test", "ann -> broker", number, "ann")
    return Publish(channel, "x", ("key",), queues or ("s",), properties, body)


def read(offset: int, who: str = "bob", body: bytes = b"m", **properties: Any) -> Deliver:
    """A delivery from the stream `s`."""
    channel = Channel("rabbit@test", f"{who} -> broker", 1, who)
    headers = {**properties.pop("headers", {}), "x-stream-offset": offset}
    properties = {**properties, "headers": headers}
    return Deliver(channel, "x", ("key",), "s", False, properties, body)


def stamped(*records: Record, bounds: Bounds | None = None) -> list[StampedEvent]:
    tracker = Tracker(Policy.channel, bounds or Bounds())
    return [event for now, each in enumerate(records) for event in tracker.apply(each, now)]


def causes(events: list[StampedEvent]) -> list[tuple[Match, int | None]]:
    """How each delivery matched, and to the how manieth event."""
    places = {id(event.reference): place for place, event in enumerate(events)}
    return [
        (event.match, None if event.cause is None else places[id(event.cause)])
        for event in events
        if event.match is not Match.none
    ]


@pytest.mark.parametrize("name", CHANGED)
def test_a_delivery_from_a_stream_finds_its_publish(name: str) -> None:
    case = CHANGED[name]
    events = stamped(publish(case.channel, **case.published), read(0, **case.delivered))
    assert causes(events) == [(Match.routed, 0)]


@pytest.mark.parametrize("name", CHANGED)
def test_other_bodies_and_properties_are_told_apart(name: str) -> None:
    case = CHANGED[name]
    others = [
        publish(case.channel, body=b"other", **case.published),
        publish(case.channel, **{**case.published, "app_id": "other"}),
        publish(case.channel, **{**case.published, "priority": 5}),
    ]
    delivered = read(0, **case.delivered)
    assert causes(stamped(*others, delivered)) == [(Match.unmatched, None)]
    events = stamped(*others, publish(case.channel, **case.published), delivered)
    assert causes(events) == [(Match.routed, 3)]


@pytest.mark.parametrize("name", [n for n in CHANGED if CHANGED[n][0] != CHANGED[n][1]])
def test_a_queue_that_changes_nothing_tells_the_same_messages_apart(name: str) -> None:
    """What streams lose is still a part of what is matched everywhere else."""
    case = CHANGED[name]
    seen = read(0, **case.delivered)
    headers = {k: v for k, v in seen.properties["headers"].items() if k != "x-stream-offset"}
    elsewhere = Deliver(
        seen.channel, "x", ("key",), "s", False, {**seen.properties, "headers": headers}, b"m"
    )
    events = stamped(publish(case.channel, **case.published), elsewhere)
    assert causes(events) == [(Match.unmatched, None)]


def test_whoever_reads_a_place_again_is_handed_the_same_publish_as_a_delivery_of_their_own() -> (
    None
):
    equal = [publish(AMQP), read(0), publish(AMQP), read(1)]
    again = [read(0, "cid"), read(1, "cid"), publish(AMQP), read(2, "cid"), read(1)]
    assert causes(stamped(*equal, *again)) == [
        (Match.routed, place) for place in (0, 2, 0, 2, 6, 2)
    ]


def test_of_equal_messages_in_a_stream_nobody_knows_which_was_read() -> None:
    """Readers begin anywhere, so what comes out first need not have come in first."""
    ann, dan = publish(AMQP), msgspec.structs.replace(publish(AMQP), channel=channel("dan"))
    events = stamped(ann, dan, read(0), read(0, "cid"), read(1))
    assert causes(events) == [(Match.routed, None)] * 3
    for event in events[2:]:
        assert {id(edge.cause) for edge in event.edges} == {id(e.reference) for e in events[:2]}
        assert {edge.kind for edge in event.edges} == {EdgeKind.candidate}
        assert event.candidates == 2
        assert all(compare(e.stamp, event.stamp) is Relation.before for e in events[:2])


def test_a_message_is_known_again_beside_another_that_a_stream_makes_equal() -> None:
    with_table, without = publish(AMQP, headers={"a": [1]}), publish(AMQP)
    events = stamped(with_table, read(0, **MODE), without, read(1, **MODE), read(0, "cid", **MODE))
    assert causes(events) == [(Match.routed, 0), (Match.routed, 2), (Match.routed, 0)]


@pytest.mark.parametrize("headers", [{}, {"a": "b"}])
def test_what_was_read_from_a_stream_and_published_again_with_its_place_is_no_reading(
    headers: dict[str, Any],
) -> None:
    """A queue hands each copy out once, and flags it when it hands it out again."""
    copied = {**headers, "x-stream-offset": 7}
    sent = publish(headers=copied)
    handed = read(7, headers=headers)
    again = msgspec.structs.replace(handed, redelivered=True)
    assert causes(stamped(sent, handed, again, sent, handed, sent, handed, again)) == [
        (Match.routed, 0),
        (Match.redelivered, 0),
        (Match.routed, 3),
        (Match.routed, 5),
        (Match.redelivered, None),  # of three that it may be
    ]
    # Into another stream it is read at a place there, by anybody.
    first, second = (read(n, headers=headers) for n in (0, 1))
    assert causes(stamped(sent, first, sent, second, first, second)) == [
        (Match.routed, place) for place in (0, 2, 0, 2)
    ]


def test_a_place_in_a_new_stream_of_the_same_name_is_another() -> None:
    events = stamped(publish(body=b"old"), read(0, body=b"old"), publish(), read(0))
    assert causes(events) == [(Match.routed, 0), (Match.routed, 2)]


def test_a_place_that_was_read_too_long_ago_is_unmatched() -> None:
    sent = [publish(body=bytes([n])) for n in range(3)]
    handed = [read(n, body=bytes([n])) for n in range(3)]
    events = stamped(*sent, *handed, read(0, "cid", body=b"\0"), bounds=Bounds(handovers=2))
    assert causes(events)[-1] == (Match.unmatched, None)


def test_what_a_stream_makes_equal_is_one_of_those_that_went_in() -> None:
    sent = [
        publish(),
        publish(delivery_mode=1),
        publish(cluster_id="c"),
        publish(headers={"a": [1]}),
        publish(),
    ]
    events = stamped(*(each for n in range(5) for each in (sent[n], read(n, **MODE))))
    assert causes(events) == [(Match.routed, 2 * n) for n in range(5)]
    events = stamped(*sent, *(read(place, **MODE) for place in range(5)))
    assert causes(events) == [(Match.routed, None)] * 5
    assert [event.candidates for event in events[5:]] == [5, 4, 3, 2, 2]


def test_a_dead_letter_in_a_stream_is_followed_and_its_second_reader_too() -> None:
    death = {
        "queue": "q",
        "reason": "expired",
        "exchange": "x",
        "routing-keys": ["key"],
        "count": 1,
    }
    headers = {"b": "x", "x-death": [death]}
    dead = [
        Deliver(each.channel, "", ("s",), "s", False, each.properties, b"m")
        for each in (read(0, headers=headers, **MODE), read(0, "cid", headers=headers, **MODE))
    ]
    events = stamped(publish(AMQP, "q", headers={"b": "x", "lost": [1]}), *dead)
    assert causes(events) == [(Match.dead_lettered, 0), (Match.dead_lettered, 0)]


def test_copies_wait_for_streams_and_other_queues_alike_and_leave_no_trace() -> None:
    tracker = Tracker(Policy.channel, Bounds(copies=2))
    published = [publish(AMQP, "s", "q", headers={"a": [number]}) for number in range(4)]
    for now, record in enumerate(published):
        tracker.apply(record, now)
    tracker.apply(read(3, **MODE), 9)
    assert tracker.totals().pending_copies == 1
    in_streams = {(q, fingerprint(record)[BYTES:]) for record in published for q in ("s", "q")}
    assert sum(map(tracker._matcher.copies.waiting.count, in_streams)) == 1


@pytest.mark.parametrize("name", CHANGED)
def test_what_is_pending_and_what_was_read_survive_a_restart(name: str) -> None:
    case = CHANGED[name]
    store = Store()
    tracker = Tracker(Policy.channel, Bounds())
    found = []
    for now, record in enumerate(
        (
            publish(case.channel, **case.published),
            read(0, **case.delivered),
            read(0, "cid", **case.delivered),
        )
    ):
        events = tracker.apply(record, now)
        store.append(events, tracker.checkpoint())
        tracker = Tracker(Policy.channel, Bounds(), store.restored)
        found += events
    assert [(event.match, event.cause and event.cause.id) for event in found] == [
        (Match.none, None),
        (Match.routed, 1),
        (Match.routed, 1),
    ]


def test_a_delivery_from_a_stream_that_overtook_its_publish_waits_for_it() -> None:
    for name, case in CHANGED.items():
        tracker = Tracker(Policy.channel, Bounds(reorder_window=1_000))
        assert tracker.apply(read(0, **case.delivered), 0) == [], name
        events = tracker.apply(publish(case.channel, **case.published), 1)
        events += tracker.apply(read(0, "cid", **case.delivered), 2)
        assert causes(events) == [(Match.routed, 0), (Match.routed, 0)], name


def test_most_messages_have_one_half_and_cost_no_second_digest() -> None:
    usual = publish(content_type="text/plain", message_id="7", headers={"a": "b", "n": 1})
    assert not changes(usual)
    assert len(fingerprint(usual)) == BYTES
