"""What tracing costs the applications of a broker: ``python -m bench.overhead``.

The same load (`bench.load`) runs in four states of one virtual host, in turn, round after round:
tracing off; on, with nobody bound; on, with a bound queue that nobody reads, as long as ours; and
on, with the service at work. All figures are ratios to tracing off in the same round, medians over
rounds, so what else happens on the machine disturbs them little. The processor time of the broker a
message is printed, too: where clients and broker share the processors it tells more than their
speed. The clients are Python in one process, which takes a processor of its own when there are
many: its share is printed as ``clients``.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import secrets
import signal
import statistics
import sys
import tempfile
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from enum import StrEnum
from itertools import product
from pathlib import Path

import aiormq
import msgspec
from pamqp.common import FieldValue

from app.broker.firehose import TRACE_EXCHANGE
from bench.load import Load
from drills.service import Service
from tools.servers import RabbitNode

BODIES = (100, 1_000, 64_000)
CLIENTS = (1, 4, 64)
QUEUE_TYPES = ("classic", "quorum")
SECONDS, ROUNDS = 3.0, 3
UNREAD = "unread"
UNREAD_BYTES = 512 << 20  # as ITC_TRACE_QUEUE_MAX_BYTES
PATIENCE_SECONDS = 120
TIMES = (("confirm", 0), ("confirm", 1), ("arrival", 0), ("arrival", 1))
SIZES = ("memory", "disk")
HEAD = (
    "| queue | bytes | clients | tracing | messages | confirmed p50 | p99 | arrived p50 | p99"
    " | broker µs | service µs | clients | broker MB | disk +MB |"
)


class State(StrEnum):
    """What is traced, and by whom."""

    off = "off"
    unbound = "on, nobody bound"
    unread = "on, a queue unread"
    service = "on, the service"


class Cell(msgspec.Struct, frozen=True):
    """What is loaded: queues of a type, with messages of ``size`` bytes, by so many clients."""

    queue_type: str
    size: int
    clients: int


class Seen(msgspec.Struct, frozen=True):
    """One load in one state: times of processors in µs a message, sizes in bytes."""

    load: Load
    broker: float
    service: float
    memory: int
    disk: int


@asynccontextmanager
async def _in_state(
    state: State, broker: RabbitNode, vhost: str, service: Service
) -> AsyncIterator[None]:
    broker.api("PUT", "vhosts", vhost, json={"tracing": state is not State.off})
    if state is State.unread:
        async with _connected(broker, vhost) as channel:
            limit: dict[str, FieldValue] = {
                "x-max-length-bytes": UNREAD_BYTES,
                "x-overflow": "drop-head",
            }
            await channel.queue_declare(UNREAD, durable=True, arguments=limit)
            await channel.queue_bind(UNREAD, TRACE_EXCHANGE, routing_key="#")
            yield
            await channel.queue_delete(UNREAD)
    elif state is State.service:
        await service.start_trace(vhost)
        yield
        await service.stop_trace(vhost)
    else:
        yield


@asynccontextmanager
async def _connected(broker: RabbitNode, vhost: str) -> AsyncIterator[aiormq.abc.AbstractChannel]:
    connection = await aiormq.connect(broker.amqp_url(vhost))
    try:
        yield await connection.channel()
    finally:
        await connection.close()


async def _seen(
    broker: RabbitNode, vhost: str, service: Service, cell: Cell, seconds: float
) -> Seen:
    def used() -> tuple[float, float]:
        return _cpu(broker.pid), _cpu(service.process.pid)

    before, disk = used(), _disk(broker)
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.load", broker.amqp_url(vhost), cell.queue_type),
        *(str(cell.clients), str(cell.size), str(seconds)),
        stdout=PIPE,
    )
    out, _ = await asyncio.wait_for(child.communicate(), PATIENCE_SECONDS)
    load = msgspec.json.decode(out, type=Load)
    after = used()
    return Seen(
        load,
        (after[0] - before[0]) / load.total * 1e6,
        (after[1] - before[1]) / load.total * 1e6,
        int(broker.api("GET", "nodes")[0]["mem_used"]),
        max(0, _disk(broker) - disk),
    )


def _cpu(pid: int) -> float:
    """The processor time (s) of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def _disk(broker: RabbitNode) -> int:
    total = 0
    for path in broker.folder.rglob("*"):
        with contextlib.suppress(OSError):  # gone meanwhile
            total += path.lstat().st_size
    return total


