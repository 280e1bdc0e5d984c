"""The tracker: what it makes of records, and of its checkpoints."""

from __future__ import annotations

import random
from collections import deque
from typing import Any

import msgspec
import pytest

from app.tracker import (
    Bounds,
    Checkpoint,
    Deliver,
    Policy,
    Publish,
    Record,
    RestorePoint,
    StampedEvent,
    Tracker,
    UnreadableCheckpointError,
)
from app.tracker.events import Handover, NamedEvent, Reference
from app.tracker.fingerprint import BYTES, brings_deaths
from app.tracker.tracker import encode_state, read_state
from drills.acts.topology import DeadLetters, Layout, QueueRules
from itc import Relation, compare
from model.words import EdgeKind, Match
from tests.model_broker.broker import ModelBroker, channel
from tests.model_broker.manners import MANNERS


def stamped(records: list[Record], bounds: Bounds | None = None) -> list[StampedEvent]:
    tracker = Tracker(Policy.channel, bounds or Bounds())
    events: list[StampedEvent] = []
    for now, record in enumerate(records):
        events += tracker.apply(record, now)
    return events


class Store:
    """What the store does with checkpoints, in memory."""

    def __init__(self) -> None:
        self.events: list[StampedEvent] = []
        self._lost: list[tuple[Reference, str]] = []
        self.restored = RestorePoint(b"", [], [], [], [])

    def append(self, events: list[StampedEvent], checkpoint: Checkpoint) -> None:
        for event in events:
            event.reference.id = len(self.events) + 1
            self.events.append(event)
        removed = set(checkpoint.copies_removed)
        self._lost += [
            (copy.cause, copy.queue) for copy in checkpoint.copies_lost if copy.reason != "equal"
        ]
        touched = {state.number for state in checkpoint.participants}
        before = self.restored
        replies = dict(checkpoint.replies)
        self.restored = RestorePoint(
            state=checkpoint.state,
            channels=[
                msgspec.structs.replace(each, replies_to=replies.get(each.key, each.replies_to))
                for each in before.channels + checkpoint.channels
            ],
            participants=[p for p in before.participants if p[0].number not in touched]
            + [(state, *self._last(state.number)) for state in checkpoint.participants],
            copies=[
                copy
                for copy in before.copies + checkpoint.copies_added
                if copy.number not in removed
            ],
            handovers=[
                Handover(
                    event.record.queue,
                    event.fingerprint,
                    event.cause or event.reference,
                    event.reference,
                    event.participant,
                    0 if event.match is Match.unmatched else event.candidates,
                    self._has_brought(event),
                )
                for event in self.events
                if isinstance(event.record, Deliver)
            ],
            named_events=[
                NamedEvent(
                    event.names.ids,
                    isinstance(event.record, Deliver),
                    event.participant,
                    event.channel_key,
                    event.record.channel.connection,
                    event.height,
                    event.reference,
                    event.cause if isinstance(event.record, Deliver) else event.reference,
                    event.record.queue,
                    self._led_to(event),
                    next((e.cause for e in event.edges if e.kind is EdgeKind.forward), None),
                )
                for event in self.events
                if event.names.ids
            ],
            publishes=[
                (event.fingerprint[:BYTES], event.reference)
                for event in self.events
                if isinstance(event.record, Publish)
                if event.record.exchange or not event.record.routed_queues
            ],
            lost_copies=[
                (queue, self.events[(cause.id or 0) - 1].fingerprint, cause)
                for cause, queue in self._lost
            ],
        )

    def _has_brought(self, delivery: StampedEvent) -> bool:
        if delivery.cause is None or delivery.match is Match.dead_lettered:
            return False
        return brings_deaths(self.events[(delivery.cause.id or 0) - 1].fingerprint)

    def _led_to(self, cause: StampedEvent) -> int:
        """The kinds of links by which a delivery, or its message, was certainly named."""
        if isinstance(cause.record, Publish):
            return 0
        kinds = {
            edge.kind
            for event in self.events
            for named in event.edges
            if named.cause is cause.reference
            for edge in event.edges
            if edge.rule == named.rule and edge.kind in (EdgeKind.reply, EdgeKind.forward)
        }
        return sum(1 << kind for kind in kinds)

    def _last(self, participant: int) -> tuple[Any, int]:
        event = next(e for e in reversed(self.events) if e.participant == participant)
        assert event.reference.id is not None
        return event.stamp, event.reference.id


def deliver(who: str, queue: str, body: bytes = b"m", **more: Any) -> Deliver:
    return Deliver(
        channel(who),
        more.pop("exchange", "x"),
        ("key",),
        queue,
        more.pop("redelivered", False),
        more,
        body,
    )


def publish(who: str, *queues: str, body: bytes = b"m", **properties: Any) -> Publish:
    return Publish(channel(who), "x", ("key",), queues, properties, body)


def test_a_delivery_of_an_unseen_publish_is_unmatched_and_still_stamped() -> None:
    (event,) = stamped([deliver("bob", "red")])
    assert (event.match, event.cause, event.lamport) == (Match.unmatched, None, 1)


