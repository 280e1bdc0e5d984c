"""The reorder window: what waits for what, and for how long."""

from __future__ import annotations

from collections import Counter
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from app.tracker import Bounds, Deliver, Policy, Publish, Record, StampedEvent, Tracker
from app.tracker.reorder import WOKEN
from itc import Relation, compare
from model.words import Match
from tests.model_broker.broker import ModelBroker, channel, layout_of_queues
from tests.model_broker.manners import MANNERS
from tests.unit.test_tracker import Store

SPAN = 1_000
WINDOW = Bounds(reorder_window=SPAN)


def publish(who: str, queue: str, identity: str) -> Publish:
    return Publish(channel(who), "x", ("key",), (queue,), {"message_id": identity}, b"")


def deliver(who: str, queue: str, identity: str, *, redelivered: bool = False) -> Deliver:
    return Deliver(channel(who), "x", ("key",), queue, redelivered, {"message_id": identity}, b"")


def events_of(tracker: Tracker, arrivals: list[tuple[int, Record]]) -> list[StampedEvent]:
    events: list[StampedEvent] = []
    for at, record in arrivals:
        events += tracker.apply(record, at)
    return events


def found(events: list[StampedEvent], who: str, identity: str) -> StampedEvent:
    (event,) = [
        event
        for event in events
        if event.record.channel.user == who and event.record.properties["message_id"] == identity
    ]
    return event


BEHIND_UNEXPLAINED: list[tuple[int, Record]] = [
    (100, deliver("pat", "work", "u1")),  # u1 and u2 were published before tracing began
    (150, publish("pat", "out", "p1")),
    (200, deliver("gus", "out", "p2")),  # this overtook its publish
    (300, deliver("pat", "work", "u2")),
    (350, publish("pat", "out", "p2")),
]


def test_a_publish_that_is_held_itself_is_waited_for() -> None:
    tracker = Tracker(Policy.channel, WINDOW)
    assert events_of(tracker, BEHIND_UNEXPLAINED) == []
    events: list[StampedEvent] = []
    for now in range(400, 400 + 2 * SPAN, 10):
        events += tracker.close_overdue(now)
    cause, effect = found(events, "pat", "p2"), found(events, "gus", "p2")
    assert (effect.match, effect.cause) == (Match.routed, cause.reference)
    assert compare(cause.stamp, effect.stamp) is Relation.before
    assert [found(events, "pat", each).match for each in ("u1", "u2")] == [Match.unmatched] * 2


def test_it_is_waited_for_after_a_restart_too() -> None:
    store, tracker = Store(), Tracker(Policy.channel, WINDOW)
    store.append(events_of(tracker, BEHIND_UNEXPLAINED), tracker.checkpoint())
    again = Tracker(Policy.channel, WINDOW, store.restored)
    assert len(again._window) == 5
    assert [*again.close_overdue(400)] == []
    events: list[StampedEvent] = []
    for now in range(400, 400 + 2 * SPAN, 10):
        events += again.close_overdue(now)
    assert found(events, "gus", "p2").match is Match.routed


def test_one_late_look_releases_what_holds_before_what_is_held() -> None:
    """As after a slow transaction: everything is overdue at once, whoever came first."""
    tracker = Tracker(Policy.channel, WINDOW)
    events_of(tracker, BEHIND_UNEXPLAINED)
    assert found([*tracker.close_overdue(5_000)], "gus", "p2").match is Match.routed


def test_records_that_came_at_one_moment_are_told_apart_by_what_they_wait_for() -> None:
    tracker = Tracker(Policy.channel, WINDOW)
    assert events_of(tracker, [(100, record) for _, record in BEHIND_UNEXPLAINED]) == []
    assert found([*tracker.close_overdue(5_000)], "gus", "p2").match is Match.routed


def test_a_wait_for_what_is_held_is_not_longer_than_that_one_s() -> None:
    tracker = Tracker(Policy.channel, WINDOW)
    events_of(tracker, BEHIND_UNEXPLAINED)
    assert [event.record.properties["message_id"] for event in tracker.close_overdue(1_299)] == [
        "u1",
        "p1",
    ]
    assert len([*tracker.close_overdue(1_300)]) == 3


def test_equal_messages_that_wait_for_each_other_are_let_go() -> None:
    """Neither delivery's own publish was seen; each finds the other's reaction, which is equal."""
    tracker = Tracker(Policy.channel, WINDOW)
    arrivals: list[tuple[int, Record]] = [
        (100, deliver("ann", "red", "same")),
        (101, deliver("bob", "green", "same")),
        (102, publish("ann", "green", "same")),
        (103, publish("bob", "red", "same")),
    ]
    assert events_of(tracker, arrivals) == []
    assert [*tracker.close_overdue(1_099)] == []
    events = [*tracker.close_overdue(1_100)]
    assert [event.match for event in events] == [
        Match.unmatched,
        Match.none,
        Match.routed,
        Match.none,
    ]


def test_when_too_many_are_held_what_holds_goes_first() -> None:
    tracker = Tracker(Policy.channel, Bounds(reorder_window=SPAN, reorder_held=4))
    events = events_of(tracker, BEHIND_UNEXPLAINED)
    assert [event.record.properties["message_id"] for event in events] == ["u1", "p1"]


