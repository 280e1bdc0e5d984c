"""A shop whose messages name their causes, with two connections, and an outbox with a relay."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from typing import Any

from app.store import Store
from app.stored.capture import Batch
from app.tracker import Bounds, Channel, Deliver, Policy, Publish, Record, RestorePoint, Tracker
from app.tracker.events import StampedEvent
from app.tracker.links import BUILT_IN, Rules

START = 1_767_323_045_000_000  # µs
RULE = "causation_id"


def _channel(place: str, port: int, user: str = "shop") -> Channel:
    return Channel("rabbit@one", f"{place}:{port} -> 10.0.0.1:5672", 1, user)


CUSTOMER = _channel("10.0.0.5", 1, "customer")
# The shop handles orders on one connection, and publishes on another.
HANDLER, PUBLISHER = _channel("10.0.0.7", 1), _channel("10.0.0.7", 2)
RELAY = _channel("10.0.0.9", 1, "relay")


def _message(message_id: str, cause: str | None = None) -> dict[str, Any]:
    headers = {} if cause is None else {RULE: cause}
    return {"message_id": message_id, "headers": headers}


def order(number: int) -> list[Record]:
    """An order is sent, handled, and confirmed; its bill is sent by the relay."""
    sent = _message(f"order-{number}")
    return [
        Publish(CUSTOMER, "", ("orders",), ("orders",), sent, b"order"),
        Deliver(HANDLER, "", ("orders",), "orders", False, sent, b"order"),
        Publish(PUBLISHER, "", ("c",), (), _message(f"c-{number}", f"order-{number}"), b"paid"),
        Publish(RELAY, "", ("b",), (), _message(f"b-{number}", f"order-{number}"), b"bill"),
    ]


def side_by_side(chance: random.Random) -> Iterator[Record]:
    """The records of 20 orders, several at a time, which end at different times."""
    left = [order(number) for number in range(20)]
    while left:
        one = chance.choice(left[:4])
        yield one.pop(0)
        left = [each for each in left if each]


# The publishing connection is handed something now and then: no policy looks wrong by that.
NUDGE: list[Record] = [
    Publish(CUSTOMER, "", ("nudge",), ("nudge",), {}, b"n"),
    Deliver(PUBLISHER, "", ("nudge",), "nudge", False, {}, b"n"),
]
EVENTS_OF_AN_ORDER = 4


def tracker_by(policy: Policy, restored: RestorePoint | None = None) -> Tracker:
    return Tracker(policy, Bounds(), restored, rules=Rules(BUILT_IN))


async def tell(
    store: Store, trace_id: int, tracker: Tracker, records: Iterable[Record]
) -> list[int]:
    """Stamp and store, each record a second after the one before; returns the ids."""
    events: list[StampedEvent] = []
    for record in records:
        events += tracker.apply(record, START + 1_000_000 * tracker_time(tracker))
    batch = Batch(events, tracker.checkpoint(), b"%d" % tracker_time(tracker))
    return list(await store.batches.append(trace_id, batch))


def tracker_time(tracker: Tracker) -> int:
    return tracker.counters.published + tracker.counters.received
