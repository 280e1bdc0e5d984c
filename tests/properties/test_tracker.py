"""The tracker against a model of the broker that keeps explicit causal histories."""

from __future__ import annotations

from collections import deque
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from app.tracker import (
    Bounds,
    Deliver,
    Policy,
    Publish,
    Record,
    StampedEvent,
    Tracker,
)
from itc import Relation, compare
from model.words import Match
from tests.unit.broker_model import Broker
from tests.unit.test_tracker import Store, stamped

QUEUES = ("red", "green", "blue")
WHO = ("ann", "bob", "cid", "dan")


FATES = ("keep", "keep", "requeue", "reject", "expire")


@st.composite
def runs(draw: st.DrawFn, fates: tuple[str, ...] = FATES) -> Broker:
    """A random run: fan-out, competing consumers, redelivery, dead letters over two hops."""
    broker = Broker(
        queues={name: deque() for name in (*QUEUES, "dead", "deader")},
        dead_letters={**dict.fromkeys(QUEUES, "dead"), "dead": "deader"},
    )
    unique = 0
    for _ in range(draw(st.integers(5, 40))):
        who = draw(st.sampled_from(WHO))
        full = [name for name, queue in broker.queues.items() if queue]
        if not full or draw(st.integers(0, 2)) == 0:
            unique += 1
            queues = draw(st.lists(st.sampled_from(QUEUES), unique=True, max_size=3))
            broker.publish(who, queues, b"%d" % unique, message_id=str(unique))
            continue
        queue = draw(st.sampled_from(full))
        fate = draw(st.sampled_from(fates))
        if fate == "expire" and queue in broker.dead_letters:
            broker.die(queue, broker.queues[queue].popleft(), "expired")
            continue
        _, message = broker.deliver(who, queue)
        if fate == "requeue":
            broker.requeue(queue, message)
        elif fate == "reject" and queue in broker.dead_letters:
            broker.die(queue, message, "rejected")
    return broker


@given(runs())
def test_the_clocks_tell_exactly_the_causal_histories(broker: Broker) -> None:
    events = stamped(broker.records)
    assert len(events) == len(broker.records)
    for b, later in enumerate(events):
        for a, earlier in enumerate(events[:b]):
            expected = Relation.before if a in broker.history[b] else Relation.concurrent
            assert compare(earlier.stamp, later.stamp) is expected
            by_dot = later.stamp.height_at(earlier.stamp.interval) >= earlier.height
            assert by_dot is (expected is Relation.before)


@given(runs(), st.lists(st.integers(1, 7), max_size=12))
def test_an_interrupted_run_stamps_as_an_uninterrupted_one(
    broker: Broker, batches: list[int]
) -> None:
    whole = stamped(broker.records)
    store = Store()
    position = 0
    for size in [*batches, len(broker.records)]:
        tracker = Tracker(Policy.channel, Bounds(), store.restored)
        events: list[StampedEvent] = []
        for record in broker.records[position : position + size]:
            events += tracker.apply(record, position)
            position += 1
        store.append(events, tracker.checkpoint())
    assert [(e.stamp, e.seq, e.lamport, e.height, e.match, e.participant) for e in whole] == [
        (e.stamp, e.seq, e.lamport, e.height, e.match, e.participant) for e in store.events
    ]


@given(runs())
def test_lamport_time_grows_along_every_cause(broker: Broker) -> None:
    events = stamped(broker.records)
    for b, later in enumerate(events):
        assert all(events[a].lamport < later.lamport for a in broker.history[b] - {b})


@given(runs())
def test_every_delivery_finds_its_own_publish(broker: Broker) -> None:
    events = stamped(broker.records)
    by_reference = {id(event.reference): n for n, event in enumerate(events)}
    for event in events:
        if isinstance(event.record, Deliver):
            assert event.cause is not None
            cause = events[by_reference[id(event.cause)]].record
            assert cause.properties["message_id"] == event.record.properties["message_id"]


# Without expiry: nothing shows whether an expired message had been handed over before, so its dead
# letter does not wait for that.
@given(runs(("keep", "requeue", "reject")), st.randoms(use_true_random=False))
def test_the_window_undoes_any_shuffle_that_keeps_each_channels_order(
    broker: Broker, random: Any
) -> None:
    lanes: dict[str, deque[Record]] = {}
    for record in broker.records:
        lanes.setdefault(record.channel.user, deque()).append(record)
    shuffled: list[Record] = []
    while lanes:
        who = random.choice(sorted(lanes))
        shuffled.append(lanes[who].popleft())
        if not lanes[who]:
            del lanes[who]
    events = stamped(shuffled, Bounds(reorder_window=10_000))
    order = {id(record): n for n, record in enumerate(broker.records)}
    known = {order[id(event.record)]: event for event in events}
    assert len(known) == len(broker.records)
    for n, event in known.items():
        if isinstance(event.record, Deliver):
            assert event.match is not Match.unmatched
        assert all(known[m].lamport < event.lamport for m in _publishes_behind(broker, n))


def _publishes_behind(broker: Broker, event: int) -> list[int]:
    record = broker.records[event]
    identity = record.properties["message_id"]
    return [
        n
        for n, other in enumerate(broker.records)
        if isinstance(other, Publish) and other.properties["message_id"] == identity and n != event
    ]
