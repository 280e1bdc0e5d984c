"""A tracker of which some exchanges and queues are taken waits for nothing that cannot come."""

from __future__ import annotations

from typing import Any

from app.tracker import Bounds, Channel, Deliver, Policy, Publish, RestorePoint, Tracker
from app.tracker.events import Handover, Reference
from app.tracker.taken import ALL, Selection, make_selection
from itc.stamp import seed
from model.words import Match

PUBLISHER = Channel("rabbit@one", "10.0.0.1:1 -> 10.0.0.9:5672", 1, "guest")
CONSUMER = Channel("rabbit@one", "10.0.0.2:1 -> 10.0.0.9:5672", 1, "guest")
SECOND = 1_000_000
SEED = seed()


class World:
    def __init__(
        self, what: Selection, restored: RestorePoint | None = None, **bounds: int
    ) -> None:
        self.tracker = Tracker(Policy.channel, Bounds(**bounds), restored, selection=what)
        self.now = 0

    def publish(self, exchange: str, body: bytes, *queues: str, **properties: Any) -> list[Any]:
        return self._apply(Publish(PUBLISHER, exchange, ("k",), queues, properties, body))

    def deliver(self, exchange: str, body: bytes, queue: str, **properties: Any) -> list[Any]:
        return self._apply(Deliver(CONSUMER, exchange, ("k",), queue, False, properties, body))

    def _apply(self, record: Publish | Deliver) -> list[Any]:
        events = self.tracker.apply(record, self.now)
        for event in events:
            event.reference.id = self.tracker.counters.published + self.tracker.counters.received
        self.now += 2 * SECOND
        return events


def test_a_delivery_whose_publish_is_left_out_is_not_waited_for_and_no_alarm() -> None:
    world = World(make_selection(["a"], None), reorder_window=10 * SECOND)
    [event] = world.deliver("b", b"1", "q")
    assert event.match is Match.unmatched
    assert world.deliver("a", b"2", "q") == []  # this one's publish will come
    assert [e.match for e in world.publish("a", b"2", "q")] == [Match.none, Match.routed]
    assert world.tracker.counters.unmatched == 0
    assert world.tracker.suspects() == []


def test_one_whose_publish_was_asked_for_is_suspected_as_ever() -> None:
    world = World(make_selection(["a"], None))
    world.publish("a", b"1", "q")
    world.deliver("a", b"1", "q")
    world.deliver("b", b"2", "q")
    assert (world.tracker.counters.unmatched, world.tracker.suspects()) == (0, [])
    world.deliver("a", b"3", "q")
    assert world.tracker.counters.unmatched == 1
    assert len(world.tracker.suspects()) == 1


def test_copies_in_queues_that_are_left_out_are_not_kept() -> None:
    world = World(make_selection(None, ["q"]), copies=2)
    for number in range(5):
        world.publish("a", b"%d" % number, "other", "another", "q" if number == 0 else "third")
    assert world.tracker.totals().pending_copies == 1
    [event] = world.deliver("a", b"0", "q")
    assert event.match is Match.routed
    assert world.tracker.totals().counters.copies_dropped == 0


def died(queue: str, exchange: str, reason: str) -> dict[str, Any]:
    death = {"queue": queue, "exchange": exchange, "reason": reason, "count": 1}
    return {"headers": {"x-death": [{**death, "routing-keys": ["k"]}]}}


def test_a_dead_letter_is_judged_by_where_it_was_published_first() -> None:
    world = World(make_selection(["a"], ["dead"]), reorder_window=10 * SECOND)
    for queue, exchange in (("dead", "b"), ("other", "a")):
        [event] = world.deliver("dlx", b"1", "dead", **died(queue, exchange, "rejected"))
        assert event.match is Match.unmatched
    assert world.tracker.counters.unmatched == 0
    assert world.deliver("dlx", b"2", "dead", **died("dead", "a", "rejected")) == []


def after(world: World, what: Selection, handed: list[tuple[str, int]]) -> World:
    """The same trace after a restart by which something else is taken, with past deliveries."""
    state = world.tracker.checkpoint()
    marks = (bytes([place]) * 16 for place in range(len(handed)))
    handovers = [
        Handover(queue, mark, Reference(b"", 1, number), Reference(b"", 2, number), 1)
        for mark, (queue, number) in zip(marks, handed, strict=True)
    ]
    made = RestorePoint(state.state, [], [], state.copies_added, handovers)
    again = World(what, made)
    again.now = world.now
    return again


def test_what_waits_in_queues_that_are_taken_no_more_is_forgotten() -> None:
    world = World(ALL)
    world.publish("a", b"1", "q", "other")
    again = after(world, make_selection(None, ["q"]), [])
    assert again.tracker.totals().pending_copies == 1
    assert len(again.tracker.checkpoint().copies_removed) == 1
    [event] = again.deliver("a", b"1", "q")
    assert event.match is Match.routed


def test_after_a_change_only_what_was_published_since_makes_suspicious() -> None:
    world = World(make_selection(["a"], None))
    world.publish("a", b"1", "q")
    again = after(world, ALL, [("q", 1)])
    tracker = again.tracker
    assert tracker.is_taking_anew
    again.deliver("b", b"2", "q")  # published to what was left out
    again.deliver("a", b"1", "q")  # published before the change, and taken
    again.deliver("b", b"3", "q")
    assert tracker.suspects() == []
    tracker.take_since(10)
    tracker.counters.published += 10
    assert not tracker.is_taking_anew
    again.publish("b", b"4", "q")
    again.deliver("b", b"4", "q")
    again.deliver("b", b"5", "q")
    assert len(tracker.suspects()) == 1
    assert after(again, ALL, []).tracker.is_taking_anew is False
    assert after(again, make_selection(["b"], None), []).tracker.is_taking_anew is True
