"""What publishes name joins their clocks: whom is meant, and what is said where nobody is known."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from app.tracker import Bounds, Channel, Deliver, Policy, Publish, Record, StampedEvent, Tracker
from app.tracker.events import Edge
from app.tracker.links import BUILT_IN, Rule, Rules, search_key
from app.tracker.links.memory import LinkCount
from app.tracker.links.rules import TOO_MANY_KEYS
from app.tracker.quiet import Quiet
from app.tracker.reorder import WOKEN
from itc import Relation, compare
from model.words import ACTS, Awareness, EdgeKind
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


def is_certain(edge: Edge) -> bool:
    return edge.kind is not EdgeKind.candidate


def causes(event: StampedEvent, events: list[StampedEvent], *, certain: bool = True) -> list[int]:
    """Which of the events are the causes that one names, or may be."""
    references = [each.reference for each in events]
    return [references.index(edge.cause) for edge in event.edges if is_certain(edge) is certain]


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


HIDDEN = Awareness.hidden


@pytest.mark.parametrize(
    ("policy", "handled", "published", "way"),
    [
        (Policy.channel, "10.0.0.7/1", "10.0.0.7/2", Awareness.missed),
        (Policy.connection, "10.0.0.7/1", "10.0.0.7/2", Awareness.missed),
        (Policy.client, "10.0.0.7/1", "10.0.0.7/2", Awareness.known),
        (Policy.client, "10.0.0.7", "10.0.0.8", HIDDEN),  # an outbox, an HTTP call
        (Policy.channel, "10.0.0.7", "10.0.0.8", HIDDEN),
        (Policy.user, "10.0.0.7", "10.0.0.8", Awareness.known),
        (Policy.channel, "127.0.0.1/orders1", "127.0.0.1/orders2", Awareness.missed),
        (Policy.client, "127.0.0.1/orders1", "127.0.0.1/orders2", Awareness.known),
        # One that only receives and one that only publishes may be two halves of a program.
        (Policy.channel, "127.0.0.1/orders1", "127.0.0.1/relay1", Awareness.missed),
        (Policy.client, "127.0.0.1/orders1", "127.0.0.1/relay1", Awareness.missed),
        (
            Policy.client,
            "127.0.0.1/orders1",
            "127.0.0.1/1",
            Awareness.missed,
        ),  # of which nobody knows
        (Policy.host, "127.0.0.1/orders1", "127.0.0.1/1", Awareness.known),
    ],
)
def test_a_policy_misses_what_reached_its_program_and_not_what_came_by_another_way(
    policy: Policy, handled: str, published: str, way: Awareness
) -> None:
    tracker = tracker_of(policy)
    for who in (handled, published):
        name = who.partition("/")[2].rstrip("0123456789")
        tracker.participants.introduce(at(who), name or None)
    message = publish("a", "q", id="1")
    *_, effect = stamped(
        [message, deliver(handled, "q", "1"), publish(published, names="1")], tracker
    )
    assert [edge.way for edge in effect.edges if is_certain(edge)] == [way]
    its = next(p for p in tracker.checkpoint().participants if p.number == effect.participant)
    assert (its.known, its.hidden) == (way is Awareness.known, way is HIDDEN)
    assert (its.missed, its.reactions, its.explained) == (way is Awareness.missed, 1, 1)
    count = counted(tracker)
    assert (count.known, count.missed, count.hidden) == (its.known, its.missed, its.hidden)
    assert count.fit == {Awareness.known: 1.0, HIDDEN: None}.get(way, 0.0)


@pytest.mark.parametrize("policy", [Policy.client, Policy.channel])
@pytest.mark.parametrize("half", [0, 1])
def test_two_names_at_a_shared_place_are_two_programs_where_one_of_them_does_both(
    policy: Policy, half: int
) -> None:
    tracker, programs = tracker_of(policy), ["127.0.0.1/orders1", "127.0.0.1/relay1"]
    for who in programs:
        tracker.participants.introduce(at(who), who[10:-1])
    both = programs[half]
    *_, effect = stamped(
        [
            publish("a", "p", id="0"),
            deliver(both, "p", "0"),
            publish(both),
            publish("a", "q", id="1"),
            deliver(programs[0], "q", "1"),
            publish(programs[1], names="1"),
        ],
        tracker,
    )
    assert [edge.way for edge in effect.edges if is_certain(edge)] == [HIDDEN]


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


def acting(who: str) -> Channel:
    """A channel of ``user place/connection``; on loopback, letters there are the client's name."""
    user, _, where = who.rpartition(" ")
    return msgspec.structs.replace(at(where.replace("lo/", "127.0.0.1/")), user=user or "guest")