async def _rounds(
    broker: RabbitNode, cell: Cell, rounds: int, seconds: float
) -> list[dict[State, Seen]]:
    """What was seen in each state, round by round; every other round goes backwards."""
    with broker.fresh_vhost() as vhost, tempfile.TemporaryDirectory() as folder:
        database = f"sqlite:///{Path(folder) / f'{secrets.token_hex(4)}.db'}"
        service = Service(broker, database, Path(folder))
        service.environment.pop("ITC_BATCH_SECONDS")  # as people run it
        service.start()
        try:
            await service.listening()
            done = []
            for number in range(rounds):
                seen = {}
                for state in State if number % 2 == 0 else reversed(State):
                    async with _in_state(state, broker, vhost, service):
                        seen[state] = await _seen(broker, vhost, service, cell, seconds)
                done.append(seen)
            return done
        finally:
            await asyncio.to_thread(service.end, signal.SIGTERM)


def _lines(cell: Cell, rounds: Sequence[dict[State, Seen]]) -> list[str]:
    """The rows of a cell: of tracing off its figures, of the other states their ratios to it."""
    offs = [seen[State.off] for seen in rounds]
    lines = []
    for state in State:
        seen = [each[state] for each in rounds]
        if state is State.off:
            figures = [
                f"{statistics.median(_speed(each) for each in seen):,.0f}/s",
                *(
                    f"{statistics.median(getattr(each.load, what)[at] for each in seen):.2f} ms"
                    for what, at in TIMES
                ),
            ]
        else:
            pairs = list(zip(seen, offs, strict=True))
            figures = [
                f"{statistics.median(_speed(each) / _speed(off) for each, off in pairs):.2f}",
                *(
                    f"{statistics.median(_ratio(each, off, what, at) for each, off in pairs):.2f}"
                    for what, at in TIMES
                ),
            ]
        of_processors = [
            f"{statistics.median(each.broker for each in seen):.0f}",
            f"{statistics.median(each.service for each in seen):.0f}",
            f"{statistics.median(each.load.cpu / each.load.seconds for each in seen):.2f}",
        ]
        sizes = [f"{max(getattr(each, what) for each in seen) >> 20:,}" for what in SIZES]
        name = [cell.queue_type, f"{cell.size:,}", str(cell.clients), state.value]
        lines.append(f"| {' | '.join([*name, *figures, *of_processors, *sizes])} |")
    return lines


def _speed(seen: Seen) -> float:
    return seen.load.messages / seen.load.seconds


def _ratio(seen: Seen, off: Seen, what: str, at: int) -> float:
    return float(getattr(seen.load, what)[at] / getattr(off.load, what)[at])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m bench.overhead")
    parser.add_argument("--queues", nargs="+", choices=QUEUE_TYPES, default=QUEUE_TYPES)
    parser.add_argument("--bodies", nargs="+", type=int, default=BODIES, help="bytes")
    parser.add_argument("--clients", nargs="+", type=int, default=CLIENTS)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of each load")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    given = parser.parse_args()
    with RabbitNode() as broker:
        version = broker.api("GET", "overview")["rabbitmq_version"]
        sys.stdout.write(f"RabbitMQ {version}\n\n{HEAD}\n|{'---|' * HEAD.count(' |')}\n")
        for queue_type, size, clients in product(given.queues, given.bodies, given.clients):
            cell = Cell(queue_type, size, clients)
            rounds = asyncio.run(_rounds(broker, cell, given.rounds, given.seconds))
            sys.stdout.write("\n".join(_lines(cell, rounds)) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
