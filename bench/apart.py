"""What reading in a process of its own gains: ``python -m bench.apart [COUNT [ROUNDS]]``.

One virtual host's backlog is stored with everything in one process, and with the reading apart, in
turn, on both stores: once from a RabbitMQ on the same cores, and once played (`bench.player`), as
if the broker were on another machine. The table shows the time a message takes, the processor time
of the service's own process and of the one that reads, and how many cores both keep busy.
"""

from __future__ import annotations

import asyncio
import secrets
import statistics
import sys
import tempfile
from asyncio.subprocess import PIPE
from collections import defaultdict
from contextlib import AsyncExitStack
from pathlib import Path

from bench.backlog import fill
from bench.player import playing, recorded
from tools.servers import PostgresServer, RabbitNode

COUNT = 60_000
ROUNDS = 3
PARTICIPANTS = 64
BROKERS = RABBIT, PLAYED = ("RabbitMQ", "played")
STORES = SQLITE, _ = ("SQLite", "PostgreSQL")
APART = {"in one process": "off", "read apart": "on"}
RECORDED = "recorded"
PATIENCE_SECONDS = 600
CASES = [(by, store, how) for by in BROKERS for store in STORES for how in APART]


async def drained(
    amqp_url: str, management_url: str, vhost: str, queue: str, count: int, rest: list[str]
) -> list[float]:
    """Seconds, and those of processor time, of a child process that drains, and of its own."""
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.drain", "service", amqp_url, management_url),
        *(vhost, queue, str(count), *rest),
        stdout=PIPE,
    )
    out, _ = await asyncio.wait_for(child.communicate(), PATIENCE_SECONDS)
    return [float(each) for each in out.split()]


async def one_round(
    broker: RabbitNode, server: PostgresServer, count: int
) -> dict[tuple[str, str, str], list[float]]:
    """Fill and drain; return what `drained` says by case."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        vhost = stack.enter_context(broker.fresh_vhost())
        queues = [" ".join(case) for case in CASES if case[0] == RABBIT]
        await fill(broker, vhost, [RECORDED, *queues], PARTICIPANTS, count)
        deliveries = await recorded(broker, vhost, RECORDED, count)
        played = await stack.enter_async_context(playing(broker, PLAYED, deliveries))
        seen = {}
        for case in CASES:
            by, store, how = case
            file = f"sqlite:///{folder / secrets.token_hex(4)}.db"
            url = file if store == SQLITE else stack.enter_context(server.fresh_database())
            amqp_url = played if by == PLAYED else broker.amqp_url("/")
            queue = PLAYED if by == PLAYED else " ".join(case)
            rest = [url, "on", "on", APART[how]]
            seen[case] = await drained(amqp_url, broker.management_url, vhost, queue, count, rest)
        return seen


def main() -> None:
    """Print the table."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else COUNT
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else ROUNDS
    seen: defaultdict[tuple[str, str, str], list[list[float]]] = defaultdict(list)
    with RabbitNode() as broker, PostgresServer() as server:
        for _ in range(rounds):
            for case, said in asyncio.run(one_round(broker, server, count)).items():
                seen[case].append(said)
    sys.stdout.write(
        "| messages from | store | | µs each | processor, own | reading | cores |\n"
        "|---|---|---|---|---|---|---|\n"
    )
    for case, drains in seen.items():
        each = [statistics.median(one) * 1e6 / count for one in zip(*drains, strict=True)]
        cores = statistics.median((own + reading) / took for took, own, reading in drains)
        figures = " | ".join(f"{one:.1f}" for one in each) + f" | {cores:.2f}"
        sys.stdout.write(f"| {' | '.join(case)} | {figures} |\n")


if __name__ == "__main__":
    main()
