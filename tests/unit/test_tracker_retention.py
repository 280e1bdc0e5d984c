"""Retention in the middle of a run: what stays is related as before, reused ids confuse nothing."""

from __future__ import annotations

from collections import deque

from app.tracker import Bounds, Policy, StampedEvent, Tracker
from tests.unit.broker_model import Broker

QUEUES = ("red", "green")
STEPS_OF_A_GENERATION = 6  # then other channels come, and the earlier ones fall silent


def played(broker: Broker, keeps: list[tuple[int, int]]) -> tuple[list[StampedEvent], int]:
    """Stamp a run, forgetting in between; returns all events, and the first id that is kept.

    Each of ``keeps`` says after how many more events retention runs, and how many it keeps.
    """
    tracker = Tracker(Policy.channel, Bounds())
    events: list[StampedEvent] = []
    begin = 1
    due = dict(_due(keeps))
    for number, record in enumerate(broker.records, 1):
        (event,) = tracker.apply(record, number)
        event.reference.id = number
        events.append(event)
        if number in due:
            begin = max(begin, number + 1 - due[number])
            tracker.checkpoint()
            gone = tracker.forget_before(begin)
            stored = {each.participant for each in events[begin - 1 :]}
            assert stored.isdisjoint(gone)
            assert len(tracker.participants) == len(stored)
    return events, begin


def _due(keeps: list[tuple[int, int]]) -> list[tuple[int, int]]:
    at, due = 0, []
    for more, stay in keeps:
        at += more
        due.append((at, stay))
    return due


def test_ids_are_reused_in_these_runs() -> None:
    """The runs do test something: intervals go from one participant to another."""
    broker = Broker(queues={name: deque() for name in QUEUES})
    for step in range(60):
        broker.publish(f"ann{step // STEPS_OF_A_GENERATION}", [], b"%d" % step)
    events, _ = played(broker, [(10, 1)] * 6)
    owners: dict[str, set[int]] = {}
    for event in events:
        owners.setdefault(event.stamp.interval, set()).add(event.participant)
    assert max(map(len, owners.values())) > 1