def test_the_oldest_record_that_waits_is_known() -> None:
    tracker = Tracker(Policy.channel, WINDOW)
    assert tracker.held_since is None
    events_of(tracker, BEHIND_UNEXPLAINED)
    assert tracker.held_since == 100
    assert [*tracker.close_overdue(5_000)]
    assert tracker.held_since is None


def test_a_clock_that_is_set_forward_releases_nothing_early() -> None:
    tracker = Tracker(Policy.channel, Bounds(reorder_window=1_000_000))
    day = 24 * 3600 * 1_000_000
    tracker.apply(deliver("bob", "red", "m"), 5)
    assert [*tracker.close_overdue(day)] == []
    events = tracker.apply(publish("ann", "red", "m"), day + 1)
    assert [event.match for event in events] == [Match.none, Match.routed]


def test_a_clock_that_is_set_back_keeps_nothing_for_ever() -> None:
    tracker = Tracker(Policy.channel, Bounds(reorder_window=1_000_000))
    day = 24 * 3600 * 1_000_000
    tracker.apply(deliver("bob", "red", "m"), day)
    released = [[*tracker.close_overdue(now)] for now in range(0, 1_300_000, 100_000)]
    assert [event.match for events in released for event in events] == [Match.unmatched]


def test_all_that_wait_for_one_delivery_go_when_it_comes() -> None:
    tracker = Tracker(Policy.channel, WINDOW)
    for number in range(3 * WOKEN):
        again = deliver(f"gus{number}", "q", "1", redelivered=True)
        assert tracker.apply(again, 0) == []
    events = events_of(tracker, [(1, publish("ann", "q", "1")), (1, deliver("bob", "q", "1"))])
    assert [each.match for each in events[2:]] == [Match.redelivered] * 3 * WOKEN


def test_what_was_held_is_stamped_one_by_one() -> None:
    tracker = Tracker(Policy.channel, WINDOW)
    tracker.apply(deliver("gus", "q", "1"), 0)
    for number in range(3):
        tracker.apply(publish("gus", "r", str(number)), 0)
    steps, held = tracker.steps(publish("ann", "q", "1"), 1), []
    for _ in steps:
        held.append(len(tracker._window))
    assert held == [4, 3, 2, 1, 0]


def test_a_connection_ends_once_nothing_of_it_waits() -> None:
    tracker = Tracker(Policy.channel, WINDOW)
    waiting = deliver("gus", "q", "1")
    tracker.apply(waiting, 0)
    assert not tracker.end(waiting.channel.connection)
    assert [*tracker.close_overdue(SPAN)]
    assert tracker.end(waiting.channel.connection)


WHO = ("ann", "bob", "cid", "dan")
QUEUES = ("red", "green", "blue")


@st.composite
def histories(draw: st.DrawFn) -> ModelBroker:
    """Any that a broker may have, of messages that are told apart."""
    broker = ModelBroker(layout_of_queues(*QUEUES), MANNERS["3.10"])
    for number in range(draw(st.integers(5, 40))):
        who, queue = draw(st.sampled_from(WHO)), draw(st.sampled_from(QUEUES))
        if broker.queues[queue].ready and draw(st.booleans()):
            broker.get(who, queue)
        else:
            broker.publish(who, "", queue, "", message_id=str(number))
    return broker


def arrivals_of(broker: ModelBroker, missing: set[int], random: Random) -> list[tuple[int, int]]:
    """(time, index): delayed by up to the span, each participant's own in order."""
    last: Counter[str] = Counter()
    arrivals = []
    for index, record in enumerate(broker.records):
        who = record.channel.connection
        last[who] = max(last[who] + 1, index * 50 + random.randrange(SPAN))
        if index not in missing:
            arrivals.append((last[who], index))
    return sorted(arrivals)


@settings(max_examples=6 * settings().max_examples)
@given(histories(), st.data(), st.randoms(use_true_random=False))
def test_a_delivery_whose_publish_comes_within_the_span_is_matched(
    broker: ModelBroker, data: st.DataObject, random: Random
) -> None:
    """However late others are, and whichever publishes never come."""
    published = [n for n, record in enumerate(broker.records) if isinstance(record, Publish)]
    missing = set(data.draw(st.lists(st.sampled_from(published)))) if published else set()
    arrivals = arrivals_of(broker, missing, random)
    tracker = Tracker(Policy.channel, WINDOW)
    events = events_of(tracker, [(at, broker.records[n]) for at, n in arrivals])
    end = arrivals[-1][0] if arrivals else 0
    for now in range(end, end + len(arrivals) * SPAN + 2, 100):
        events += tracker.close_overdue(now)
    assert len(tracker._window) == 0
    came = {n: at for at, n in arrivals}
    publish_of = {broker.records[n].properties["message_id"]: n for n in published}
    stamped = {id(event.record): event for event in events}
    assert len(stamped) == len(arrivals)
    for n in came:
        record = broker.records[n]
        if isinstance(record, Deliver):
            cause = publish_of[record.properties["message_id"]]
            event = stamped[id(record)]
            if cause in came and came[cause] <= came[n] + SPAN:
                assert event.match is Match.routed
                assert compare(stamped[id(broker.records[cause])].stamp, event.stamp) is (
                    Relation.before
                )
            elif cause not in came:
                assert event.match is Match.unmatched
