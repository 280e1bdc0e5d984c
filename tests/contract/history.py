"""Random histories as a tracker sees them: publishes, deliveries and everything odd in between."""

from __future__ import annotations

import random
from typing import Any

from app.store import Store
from app.store.database.tables import event_ids
from app.stored.capture import Batch
from app.tracker import Policy
from app.tracker.events import Omission, Reference, StampedEvent
from app.tracker.records import Channel, Deliver, Publish, Record, Unreadable
from app.tracker.tracker import Bounds, Tracker

BEGINNING = 1_700_000_000_000_000  # µs
EXCHANGES = ("", "orders", "orders.eu", "Orders", "é-exchange", "a%b_c")
QUEUES = ("billing", "shipping", "audit", "billing.dead", 'say "hi"', "q_1")
KEYS = ("order.new", "order.paid", "x", "", ",", '"', "x,", ",y", "ü.ö", "a\\b")
USERS = ("shop", "robot")
RUN = 65_536  # ids in a run of the index of keys (`app.store.database.searched`)
BODIES = (b"", b"hello order", b"\x00\xff\xfe", "grüße".encode(), b"x" * 300)


async def number_from(store: Store, first: int) -> None:
    """Have this be the id of the next event that is stored."""
    to_come = event_ids.update().values(next=first)
    await store._database.write(lambda connection: connection.execute(to_come))


class History:
    """A trace's records, the tracker that stamps them, and batches of what comes out.

    Times move forward as a rule; now and then a clock is set back.
    """

    def __init__(self, seed: int, channels: int = 6, policy: Policy = Policy.channel) -> None:
        self.random = random.Random(seed)
        self.tracker = Tracker(policy, Bounds())
        self.channels = [
            Channel(
                node=f"rabbit@{number % 2}",
                connection=f"127.0.0.1:{5000 + seed * 100 + number // 2} -> 127.0.0.1:5672",
                number=1 + number % 2,
                user=USERS[number % len(USERS)],
            )
            for number in range(channels)
        ]
        self.now = BEGINNING
        self.events: list[StampedEvent] = []
        self._waiting: list[tuple[str, Publish]] = []
        self._delivered: list[tuple[str, Publish]] = []

    def record(self) -> Record:
        """What the firehose shows next."""
        chance = self.random.random()
        if chance < 0.40 and self._waiting:
            queue, publish = self._waiting.pop(self.random.randrange(len(self._waiting)))
            self._delivered.append((queue, publish))
            return self._deliver(queue, publish)
        if chance < 0.45 and self._delivered:
            return self._deliver(*self.random.choice(self._delivered), redelivered=True)
        if chance < 0.50 and self._delivered:
            return self._dead_letter(*self.random.choice(self._delivered))
        publish = self._publish()
        if chance < 0.55:  # its publish was before tracing began
            return self._deliver(self.random.choice(QUEUES), publish)
        self._waiting += [(queue, publish) for queue in publish.routed_queues]
        return publish

    def step(self) -> list[StampedEvent]:
        """Give the tracker the next record."""
        self.now += self.random.choice((1, 50, 1_000, 40_000_000, -30_000_000))
        events = self.tracker.apply(self.record(), self.now)
        self.events += events
        return events

    def batch(self, records: int, window: bytes = b"window") -> Batch:
        """The next `count` records as a batch, with the tracker's checkpoint."""
        events = [event for _ in range(records) for event in self.step()]
        return Batch(events, self.tracker.checkpoint(), window)

    def _channel(self) -> Channel:
        return self.random.choice(self.channels)

    def _publish(self) -> Publish:
        queues = self.random.sample(QUEUES[:3], self.random.randrange(4))
        return Publish(
            channel=self._channel(),
            exchange=self.random.choice(EXCHANGES),
            routing_keys=tuple(self.random.sample(KEYS, self.random.randrange(1, 4))),
            routed_queues=tuple(queues),
            properties={"headers": {"n": self.random.random()}, "delivery_mode": 2},
            body=self.random.choice(BODIES),
        )

    def _deliver(self, queue: str, publish: Publish, redelivered: bool = False) -> Deliver:
        return Deliver(
            channel=self._channel(),
            exchange=publish.exchange,
            routing_keys=publish.routing_keys,
            queue=queue,
            redelivered=redelivered,
            properties=publish.properties,
            body=publish.body,
        )

    def _dead_letter(self, queue: str, publish: Publish) -> Deliver:
        death: dict[str, Any] = {
            "queue": queue,
            "exchange": publish.exchange,
            "routing-keys": list(publish.routing_keys),
            "reason": "rejected",
            "count": 1,
        }
        headers = {**publish.properties["headers"], "x-death": [death]}
        return Deliver(
            channel=self._channel(),
            exchange="dlx",
            routing_keys=publish.routing_keys,
            queue="billing.dead",
            redelivered=False,
            properties={**publish.properties, "headers": headers},
            body=publish.body,
        )


def omission(record: Unreadable, after: int = 0, reason: str = "it cannot be read") -> Omission:
    """A record that came behind an event and cannot be read."""
    return Omission(record, Reference(b"", 0, after), reason)
