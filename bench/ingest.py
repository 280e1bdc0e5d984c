"""The rate at which trace messages are taken in; ``python -m bench.ingest --help`` for its options.

The same backlog of real trace messages, in five queues, is drained by a client that only
acknowledges, by the whole service on SQLite and on PostgreSQL, by the service on SQLite without any
rule of links, and by RabbitMQ's tracing plugin, one after another, each in a process of its own, in
every round. Messages have an id, and the headers that were asked for (`bench.rules`).

``--looking`` compares the service on SQLite with itself while a process looks, again and again, for
what ties 50,000 other events together (`spark_jobs.looking`). A running service leaves a trace that
lags alone, so this is more than it ever does. A round has four drains, two with and two without it,
in the order of ABBA or BAAB.
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
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import NamedTuple

from app.tracker.links import Rules
from app.watch.looking import FRUGAL
from bench import plugin
from bench.applications import Application
from bench.backlog import Headers, fill
from bench.rules import KINDS
from bench.settlements import interval
from bench.stores import VHOST
from bench.stores import fill as build
from tools.servers import Broker, PostgresServer, RabbitNode

ROUNDS = 5
LOOKED_AT = 50_000
COUNT = 100_000
PARTICIPANTS = [4, 64, 1000]
ACK, SQLITE, POSTGRES = "acknowledge only", "service on SQLite", "service on PostgreSQL"
PLUGIN = f"{plugin.NAME}, to a file"
UNLINKED = "service on SQLite, without links"


class Drained(NamedTuple):
    """Messages a second; and µs of the drain's own processor time a message, where it is known."""

    rate: float
    processor: float | None = None


def drained(
    broker: Broker, vhost: str, queue: str, count: int, database: str | None, links: str
) -> Drained:
    """Drain a queue in a child process."""
    how = ["ack"] if database is None else ["service"]
    arguments = [broker.amqp_url(vhost), broker.management_url, vhost, queue, str(count)]
    child = subprocess.run(
        [
            *(sys.executable, "-m", "bench.drain", *how, *arguments),
            *([database, links] if database else []),
        ],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        timeout=600,
    )
    seconds, *used = map(float, child.stdout.split())
    return Drained(count / seconds, used[0] / count * 1e6 if used else None)


def one_round(
    broker: RabbitNode, server: PostgresServer, participants: int, count: int, headers: Headers
) -> dict[str, Drained]:
    """Fill and drain; return the rate by who drained."""
    with (
        broker.fresh_vhost() as vhost,
        tempfile.TemporaryDirectory() as folder,
        server.fresh_database() as postgres,
        plugin.suspended(broker, vhost) as log,
    ):
        databases = {
            ACK: None,
            SQLITE: f"sqlite:///{Path(folder) / 'itc.db'}",
            UNLINKED: f"sqlite:///{Path(folder) / 'unlinked.db'}",
            POSTGRES: postgres,
        }
        asyncio.run(fill(broker, vhost, list(databases), participants, count, headers))
        # First: it does not wait for minutes.
        seen = {PLUGIN: Drained(plugin.drained(broker, log, count))}
        return seen | {
            name: drained(broker, vhost, name, count, url, "off" if name == UNLINKED else "on")
            for name, url in databases.items()
        }


@contextmanager
def looking(url: str) -> Iterator[list[int]]:
    """A process that looks at a database beside the block, again and again; how often it has."""
    ended, looks = threading.Event(), [0]
    order = json.dumps({"database_url": url, "vhost": VHOST, "events": LOOKED_AT})

    def look() -> None:
        while not ended.is_set():
            command = [sys.executable, "-m", "spark_jobs.looking"]
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


def beside_looking(participants: int, count: int, rounds: int, headers: Headers) -> str:
    """The sentence on what a process that looks costs capture."""
    ratios, looked = [], 0
    with RabbitNode() as broker, tempfile.TemporaryDirectory() as folder:
        other = f"sqlite:///{Path(folder) / 'other.db'}"
        asyncio.run(build(other, Application("order-id", LOOKED_AT // 10).records(), Rules(())))
        for number in range(rounds):
            with broker.fresh_vhost() as vhost:
                turns = [bool(number % 2) ^ each for each in (True, False, False, True)]
                names = [f"turn {turn}" for turn in range(len(turns))]
                asyncio.run(fill(broker, vhost, names, participants, count, headers))
                rates = {True: 0.0, False: 0.0}
                for name, is_looking in zip(names, turns, strict=True):
                    url = f"sqlite:///{Path(folder) / f'{number} {name}.db'}"
                    with looking(other) if is_looking else nullcontext([0]) as looks:
                        rates[is_looking] += drained(broker, vhost, name, count, url, "on").rate
                    looked += looks[0]
            ratios.append(rates[True] / rates[False])
    least, most = interval(ratios)
    return (
        f"{participants} participants: while a process looks {statistics.median(ratios):.3f} "
        f"({least:.3f} to {most:.3f}; single rounds {min(ratios):.2f} to {max(ratios):.2f}) of the "
        f"rate without; it looked {looked} times to the end\n"
    )


def table(participants: int, count: int, rounds: int, headers: Headers) -> list[str]:
    """Return the table's rows for a number of participants."""
    with RabbitNode() as broker, PostgresServer() as server:
        seen = [one_round(broker, server, participants, count, headers) for _ in range(rounds)]
    rows = []
    for name in (ACK, SQLITE, UNLINKED, POSTGRES, PLUGIN):
        rate = statistics.median(each[name].rate for each in seen)
        ratios = [
            statistics.median(each[name].rate / each[other].rate for each in seen)
            for other in (ACK, PLUGIN, UNLINKED)
        ]
        used = [each[name].processor for each in seen]
        known = [one for one in used if one is not None]
        cells = [str(participants), name, f"{rate:,.0f}", *(f"{ratio:.2f}" for ratio in ratios)]
        cells.append(f"{statistics.median(known):.1f}" if known else "")
        rows.append(f"| {' | '.join(cells)} |")
    return rows


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int, nargs="?", default=COUNT)
    parser.add_argument("rounds", type=int, nargs="?", default=ROUNDS)
    parser.add_argument("--participants", type=int, nargs="+", default=PARTICIPANTS)
    parser.add_argument("--headers", choices=list(KINDS), default="no headers")
    parser.add_argument("--looking", action="store_true", help="only beside a process that looks")
    options = parser.parse_args()
    if options.looking:
        for participants in options.participants:
            asked = (participants, options.count, options.rounds, KINDS[options.headers])
            sys.stdout.write(beside_looking(*asked))
            sys.stdout.flush()
        return
    heads = (
        *("participants", "drained by", "messages/s"),
        *("/ acknowledging", "/ plugin", "/ without links", "processor, µs each"),
    )
    sys.stdout.write(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}\n")
    for participants in options.participants:
        rows = table(participants, options.count, options.rounds, KINDS[options.headers])
        sys.stdout.write("\n".join(rows) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
