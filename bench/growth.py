"""Sizes over time, of what grows and what does not: ``python -m bench.growth [EVENTS]``.

Three tables. A long run whose participants come and go, with retention: clock, database file and
memory of the process, none of which may grow. The bytes of a clock as it is stored, by
the number of participants that talk to each other at random. And the tracker's memory for each
participant, copy and delivery that it remembers, as Python's allocator counts it. Without a broker:
the tracker and the store's own batch writer, in this process.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
import tempfile
import tracemalloc
from collections.abc import Iterable, Iterator
from pathlib import Path

from app.interpreter import tune_interpreter
from app.store import Store, migrate
from app.stored.capture import Batch
from app.traces.retention import RetentionLimits, retain
from app.tracker import Bounds, Policy, Publish, Record, StampedEvent, Tracker
from bench.stores import FIRST_TIME, STEP, traffic
from itc import pack

PAGE = os.sysconf("SC_PAGESIZE")
BATCH = 2_000

SIZES = (4, 64, 1_000)
ALIVE = 50
MESSAGES_EACH = 40  # from one participant's end to the next one's: 12,500 in 1,000,000 events
EVENTS = 1_000_000
KEPT = 20_000
WAITING = 60_000


def stamped(tracker: Tracker, records: Iterable[Record], first: int = 0) -> Iterator[StampedEvent]:
    """Feed a tracker, and yield what it has stamped."""
    for number, record in enumerate(records, first):
        yield from tracker.apply(record, FIRST_TIME + number * STEP)


def clock_bytes(participants: int) -> float:
    """Mean bytes of a clock, once all know of each other."""
    tracker = Tracker(Policy.channel, Bounds())
    warm_up, counted = 40 * participants, 20_000
    events = stamped(tracker, traffic(warm_up + counted, participants))
    sizes = [len(pack(event.stamp)) for event in itertools.islice(events, warm_up, None)]
    return sum(sizes) / len(sizes)


def bytes_of_participants(participants: int) -> tuple[float, float]:
    """The tracker's memory for one of this many participants, and for one remembered delivery."""
    few, many = 100, 10_000
    _bytes_of_tracker(2, few)  # what libraries allocate for themselves when first used
    least, most = (_bytes_of_tracker(participants, handovers) for handovers in (few, many))
    return least / participants, (most - least) / (many - few)


def _bytes_of_tracker(participants: int, handovers: int) -> int:
    with _Allocated() as allocated:
        tracker = Tracker(Policy.channel, Bounds(handovers=handovers))
        records = traffic(max(40 * participants, 3 * handovers), participants)
        for _ in stamped(tracker, records):
            pass
        return allocated.bytes()


def bytes_of_a_copy(participants: int) -> float:
    """The tracker's memory for one of many copies in a queue that nobody consumes.

    This many participants keep talking to each other, and publish to that queue in between.
    """
    tracker = Tracker(Policy.channel, Bounds(handovers=100))
    records = traffic(40 * participants + WAITING, participants)
    for _ in stamped(tracker, itertools.islice(records, 40 * participants)):
        pass
    waiting = tracker.totals().pending_copies
    with _Allocated() as allocated:
        for number, record in enumerate(records):
            left = Publish(
                record.channel, "", ("left",), ("left",), {"message_id": str(number)}, b""
            )
            for _ in stamped(tracker, (record, left)):
                pass
            if number % BATCH == 0:
                tracker.checkpoint()
        return allocated.bytes() / (tracker.totals().pending_copies - waiting)


class _Allocated:
    """Bytes that were allocated since then and are still held."""

    def __enter__(self) -> _Allocated:
        tracemalloc.start()
        return self

    def __exit__(self, *error: object) -> None:
        tracemalloc.stop()

    def bytes(self) -> int:
        return tracemalloc.get_traced_memory()[0]


async def long_run(events: int) -> None:
    """Participants come and go, the oldest events are removed: print the sizes on the way."""
    print("| events | participants | clock, bytes | database, MiB | process, MiB |")
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="rabbitmq-itc-growth-") as folder:
        file = Path(folder) / "itc.db"
        url = f"sqlite:///{file}"
        await migrate(url)
        store = await Store.open(url)
        trace = await store.traces.create("bench", Policy.channel)
        tracker = Tracker(Policy.channel, Bounds())
        sizes: list[int] = []
        records = traffic(events, ALIVE, MESSAGES_EACH)
        for done in range(BATCH, events + 1, BATCH):
            batch = list(stamped(tracker, itertools.islice(records, BATCH), done - BATCH))
            sizes += [len(pack(event.stamp)) for event in batch]
            await store.batches.append(trace.id, Batch(batch, tracker.checkpoint(), b""))
            if done % (KEPT // 5) == 0:
                await retain(store.retention, trace.id, tracker, RetentionLimits(keep_events=KEPT))
            if done % (events // 10) == 0:
                print(
                    f"| {done:,} | {len(tracker.participants):,} | {sum(sizes) / len(sizes):.1f} "
                    f"| {file.stat().st_size / 2**20:.1f} | {_resident():.1f} |",
                    flush=True,
                )
                sizes.clear()
        await store.close()


def _resident() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE / 2**20


def main() -> None:
    """Print the tables."""
    tune_interpreter()
    asyncio.run(long_run(int(sys.argv[1]) if sys.argv[1:] else EVENTS))
    print("\n| participants | clock, bytes |\n|---|---|")
    for size in SIZES:
        print(f"| {size:,} | {clock_bytes(size):.0f} |", flush=True)
    print("\n| held in memory for | bytes |\n|---|---|")
    for size in SIZES:
        participant, delivery = bytes_of_participants(size)
        print(f"| a participant of {size:,} | {participant:,.0f} |")
        print(f"| a delivery that may come again, with {size:,} | {delivery:,.0f} |", flush=True)
        print(f"| a copy in a long queue, with {size:,} | {bytes_of_a_copy(size):,.0f} |")


if __name__ == "__main__":
    main()
