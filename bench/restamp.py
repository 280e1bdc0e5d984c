"""The time that restamping takes: ``python -m bench.restamp [EVENTS [PARTICIPANTS]]``.

A store made by `bench.stores`, with a participant for each channel, is restamped by client, as the
service's process does it: new stamps put aside while a trace may run on, and then the swap, for
which it pauses. SQLite, without a broker.
"""

from __future__ import annotations

import asyncio
import resource
import sys
import tempfile
import time
from pathlib import Path

from app.interpreter import tune_interpreter
from app.restamp.replay import Replay
from app.store import Store
from app.stored.capture import ParticipantSettings
from app.traces.pipeline import PipelineSettings
from app.tracker import Policy
from bench.stores import VHOST, build
from model.jobs import Progress

EVENTS, PARTICIPANTS = 1_000_000, 64


def _ignore(progress: Progress) -> None:
    del progress


async def measure(events: int, participants: int) -> None:
    """Build a store, restamp it, and print how long each part took."""
    with tempfile.TemporaryDirectory(prefix="rabbitmq-itc-restamp-") as folder:
        file = Path(folder) / "itc.db"
        await build(f"sqlite:///{file}", events, participants)
        print(f"{events:,} events, {file.stat().st_size / 2**20:,.0f} MiB", flush=True)
        store = await Store.open(f"sqlite:///{file}")
        trace = await store.traces.find(VHOST)
        assert trace is not None
        work = Replay(
            store.restamps,
            trace.id,
            ParticipantSettings(Policy.client, ()),
            _ignore,
            PipelineSettings(),
        )
        for name, part in (
            ("stamped anew", work.catch_up),
            ("swapped", work.finish),
            ("tidied up", work.tidy),
        ):
            began = time.perf_counter()
            await part()
            seconds = time.perf_counter() - began
            print(f"{name} in {seconds:.1f} s, {events / seconds:,.0f} events/s", flush=True)
        log = file.with_name("itc.db-wal").stat().st_size
        size = file.stat().st_size + log
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
        print(f"then {size / 2**20:,.0f} MiB with its log; at most {memory:,.0f} MiB of memory")
        await store.close()


def main() -> None:
    """Measure as the arguments say."""
    given = [int(each) for each in sys.argv[1:]]
    events, participants = (*given, *(EVENTS, PARTICIPANTS)[len(given) :])
    tune_interpreter()
    asyncio.run(measure(events, participants))


if __name__ == "__main__":
    main()
