"""Drains one trace queue in a process of its own and prints the seconds it took.

    python -m bench.drain ack AMQP_URL MANAGEMENT_URL VHOST QUEUE COUNT
    python -m bench.drain service AMQP_URL MANAGEMENT_URL VHOST QUEUE COUNT DATABASE_URL \
        [LINKS [BODIES]]

``ack`` is the least a client can do: aio-pika's own consumer, acknowledging every 500 at once.
``service`` is the whole of capture: parse, match, stamp, commit, acknowledge; behind the seconds
it prints those of processor time. LINKS and BODIES (``on``, ``off``) say whether the built-in rules
are on, and whether bodies are taken.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import aio_pika
import uvloop
from aio_pika.abc import AbstractIncomingMessage

from app.broker.announcements import Announcements
from app.broker.consumer import Firehose
from app.broker.management import ManagementApi
from app.broker.source import TraceSource
from app.broker.trace_queue import QueueBounds
from app.interpreter import tune_interpreter
from app.secret_url import SecretUrl
from app.store import Store, migrate
from app.traces.pipeline import PipelineSettings
from app.traces.registry import TraceRegistry
from app.traces.runs.feed import Feed
from app.traces.runs.introductions import Introductions
from app.tracker import Policy
from app.tracker.links import BUILT_IN
from tools.servers import Broker

PREFETCH = PipelineSettings().prefetch
ACK_EVERY = 500


class Spent(NamedTuple):
    """The seconds that draining took, and those of its own processor time, where it is known."""

    seconds: float
    processor: float | None = None


def drain(
    broker: Broker, vhost: str, queue: str, count: int, *service: str, checkout: Path | None = None
) -> Spent:
    """Drain a queue in a child process: as the ``service``'s arguments say, or acknowledging.

    The process is of the version in a ``checkout``, which is built, or of this one.
    """
    how = "service" if service else "ack"
    place = (broker.amqp_url(vhost), broker.management_url, vhost, queue, str(count))
    python = sys.executable if checkout is None else str(checkout / ".venv" / "bin" / "python")
    command = [python, "-m", "bench.drain", how, *place, *service]
    child = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, timeout=600, cwd=checkout
    )
    return Spent(*map(float, child.stdout.split()))


async def acknowledge(amqp_url: str, name: str, count: int) -> float:
    """Consume and acknowledge ``count`` messages with aio-pika, and nothing else."""
    async with await aio_pika.connect(amqp_url) as connection:
        channel = await connection.channel()
        await channel.set_qos(prefetch_count=PREFETCH)
        queue = await channel.declare_queue(name, passive=True)
        done = asyncio.Event()
        seen = 0

        async def take(message: AbstractIncomingMessage) -> None:
            nonlocal seen
            seen += 1
            is_last = seen == count  # others are counted while this one is acknowledged
            if seen % ACK_EVERY == 0 or is_last:
                await message.ack(multiple=True)
            if is_last:
                done.set()

        begin = time.perf_counter()
        await queue.consume(take)
        await done.wait()
        return time.perf_counter() - begin


async def capture(
    amqp_url: str,
    management_url: str,
    vhost: str,
    queue: str,
    count: int,
    database_url: str,
    links: str = "on",
    bodies: str = "on",
) -> tuple[float, float]:
    """Run a trace until ``count`` events are stored; a fresh database gives them ids from 1.

    :returns: seconds, and those of this process's processor time.
    """
    await migrate(database_url)
    store = await Store.open(database_url)
    account = SecretUrl(amqp_url)
    management = ManagementApi(management_url, account.user or "", account.password or "")
    bounds = QueueBounds(1 << 40, (1 << 31) - 1)
    firehose = Firehose(amqp_url, bounds=bounds, queue=queue)
    introductions = Introductions(store.connections, Announcements(amqp_url, management, queue))
    source = TraceSource(firehose, management)
    settings = PipelineSettings(link_rules=BUILT_IN if links == "on" else ())
    registry = TraceRegistry(store, source, settings, introductions=introductions)
    await registry.start(vhost, Policy.channel, bodies=bodies == "on")
    took = await _paced(registry.feed, count)
    await registry.shutdown(deadline=10)
    await management.close()
    await store.close()
    return took


async def _paced(feed: Feed, total: int) -> tuple[float, float]:
    """Seconds for all events at the pace of those after the first; processor time too.

    The first one includes what only the start of a run costs; it counts where there is no other.
    """
    begin, used = time.perf_counter(), time.process_time()
    if (first := await feed.beyond(0)) < total:
        begin, used = time.perf_counter(), time.process_time()
        await feed.beyond(total - 1)
    share = total / (total - first) if first < total else 1
    return (time.perf_counter() - begin) * share, (time.process_time() - used) * share


def main() -> None:
    """Drain as the arguments say."""
    said: list[float]
    how, amqp_url, management_url, vhost, queue, count, *database = sys.argv[1:]
    if how == "ack":
        said = [uvloop.run(acknowledge(amqp_url, queue, int(count)))]
    else:
        tune_interpreter()
        said = [*uvloop.run(capture(amqp_url, management_url, vhost, queue, int(count), *database))]
    sys.stdout.write(f"{' '.join(map(str, said))}\n")


if __name__ == "__main__":
    main()