def test_competing_consumers_each_get_their_own_copy() -> None:
    events = stamped(
        [
            publish("ann", "red", body=b"1"),
            publish("ann", "red", body=b"2"),
            deliver("bob", "red", b"1"),
            deliver("cid", "red", b"2"),
        ]
    )
    assert [e.cause for e in events[2:]] == [events[0].reference, events[1].reference]


def test_what_the_broker_adds_on_the_way_does_not_hide_the_message() -> None:
    added = {"x-delivery-count": 1, "x-acquired-count": 2}
    events = stamped(
        [
            publish("ann", "red", headers={"mine": 1}, expiration="60"),
            deliver("bob", "red", headers={"mine": 1, **added}),
        ]
    )
    assert events[1].match is Match.routed


def test_a_header_of_the_publisher_does_tell_messages_apart() -> None:
    events = stamped([publish("ann", "red", headers={"mine": 1}), deliver("bob", "red")])
    assert events[1].match is Match.unmatched


def test_redelivery_after_a_consumers_death_may_be_of_any_equal_message() -> None:
    sent = [publish("ann", "red") for _ in range(4)]
    handed = [deliver("bob", "red") for _ in range(4)]
    again = [deliver("cid", "red", redelivered=True) for _ in range(2)]
    events = stamped([*sent, *handed, *again])
    assert [(e.match, e.cause, e.candidates) for e in events[8:]] == [
        (Match.redelivered, None, 4),
        (Match.redelivered, None, 4),
    ]


def test_a_message_flagged_redelivered_that_was_never_shown_takes_its_copy() -> None:
    events = stamped([publish("ann", "red"), deliver("bob", "red", redelivered=True)])
    assert (events[1].match, events[1].cause) == (Match.routed, events[0].reference)


def test_a_dead_letter_republished_by_hand_belongs_to_the_second_publish() -> None:
    death = {"queue": "red", "reason": "rejected", "exchange": "x", "routing-keys": ["key"]}
    headers = {"x-death": [{**death, "count": 1}]}
    events = stamped(
        [
            publish("ann", "red"),
            deliver("bob", "red"),
            publish("bob", "red", headers=headers),
            deliver("cid", "red", headers=headers),
        ]
    )
    assert (events[3].match, events[3].cause) == (Match.routed, events[2].reference)


def test_copies_beyond_the_bounds_are_dropped_oldest_first_and_counted() -> None:
    tracker = Tracker(Policy.channel, Bounds(copies=2, copy_age=10))
    for body in (b"1", b"2", b"3"):
        tracker.apply(publish("ann", "red", body=body), 0)
    assert (tracker.totals().pending_copies, tracker.totals().counters.copies_dropped) == (2, 1)
    assert tracker.apply(deliver("bob", "red", b"1"), 1)[0].cause is None
    assert tracker.apply(deliver("bob", "red", b"2"), 1)[0].match is Match.routed
    tracker.apply(publish("ann", "red", body=b"4"), 11)
    assert tracker.totals().pending_copies == 1


DAY = 24 * 3600 * 1_000_000


@pytest.mark.parametrize("step", [DAY, 400 * DAY, -DAY])
def test_a_step_of_the_systems_clock_forgets_no_copy(step: int) -> None:
    store, tracker = Store(), Tracker(Policy.channel, Bounds(copy_age=DAY))
    now = 500 * DAY
    events = [
        e for n in range(20) for e in tracker.apply(publish("ann", "red", body=b"%d" % n), now)
    ]
    now += step
    events += tracker.apply(publish("ann", "green"), now)
    store.append(events, tracker.checkpoint())
    again = Tracker(Policy.channel, Bounds(copy_age=DAY), store.restored)
    received = [
        e for n in range(20) for e in again.apply(deliver("bob", "red", b"%d" % n), now + n)
    ]
    assert {event.match for event in received} == {Match.routed}
    assert again.totals().counters.copies_dropped == 0


@pytest.mark.parametrize(("numbers", "next_copy"), [((1, 2), 2), ((2, 1), 3), ((1, 1), 3)])
def test_copies_whose_numbers_do_not_grow_are_no_checkpoint(
    numbers: tuple[int, ...], next_copy: int
) -> None:
    store, tracker = Store(), Tracker(Policy.channel, Bounds())
    events = [e for n in (1, 2) for e in tracker.apply(publish("ann", "red", body=b"%d" % n), n)]
    store.append(events, tracker.checkpoint())
    state = read_state(store.restored.state)
    assert state.next_copy == 3
    state.next_copy = next_copy
    copies = [
        msgspec.structs.replace(copy, number=number)
        for copy, number in zip(store.restored.copies, numbers, strict=True)
    ]
    changed = msgspec.structs.replace(store.restored, state=encode_state(state), copies=copies)
    with pytest.raises(UnreadableCheckpointError, match="the numbers of copies do not grow"):
        Tracker(Policy.channel, Bounds(), changed)


