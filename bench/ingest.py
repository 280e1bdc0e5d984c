"""The rate at which trace messages are taken in; ``python -m bench.ingest --help`` for its options.

The same backlog of real trace messages, in a queue for each, is drained by a client that only
acknowledges, by the whole service on SQLite and on PostgreSQL, message by message and in bundles,
by the service on SQLite without any rule of links, by another version in ``--beside``, which is a
built checkout, and by RabbitMQ's tracing plugin, one after another, each in a process of its own,
in every round. The plugin is first, and of the others each in its turn; all wait until the broker
rests, as what is left to it of the one before may halve a rate. Messages have an id, and the
headers that were asked for (`bench.backlog`).

``--looking`` lets applications work at a steady rate, which the service on SQLite keeps up with,
and compares windows of time in which a process looks, again and again, for what ties 50,000 other
events together (`spark_jobs.reports.look_process`) with windows without it, in the order of ABBA or
BAAB. Where a trace lags, no process looks.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import NamedTuple

from app.tracker.links import Rules
from app.watch.looking import FRUGAL
from bench import plugin
from bench.applications import Application
from bench.backlog import KINDS, Headers, fill, gossip
from bench.drain import drain
from bench.processes import cpu_of
from bench.steady import TRACE, capturing, stored
from bench.stores import VHOST
from bench.stores import fill as fill_store
from tools.plugin import NAME, build
from tools.servers import PostgresServer, RabbitNode

ROUNDS = 5
RESTING = 0.05  # s of processor time in a second
LOOKED_AT = 50_000
STEADY, WINDOW_SECONDS = 1_000, 60.0  # publishes a second
COUNT = 100_000
PARTICIPANTS = [4, 64, 1000]
SQLITE, POSTGRES = "SQLite", "PostgreSQL"
TRACING = f"{plugin.NAME}, to a file"
# The broker's plugin makes bundles for these queues, and tells nobody of settlements.
_BUNDLING = (
    "rabbit_itc_interceptor:unregister(), application:set_env(rabbitmq_itc, trace_queues, {})."
)


class Reader(NamedTuple):
    """Who drains a queue of this name, into which store, and by which version of the service."""

    name: str
    store: str | None = None
    links: str = "on"
    is_bundled: bool = False
    checkout: Path | None = None


ACK, UNLINKED = (
    Reader("acknowledge only"),
    Reader("service on SQLite, without links", SQLITE, "off"),
)
STORES = (SQLITE, POSTGRES)
READERS = (
    ACK,
    UNLINKED,
    *(Reader(f"service on {store}", store) for store in STORES),
    *(Reader(f"service on {store}, in bundles", store, is_bundled=True) for store in STORES),
)


class Drained(NamedTuple):
    """Messages a second; and µs of processor time a message: the drain's own and the broker's."""

    rate: float
    processor: float | None = None  # where it is known; the plugin's is the broker's
    broker: float = 0.0


def rest(broker: RabbitNode) -> float:
    """Wait until the broker has nothing left to do; the processor time that it has had, in s."""
    used = -1.0
    while (now := cpu_of(broker.pid)) - used > RESTING:
        used = now
        time.sleep(1)
    return now


def one_round(
    broker: RabbitNode,
    server: PostgresServer,
    readers: Sequence[Reader],
    participants: int,
    count: int,
    headers: Headers,
    first: int,
) -> dict[str, Drained]:
    """Fill and drain, from the ``first`` reader on; return the rate by who drained."""
    with ExitStack() as stack:
        vhost = stack.enter_context(broker.fresh_vhost())
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        log = stack.enter_context(plugin.suspended(broker, vhost))
        bundled = [reader.name for reader in readers if reader.is_bundled]
        single = [reader.name for reader in readers if not reader.is_bundled]
        asyncio.run(fill(broker, vhost, single, participants, count, headers, bundled=bundled))
        before = rest(broker)
        # The plugin first: it does not wait for minutes.
        seen = {TRACING: Drained(plugin.drained(broker, log, count))}
        seen[TRACING] = seen[TRACING]._replace(broker=cpu_of(broker.pid) - before)
        for reader in (*readers[first:], *readers[:first]):
            service = []
            if reader.store == SQLITE:
                service = [f"sqlite:///{folder}/{len(seen)}.db", reader.links]
            elif reader.store == POSTGRES:
                service = [stack.enter_context(server.fresh_database()), reader.links]
            before = rest(broker)
            took = drain(broker, vhost, reader.name, count, *service, checkout=reader.checkout)
            brokers, used = cpu_of(broker.pid) - before, took.processor
            seen[reader.name] = Drained(count / took.seconds, used and used / count * 1e6, brokers)
        return {name: one._replace(broker=one.broker / count * 1e6) for name, one in seen.items()}


@contextmanager
def looking(url: str) -> Iterator[list[int]]:
    """A process that looks at a database beside the block, again and again; how often it has."""
    ended, looks = threading.Event(), [0]
    order = json.dumps({"database_url": url, "vhost": VHOST, "events": LOOKED_AT})

    def look() -> None:
        while not ended.is_set():
            command = [sys.executable, "-m", "spark_jobs.reports.look_process"]
            with subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=os.environ | FRUGAL,
            ) as child:
                running.append(child)
                looks[0] += '"done"' in child.communicate(order)[0]

    running: list[subprocess.Popen[str]] = []
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(look)
        try:
            yield looks
        finally:
            ended.set()
            for child in running[-1:]:
                child.kill()
            done.result()


class Window(NamedTuple):
    """Events stored, their capture's processor time in s, and the most that waited."""

    events: int
    processor: float
    waited: int


