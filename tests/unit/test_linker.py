"""What publishes name joins their clocks: whom is meant, and what is said where nobody is known."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from app.tracker import Bounds, Channel, Deliver, Policy, Publish, Record, StampedEvent, Tracker
from app.tracker.links import BUILT_IN, Rule, Rules, search_key
from app.tracker.links.memory import LinkCount
from app.tracker.quiet import Quiet
from app.tracker.reorder import WOKEN
from itc import Relation, compare
from model.words import EdgeKind, Way
from tests.unit.test_tracker import Store

RULES = Rules(BUILT_IN)
NAMED = "causation_id"


def at(who: str) -> Channel:
    """A channel ``place/connection``."""
    place, _, connection = who.partition("/")
    return Channel("rabbit@test", f"{place}:{connection or 1} -> 10.0.0.1:5672", 1, "guest")


def properties(message_id: str | None, names: str | None) -> dict[str, Any]:
    given = {} if message_id is None else {"message_id": message_id}
    return given if names is None else {**given, "headers": {NAMED: names}}


def publish(who: str, *queues: str, id: str | None = None, names: str | None = None) -> Publish:
    return Publish(at(who), "x", ("key",), queues, properties(id, names), b"")


def deliver(who: str, queue: str, id: str | None = None, *, again: bool = False) -> Deliver:
    return Deliver(at(who), "x", ("key",), queue, again, properties(id, None), b"")


def tracker_of(policy: Policy = Policy.channel, bounds: Bounds | None = None) -> Tracker:
    return Tracker(policy, bounds or Bounds(), rules=RULES)


def stamped(records: list[Record], tracker: Tracker | None = None) -> list[StampedEvent]:
    tracker = tracker or tracker_of()
    return [event for now, record in enumerate(records) for event in tracker.apply(record, now)]


def causes(event: StampedEvent, events: list[StampedEvent]) -> list[int]:
    """Which of the events are the causes that one names."""
    references = [each.reference for each in events]
    return [references.index(edge.cause) for edge in event.edges]


def counted(tracker: Tracker) -> LinkCount:
    return tracker.totals().links[NAMED]


def test_a_program_of_two_channels_publishes_after_what_it_names() -> None:
    events = stamped(
        [publish("a", "q", id="1"), deliver("b/1", "q", "1"), publish("b/2", names="1")]
    )
    assert causes(events[2], events) == [1]
    assert events[2].edges[0].kind is EdgeKind.parent
    assert compare(events[1].stamp, events[2].stamp) is Relation.before
    assert events[2].lamport == events[1].lamport + 1


def test_whether_the_policy_had_it_in_the_past_is_counted() -> None:
    tracker = tracker_of()
    stamped(
        [publish("a", "q", id="1"), deliver("b/1", "q", "1"), publish("b/2", names="1")], tracker
    )
    assert counted(tracker) == LinkCount(found=1, known=0)
    stamped([publish("b/1", names="1")], tracker)
    assert counted(tracker) == LinkCount(found=2, known=1)


HIDDEN = Way.hidden


@pytest.mark.parametrize(
    ("policy", "handled", "published", "way"),
    [
        (Policy.channel, "10.0.0.7/1", "10.0.0.7/2", Way.missed),
        (Policy.connection, "10.0.0.7/1", "10.0.0.7/2", Way.missed),
        (Policy.client, "10.0.0.7/1", "10.0.0.7/2", Way.known),
        (Policy.client, "10.0.0.7", "10.0.0.8", HIDDEN),  # an outbox, an HTTP call
        (Policy.channel, "10.0.0.7", "10.0.0.8", HIDDEN),
        (Policy.user, "10.0.0.7", "10.0.0.8", Way.known),
        (Policy.channel, "127.0.0.1/orders1", "127.0.0.1/orders2", Way.missed),
        (Policy.client, "127.0.0.1/orders1", "127.0.0.1/orders2", Way.known),
        (Policy.channel, "127.0.0.1/orders1", "127.0.0.1/relay1", HIDDEN),  # two programs there
        (Policy.client, "127.0.0.1/orders1", "127.0.0.1/relay1", HIDDEN),
        (Policy.client, "127.0.0.1/orders1", "127.0.0.1/1", Way.missed),  # of which nobody knows
        (Policy.host, "127.0.0.1/orders1", "127.0.0.1/1", Way.known),
    ],
)
def test_a_policy_misses_what_reached_its_program_and_not_what_came_by_another_way(
    policy: Policy, handled: str, published: str, way: Way
) -> None:
    tracker = tracker_of(policy)
    for who in (handled, published):
        name = who.partition("/")[2].rstrip("0123456789")
        tracker.introduce(at(who), name or None)
    records = [publish("a", "q", id="1"), deliver(handled, "q", "1"), publish(published, names="1")]
    *_, effect = stamped(records, tracker)
    assert [edge.way for edge in effect.edges] == [way]
    its = next(p for p in tracker.checkpoint().participants if p.number == effect.participant)
    assert (its.known, its.hidden) == (way is Way.known, way is HIDDEN)
    assert (its.missed, its.reactions, its.explained) == (way is Way.missed, 1, 1)
    count = counted(tracker)
    assert (count.known, count.missed, count.hidden) == (its.known, its.missed, its.hidden)
    assert count.fit == {Way.known: 1.0, HIDDEN: None}.get(way, 0.0)


def test_another_user_at_the_same_place_is_another_program() -> None:
    robot = msgspec.structs.replace(at("10.0.0.7/2"), user="robot")
    named = properties(None, "1")
    *_, effect = stamped(
        [
            publish("a", "q", id="1"),
            deliver("10.0.0.7/1", "q", "1"),
            Publish(robot, "x", ("key",), (), named, b""),
        ]
    )
    assert [edge.way for edge in effect.edges] == [HIDDEN]


def test_publishes_that_may_have_a_cause_are_counted_and_those_that_name_it() -> None:
    tracker = Tracker(Policy.client, Bounds(), rules=RULES, quiet=Quiet(("exchange:noise",)))
    stamped(
        [
            publish("b"),  # nothing can have led to it
            publish("a", "q", id="1"),
            deliver("b", "q", "1"),
            publish("b", names="1"),
            publish("b"),
            publish("b", names="never seen"),
            Publish(at("b"), "noise", ("key",), (), {}, b""),
        ],
        tracker,
    )
    a, b = sorted(tracker.checkpoint().participants, key=lambda each: each.user + str(each.place))
    assert (a.reactions, a.explained) == (0, 0)
    assert (b.reactions, b.explained, b.known) == (3, 1, 1)
    assert counted(tracker).coverage == 0.5


def test_of_several_deliveries_the_newest_of_its_own_participant_is_meant() -> None:
    events = stamped(
        [
            publish("a", "q", "r", id="1"),
            deliver("b", "q", "1"),
            deliver("b", "q", "1", again=True),
            deliver("c", "r", "1"),
            publish("b", names="1"),
        ]
    )
    assert causes(events[4], events) == [2]


def test_else_the_newest_of_its_place() -> None:
    events = stamped(
        [
            publish("a", "q", "r", id="1"),
            deliver("b/1", "q", "1"),
            deliver("c", "r", "1"),
            publish("b/2", names="1"),
        ]
    )
    assert causes(events[3], events) == [1]


def test_an_id_that_came_by_another_way_leads_back_to_the_publish() -> None:
    events = stamped([publish("a", "q", id="1"), deliver("b", "q", "1"), publish("c", names="1")])
    assert causes(events[2], events) == [0]
    assert compare(events[1].stamp, events[2].stamp) is Relation.concurrent


def test_a_publisher_is_believed_and_takes_away_nothing_that_the_broker_saw() -> None:
    # As docs/security.md says.
    def told(names: str | None) -> list[StampedEvent]:
        return stamped(
            [
                publish("shop", "orders", id="order"),
                publish("bank", "vault", id="guessed"),
                deliver("liar", "orders", "order"),
                publish("liar", names=names),
            ]
        )

    for names, of_the_bank in ((None, Relation.concurrent), ("guessed", Relation.before)):
        shop, bank, delivery, lie = told(names)
        assert compare(bank.stamp, lie.stamp) is of_the_bank
        assert compare(shop.stamp, lie.stamp) is Relation.before
        assert compare(delivery.stamp, lie.stamp) is Relation.before
        assert [edge.rule for edge in lie.edges] == ([] if names is None else [NAMED])


def test_or_to_a_delivery_where_the_publish_was_not_seen() -> None:
    events = stamped([deliver("b", "q", "1"), publish("c", names="1")])
    assert causes(events[1], events) == [0]


def test_whoever_names_what_it_published_itself_means_that() -> None:
    events = stamped([publish("a", "q", id="1"), deliver("b", "q", "1"), publish("a", names="1")])
    assert causes(events[2], events) == [0]
    assert compare(events[1].stamp, events[2].stamp) is Relation.concurrent


def test_what_is_named_and_not_known_is_counted_and_links_nothing() -> None:
    tracker = tracker_of()
    first, later = stamped([publish("a", names="1"), publish("b", id="1")], tracker)
    assert first.edges == later.edges == ()
    assert compare(first.stamp, later.stamp) is Relation.concurrent
    assert counted(tracker) == LinkCount(unseen=1)


def test_a_message_that_names_itself_names_nothing() -> None:
    (event,) = stamped([publish("a", id="1", names="1")])
    assert event.edges == ()


def test_what_made_room_may_be_what_is_named() -> None:
    tracker = tracker_of(bounds=Bounds(named=2))
    records = [publish("a", id=str(number)) for number in range(3)]
    *_, last, first = stamped([*records, publish("b", names="2"), publish("b", names="0")], tracker)
    assert (len(last.edges), len(first.edges)) == (1, 0)
    assert counted(tracker) == LinkCount(found=1, hidden=1, forgotten=1)


def test_what_retention_removed_is_named_no_more() -> None:
    tracker, store = tracker_of(), Store()
    store.append(
        stamped([publish("a", "q", id="1"), publish("a", id="2")], tracker), tracker.checkpoint()
    )
    tracker.forget_before(2)
    gone, kept = stamped([publish("b", names="1"), publish("b", names="2")], tracker)
    assert (len(gone.edges), len(kept.edges)) == (0, 1)


def test_quiet_traffic_names_nothing_and_is_not_named() -> None:
    tracker = Tracker(Policy.channel, Bounds(), rules=RULES, quiet=Quiet(("queue:q",)))
    records: list[Record] = [publish("a", "q", id="1"), deliver("b", "q", "1")]
    *_, loud, quiet = stamped(
        [*records, publish("b", names="1"), publish("b", "q", names="1")], tracker
    )
    assert loud.edges == quiet.edges == ()
    assert loud.names.called
    assert quiet.names.called, "it is found all the same"


def test_on_a_cluster_a_publish_waits_for_the_delivery_that_it_names() -> None:
    tracker = tracker_of(bounds=Bounds(reorder_window=1_000))
    assert len(tracker.apply(publish("a", "q", id="1"), 0)) == 1
    assert tracker.apply(publish("b/2", names="1"), 1) == []
    events = tracker.apply(deliver("b/1", "q", "1"), 2)
    assert [type(event.record) for event in events] == [Deliver, Publish]
    assert causes(events[1], events) == [0]


def test_on_a_cluster_a_publish_waits_no_longer_than_the_window() -> None:
    tracker = tracker_of(bounds=Bounds(reorder_window=1_000))
    assert tracker.apply(publish("b", names="from elsewhere"), 1) == []
    assert [*tracker.close_overdue(500)] == []
    (event,) = tracker.close_overdue(1_001)
    assert event.edges == ()


def test_each_of_many_consumers_of_a_message_means_its_own_delivery() -> None:
    who = [f"host{number}" for number in range(100)]
    events = stamped(
        [
            publish("a", *who, id="1"),
            *(deliver(each, each, "1") for each in who),
            *(publish(each, names="1") for each in who),
        ]
    )
    assert [causes(each, events) for each in events[101:]] == [[1 + n] for n in range(100)]


ALONE = Rules(
    [
        Rule.from_json(
            {
                "name": NAMED,
                "kind": "parent",
                "child": "$message.header#/causation_id",
                "parent": "$message.property#/message_id",
                "alone": True,
            }
        )
    ]
)


def test_an_id_of_several_messages_names_none_where_the_rule_says_so() -> None:
    tracker = Tracker(Policy.channel, Bounds(), rules=ALONE)
    records: list[Record] = [deliver("b", "q", "1"), deliver("b", "r", "1")]  # of who knows whom
    *_, event = stamped([*records, publish("b", names="1")], tracker)
    assert event.edges == ()
    assert counted(tracker) == LinkCount(ambiguous=1)


def test_what_the_broker_adds_is_read_at_each_delivery() -> None:
    """A rule may ask for it, and after a restart nobody remembers the publish's own headers."""
    rule = {
        "name": NAMED,
        "kind": "parent",
        "child": "$message.header#/causation_id",
        "parent": "$message.property#/message_id",
        "parent_where": [{"lacks": "$message.header#/x-death"}],
    }
    tracker = Tracker(Policy.channel, Bounds(), rules=Rules([Rule.from_json(rule)]))
    death = {"queue": "q", "exchange": "x", "routing-keys": ["key"], "reason": "expired"}
    dead = {"message_id": "1", "headers": {"x-death": [{**death, "count": 1}]}}
    records: list[Record] = [
        publish("a", "q", id="1"),
        Deliver(at("b"), "", ("dead",), "dead", False, dead, b""),
        publish("b", names="1"),
    ]
    events = stamped(records, tracker)
    assert events[1].cause is events[0].reference
    assert events[1].names.ids == ()
    assert causes(events[2], events) == [0]


