"""How large clocks are with retention: by who has stored events, not by who ever had."""

from __future__ import annotations

from random import Random

from app.tracker import Bounds, Channel, Deliver, Policy, Publish, Tracker

KEPT = 120
EVERY = 36
WORKERS = 3
# Of the newest clock, for each participant alive: most of them have heights of their own, of one or
# two bytes, in an order that says nothing.
BYTES_EACH = 3


def channel(number: int) -> Channel:
    return Channel("rabbit@test", f"10.0.0.1:{number} -> 10.0.0.2:5672", 1, "shop")


class Traffic:
    """Many short connections, and a few workers that are handed their messages and react."""

    def __init__(self) -> None:
        self.tracker = Tracker(Policy.channel, Bounds())
        self.random = Random(7)
        self.workers = [channel(number) for number in range(1, WORKERS + 1)]
        self.event_id = self.connections = 0
        self.newest = 0  # bytes of the newest clock

    def connect(self, count: int) -> None:
        for _ in range(count):
            self.connections += 1
            for part in range(2):
                self._exchange(channel(1_000 + self.connections), part)
            self.tracker.checkpoint()

    def retain(self) -> None:
        self.tracker.forget_before(self.event_id - KEPT + 1)

    def _exchange(self, short: Channel, part: int) -> None:
        what = {"message_id": f"{self.connections}.{part}"}
        worker = self.random.choice(self.workers)
        for record in (
            Publish(short, "x", ("q",), ("q",), what, b""),
            Deliver(worker, "x", ("q",), "q", False, what, b""),
            Publish(worker, "x", ("r",), (), what, b""),
        ):
            (event,) = self.tracker.apply(record, self.event_id)
            self.event_id += 1
            event.reference.id = self.event_id
            self.newest = len(event.reference.packed)


def test_clocks_of_a_trace_with_many_short_connections_do_not_grow_with_their_number() -> None:
    """They grow at first, as intervals that were dealt in order come back in another."""
    traffic = Traffic()
    sizes: list[int] = []
    while traffic.connections < 2_100:
        traffic.connect(EVERY // 6)
        traffic.retain()
        assert len(traffic.tracker.participants) <= (KEPT + EVERY) // 6 + WORKERS + 1
        assert traffic.newest <= 40 + BYTES_EACH * len(traffic.tracker.participants)
        sizes.append(traffic.newest)
    assert traffic.event_id / KEPT > 100, "everything was replaced that often"
    third = len(sizes) // 3
    assert max(sizes[2 * third :]) <= 1.1 * max(sizes[third : 2 * third])


def test_clocks_that_grew_while_very_many_were_connected_shrink_again() -> None:
    traffic = Traffic()
    for _ in range(3):
        traffic.connect(500)
        assert traffic.newest > 500
        traffic.retain()
        for _ in range(10):
            traffic.connect(EVERY // 6)
            traffic.retain()
        assert traffic.newest <= 40 + BYTES_EACH * len(traffic.tracker.participants)
