"""Pruning on SQLite: how long it takes, and how far the file shrinks.

    python -m bench.pruning [EVENTS [KEPT]]

By default 300,000 of 400,000 events of 64 participants are removed, as the service does it.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from pathlib import Path

from app.store import Store
from app.traces.retention import RetentionRule, retain
from app.tracker import Bounds, Policy, Tracker
from bench.stores import VHOST, build

MEBIBYTE = 1 << 20


async def prune(url: str, kept: int) -> tuple[int, float]:
    """Prune a store; returns how many events are gone, and the seconds that it took."""
    bounds = Bounds()
    store = await Store.open(url)
    try:
        trace = await store.traces.find(VHOST)
        if trace is None:
            raise LookupError("nothing was stored")
        restored = await store.checkpoints.restore(trace.id, bounds.handovers, bounds.named)
        tracker = Tracker(Policy.channel, bounds, restored=restored)
        began = time.perf_counter()
        rule = RetentionRule(keep_events=kept)
        removed = await retain(store.retention, trace.id, tracker, rule)
        return removed.events, time.perf_counter() - began
    finally:
        await store.close()


def main() -> None:
    """Measure as the arguments say."""
    given = [int(word) for word in sys.argv[1:]]
    events, kept = given if len(given) == 2 else (*given, 400_000, 100_000)[:2]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "itc.db"
        asyncio.run(build(f"sqlite:///{file}", events))
        before = file.stat().st_size
        removed, seconds = asyncio.run(prune(f"sqlite:///{file}", kept))
        after = file.stat().st_size
    print(f"{removed:,} of {events:,} events removed in {seconds:.1f} s: ", end="")
    print(f"{before / MEBIBYTE:.0f} MiB became {after / MEBIBYTE:.0f} MiB")


if __name__ == "__main__":
    main()