def test_a_publish_that_waits_is_read_by_the_rules_of_the_next_start() -> None:
    bounds = Bounds(reorder_window=1_000)
    tracker, store = tracker_of(bounds=bounds), Store()
    assert tracker.apply(publish("b", names="1"), 1) == []
    store.append([], tracker.checkpoint())
    again = Tracker(Policy.channel, bounds, store.restored, rules=Rules(()))
    (event,) = again.close_overdue(2_000)
    assert event.edges == ()


def test_nothing_that_others_bring_under_a_name_keeps_a_publish_waiting() -> None:
    second = 1_000_000
    tracker = tracker_of(bounds=Bounds(reorder_window=second))
    assert tracker.apply(publish("a", names="1"), 1) == []
    left: list[int] = []
    for step in range(1, 21):
        now = step * second // 4
        events = tracker.apply(deliver("b", f"q{step}", "1"), now)
        for event in [*events, *tracker.close_overdue(now)]:
            if isinstance(event.record, Publish):
                left.append(now)
    assert left
    assert left[0] <= 1.5 * second


def test_a_publish_wakes_who_waits_for_its_name_at_its_place() -> None:
    tracker = tracker_of(bounds=Bounds(reorder_window=1_000_000))
    assert tracker.apply(publish("a/1", names="1"), 1) == []
    events = tracker.apply(publish("a/2", id="1"), 2)
    assert len(events) == 2
    assert causes(events[1], events) == [0]


def test_of_many_that_wait_for_one_name_a_few_go_at_once_and_the_rest_in_time() -> None:
    tracker = tracker_of(bounds=Bounds(reorder_window=1_000))
    for number in range(WOKEN + 2):
        assert tracker.apply(publish(f"a/{number}", names="1"), 1) == []
    cause, *soon = tracker.apply(publish("a/100", id="1"), 2)
    late = [*tracker.close_overdue(1_001)]
    assert (len(soon), len(late)) == (WOKEN, 2)
    assert {each.edges[0].cause for each in [*soon, *late]} == {cause.reference}


def test_a_trace_without_rules_is_found_by_its_indexed_headers() -> None:
    tracker = Tracker(Policy.channel, Bounds(), rules=Rules((), indexed=[NAMED]))
    (event,) = stamped([publish("a", names="1")], tracker)
    assert event.names.found_by == (search_key(f"header.{NAMED}", "1"),)
