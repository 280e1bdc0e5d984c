"""Deliveries that no publish to their queue explains: moved, changed on the way, or in doubt."""

from __future__ import annotations

from typing import Any

import pytest

from app.tracker import Bounds, Channel, Deliver, Policy, Publish, Record, StampedEvent, Tracker
from app.tracker.links.profiles import BUILT_IN
from app.tracker.links.rules import Rules
from itc import Relation, compare
from model.words import EdgeKind, Match
from tests.model_broker.broker import channel
from tests.unit.test_tracker import Store

ID: dict[str, Any] = {"message_id": "m1"}
WHY = {"x-opt-why": "no stock"}


class World:
    """A trace with the built-in rules; restarted behind each event, if asked for."""

    def __init__(self, *, restarts: bool = False, named: int = 100, since_4_2: bool = True) -> None:
        self.restarts, self.bounds, self.since_4_2 = restarts, Bounds(named_events=named), since_4_2
        self.store, self.now = Store(), 0
        self._begin()

    def _begin(self) -> None:
        restored = self.store.restored if self.now else None
        self.tracker = Tracker(Policy.channel, self.bounds, restored, rules=Rules(BUILT_IN))
        self.tracker.trace_replies(self.since_4_2)

    def __call__(self, record: Record) -> StampedEvent:
        self.now += 1
        (event,) = self.tracker.apply(record, self.now)
        self.store.append([event], self.tracker.checkpoint())
        if self.restarts:
            self._begin()
        return event


@pytest.fixture(params=[False, True], ids=["at once", "restarted"])
def world(request: pytest.FixtureRequest) -> World:
    return World(restarts=request.param)


def publish(
    who: str = "shop", queue: str = "src", exchange: str = "", body: bytes = b"m", **more: Any
) -> Publish:
    return Publish(channel(who), exchange, (queue,), (queue,), more, body)


def handed(
    who: str,
    queue: str,
    key: str = "src",
    *,
    exchange: str = "",
    body: bytes = b"m",
    again: bool = False,
    **more: Any,
) -> Deliver:
    return Deliver(channel(who), exchange, (key,), queue, again, more, body)


def death(queue: str, reason: str, count: int = 1) -> dict[str, Any]:
    entry = {"queue": queue, "reason": reason, "exchange": "", "routing-keys": [queue]}
    return {"x-death": [{**entry, "count": count, "time": 1}]}


def identity(event: StampedEvent) -> int | None:
    """The id of an event's cause, which a restart keeps."""
    return None if event.cause is None else event.cause.id


def is_before(a: StampedEvent, b: StampedEvent) -> bool:
    return compare(a.stamp, b.stamp) is Relation.before


@pytest.mark.parametrize("exchange", ["", "orders"])
@pytest.mark.parametrize(
    ("to", "added"),
    [
        ({}, {}),  # what a local shovel moves names the first publish's exchange and key
        ({"exchange": "target", "key": "k"}, {}),
        ({}, {"headers": {"x-shovelled": True}, "delivery_mode": 2}),
    ],
)
def test_a_message_that_the_broker_moved_was_caused_by_the_publish_of_its_id_and_body(
    world: World, exchange: str, to: dict[str, str], added: dict[str, Any]
) -> None:
    sent = world(publish(exchange=exchange, **ID))
    found = world(handed("billing", "dst", **{"exchange": exchange, **to}, **ID, **added))
    assert (found.match, identity(found), found.is_doubtful) == (
        Match.routed,
        sent.reference.id,
        False,
    )
    assert is_before(sent, world(publish("billing", "out", body=b"after")))


def test_of_a_moved_message_that_was_published_twice_either_may_be_the_one(world: World) -> None:
    sent = [world(publish(who, **ID)) for who in ("shop", "other")]
    found = world(handed("billing", "dst", **ID))
    assert (found.cause, found.candidates, found.is_doubtful) == (None, 3, True)
    assert all(is_before(each, found) for each in sent)


def test_what_a_queue_hands_out_twice_may_be_of_a_publish_that_was_missed(world: World) -> None:
    sent = world(publish(queue="jobs", **ID))
    for _ in range(2):
        found = world(handed("billing", "jobs", "jobs", **ID))
    assert (found.cause, found.candidates, found.is_doubtful) == (None, 2, True)
    assert is_before(sent, found)


@pytest.mark.parametrize("differs", [{"body": b"other"}, {"message_id": "m2"}, {}])
def test_a_message_that_nobody_published_with_its_id_and_body_is_from_before_the_trace(
    world: World, differs: dict[str, Any]
) -> None:
    world(publish(**{**ID, **differs}) if differs else publish())
    found = world(handed("billing", "dst", **ID))
    assert (found.match, found.is_doubtful) == (Match.unmatched, False)


