"""Stores of any size, made without a broker: through the tracker and the store's own batch writer.

    python -m bench.stores DATABASE_URL EVENTS [PARTICIPANTS [MESSAGES_EACH]]

Participants gossip uniformly at random: each message is a publish to one queue and its delivery.
With ``MESSAGES_EACH`` every participant ends after that many messages and a new one comes.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections.abc import Iterable, Iterator

from app.interpreter import tune_interpreter
from app.store import Store, migrate
from app.stored.capture import Batch
from app.tracker import Bounds, Channel, Deliver, Policy, Publish, Record, StampedEvent, Tracker
from app.tracker.links import Rules

BATCH = 5_000
VHOST = "bench"
PAYLOAD = b'{"order": 12345, "total": 99.5, "lines": 3}'
FIRST_TIME = 1_767_225_600_000_000  # µs; any date will do
STEP = 500  # µs between events


def traffic(events: int, participants: int, messages_each: int | None = None) -> Iterator[Record]:
    """Yield publishes and deliveries in an order that a broker could have produced."""
    chance = random.Random(participants)
    alive = [_channel(number) for number in range(participants)]
    for message in range(events // 2):
        if messages_each and message % messages_each == messages_each - 1:
            alive[chance.randrange(participants)] = _channel(participants + message)
        sender, receiver = chance.sample(alive, 2)
        queue = f"queue-{chance.randrange(participants)}"
        properties = {"message_id": str(message), "content_type": "application/json"}
        yield Publish(sender, "", (queue,), (queue,), properties, PAYLOAD)
        yield Deliver(receiver, "", (queue,), queue, False, properties, PAYLOAD)


def _channel(number: int) -> Channel:
    address = f"10.0.{number >> 8 & 255}.{number & 255}:{40_000 + number % 20_000}"
    return Channel("rabbit@bench", f"{address} -> 10.0.9.1:5672", 1, f"user-{number % 16}")


async def build(
    database_url: str, events: int, participants: int = 64, messages_each: int | None = None
) -> float:
    """Fill a fresh database with events; return the events stored per second."""
    return await fill(database_url, traffic(events, participants, messages_each))


async def fill(database_url: str, records: Iterable[Record], rules: Rules | None = None) -> float:
    """Store records in a fresh database; return the events stored per second."""
    timed = ((FIRST_TIME + number * STEP, record) for number, record in enumerate(records))
    return await fill_timed(database_url, timed, rules)


async def fill_timed(
    database_url: str, records: Iterable[tuple[int, Record]], rules: Rules | None = None
) -> float:
    """As `fill`, with the time at which each record is recorded (µs)."""
    await migrate(database_url)
    store = await Store.open(database_url, indexed_headers=rules.indexed if rules else {})
    begin = time.perf_counter()
    events = await record_all(store, VHOST, records, Policy.channel, rules)
    await store.close()
    return events / (time.perf_counter() - begin)


async def record_all(
    store: Store,
    vhost: str,
    records: Iterable[tuple[int, Record]],
    policy: Policy,
    rules: Rules | None,
) -> int:
    """Store a virtual host's records, each with its time in µs; return how many they are."""
    trace = await store.traces.create(vhost, policy)
    tracker = Tracker(policy, Bounds(), rules=rules)
    events = 0
    stamped: list[StampedEvent] = []

    async def store_them() -> None:
        await store.batches.append(trace.id, Batch(stamped, tracker.checkpoint(), b""))
        stamped.clear()

    for at, record in records:
        made = tracker.apply(record, at)
        events += len(made)
        stamped += made
        if len(stamped) >= BATCH:
            await store_them()
    if stamped:
        await store_them()
    return events


def main() -> None:
    """Build a store as the arguments say, and print how fast."""
    url, *numbers = sys.argv[1:]
    tune_interpreter()
    speed = asyncio.run(build(url, *map(int, numbers)))
    sys.stdout.write(f"{speed:,.0f} events/s\n")


if __name__ == "__main__":
    main()
