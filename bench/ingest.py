"""How fast the service takes trace messages in: ``python -m bench.ingest [COUNT [ROUNDS]]``.

The same backlog of real trace messages, in four trace queues, is drained by a client that only
acknowledges, by the whole service on SQLite and on PostgreSQL, and by RabbitMQ's tracing plugin,
one after another, each in a process of its own, in every round.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from bench import plugin
from bench.backlog import fill
from tools.servers import Broker, PostgresServer, RabbitNode

ROUNDS = 5
COUNT = 100_000
PARTICIPANTS = (4, 64)
ACK, SQLITE, POSTGRES = "acknowledge only", "service on SQLite", "service on PostgreSQL"
PLUGIN = f"{plugin.NAME}, to a file"


def drained(broker: Broker, vhost: str, queue: str, count: int, database: str | None) -> float:
    """Drain a queue in a child process; return the messages a second."""
    how = ["ack"] if database is None else ["service"]
    arguments = [broker.amqp_url(vhost), broker.management_url, vhost, queue, str(count)]
    child = subprocess.run(
        [sys.executable, "-m", "bench.drain", *how, *arguments, *([database] if database else [])],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        timeout=600,
    )
    return count / float(child.stdout.split()[0])


def one_round(
    broker: RabbitNode, server: PostgresServer, participants: int, count: int
) -> dict[str, float]:
    """Fill and drain; return messages a second by who drained."""
    with (
        broker.fresh_vhost() as vhost,
        tempfile.TemporaryDirectory() as folder,
        server.fresh_database() as postgres,
        plugin.suspended(broker, vhost) as log,
    ):
        databases = {ACK: None, SQLITE: f"sqlite:///{Path(folder) / 'itc.db'}", POSTGRES: postgres}
        asyncio.run(fill(broker, vhost, list(databases), participants, count))
        seen = {PLUGIN: plugin.drained(broker, log, count)}  # first: it does not wait for minutes
        return seen | {
            name: drained(broker, vhost, name, count, url) for name, url in databases.items()
        }


def table(participants: int, count: int, rounds: int) -> list[str]:
    """Return the table's rows for a number of participants."""
    with RabbitNode() as broker, PostgresServer() as server:
        seen = [one_round(broker, server, participants, count) for _ in range(rounds)]
    return [
        f"| {participants} | {name} | {statistics.median(each[name] for each in seen):,.0f} "
        f"| {statistics.median(each[name] / each[ACK] for each in seen):.2f} |"
        for name in (ACK, SQLITE, POSTGRES, PLUGIN)
    ]


def main() -> None:
    """Print the table."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else COUNT
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else ROUNDS
    sys.stdout.write("| participants | drained by | messages/s | ratio |\n|---|---|---|---|\n")
    for participants in PARTICIPANTS:
        sys.stdout.write("\n".join(table(participants, count, rounds)) + "\n")


if __name__ == "__main__":
    main()