def test_an_id_that_may_have_been_forgotten_proves_nothing() -> None:
    world = World(named=2)
    for number in range(4):
        world(publish(message_id=f"m{number}"))
    assert world(handed("billing", "dst", message_id="m0")).is_doubtful


@pytest.mark.parametrize(
    "more",
    [
        {"again": True},  # somebody had it
        {"headers": {"x-stream-offset": 7}},  # clients of streams publish untraced
        {"headers": death("elsewhere", "rejected")},
        {"headers": death("elsewhere", "expired")},
    ],
)
@pytest.mark.parametrize("properties", [ID, {}])
@pytest.mark.parametrize("since_4_2", [False, True])
def test_what_others_may_have_had_a_part_in_is_in_doubt_wherever_it_was_published(
    more: dict[str, Any], properties: dict[str, Any], since_4_2: bool
) -> None:
    world = World(since_4_2=since_4_2)
    found = world(handed("billing", "dst", **properties, **more))
    assert (found.match, found.is_doubtful) == (Match.unmatched, True)


def test_without_an_id_only_a_queues_first_messages_are_from_before_and_where_none_moves_unseen(
    world: World,
) -> None:
    assert world(handed("billing", "dst")).is_doubtful, "a local shovel may have moved it"
    before = World(restarts=world.restarts, since_4_2=False)
    assert not before(handed("billing", "dst")).is_doubtful
    before(publish(queue="dst", body=b"traced", **ID))
    before(handed("billing", "dst", "dst", body=b"traced", **ID))
    assert before(handed("billing", "dst")).is_doubtful


@pytest.mark.parametrize(
    ("properties", "added"),
    [
        ({}, WHY),
        ({}, {**WHY, "x-opt-delivery-time": 1_700_000_000_000}),
        ({"headers": {"tenant": "a"}}, WHY),
        ({"headers": {"x-tenant": "a"}}, WHY),
        (ID, WHY),
        (ID, {"x-why": "no stock"}),
        ({**ID, "headers": {"x-tenant": "a"}}, {"x-why": "no stock"}),
        ({**ID, "headers": {"x-opt-tenant": "a"}}, WHY),
    ],
)
def test_what_a_consumer_adds_to_a_message_does_not_hide_it(
    world: World, properties: dict[str, Any], added: dict[str, Any]
) -> None:
    given = properties.get("headers", {})
    sent = world(publish(queue="jobs", **properties))
    first = world(handed("billing", "jobs", "jobs", **properties))
    counted = {"x-acquired-count": 1, "x-delivery-count": 1}
    changed = {**properties, "headers": {**given, **added, **counted}}
    again = world(handed("store", "jobs", "jobs", again=True, **changed))
    once_more = world(handed("desk", "jobs", "jobs", again=True, **changed))
    for event in (again, once_more):
        assert (event.match, identity(event), event.candidates) == (
            Match.redelivered,
            sent.reference.id,
            None,
        )
    assert [edge.kind for edge in again.edges][:1] == [EdgeKind.returned]
    dead = {**properties, "headers": {**given, **added, **death("jobs", "rejected")}}
    letter = world(handed("ops", "dead", "dead", **dead))
    assert (letter.match, identity(letter)) == (Match.dead_lettered, sent.reference.id)
    rejected = [edge.cause.id for edge in letter.edges if edge.kind is EdgeKind.rejected]
    assert rejected == [once_more.reference.id], "by whom it was handed to last"
    assert is_before(first, again)
    assert not any(event.is_doubtful for event in (first, again, once_more, letter))


def test_a_header_that_a_consumer_wrote_anew_leaves_the_id_to_say_which_message_it_is(
    world: World,
) -> None:
    sent = world(publish(queue="jobs", **ID, headers={"x-opt-why": "new"}))
    world(handed("billing", "jobs", "jobs", **ID, headers={"x-opt-why": "new"}))
    again = world(handed("store", "jobs", "jobs", again=True, **ID, headers=WHY))
    assert (identity(again), again.is_doubtful) == (sent.reference.id, True)


def test_what_a_program_adds_to_a_message_without_an_id_makes_it_another(world: World) -> None:
    world(publish(queue="jobs"))
    found = world(handed("billing", "jobs", "jobs", again=True, headers={"x-retries": 1}))
    assert (found.match, found.is_doubtful) == (Match.unmatched, True)


