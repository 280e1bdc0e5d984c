"""What counting durations costs, by the processor time of an event: ``python -m bench.durations``.

A store is filled, and counted as the service does beside capture; by default 60,000 events.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from pathlib import Path

from app.store import Store
from app.watch.durations import TOGETHER
from bench.stores import STEP, fill_timed, traffic
from model.times import now


async def counted(events: int, participants: int) -> float:
    """The processor time of counting an event, µs."""
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'itc.db'}"
        begin = now() - events * STEP
        records = enumerate(traffic(events, participants))
        await fill_timed(url, ((begin + number * STEP, each) for number, each in records))
        store = await Store.open(url)
        started = time.process_time()
        while places := await store.durations.behind([]):
            portions = [await store.durations.next(each, TOGETHER) for each in places]
            await store.durations.count(portions)
        took = time.process_time() - started
        await store.close()
    return 1e6 * took / events


def main() -> None:
    """Print what an event takes, for few participants and queues and for many."""
    events = int(sys.argv[1]) if len(sys.argv) > 1 else 60_000
    for participants in (64, 1_000):
        took = asyncio.run(counted(events, participants))
        sys.stdout.write(f"{participants:,} participants and queues: {took:.1f} µs an event\n")


if __name__ == "__main__":
    main()
