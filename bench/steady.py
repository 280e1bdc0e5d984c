"""What capture costs beside applications at a steady rate: ``python -m bench.steady [RATE …]``.

Participants gossip (`bench.backlog`) at so many publishes a second, by default 250, 1,000 and
2,000, each of which is handed over, so there are twice as many events. The whole of capture keeps
up with them, on SQLite, in a process of its own; for some seconds its processor time for an event
is counted, and the broker's, µs. Where events come one by one each costs more than in a backlog.
"""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing

from bench.backlog import gossip
from bench.processes import cpu_of
from tools.servers import Broker, RabbitNode

RATES = (250.0, 1_000.0, 2_000.0)
PARTICIPANTS, TRACE = 16, "trace"
WARM_SECONDS, SECONDS = 4.0, 10.0


@asynccontextmanager
async def capturing(broker: Broker, vhost: str, folder: str) -> AsyncIterator[int]:
    """Let a process capture the queue `TRACE` into a folder beside the block; its id."""
    place = [broker.amqp_url(vhost), broker.management_url, vhost, TRACE, str(10**9)]
    command = [sys.executable, "-m", "bench.drain", "service", *place, f"sqlite:///{folder}/itc.db"]
    service = await asyncio.create_subprocess_exec(*command)
    try:
        yield service.pid
    finally:
        service.kill()
        await service.wait()


def stored(folder: str) -> int:
    """How many events are stored in the file in this folder; 0 before it is made."""
    try:
        with closing(sqlite3.connect(f"file:{folder}/itc.db?mode=ro", uri=True)) as connection:
            return int(connection.execute("SELECT events FROM traces").fetchone()[0])
    except (sqlite3.OperationalError, TypeError):
        return 0


async def beside(broker: RabbitNode, rate: float) -> tuple[float, float, float]:
    """Events a second, and the processor time of one: the service's and the broker's, µs."""

    def seen() -> tuple[int, float, float]:
        return stored(folder), cpu_of(service), cpu_of(broker.pid)

    with broker.fresh_vhost() as vhost, tempfile.TemporaryDirectory() as folder:
        async with (
            gossip(broker, vhost, [TRACE], PARTICIPANTS, rate=rate),
            capturing(broker, vhost, folder) as service,
        ):
            while not stored(folder):  # noqa: ASYNC110 - no event tells of it
                await asyncio.sleep(0.1)
            await asyncio.sleep(WARM_SECONDS)
            before = seen()
            await asyncio.sleep(SECONDS)
            after = seen()
    events, its, brokers = (there - here for here, there in zip(before, after, strict=True))
    return events / SECONDS, its / events * 1e6, brokers / events * 1e6


def main() -> None:
    """Print the table."""
    rates = [float(word) for word in sys.argv[1:]] or RATES
    sys.stdout.write("| events a second | service, µs an event | broker |\n|---|---|---|\n")
    with RabbitNode() as broker:
        for rate in rates:
            seen = asyncio.run(beside(broker, rate))
            sys.stdout.write("| {:,.0f} | {:.0f} | {:.0f} |\n".format(*seen))
            sys.stdout.flush()


if __name__ == "__main__":
    main()
