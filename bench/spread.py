"""What more processes bring: ``python -m bench.spread [COUNT [ROUNDS]]``.

The same backlogs of four virtual hosts, stored by one process and by two, in turn, on both stores.
The broker has its share of the same cores, so two processes cannot bring twice as much on two.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from bench.backlog import fill
from tools.servers import Broker, PostgresServer, RabbitNode

COUNT = 25_000  # of each virtual host
ROUNDS = 5
VHOSTS = 4
PARTICIPANTS = 16
PROCESSES = {"one process": 0, "two processes": 2}
STORES = ("SQLite", "PostgreSQL")


def drained(
    broker: Broker, vhosts: Sequence[str], queue: str, count: int, rest: list[str]
) -> float:
    """Drain a queue of each virtual host in a child process; return the messages a second."""
    where = [broker.amqp_url("/"), broker.management_url, ",".join(vhosts), queue, str(count)]
    child = subprocess.run(
        [sys.executable, "-m", "bench.drain", "spread", *where, *rest],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        timeout=600,
    )
    return count * len(vhosts) / float(child.stdout)


def one_round(broker: Broker, server: PostgresServer, count: int) -> dict[tuple[str, str], float]:
    """Fill and drain; return messages a second by store and processes."""
    with ExitStack() as stack, tempfile.TemporaryDirectory() as folder:
        vhosts = [stack.enter_context(broker.fresh_vhost()) for _ in range(VHOSTS)]
        cases = [(store, how) for store in STORES for how in PROCESSES]
        for vhost in vhosts:
            queues = [" ".join(case) for case in cases]
            asyncio.run(fill(broker, vhost, queues, PARTICIPANTS, count))
        seen = {}
        for store, how in cases:
            file = f"sqlite:///{Path(folder) / how}.db"
            url = file if store == "SQLite" else stack.enter_context(server.fresh_database())
            rest = [url, str(PROCESSES[how])]
            seen[store, how] = drained(broker, vhosts, f"{store} {how}", count, rest)
        return seen


def main() -> None:
    """Print the table."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else COUNT
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else ROUNDS
    with RabbitNode() as broker, PostgresServer() as server:
        seen = [one_round(broker, server, count) for _ in range(rounds)]
    sys.stdout.write("| store | processes | messages/s | ratio |\n|---|---|---|---|\n")
    for store in STORES:
        for how in PROCESSES:
            rate = statistics.median(each[store, how] for each in seen)
            ratio = statistics.median(
                each[store, how] / each[store, "one process"] for each in seen
            )
            sys.stdout.write(f"| {store} | {how} | {rate:,.0f} | {ratio:.2f} |\n")


if __name__ == "__main__":
    main()
