"""Stores of any size, made without a broker: through the tracker and the store's own batch writer.

    python -m bench.stores DATABASE_URL EVENTS [PARTICIPANTS [MESSAGES_EACH]]

Participants gossip uniformly at random: each message is a publish to one queue and its delivery.
With ``MESSAGES_EACH`` every participant ends after that many messages and a new one comes.
"""

from __future__ import annotations

import asyncio
import heapq
import random
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import itemgetter

from app.interpreter import tune_interpreter
from app.store import Store, migrate
from app.stored.capture import Batch
from app.tracker import Bounds, Channel, Deliver, Policy, Publish, Record, StampedEvent, Tracker
from app.tracker.links import Rules

BATCH = 5_000
SPAN = 5_000_000  # µs that a virtual host's records wait for those of others
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
    return await record_several(store, {vhost: records}, policy, rules)


async def record_several(
    store: Store,
    histories: Mapping[str, Iterable[tuple[int, Record]]],
    policy: Policy,
    rules: Rules | None,
) -> int:
    """Store records by virtual host side by side, so that ids follow time; return how many."""
    sides = [await Side.open(store, vhost, policy, rules) for vhost in histories]
    records = [side.of(history) for side, history in zip(sides, histories.values(), strict=True)]
    together = heapq.merge(*records, key=itemgetter(0))
    since = 0
    for at, side, record in together:
        is_time = len(sides) > 1 and at - since > SPAN
        if is_time or len(side.stamped) >= BATCH:
            for each in sides:
                await each.store_all()
            since = at
        side.stamped += side.tracker.apply(record, at)
    for side in sides:
        await side.store_all()
    return sum(side.events for side in sides)


@dataclass
class Side:
    """A virtual host whose records are stored, those that are stamped and how many were stored."""

    store: Store
    trace_id: int
    tracker: Tracker
    stamped: list[StampedEvent] = field(default_factory=list)
    events: int = 0

    @classmethod
    async def open(cls, store: Store, vhost: str, policy: Policy, rules: Rules | None) -> Side:
        trace = await store.traces.create(vhost, policy)
        return cls(store, trace.id, Tracker(policy, Bounds(), rules=rules))

    def of(self, records: Iterable[tuple[int, Record]]) -> Iterator[tuple[int, Side, Record]]:
        """Records with their times, as this one's."""
        return ((at, self, record) for at, record in records)

    async def store_all(self) -> None:
        if not self.stamped:
            return
        batch = Batch(self.stamped, self.tracker.checkpoint(), b"")
        await self.store.batches.append(self.trace_id, batch)
        self.events += len(self.stamped)
        self.stamped = []


def main() -> None:
    """Build a store as the arguments say, and print how fast."""
    url, *numbers = sys.argv[1:]
    tune_interpreter()
    speed = asyncio.run(build(url, *map(int, numbers)))
    sys.stdout.write(f"{speed:,.0f} events/s\n")


if __name__ == "__main__":
    main()
