"""Which unmatched deliveries tell of a lost publish, and which do not."""

from __future__ import annotations

from typing import Any

import pytest

from app.tracker import Bounds, Channel, Deliver, Policy, Publish, Tracker
from app.tracker.events import Handover, Reference
from app.tracker.suspicion import RARE, SETTLED, Suspicion

PUBLISHER = Channel("rabbit@one", "10.0.0.1:1 -> 10.0.0.9:5672", 1, "guest")
CONSUMER = Channel("rabbit@one", "10.0.0.2:1 -> 10.0.0.9:5672", 1, "guest")


class World:
    """A queue, messages that go through it, and a clock."""

    def __init__(self) -> None:
        self.tracker = Tracker(Policy.channel, Bounds())
        self.now = 0
        self.number = 0

    def through(self, *, published: bool = True, **delivered: Any) -> None:
        """Have a message pass the queue; its publish may be lost."""
        self.number += 1
        body = b"%d" % self.number
        if published:
            publish = Publish(PUBLISHER, "", ("q",), ("q",), delivered.get("properties", {}), body)
            self.applied(publish)
        given = {"redelivered": False, "properties": {}, **delivered}
        self.applied(Deliver(CONSUMER, "", ("q",), "q", body=body, **given))

    def applied(self, record: Publish | Deliver) -> None:
        for event in self.tracker.apply(record, self.now):
            event.reference.id = event.seq
        self.now += 1_000

    def is_suspicious(self) -> bool:
        return bool(self.tracker.suspects())


@pytest.fixture
def world() -> World:
    world = World()
    for _ in range(3 * RARE):
        world.through()
    world.now += 2 * SETTLED
    return world


def test_one_behind_a_traced_message_is_suspicious(world: World) -> None:
    world.through(published=False)
    (suspect,) = world.tracker.suspects()
    assert suspect is not None
    assert suspect.id is not None
    assert suspect.id < 3 * RARE, "what was published long before is settled"
    assert not world.is_suspicious(), "it is told once"


def test_those_from_before_the_trace_are_not() -> None:
    world = World()
    for _ in range(100):
        world.through(published=False)
        world.now += SETTLED
    assert not world.is_suspicious()


def test_one_right_after_the_first_traced_one_may_be_out_of_order() -> None:
    world = World()
    world.through()
    world.through(published=False)
    assert not world.is_suspicious()


@pytest.mark.parametrize(
    "delivered",
    [
        {"redelivered": True},
        {"properties": {"priority": 5}},
        {"properties": {"headers": {"x-stream-offset": 7}}},
        {"properties": {"headers": {"x-death": [{"queue": "dead", "reason": "expired"}]}}},
    ],
)
def test_what_need_not_come_in_order_is_not(world: World, delivered: dict[str, Any]) -> None:
    world.through(published=False, **delivered)
    assert not world.is_suspicious()


def test_one_whose_publish_may_have_been_forgotten_is() -> None:
    world = World()
    world.tracker = Tracker(Policy.channel, Bounds(copies=1))
    for _ in range(3):
        world.applied(Publish(PUBLISHER, "", ("q",), ("q",), {}, b"forgotten"))
    assert not world.is_suspicious()
    world.through(published=False)
    assert world.tracker.suspects() == [None]
    world.applied(Deliver(CONSUMER, "", ("r",), "r", redelivered=False, properties={}, body=b""))
    assert not world.is_suspicious(), "of another queue nothing was forgotten"


def test_a_queue_from_which_much_comes_unmatched_says_nothing() -> None:
    world = World()
    for _ in range(200):
        world.through()
        world.through(published=False)
        world.now += SETTLED
    world.tracker.suspects()
    world.through(published=False)
    assert not world.is_suspicious()


def test_after_a_restart_queues_are_known_by_what_they_handed_out_before() -> None:
    suspicion = Suspicion()
    before = Reference(b"", 5, 40)
    suspicion.restore([Handover("q", b"mark", before, Reference(b"", 6, 41), 1)])
    delivery = Deliver(CONSUMER, "", ("q",), "q", redelivered=False, properties={}, body=b"")
    suspicion.note_unmatched(delivery, 2 * SETTLED, has_forgotten=False)
    assert suspicion.take() == [before]
