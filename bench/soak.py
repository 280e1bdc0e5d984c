"""Steady traffic for a long time: does memory stay flat, the lag bounded, the store complete?

    python -m bench.soak [SECONDS]        600 by default

Prints resident memory and lag as they go, and at the end the slope of memory after the first
quarter, which is warm-up. The judge of completeness is that of `bench.kills`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import statistics
import sys
import tempfile
from pathlib import Path

import httpx

from app.store import Store
from bench.kills import Load, Service, judged, oracle, settled, stored_events
from tools.servers import Broker, RabbitNode

LOOK_SECONDS = 5.0
# Three publishers; each message goes to two queues and each delivery is answered: five events.
PAUSE_SECONDS = 0.01
PAGE = os.sysconf("SC_PAGE_SIZE")


async def main(seconds: float) -> int:
    """Run it on private servers; gives 0 where all is right."""
    given = Broker.from_environment(os.environ)
    with tempfile.TemporaryDirectory() as place, given or RabbitNode() as broker:
        return await soak(broker, Path(place), seconds)


async def soak(broker: Broker, folder: Path, seconds: float) -> int:
    """Run it in a folder."""
    url = f"sqlite:///{folder / 'itc.db'}"
    service = Service(broker, url, folder)
    with broker.fresh_vhost("soak") as vhost:
        async with oracle(broker, vhost) as records:
            service.start()
            try:
                await service.listening()
                await service.trace(vhost)
                load = Load(broker.amqp_url(vhost), PAUSE_SECONDS)
                await load.start()
                curve = await _watched(service, seconds)
                await load.stop()
                store = await Store.open(url)
                try:
                    await settled(store, records)
                    report = judged(0, await stored_events(store), records)
                finally:
                    await store.close()
            finally:
                service.end(signal.SIGTERM)
    warm = curve[len(curve) // 4 :]
    slope = statistics.linear_regression(*zip(*warm, strict=True)).slope
    print(f"memory after warm-up: {slope * 3600:+.1f} MiB an hour")
    print(f"{report.events / seconds:.0f} events/s; {report}")
    return report.lost + report.doubled + report.wrong_stamps


async def _watched(service: Service, seconds: float) -> list[tuple[float, float]]:
    """Print and collect (seconds, MiB)."""
    curve = []
    loop = asyncio.get_running_loop()
    begin = loop.time()
    async with httpx.AsyncClient(trust_env=False, timeout=30) as client:
        while (now := loop.time() - begin) < seconds:
            curve.append((now, _resident(service)))
            traces = (await client.get(f"http://127.0.0.1:{service.port}/itc_db/traces")).json()
            lag = traces[0].get("lag") if isinstance(traces, list) and traces else None
            print(f"{now:6.0f} s  {curve[-1][1]:7.1f} MiB  lag {lag}", flush=True)
            await asyncio.sleep(LOOK_SECONDS)
    return curve


def _resident(service: Service) -> float:
    """MiB of memory."""
    pid = service.process.pid if service.process else 0
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE / 2**20


if __name__ == "__main__":
    sys.exit(asyncio.run(main(float(sys.argv[1]) if len(sys.argv) > 1 else 600)) > 0)
