"""What making and sending spans costs, processor time of an event: ``python -m bench.spans``.

A store is filled with events, by default 40,000, and its spans are sent as the process beside the
service sends them, to a collector that takes everything at once.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
import tempfile
import time
from pathlib import Path

import httpx2

from app.collector.follower import SpanFollower
from app.collector.sender import Sender
from app.store import Store
from bench.stores import fill_timed, traffic
from model.sampling import span_shares
from model.times import HOUR, now

ADDRESS = {"url": "http://collector/v1/traces", "shown": "collector", "headers": {}}


async def followed(events: int, participants: int, rules: str) -> tuple[float, float]:
    """The processor time of an event, µs, and spans an event."""
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'itc.db'}"
        times = itertools.count(now() - HOUR, 500)
        await fill_timed(url, zip(times, traffic(events, participants), strict=False))
        store = await Store.open(url)
        sender = Sender(ADDRESS, httpx2.MockTransport(lambda _: httpx2.Response(200)))
        follower = SpanFollower(store.span_exports, sender, span_shares(rules))
        vhosts = [trace.vhost for trace in await store.traces.list()]
        await follower.begin(vhosts, 0)
        started = time.process_time()
        while await follower.look([]):
            pass
        took = time.process_time() - started
        [state] = await store.span_exports.states()
        await sender.close()
        await store.close()
    return 1e6 * took / events, state.sent / events


def main() -> None:
    """Print what an event takes, with all of its spans sent and with a hundredth."""
    events = int(sys.argv[1]) if len(sys.argv) > 1 else 40_000
    for participants, rules in itertools.product((64, 1_000), ("1", "0.01")):
        took, spans = asyncio.run(followed(events, participants, rules))
        sys.stdout.write(
            f"{participants:,} participants, share {rules}: {took:.0f} µs and {spans:.2f} spans an"
            " event\n"
        )


if __name__ == "__main__":
    main()
