"""The rate at which trace messages are taken in; ``python -m bench.ingest --help`` for its options.

The same backlog of real trace messages, in five queues, is drained by a client that only
acknowledges, by the whole service on SQLite and on PostgreSQL, by the service on SQLite without any
rule of links, and by RabbitMQ's tracing plugin, one after another, each in a process of its own, in
every round. Messages have an id, and the headers that were asked for (`bench.rules`).
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from bench import plugin
from bench.backlog import Headers, fill
from bench.rules import KINDS
from tools.servers import Broker, PostgresServer, RabbitNode

ROUNDS = 5
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
    options = parser.parse_args()
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
