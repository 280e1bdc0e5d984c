"""Steady traffic for a long time: does memory stay flat, the lag bounded, the store complete?

    python -m drills.soak [SECONDS] [--rate MESSAGES]    600 s of 1,000 messages a second by default

Prints resident memory and lag on the way, and at the end the slope of memory after warm-up. Warm-up
is over when everything with a bound has been full once: 20,000 remembered deliveries; the 64 MiB
of pages that SQLite's writer keeps, at about 250 bytes per event; and the buffers for
batches of 8,000. To fill those, the service is suspended for some seconds now and then and has to
catch up. `drills.judge` judges completeness.

At the end the service's own audit has to say that the broker counted what was traced. Then one
message is taken out of the trace queue by hand, and the audit has to find that.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import aio_pika
import httpx2

from app.broker.consumer import TRACE_QUEUE
from drills.judge import judged, opened, oracle, settled
from drills.load import PUBLISHERS, Load
from drills.service import Service
from tools.servers import Broker, RabbitNode

LOOK_SECONDS = 5.0
WARM_EVENTS = 300_000
STOP_EVERY = 30.0  # seconds, while it warms up
STOP_SECONDS = 8.0
AUDIT_SECONDS = 60.0
TAKEN_FROM = 20  # trace messages that wait when one of them is taken out
PUBLISHED_OF_ONE = 3  # a message and the answers to its two deliveries
PAGE = os.sysconf("SC_PAGE_SIZE")


class Audit(NamedTuple):
    """The result of the service's own audit, and how far that is from the truth."""

    line: str
    wrong: int


class Look(NamedTuple):
    """One look at the service: seconds since the start, MiB resident, events, messages queued."""

    at: float
    memory: float
    events: int
    lag: int


async def main(seconds: float, rate: float) -> int:
    """Run it on private servers; returns 0 if all is well."""
    given = Broker.from_environment(os.environ)
    with tempfile.TemporaryDirectory() as place, given or RabbitNode() as broker:
        return await soak(broker, Path(place), seconds, rate)


async def soak(broker: Broker, folder: Path, seconds: float, rate: float) -> int:
    """Run it in a folder; returns how many events are lost, doubled or wrong."""
    url = f"sqlite:///{folder / 'itc.db'}"
    service = Service(broker, url, folder)
    with broker.fresh_vhost("soak") as vhost:
        async with oracle(broker, vhost) as records, service.tracing(vhost):
            load = Load(broker.amqp_url(vhost), PUBLISHERS * PUBLISHED_OF_ONE / rate)
            await load.start()
            curve = await _watched(service, seconds)
            await load.stop()
            whole = await audited(service, missing=0)
            async with opened(url) as store:
                await settled(store, records)
                report = await judged(0, store, records)
            await take_one_out(service, broker, vhost)
            short = await audited(service, missing=1)
    print(*summary(curve), report, whole.line, f"one taken out: {short.line}", sep="\n")
    return report.wrong + whole.wrong + short.wrong


async def audited(service: Service, missing: int) -> Audit:
    """The service's own audit, as soon as it is exact; ``missing`` is what it has to say."""
    began = time.monotonic()
    found = await _exact(service, missing)
    line = f"audit after {time.monotonic() - began:.0f} s: {found['sentence']}"
    return Audit(line, abs(found["missing"] - missing))


async def take_one_out(service: Service, broker: Broker, vhost: str) -> None:
    """Take a message out of the trace queue while the service is away; it runs afterwards."""
    await asyncio.to_thread(service.end, signal.SIGTERM)
    async with await aio_pika.connect(broker.amqp_url(vhost)) as connection:
        channel = await connection.channel()
        for number in range(TAKEN_FROM):
            body = aio_pika.Message(b"%d" % number)
            await channel.default_exchange.publish(body, "nowhere", mandatory=False)
    await asyncio.to_thread(_take, broker, vhost)
    service.start()
    await service.listening()


def _take(broker: Broker, vhost: str) -> None:
    """Take two messages out of the trace queue: the first is the sentinel."""
    wanted = {"count": 2, "ackmode": "ack_requeue_false", "encoding": "auto"}
    while not broker.api("POST", "queues", vhost, TRACE_QUEUE, "get", json=wanted):
        time.sleep(0.2)  # until the service has let go of them


async def _exact(service: Service, missing: int) -> dict[str, Any]:
    """The audit as soon as it is exact and says that, or as it is when that takes too long."""
    deadline = time.monotonic() + AUDIT_SECONDS
    while True:
        (trace,) = await service.get("traces")
        audit: dict[str, Any] | None = trace["audit"]
        if audit and time.monotonic() > deadline:
            return audit
        if audit and audit["as_of"] == audit["read_at"] and audit["missing"] == missing:
            return audit
        await asyncio.sleep(1)


def summary(curve: list[Look]) -> list[str]:
    """A report on the curve, in lines."""
    warm = [look for look in curve if look.events >= WARM_EVENTS]
    lines = [f"{curve[-1].events / curve[-1].at:.0f} events/s"]
    if len(warm) > 1:
        slope = statistics.linear_regression([e.at for e in warm], [e.memory for e in warm]).slope
        lines.append(
            f"memory after warm-up, from {warm[0].at:.0f} s on: {slope * 3600:+.1f} MiB an hour, "
            f"{min(e.memory for e in warm):.1f} to {max(e.memory for e in warm):.1f} MiB"
        )
    else:
        lines.append(f"no slope: warm-up takes {WARM_EVENTS} events")
    lags = [look.lag for look in curve]
    middle = f"{statistics.median(lags):.0f}"
    lines.append(
        f"lag: {middle} messages at the median, {max(lags)} at most, {lags[-1]} at the end"
    )
    return lines


async def _watched(service: Service, seconds: float) -> list[Look]:
    """Print and collect looks at the service."""
    curve: list[Look] = []
    loop = asyncio.get_running_loop()
    begin = loop.time()
    next_stop = begin + STOP_EVERY
    async with httpx2.AsyncClient(trust_env=False, timeout=60) as client:
        while not curve or curve[-1].at < seconds:
            await asyncio.sleep(LOOK_SECONDS)
            if (not curve or curve[-1].events < WARM_EVENTS) and loop.time() >= next_stop:
                await _stopped(service)
                next_stop = loop.time() + STOP_EVERY
            (trace,) = (await client.get(f"http://127.0.0.1:{service.port}/itc_db/traces")).json()
            look = Look(loop.time() - begin, _resident(service), trace["events"], trace["lag"] or 0)
            print(
                f"{look.at:6.0f} s  {look.memory:7.1f} MiB  {look.events:9} events  lag {look.lag}"
            )
            sys.stdout.flush()
            curve.append(look)
    return curve


async def _stopped(service: Service) -> None:
    """Let a backlog build up: suspend the service for a while, then resume it."""
    service.process.signal(signal.SIGSTOP)
    try:
        await asyncio.sleep(STOP_SECONDS)
    finally:
        service.process.signal(signal.SIGCONT)


def _resident(service: Service) -> float:
    """MiB of memory."""
    resident = Path(f"/proc/{service.process.pid}/statm").read_text().split()[1]
    return int(resident) * PAGE / 2**20


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m drills.soak")
    parser.add_argument("seconds", nargs="?", type=float, default=600.0)
    parser.add_argument("--rate", type=float, default=1_000.0, help="messages published a second")
    given = parser.parse_args()
    sys.exit(asyncio.run(main(given.seconds, given.rate)) > 0)