def sent(who: str, *queues: str, body: bytes, asks: bool = False) -> Publish:
    """A message with the id 7, or a request with the correlation id 7."""
    said = {"reply_to": "r", "correlation_id": "7"} if asks else {"message_id": "7"}
    return Publish(acting(who), "x", ("key",), queues, said, body)


def handed(message: Publish, who: str, queue: str = "q", *, again: bool = False) -> Deliver:
    said = message.properties
    return Deliver(acting(who), "x", ("key",), queue, again, said, message.body)


def naming(who: str) -> Publish:
    return Publish(acting(who), "x", ("key",), (), {"headers": {NAMED: "7"}}, b"")


def answer(who: str) -> Publish:
    return Publish(acting(who), "", ("r",), ("r",), {"correlation_id": "7"}, b"")


ONE, BOTH = sent("web", "q", body=b"1"), sent("web", "q", "r", body=b"1")
TWO, COPIED = sent("web", "r", body=b"2"), sent("eve web", "r", body=b"2")
AGAIN = sent("web", "q", body=b"2")
ASKED = sent("web", "q", body=b"1", asks=True)
ASKED_AGAIN = sent("web", "q", body=b"2", asks=True)
RETRIED = Publish(
    acting("app"),
    "x",
    ("key",),
    ("q",),
    {"message_id": "7", "headers": {"NServiceBus.Retries": 1}},
    b"1",
)
UNSEEN = sent("web", "q", body=b"?")

