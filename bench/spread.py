"""The gain of more processes: ``python -m bench.spread [COUNT [ROUNDS]]``.

The same backlogs of four virtual hosts, stored by one process and by two, in turn, on both stores:
once from a RabbitMQ, and once played (`bench.player`). The RabbitMQ uses the same cores, and the
table shows its time per message beside the service's (including the service's start); so on two
cores two processes cannot be twice as fast. When played, the service has the cores to itself, as if
the broker were on another machine; a PostgreSQL still takes its share. The last rows show what a
second process gains for RabbitMQ clients that only acknowledge, and for plain computing.
"""

from __future__ import annotations

import asyncio
import resource
import statistics
import subprocess
import sys
import tempfile
from asyncio.subprocess import PIPE
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TypeAlias

import msgspec

from bench.backlog import fill
from bench.drain import cpu_of
from bench.player import playing, recorded
from tools.servers import PostgresServer, RabbitNode

COUNT = 25_000  # of each virtual host
ROUNDS = 5
VHOSTS = 4
PARTICIPANTS = 16
PROCESSES = {"one process": 0, "two processes": 2}
BROKERS = RABBIT, PLAYED = ("RabbitMQ", "played")
STORES = SQLITE, _ = ("SQLite", "PostgreSQL")
RECORDED = "recorded"  # queues, also
ACKNOWLEDGED = ("acknowledged by one", "acknowledged by two")
PATIENCE_SECONDS = 600

Case: TypeAlias = tuple[str, str, str]  # broker, store, processes
CASES: list[Case] = [(b, store, how) for b in BROKERS for store in STORES for how in PROCESSES]


class Drain(msgspec.Struct):
    """The rate at which messages were taken, and the processor time it took."""

    rate: float  # messages a second
    broker: float  # µs a message
    service: float


async def drained(
    broker: RabbitNode,
    amqp_url: str,
    vhosts: Sequence[str],
    queue: str,
    count: int,
    rest: list[str],
) -> Drain:
    """Drain a queue of each virtual host in a child process."""
    where = [amqp_url, broker.management_url, ",".join(vhosts), queue, str(count)]
    command = [sys.executable, "-m", "bench.drain", "spread", *where, *rest]
    of_broker, of_service = cpu_of(broker.pid), _cpu_of_children()
    child = await asyncio.create_subprocess_exec(*command, stdout=PIPE)
    out, _ = await asyncio.wait_for(child.communicate(), PATIENCE_SECONDS)
    if child.returncode:
        raise subprocess.CalledProcessError(child.returncode, command)
    messages = count * len(vhosts)
    return Drain(
        rate=messages / float(out),
        broker=(cpu_of(broker.pid) - of_broker) * 1e6 / messages,
        service=(_cpu_of_children() - of_service) * 1e6 / messages,
    )


def acknowledged(broker: RabbitNode, vhosts: Sequence[str], queue: str, count: int) -> float:
    """Messages per second that clients take together, one for each virtual host."""
    command = [sys.executable, "-m", "bench.drain", "ack"]
    clients = [
        subprocess.Popen(
            [*command, broker.amqp_url(vhost), broker.management_url, vhost, queue, str(count)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for vhost in vhosts
    ]
    return sum(count / float(client.communicate(timeout=PATIENCE_SECONDS)[0]) for client in clients)


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


async def one_round(
    broker: RabbitNode, server: PostgresServer, count: int
) -> tuple[dict[Case, Drain], float]:
    """Fill and drain; return the measurements by case, and what plain clients gain."""
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        vhosts = [stack.enter_context(broker.fresh_vhost()) for _ in range(VHOSTS)]
        queues = [" ".join(case) for case in CASES if case[0] == RABBIT]
        for vhost in vhosts:
            await fill(broker, vhost, [RECORDED, *queues, *ACKNOWLEDGED], PARTICIPANTS, count)
        deliveries = await recorded(broker, vhosts[0], RECORDED, count)
        played = await stack.enter_async_context(playing(broker, PLAYED, deliveries))
        seen = {}
        for case in CASES:
            by, store, how = case
            file = f"sqlite:///{Path(folder) / ' '.join(case)}.db"
            url = file if store == SQLITE else stack.enter_context(server.fresh_database())
            amqp_url = played if by == PLAYED else broker.amqp_url("/")
            queue = PLAYED if by == PLAYED else " ".join(case)
            rest = [url, str(PROCESSES[how])]
            seen[case] = await drained(broker, amqp_url, vhosts, queue, count, rest)
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
    """Count the rounds of plain computing that this many processes do together in a few seconds."""
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
        done = [asyncio.run(one_round(broker, server, count)) for _ in range(rounds)]
    seen = [drains for drains, _ in done]
    gained = statistics.median(gain for _, gain in done)
    ceiling = statistics.median(computed(2) / computed(1) for _ in range(rounds))
    sys.stdout.write(
        "| broker | store | processes | messages/s | ratio | broker, µs a message | service, µs |\n"
        "|---|---|---|---|---|---|---|\n"
    )
    for case in CASES:
        drains = [each[case] for each in seen]
        rate = statistics.median(drain.rate for drain in drains)
        one = (*case[:2], "one process")
        ratio = statistics.median(each[case].rate / each[one].rate for each in seen)
        of_broker = statistics.median(drain.broker for drain in drains)
        of_service = statistics.median(drain.service for drain in drains)
        sys.stdout.write(
            f"| {' | '.join(case)} | {rate:,.0f} | {ratio:.2f} "
            f"| {of_broker:.0f} | {of_service:.0f} |\n"
        )
    two = "two processes"
    sys.stdout.write(f"| {RABBIT} | nothing but acknowledging | {two} | | {gained:.2f} | | |\n")
    sys.stdout.write(f"| none | nothing but computing | {two} | | {ceiling:.2f} | | |\n")


if __name__ == "__main__":
    main()