def test_what_a_shovel_publishes_is_the_message_that_it_was_handed(world: World) -> None:
    taking, putting = (Channel("one", f"<rabbit@one.1.{n}.0>", 1, "none") for n in (1, 2))
    sent = world(publish(**ID))
    taken = world(Deliver(taking, "", ("src",), "src", False, ID, b"m"))
    moved = world(Publish(putting, "", ("dst",), ("dst",), ID, b"m"))
    handed_on = world(handed("billing", "dst", "dst", **ID))
    named = [(edge.rule, edge.kind, edge.cause.id) for edge in moved.edges]
    assert named == [("forward-moved", EdgeKind.forward, taken.reference.id)]
    assert (identity(taken), identity(handed_on)) == (sent.reference.id, moved.reference.id)
    other = Publish(channel("shop"), "", ("dst",), ("dst",), ID, b"m")
    assert world(other).edges == (), "a program may send its own message again"


def test_a_client_whose_user_is_named_as_the_brokers_own_is_no_shovel(world: World) -> None:
    client = Channel("one", "10.0.0.7:1 -> 10.0.0.9:5672", 1, "none")
    world(publish())
    world(Deliver(client, "", ("src",), "src", False, {}, b"m"))
    assert world(Publish(client, "", ("dst",), ("dst",), {}, b"m")).edges == ()


class Shovel:
    """A shovel between two queues: its connections within the broker, or through the network."""

    def __init__(self, world: World, number: int = 1, *, by_network: bool = False) -> None:
        self.world = world
        names = [f"<rabbit@one.1.{number}.{side}>" for side in (1, 2)]
        if by_network:
            names = [f"127.0.0.1:{number}{side} -> 127.0.0.1:5672" for side in (1, 2)]
        user = "guest" if by_network else "none"
        self.taking, self.putting = (Channel("one", name, 1, user) for name in names)
        self.name: str | None = f"Shovel s{number}"

    def take(self, body: bytes = b"m", **properties: Any) -> StampedEvent:
        return self._act(Deliver(self.taking, "", ("src",), "src", False, properties, body))

    def put(self, body: bytes = b"m", **properties: Any) -> StampedEvent:
        return self._act(Publish(self.putting, "", ("dst",), ("dst",), properties, body))

    def _act(self, record: Record) -> StampedEvent:
        self.world.tracker.participants.introduce(record.channel, self.name)
        return self.world(record)


def links(event: StampedEvent) -> list[tuple[EdgeKind, int | None]]:
    return [(edge.kind, edge.cause.id) for edge in event.edges]


@pytest.mark.parametrize("by_network", [False, True], ids=["direct", "network"])
@pytest.mark.parametrize("headers", [{}, {"x-shovelled": [{"src-queue": "src"}]}])
def test_a_shovel_forwards_a_message_without_an_id_as_its_body_and_properties_say(
    world: World, by_network: bool, headers: dict[str, Any]
) -> None:
    shovel = Shovel(world, by_network=by_network)
    typed = {"content_type": "text/plain", "type": "order"}
    taken = [shovel.take(body, **typed) for body in (b"a", b"b") if world(publish(body=body))]
    moved = [shovel.put(body, **typed, headers=headers) for body in (b"b", b"a")]
    assert [links(event) for event in moved] == [
        [(EdgeKind.forward, event.reference.id)] for event in reversed(taken)
    ]
    assert links(shovel.put(b"a", type="other")) == [], "its properties say that it is another"


def test_of_equal_messages_without_an_id_a_shovel_may_have_forwarded_any(world: World) -> None:
    shovel = Shovel(world)
    first = shovel.take()
    assert links(shovel.put()) == [(EdgeKind.forward, first.reference.id)], "there was one"
    _, newest = shovel.take(), shovel.take()
    for _ in range(2):
        assert links(shovel.put()) == [(EdgeKind.candidate, newest.reference.id)]


def test_one_shovel_does_not_forward_what_another_was_handed() -> None:
    world = World()
    world.tracker = Tracker(Policy.client, Bounds(), rules=Rules(BUILT_IN))
    one, other = Shovel(world, 1), Shovel(world, 2)
    taken, moved = one.take(), other.put()
    assert links(moved) == []
    assert compare(taken.stamp, moved.stamp) is Relation.concurrent
    assert links(one.put()) == [(EdgeKind.forward, taken.reference.id)]


def test_a_shovel_whose_name_comes_late_forwards_what_it_was_handed_before() -> None:
    world = World()
    shovel = Shovel(world)
    shovel.name = None
    taken = shovel.take()
    shovel.name = "Shovel s1"
    assert links(shovel.put()) == [(EdgeKind.forward, taken.reference.id)]