# What happens, and for each publish that names something the certain causes and what else may be,
# by the numbers of the records.
Happening = Record | tuple[Publish, list[int], list[int]]
TABLE: dict[str, list[Happening]] = {
    "one of each": [ONE, handed(ONE, "app/1"), (naming("app/2"), [1], [])],
    "a request sent twice, and a reply": [
        *(ASKED, ASKED_AGAIN, handed(ASKED, "app"), handed(ASKED_AGAIN, "app")),
        (answer("app"), [], [3, 2]),
    ],
    "a request sent twice, and each answered before the next": [
        *(ASKED, handed(ASKED, "app"), (answer("app"), [1], [])),
        *(ASKED_AGAIN, handed(ASKED_AGAIN, "app"), (answer("app"), [4], [])),
    ],
    "a request answered in parts": [
        *(ASKED, handed(ASKED, "app"), (answer("app"), [1], []), (answer("app"), [1], [])),
    ],
    "a message in two queues of a program": [
        *(BOTH, handed(BOTH, "app/1", "q"), handed(BOTH, "app/2", "r")),
        *((naming("app/1"), [1], []), (naming("app/2"), [2], []), (naming("app/3"), [0], [2, 1])),
    ],
    "a message handed out again": [
        # It may have been sent before the copy was given back, and traced after.
        *(ONE, handed(ONE, "app"), handed(ONE, "app", again=True), (naming("app"), [0], [2, 1])),
    ],
    "a message handed out again on another channel": [
        *(ONE, handed(ONE, "app/1"), handed(ONE, "app/2", again=True)),
        *((naming("app/2"), [2], []), (naming("app/3"), [0], [2, 1])),
    ],
    "a message in two queues of a program on one channel": [
        *(BOTH, handed(BOTH, "app", "q"), handed(BOTH, "app", "r"), (naming("app"), [0], [2, 1])),
    ],
    "two messages with one id": [
        *(ONE, TWO, handed(ONE, "app"), handed(TWO, "app", "r"), (naming("app"), [], [3, 2])),
    ],
    "two messages with one id, one to each of two programs": [
        *(ONE, TWO, handed(ONE, "app"), handed(TWO, "bob", "r")),
        *((naming("app"), [2], []), (naming("bob"), [3], []), (naming("other"), [], [1])),
    ],
    "a retry in flight at two replicas": [
        *(ONE, handed(ONE, "app/1"), AGAIN, handed(AGAIN, "app/2")),
        *((naming("app/1"), [1], []), (naming("app/3"), [], [3, 1])),
    ],
    "a message that its receiver published again": [
        *(ONE, handed(ONE, "app"), (RETRIED, [1], []), (naming("app"), [1], [])),
        *(handed(RETRIED, "app"), (naming("app"), [0], [4, 1])),
        *((RETRIED, [4], []), handed(RETRIED, "app"), (naming("app"), [0], [7, 4, 1])),
        (naming("other"), [0], [6]),
    ],
    "a message that its receiver published again, and another with its id": [
        *(ONE, TWO, handed(ONE, "app"), (RETRIED, [2], []), handed(RETRIED, "app")),
        *(handed(TWO, "app", "r"), (naming("app"), [], [5, 4, 2])),
    ],
    "an id that another user copies": [
        *(ONE, COPIED, handed(ONE, "app"), (naming("app"), [2], []), (naming("other"), [], [1, 0])),
    ],
    "an id that another user copies to the same program": [
        *(ONE, COPIED, handed(ONE, "app/1"), handed(COPIED, "app/2", "r")),
        (naming("app/2"), [], [3, 2]),
    ],
    "a message to two connections without names at a shared place": [
        *(BOTH, handed(BOTH, "lo/1", "q"), handed(BOTH, "lo/2", "r")),
        *((naming("lo/1"), [1], []), (naming("lo/3"), [0], [2, 1])),
    ],
    "a message to one connection without a name at a shared place": [
        *(ONE, handed(ONE, "lo/1"), (naming("lo/2"), [0], [1])),
    ],
    "a message to another program at a shared place": [
        *(ONE, handed(ONE, "lo/reader1"), (naming("lo/reader2"), [1], [])),
        (naming("lo/writer1"), [0], [1]),
    ],
    "a message to another user at a shared place": [
        *(ONE, handed(ONE, "eve lo/1"), (naming("lo/2"), [0], [])),
    ],
    "what it published itself": [
        *(ONE, handed(ONE, "app"), (naming("web"), [0], [])),
    ],
    "two messages with one id that it published itself": [
        *(ONE, AGAIN, (naming("web"), [], [1, 0])),
    ],
    "messages that were not seen": [
        *(handed(UNSEEN, "app"), handed(UNSEEN, "app"), (naming("app"), [], [1, 0])),
    ],
    "a message that was not seen, to another": [
        *(handed(UNSEEN, "app"), (naming("other"), [], [0])),
    ],
}


