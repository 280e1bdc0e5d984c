"""What counting durations costs, by the processor time of an event: ``python -m bench.durations``.

A store is filled with events of an hour and a half, by default 60,000 at times of chance, so that
rows have all of an hour's minutes and durations of many lengths. They are counted as the service
does beside capture: by as many events as it takes at most, and by a tenth of that.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from app.store import Store
from app.watch.looking import PORTION
from bench.stores import fill_timed, traffic
from model.times import HOUR, MINUTE, now

SPREAD = HOUR + 30 * MINUTE  # rows have the counts of all of an hour's minutes


async def counted(events: int, participants: int, together: int) -> float:
    """The processor time of counting an event, this many at a time, µs."""
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'itc.db'}"
        await fill_timed(url, zip(times(events), traffic(events, participants), strict=True))
        store = await Store.open(url)
        started = time.process_time()
        while places := await store.durations.behind([]):
            for each in places:
                await store.durations.count(await store.durations.next(each, together))
        took = time.process_time() - started
        await store.close()
    return 1e6 * took / events


def times(events: int) -> Iterator[int]:
    """The times of events until now (µs), in their order."""
    chance, begin = random.Random(events), now() - SPREAD
    yield from sorted(begin + chance.randrange(SPREAD) for _ in range(events))


def main() -> None:
    """Print what an event takes, for few participants and queues and for many."""
    events = int(sys.argv[1]) if len(sys.argv) > 1 else 60_000
    for participants, together in itertools.product((64, 1_000), (PORTION, PORTION // 10)):
        took = asyncio.run(counted(events, participants, together))
        sys.stdout.write(
            f"{participants:,} participants and queues, {together:,} events at a time:"
            f" {took:.1f} µs an event\n"
        )


if __name__ == "__main__":
    main()