def test_copies_grow_old_over_restarts_and_whatever_the_clock_does() -> None:
    bounds = Bounds(copy_age=1_550_000)
    store, tracker = Store(), Tracker(Policy.channel, bounds)
    store.append(tracker.apply(publish("ann", "red"), DAY), tracker.checkpoint())
    for start in (2 * DAY, 1):  # 0.5 s pass in each run, and 0.5 s at most before it
        tracker = Tracker(Policy.channel, bounds, store.restored)
        for number in range(6):
            events = tracker.apply(publish("ann", body=b"%d" % number), start + number * 100_000)
            store.append(events, tracker.checkpoint())
    assert tracker.totals().pending_copies == 1
    tracker.apply(publish("ann", body=b"last"), 600_001)
    assert tracker.totals().pending_copies == 0


@pytest.mark.parametrize(
    ("policy", "participants"), [(Policy.channel, 3), (Policy.connection, 2), (Policy.user, 1)]
)
def test_the_policy_says_what_one_participant_is(policy: Policy, participants: int) -> None:
    first = channel("ann")
    channels = (
        first,
        type(first)(first.node, first.connection, 2, first.user),
        type(first)(first.node, "elsewhere -> 127.0.0.1:5672", 1, first.user),
    )
    tracker = Tracker(policy, Bounds())
    for where in channels:
        tracker.apply(Publish(where, "x", ("key",), (), {}, b""), 0)
    assert len(tracker.participants) == participants


def test_a_participant_whose_events_are_gone_gives_its_id_to_the_next_above_its_height() -> None:
    store = Store()
    tracker = Tracker(Policy.channel, Bounds())
    first = tracker.apply(publish("ann", "red"), 0)
    second = tracker.apply(deliver("bob", "red"), 0)
    store.append(first + second, tracker.checkpoint())
    assert tracker.forget_before(2) == [1]
    (third,) = tracker.apply(publish("cid", "red", body=b"new"), 0)
    assert third.stamp.interval == first[0].stamp.interval
    assert third.height > first[0].height
    assert compare(second[0].stamp, third.stamp) is Relation.concurrent


WINDOW = Bounds(reorder_window=1_000)


def test_a_deliver_that_overtook_its_publish_waits_for_it() -> None:
    tracker = Tracker(Policy.channel, WINDOW)
    assert tracker.apply(deliver("bob", "red"), 0) == []
    assert tracker.apply(publish("bob", "green", body=b"reaction"), 1) == []
    assert len(tracker._window) == 2
    events = tracker.apply(publish("ann", "red"), 2)
    assert [(e.match, e.lamport) for e in events] == [
        (Match.none, 1),
        (Match.routed, 2),
        (Match.none, 3),
    ]


def test_a_deliver_whose_publish_never_comes_is_set_free_when_the_window_closes() -> None:
    tracker = Tracker(Policy.channel, WINDOW)
    tracker.apply(deliver("bob", "red"), 0)
    assert [*tracker.close_overdue(999)] == []
    assert [e.match for e in tracker.close_overdue(1_000)] == [Match.unmatched]


def test_what_the_window_holds_survives_in_the_checkpoint() -> None:
    store = Store()
    tracker = Tracker(Policy.channel, WINDOW)
    store.append(tracker.apply(deliver("bob", "red"), 0), tracker.checkpoint())
    again = Tracker(Policy.channel, WINDOW, store.restored)
    assert [e.match for e in again.apply(publish("ann", "red"), 1)] == [Match.none, Match.routed]


def rejecting(seed: int) -> ModelBroker:
    """Messages to several queues, given back and rejected, over two hops."""
    layout, draw = Layout(), random.Random(seed)
    queues = [layout.add(QueueRules(name, DeadLetters("", "dead"))) for name in "abc"]
    layout.add(QueueRules("dead", DeadLetters("", layout.add(QueueRules("deader")))))
    broker = ModelBroker(layout, MANNERS["3.10"])
    for number in range(draw.randint(5, 40)):
        who = draw.choice([*broker.programs])
        filled = [name for name, queue in broker.queues.items() if queue.ready]
        if not filled or draw.random() < 0.3:
            key, *copied = draw.sample(queues, draw.randint(1, 3))
            name = str(number)
            broker.publish(who, "", key, name, copied=tuple(copied), message_id=name)
        elif draw.random() < 0.6:
            broker.get(who, draw.choice(filled))
        else:
            broker.settle(who, draw.randrange(9), draw.choice(("discard", "nack", "acknowledge")))
    return broker


# Without expiry: nothing shows whether an expired message had been handed over before, so its dead
# letter does not wait for that.
@pytest.mark.parametrize("seed", range(20))
def test_the_window_undoes_any_shuffle_that_keeps_each_channels_order(seed: int) -> None:
    broker, draw = rejecting(seed), random.Random(seed)
    lanes: dict[str, deque[Record]] = {}
    for record in broker.records:
        lanes.setdefault(record.channel.connection, deque()).append(record)
    shuffled: list[Record] = []
    while lanes:
        who = draw.choice(sorted(lanes))
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


def _publishes_behind(broker: ModelBroker, event: int) -> list[int]:
    record = broker.records[event]
    identity = record.properties["message_id"]
    return [
        n
        for n, other in enumerate(broker.records)
        if isinstance(other, Publish) and other.properties["message_id"] == identity and n != event
    ]