def record_of(happening: Happening) -> Record:
    return happening[0] if isinstance(happening, tuple) else happening


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("policy", [Policy.client, Policy.channel])
@pytest.mark.parametrize("case", TABLE)
def test_caused_is_said_of_what_is_certain_and_the_clock_joins_all_that_may_be(
    case: str, policy: Policy, restarts: bool
) -> None:
    tracker, store = tracker_of(policy), Store()
    ambiguous = 0
    for now, happening in enumerate(TABLE[case]):
        record = record_of(happening)
        expected = happening[1:] if isinstance(happening, tuple) else ()
        where = record.channel
        name = where.connection.partition(" ")[0].rpartition(":")[2].rstrip("0123456789")
        if tracker.participants.strangers([where]):
            tracker.participants.introduce(where, name or None)
        (event,) = tracker.apply(record, now)
        store.append([event], tracker.checkpoint())
        if restarts:
            tracker = Tracker(policy, Bounds(), store.restored, rules=RULES)
        events = store.events
        if expected:
            certain, candidates = expected
            assert causes(event, events) == certain
            assert causes(event, events, certain=False) == candidates
            ambiguous += not certain
            for number in (*certain, *candidates):
                assert compare(events[number].stamp, event.stamp) is Relation.before
        else:
            assert {edge.rule for edge in event.edges} <= {ACTS[EdgeKind.returned]}
    counts = tracker.totals().links.values()
    assert sum(count.ambiguous for count in counts) == ambiguous


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
    tracker = tracker_of(bounds=Bounds(named_events=2))
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
    events = stamped([*records, publish("b", names="1")], tracker)
    assert (causes(events[2], events), causes(events[2], events, certain=False)) == ([], [1, 0])
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
    assert events[1].names.ids == (Rules(()).message_key(records[1]),)
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


def test_what_could_not_be_read_is_counted_across_restarts_and_rules() -> None:
    tracker, store = tracker_of(), Store()
    naming = [str(number) for number in range(20)]
    record = Publish(at("a"), "x", ("key",), (), {"headers": {NAMED: naming}}, b"")
    for _ in range(2):
        store.append(tracker.apply(record, 1), tracker.checkpoint())
        tracker = Tracker(Policy.channel, Bounds(), store.restored, rules=Rules(BUILT_IN))
    tracker.take_up(Rules(BUILT_IN))
    tracker.apply(record, 2)
    assert tracker.totals().unread == {TOO_MANY_KEYS: 3}


def test_a_trace_without_rules_is_found_by_its_indexed_headers() -> None:
    tracker = Tracker(Policy.channel, Bounds(), rules=Rules((), indexed=[NAMED]))
    (event,) = stamped([publish("a", names="1")], tracker)
    assert event.names.found_by == (search_key(f"header.{NAMED}", "1"),)


def test_an_id_that_ten_thousand_messages_have_is_found_as_quickly() -> None:
    tracker = tracker_of(bounds=Bounds(named_events=5_000))
    events = stamped([publish("a", id="same") for _ in range(10_000)], tracker)
    (event,) = stamped([publish("a", names="same")], tracker)
    assert event.edges[0].cause is events[-1].reference


WHO = ("a/1", "a/2", "b/1", "b/2", "c/1")


@st.composite
def runs(draw: st.DrawFn) -> list[Record]:
    """Messages to two queues, delivered now and again, that name earlier ones, or none that is.

    A delivery has the headers of its publish, as a broker hands it over.
    """
    records: list[Record] = []
    copies: list[tuple[str, Publish]] = []
    for number in range(draw(st.integers(2, 30))):
        who = draw(st.sampled_from(WHO))
        if copies and draw(st.booleans()):
            queue, message = copies[draw(st.integers(0, len(copies) - 1))]
            delivery = replace(deliver(who, queue), properties=message.properties)
            records.append(replace(delivery, redelivered=delivery in records))
            continue
        queues = draw(st.lists(st.sampled_from(("q", "r")), unique=True, max_size=2))
        names = draw(st.none() | st.integers(0, number).map(str))
        message = publish(who, *queues, id=str(number), names=names)
        records.append(message)
        copies += [(queue, message) for queue in queues]
    return records


@given(runs(), st.sampled_from([Policy.channel, Policy.client]))
def test_causes_that_are_named_come_before(records: list[Record], policy: Policy) -> None:
    events = stamped(records, tracker_of(policy))
    for position, event in enumerate(events):
        for cause in causes(event, events):
            assert cause < position
            assert compare(events[cause].stamp, event.stamp) is Relation.before
            assert events[cause].lamport < event.lamport


