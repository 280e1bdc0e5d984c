"""How large clocks are with retention: by who has stored events, not by who ever had."""

from __future__ import annotations

from random import Random

from app.tracker import Bounds, Channel, Deliver, Policy, Publish, Tracker

KEPT = 300
EVERY = 90
WORKERS = 3
# Of the newest clock, for each participant alive: most of them have heights of their own, of one or
# two bytes, in an order that says nothing.
BYTES_EACH = 3


def channel(number: int) -> Channel:
    return Channel("rabbit@test", f"10.0.0.1:{number} -> 10.0.0.2:5672", 1, "shop")


def test_clocks_of_a_trace_with_many_short_connections_do_not_grow_with_their_number() -> None:
    """They grow at first, as intervals that were dealt in order come back in another."""
    tracker, random = Tracker(Policy.channel, Bounds()), Random(7)
    workers = [channel(number) for number in range(1, WORKERS + 1)]
    event_id, due, seen = 0, EVERY, 0
    sizes: list[int] = []
    for seen in range(1, 6_001):
        for part in range(2):
            what = {"message_id": f"{seen}.{part}"}
            worker = random.choice(workers)
            short = channel(1_000 + seen)
            events = tracker.apply(Publish(short, "x", ("q",), ("q",), what, b""), event_id)
            events += tracker.apply(Deliver(worker, "x", ("q",), "q", False, what, b""), event_id)
            events += tracker.apply(Publish(worker, "x", ("r",), (), what, b""), event_id)
            for event in events:
                event_id += 1
                event.reference.id = event_id
        tracker.checkpoint()
        if event_id >= due:
            due += EVERY
            tracker.forget_before(event_id - KEPT + 1)
            assert tracker.participants <= (KEPT + EVERY) // 6 + WORKERS + 1
            sizes.append(len(events[-1].reference.packed))
            assert sizes[-1] <= 40 + BYTES_EACH * tracker.participants
    turnovers = seen * 6 / KEPT
    assert turnovers > 100
    third = len(sizes) // 3
    assert max(sizes[2 * third :]) <= 1.1 * max(sizes[third : 2 * third])
