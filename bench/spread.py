"""What more processes bring: ``python -m bench.spread [COUNT [ROUNDS]]``.

The same backlogs of four virtual hosts, stored by one process and by two, in turn, on both stores.
The broker has its share of the same cores, so two processes cannot bring twice as much on two: what
each message costs the broker and the service in computing stands beside it. Below stands what a
second process brings to clients that do nothing but acknowledge, and where nothing is done but
computing.
"""

from __future__ import annotations

import asyncio
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec

from bench.backlog import fill
from tools.servers import PostgresServer, RabbitNode

COUNT = 25_000  # of each virtual host
ROUNDS = 5
VHOSTS = 4
PARTICIPANTS = 16
PROCESSES = {"one process": 0, "two processes": 2}
STORES = ("SQLite", "PostgreSQL")
ACKNOWLEDGED = ("acknowledged by one", "acknowledged by two")  # queues, also


class Drain(msgspec.Struct):
    """How fast it went, and what it took to compute."""

    rate: float  # messages a second
    broker: float  # µs a message
    service: float


def drained(
    broker: RabbitNode, vhosts: Sequence[str], queue: str, count: int, rest: list[str]
) -> Drain:
    """Drain a queue of each virtual host in a child process."""
    where = [broker.amqp_url("/"), broker.management_url, ",".join(vhosts), queue, str(count)]
    of_broker, of_service = _cpu_of(broker.pid), _cpu_of_children()
    child = subprocess.run(
        [sys.executable, "-m", "bench.drain", "spread", *where, *rest],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        timeout=600,
    )
    messages = count * len(vhosts)
    return Drain(
        rate=messages / float(child.stdout),
        broker=(_cpu_of(broker.pid) - of_broker) * 1e6 / messages,
        service=(_cpu_of_children() - of_service) * 1e6 / messages,
    )


def acknowledged(broker: RabbitNode, vhosts: Sequence[str], queue: str, count: int) -> float:
    """Messages a second that clients take together, one for each virtual host."""
    command = [sys.executable, "-m", "bench.drain", "ack"]
    clients = [
        subprocess.Popen(
            [*command, broker.amqp_url(vhost), broker.management_url, vhost, queue, str(count)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for vhost in vhosts
    ]
    return sum(count / float(client.communicate(timeout=600)[0]) for client in clients)


def _cpu_of(pid: int) -> float:
    """Seconds that a process has computed."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def one_round(
    broker: RabbitNode, server: PostgresServer, count: int
) -> tuple[dict[tuple[str, str], Drain], float]:
    """Fill and drain; return how it went by store and processes, and what only clients gain."""
    with ExitStack() as stack, tempfile.TemporaryDirectory() as folder:
        vhosts = [stack.enter_context(broker.fresh_vhost()) for _ in range(VHOSTS)]
        cases = [(store, how) for store in STORES for how in PROCESSES]
        for vhost in vhosts:
            queues = [*map(" ".join, cases), *ACKNOWLEDGED]
            asyncio.run(fill(broker, vhost, queues, PARTICIPANTS, count))
        seen = {}
        for store, how in cases:
            file = f"sqlite:///{Path(folder) / how}.db"
            url = file if store == "SQLite" else stack.enter_context(server.fresh_database())
            rest = [url, str(PROCESSES[how])]
            seen[store, how] = drained(broker, vhosts, f"{store} {how}", count, rest)
        by_one, by_two = (
            acknowledged(broker, vhosts[:clients], queue, count)
            for clients, queue in enumerate(ACKNOWLEDGED, 1)
        )
        return seen, by_two / by_one


COMPUTE = """
import time
begin, rounds = time.monotonic(), 0
while time.monotonic() - begin < 3:
    sum(range(10_000))
    rounds += 1
print(rounds)
"""


def computed(processes: int) -> int:
    """How many rounds of plain computing so many processes do together in some seconds."""
    command = [sys.executable, "-c", COMPUTE]
    children = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(processes)
    ]
    return sum(int(child.communicate()[0]) for child in children)


def main() -> None:
    """Print the table."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else COUNT
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else ROUNDS
    with RabbitNode() as broker, PostgresServer() as server:
        done = [one_round(broker, server, count) for _ in range(rounds)]
    seen = [drains for drains, _ in done]
    gained = statistics.median(gain for _, gain in done)
    ceiling = statistics.median(computed(2) / computed(1) for _ in range(rounds))
    sys.stdout.write(
        "| store | processes | messages/s | ratio | broker, µs a message | service, µs |\n"
        "|---|---|---|---|---|---|\n"
    )
    for store in STORES:
        for how in PROCESSES:
            drains = [each[store, how] for each in seen]
            rate = statistics.median(drain.rate for drain in drains)
            ratio = statistics.median(
                each[store, how].rate / each[store, "one process"].rate for each in seen
            )
            of_broker = statistics.median(drain.broker for drain in drains)
            of_service = statistics.median(drain.service for drain in drains)
            sys.stdout.write(
                f"| {store} | {how} | {rate:,.0f} | {ratio:.2f} "
                f"| {of_broker:.0f} | {of_service:.0f} |\n"
            )
    sys.stdout.write(f"| nothing but acknowledging | two processes | | {gained:.2f} | | |\n")
    sys.stdout.write(f"| nothing but computing | two processes | | {ceiling:.2f} | | |\n")


if __name__ == "__main__":
    main()