@pytest.mark.parametrize("named", [4, 100])
@given(records=runs(), batches=st.lists(st.integers(1, 7), max_size=8))
def test_an_interrupted_run_links_as_an_uninterrupted_one(
    named: int, records: list[Record], batches: list[int]
) -> None:
    bounds = Bounds(named_events=named)
    whole_tracker = tracker_of(bounds=bounds)
    whole = stamped(records, whole_tracker)
    store, position, tracker = Store(), 0, whole_tracker
    for size in [*batches, len(records)]:
        store.restored.named_events = store.restored.named_events[-named:]
        tracker = Tracker(Policy.channel, bounds, store.restored, rules=RULES)
        store.append(stamped(records[position : position + size], tracker), tracker.checkpoint())
        position += size
    for one, other in zip(whole, store.events, strict=True):
        assert one.stamp == other.stamp
        ids = [edge.cause.id for edge in other.edges if is_certain(edge)]
        assert ids == [cause + 1 for cause in causes(one, whole)]
    assert tracker.totals().links == whole_tracker.totals().links


def test_a_key_that_goes_in_by_one_name_and_comes_out_by_another_speaks_for_one_program() -> None:
    tracker = tracker_of(Policy.client)
    people = {"notify": "127.0.0.1/1", "front": "127.0.0.1/2", "shop": "10.0.0.7"}
    people["till"] = "127.0.0.1/3"
    for name, who in people.items():
        tracker.participants.introduce(at(who), name)
    key = {"correlation_id": "order-1"}

    def missed(*steps: str) -> int:
        for step in steps:
            name, _, order = step.partition(" ")
            given = {**key, "correlation_id": order}
            record: Record = Publish(at(people[name]), "x", ("key",), ("q",), given, b"")
            if name == "notify":
                record = Deliver(at(people[name]), "x", ("key",), "q", False, given, b"")
            stamped([record], tracker)
        states = tracker.checkpoint().participants
        return sum(state.missed for state in states)

    # Whoever publishes it first, and again, was not told of it.
    assert missed("front order-1", "notify order-1", "front order-1", "front order-2") == 0
    assert missed("shop order-3", "notify order-3", "front order-4") == 0
    assert missed("front order-3") == 1
    # Also if a third program, beside them, began it.
    assert missed("till order-5", "notify order-5", "till order-5") == 0
    assert missed("front order-5") == 2


JOINT = Rules(
    [
        Rule.from_json(
            {
                "name": "joint",
                "kind": "parent",
                "child": "$message.property#/message_id",
                "parent": f"$message.header#/{NAMED}",
                "sure": False,
                "joint": True,
            }
        )
    ]
)


@pytest.mark.parametrize("parts", [2, 40])
def test_all_messages_that_have_a_joint_id_led_to_the_one_that_it_is_of(parts: int) -> None:
    tracker = Tracker(Policy.channel, Bounds(), rules=JOINT)
    records: list[Record] = []
    for part in range(parts):
        records.append(publish("a", "work", id=f"p{part}", names="body"))
        message = properties(f"p{part}", "body")
        records.append(Deliver(at(f"w{part % 2}"), "x", ("key",), "work", False, message, b""))
    *before, body = stamped([*records, publish("w1", "next", id="body")], tracker)
    assert {edge.kind for edge in body.edges} == {EdgeKind.parent}
    handed = [number for number, event in enumerate(before) if number % 2][-16:]
    assert sorted(causes(body, before)) == handed
    assert all(before[number].reference.clock.leq(body.reference.clock) for number in handed)
    assert tracker.totals().links["joint"].found == min(parts, 16)
    [other] = stamped([publish("w1", "next", id="no body")], tracker)
    assert other.edges == ()
    assert tracker.totals().links["joint"].unseen == 0
