"""Kill the service with SIGKILL at random moments under load; then count what is wrong.

    python -m drills.kills [KILLS]

20 kills by default, on SQLite and then on PostgreSQL. `drills.judge` says what is wrong; all its
figures must be 0.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import signal
import sys
import tempfile
from pathlib import Path

from drills.judge import Report, judged, opened, oracle, settled
from drills.load import Load
from drills.service import Service
from tools.servers import Broker, PostgresServer, RabbitNode


async def drill(
    broker: Broker, database_url: str, kills: int, folder: Path, *, pause: float = 0.01
) -> Report:
    """Run the drill on an empty database; returns the verdict."""
    service = Service(broker, database_url, folder)
    with broker.fresh_vhost("kills") as vhost:
        async with oracle(broker, vhost) as records, service.tracing(vhost):
            load = Load(broker.amqp_url(vhost), pause)
            await load.start()
            for number in range(kills):
                await _kill(service, early=number % 5 == 4)
            await load.stop()
            await service.listening()
            async with opened(database_url) as store:
                await settled(store, records)
                code = await asyncio.to_thread(service.end, signal.SIGTERM)
                if code != 0:
                    raise RuntimeError(f"a graceful stop ended with {code}")
                return await judged(kills, store, records)


async def _kill(service: Service, *, early: bool) -> None:
    """Kill it at a random moment, every fifth time during its start, and start it again."""
    if not early:
        await service.listening()
    await asyncio.sleep(random.uniform(0.1, 1.5))
    await asyncio.to_thread(service.end, signal.SIGKILL)
    service.start()


async def main(kills: int) -> int:
    """Run it on both databases, on private servers; returns the number of errors."""
    wrong = 0
    given = Broker.from_environment(os.environ)
    with tempfile.TemporaryDirectory() as place, given or RabbitNode() as broker:
        folders = [Path(place, name) for name in ("sqlite", "postgres")]
        for folder in folders:
            folder.mkdir()
        with PostgresServer() as server, server.fresh_database() as url:
            for name, address, folder in (
                ("SQLite", f"sqlite:///{folders[0] / 'itc.db'}", folders[0]),
                ("PostgreSQL", url, folders[1]),
            ):
                report = await drill(broker, address, kills, folder)
                print(name, report, flush=True)
                wrong += report.wrong
    return wrong


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m drills.kills")
    parser.add_argument("kills", nargs="?", type=int, default=20)
    sys.exit(asyncio.run(main(parser.parse_args().kills)) > 0)