async def beside_looking(participants: int, rounds: int, headers: Headers) -> str:
    """The sentence on what a process that looks costs capture."""
    seen: dict[bool, list[Window]] = {True: [], False: []}
    looked = 0
    with RabbitNode() as broker, broker.fresh_vhost() as vhost, tempfile.TemporaryDirectory() as at:
        other = f"sqlite:///{at}/other.db"
        await fill_store(other, Application("order-id", LOOKED_AT // 10).records(), Rules(()))
        async with (
            gossip(broker, vhost, [TRACE], participants, headers, rate=STEADY) as waiting,
            capturing(broker, vhost, at) as service,
        ):
            while stored(at) < STEADY or await waiting() > STEADY:  # noqa: ASYNC110 - no event
                await asyncio.sleep(0.1)
            for number in range(rounds):
                for turn in (True, False, False, True):
                    is_looking = bool(number % 2) ^ turn
                    with looking(other) if is_looking else nullcontext([0]) as looks:
                        seen[is_looking].append(await _window(at, service, waiting))
                    looked += looks[0]
    events, processor = (
        [sum(each[column] for each in seen[is_looking]) for is_looking in (True, False)]
        for column in (0, 1)
    )
    most = [max(each.waited for each in seen[is_looking]) for is_looking in (True, False)]
    seconds = len(seen[False]) * WINDOW_SECONDS
    return (
        f"{participants} participants, {events[1] / seconds:,.0f} events/s: while a process looks "
        f"{events[0] / events[1]:.3f} of the rate without, at {processor[0] / processor[1]:.3f} of "
        f"the processor time; at most {most[0]:,} waited, {most[1]:,} without; it looked {looked} "
        "times to the end\n"
    )


async def _window(at: str, pid: int, waiting: Callable[[], Awaitable[int]]) -> Window:
    ends, waited = time.monotonic() + WINDOW_SECONDS, 0
    events, used = stored(at), cpu_of(pid)
    while time.monotonic() < ends:
        waited = max(waited, await waiting())
        await asyncio.sleep(0.1)
    return Window(stored(at) - events, cpu_of(pid) - used, waited)


def table(
    readers: Sequence[Reader], participants: int, count: int, rounds: int, headers: Headers
) -> list[str]:
    """Return the table's rows for a number of participants."""
    with tempfile.TemporaryDirectory() as plugins, PostgresServer() as server:
        build(Path(plugins))
        with RabbitNode(plugins=(NAME,), plugins_folder=Path(plugins)) as broker:
            names = [reader.name for reader in readers if reader.is_bundled]
            broker.ctl("eval", _BUNDLING.format(json.dumps(names)))
            seen = [
                # The last finds a broker with less to keep: a round begins far from the one before.
                one_round(
                    *(broker, server, readers, participants, count, headers),
                    first=number * len(readers) // rounds,
                )
                for number in range(rounds)
            ]
    rows = []
    for name in (*(reader.name for reader in readers), TRACING):
        rate = statistics.median(each[name].rate for each in seen)
        ratios = [
            statistics.median(each[name].rate / each[other].rate for each in seen)
            for other in (ACK.name, TRACING, UNLINKED.name)
        ]
        used = [each[name].processor for each in seen]
        known = [one for one in used if one is not None]
        cells = [str(participants), name, f"{rate:,.0f}", *(f"{ratio:.2f}" for ratio in ratios)]
        cells.append(f"{statistics.median(known):.1f}" if known else "")
        cells.append(f"{statistics.median(each[name].broker for each in seen):.1f}")
        rows.append(f"| {' | '.join(cells)} |")
    return rows


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int, nargs="?", default=COUNT)
    parser.add_argument("rounds", type=int, nargs="?", default=ROUNDS)
    parser.add_argument("--participants", type=int, nargs="+", default=PARTICIPANTS)
    parser.add_argument("--headers", choices=list(KINDS), default="no headers")
    parser.add_argument("--beside", type=Path, help="a built checkout of another version")
    parser.add_argument("--looking", action="store_true", help="only beside a process that looks")
    options = parser.parse_args()
    if options.looking:
        for participants in options.participants:
            asked = (participants, options.rounds, KINDS[options.headers])
            sys.stdout.write(asyncio.run(beside_looking(*asked)))
            sys.stdout.flush()
        return
    heads = (
        *("participants", "drained by", "messages/s"),
        *("/ acknowledging", "/ plugin", "/ without links", "processor, µs each", "the broker's"),
    )
    sys.stdout.write(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}\n")
    readers = list(READERS)
    if options.beside is not None:
        names = {store: f"{options.beside.name} on {store}" for store in STORES}
        readers += [Reader(names[store], store, checkout=options.beside) for store in STORES]
    for participants in options.participants:
        rows = table(readers, participants, options.count, options.rounds, KINDS[options.headers])
        sys.stdout.write("\n".join(rows) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
