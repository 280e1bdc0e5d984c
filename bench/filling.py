"""The speed of capture as the store fills: ``python -m bench.filling``.

    python -m bench.filling [EVENTS [CHECKOUT]]

The traffic of `bench.finding`, whose messages have an id, a correlation id and two headers that are
indexed, goes through the tracker and into a SQLite store; printed is what each tenth of it took.
With a CHECKOUT, another version of this repository does the same beside it, a tenth at a time in
turn. Without a broker.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from app.garbage import tune_garbage_collection
from app.store import Store, migrate
from app.stored.capture import Batch
from app.tracker import Bounds, Policy, StampedEvent, Tracker
from bench.finding import RULES, traffic
from bench.stores import FIRST_TIME, STEP, VHOST

EVENTS = 2_000_000
BATCH = 2_000
PARTS = 10
OURS = Path(__file__).parents[1]


async def fill(database_url: str, events: int) -> None:
    """Store events; before each part wait for a line, behind it print what an event took in µs."""
    await migrate(database_url)
    store = await Store.open(database_url, indexed_headers=RULES.indexed)
    trace = await store.traces.create(VHOST, Policy.channel)
    tracker = Tracker(Policy.channel, Bounds(), rules=RULES)
    stamped: list[StampedEvent] = []
    a_part = events // PARTS
    for done, (_, _, record) in enumerate(traffic(events), 1):
        if done % a_part == 1:
            await asyncio.to_thread(sys.stdin.readline)
            began, used = time.perf_counter(), time.process_time()
        stamped += tracker.apply(record, FIRST_TIME + done * STEP)
        if len(stamped) >= BATCH or done % a_part == 0:
            await store.batches.append(trace.id, Batch(stamped, tracker.checkpoint(), b""))
            stamped = []
        if done % a_part == 0:
            took = time.perf_counter() - began, time.process_time() - used
            print(*(f"{each / a_part * 1e6:.1f}" for each in took), flush=True)
    await store.close()


def main() -> None:
    """Print the table, or be one of those that it is about."""
    if sys.argv[1:2] == ["fill"]:
        tune_garbage_collection()
        asyncio.run(fill(sys.argv[2], int(sys.argv[3])))
        return
    events = int(sys.argv[1]) if len(sys.argv) > 1 else EVENTS
    checkouts = [*map(Path, sys.argv[2:]), OURS]
    with tempfile.TemporaryDirectory(prefix="rabbitmq-itc-filling-") as folder:
        filling = [
            subprocess.Popen(
                (sys.executable, __file__, "fill", f"sqlite:///{folder}/{number}.db", str(events)),
                env={**os.environ, "PYTHONPATH": str(checkout)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for number, checkout in enumerate(checkouts)
        ]
        print("| events stored | version | µs each | processor |\n|---|---|---|---|")
        for part in range(PARTS):
            for checkout, each in zip(checkouts, filling, strict=True):
                assert each.stdin is not None
                assert each.stdout is not None
                each.stdin.write("\n")
                each.stdin.flush()
                took, processor = each.stdout.readline().split()
                print(f"| {part * events // PARTS:,} | {checkout} | {took} | {processor} |")
                sys.stdout.flush()
        for each in filling:
            each.communicate()


if __name__ == "__main__":
    main()
