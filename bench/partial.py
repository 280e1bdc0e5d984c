"""The savings of a trace that takes less: ``python -m bench.partial [COUNT [ROUNDS]]``.

**No bodies**: the same backlog of real trace messages, in two trace queues, is drained by the
service with bodies and without, one after the other, each in a process of its own and into a SQLite
file of its own. The broker's work is the same for both: its firehose always hands bodies over.

**Some exchanges and queues** (with ``some`` as the first argument only this): applications send the
same messages through ten exchanges to ten queues with tracing off, and with a trace queue that is
bound for all or for a tenth; what that has got is then drained by the service in the same way. The
turns alternate within each round, so that each ratio is of turns in one round.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import aio_pika
from aio_pika.abc import AbstractIncomingMessage

from app.broker.firehose import TRACE_EXCHANGE
from app.tracker.taken import ALL, Selection
from bench.backlog import fill
from bench.drain import drain
from bench.processes import cpu_of
from tools.servers import Broker, RabbitNode

COUNT, ROUNDS = 20_000, 3
SIZES = (100, 1_000, 64_000)  # bytes of each body
MOST_BYTES = 400_000_000  # of one backlog's bodies: fewer messages of a size that would have more
PARTICIPANTS = 4
SOME_SIZES = (1_000,)


class Spent(NamedTuple):
    """For each message: µs of the service's processor time, and bytes of its store."""

    processor: float
    stored: float


def drained(broker: Broker, vhost: str, queue: str, count: int, bodies: str) -> Spent:
    """Drain a trace queue, with bodies ``on`` or ``off``."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "itc.db"
        took = drain(broker, vhost, queue, count, f"sqlite:///{path}", "on", bodies)
        size = sum(file.stat().st_size for file in Path(folder).iterdir())
        return Spent((took.processor or 0.0) / count * 1e6, size / count)


def one_round(broker: RabbitNode, size: int, count: int) -> dict[str, Spent]:
    """Fill and drain; return what was spent with bodies ``on`` and ``off``."""
    with broker.fresh_vhost() as vhost:
        queues = ("on", "off")
        payload = b"x" * size
        asyncio.run(fill(broker, vhost, queues, PARTICIPANTS, count, payload=payload))
        return {bodies: drained(broker, vhost, bodies, count, bodies) for bodies in queues}


def row(broker: RabbitNode, size: int, count: int, rounds: int) -> str:
    """Return a size's row of the table: medians over the rounds."""
    count = min(count, MOST_BYTES // size)
    seen = [one_round(broker, size, count) for _ in range(rounds)]
    cells = [f"{size:,} B", f"{count:,}"]
    for what in range(len(Spent._fields)):
        full, left = (statistics.median(one[how][what] for one in seen) for how in ("on", "off"))
        cells += [f"{full:,.0f}", f"{left:,.0f}"]
        cells.append(f"{statistics.median(one['off'][what] / one['on'][what] for one in seen):.2f}")
    return f"| {' | '.join(cells)} |\n"


SOME: dict[str, Selection] = {
    "all": ALL,
    "a tenth of the exchanges": Selection(exchanges=("bench.e0",)),
    "a tenth of the queues": Selection(queues=("bench.q0",)),
    "a tenth of both": Selection(("bench.e0",), ("bench.q0",)),
}
LANES = 10
UNREAD = "bench.some"


class Cost(NamedTuple):
    """For each message that applications sent: µs of processor time, and trace messages."""

    broker: float
    service: float
    traced: float


async def send(broker: Broker, vhost: str, count: int, payload: bytes) -> None:
    """Send as many messages through as many exchanges to queues that hand them out at once."""
    async with (
        await aio_pika.connect(broker.amqp_url(vhost)) as publisher,
        await aio_pika.connect(broker.amqp_url(vhost)) as consumer,
    ):
        channel, receiving = await publisher.channel(), await consumer.channel()
        arrived, done = 0, asyncio.Event()

        async def take(message: AbstractIncomingMessage) -> None:
            nonlocal arrived
            arrived += 1
            if arrived == count:
                done.set()

        exchanges = []
        for lane in range(LANES):
            exchange = await channel.declare_exchange(f"bench.e{lane}", "fanout")
            queue = await receiving.declare_queue(f"bench.q{lane}")
            await queue.bind(exchange)
            await queue.consume(take, no_ack=True)
            exchanges.append(exchange)
        for number in range(count):
            message = aio_pika.Message(payload, message_id=str(number))
            await exchanges[number % LANES].publish(message, "", mandatory=False)
        await done.wait()


def turn(
    broker: RabbitNode, vhost: str, what: Selection | None, count: int, payload: bytes
) -> Cost:
    """Send with tracing off (None), or into a trace queue that takes this and is drained then."""
    if what is not None:
        broker.api("PUT", "queues", vhost, UNREAD, json={"durable": True})
        place = ("bindings", vhost, "e", TRACE_EXCHANGE, "q", UNREAD)
        for key in what.keys:
            broker.api("POST", *place, json={"routing_key": key})
    broker.api("PUT", "vhosts", vhost, json={"tracing": what is not None})
    before = cpu_of(broker.pid)
    asyncio.run(send(broker, vhost, count, payload))
    used = (cpu_of(broker.pid) - before) / count * 1e6
    broker.api("PUT", "vhosts", vhost, json={"tracing": False})
    if what is None:
        return Cost(used, 0.0, 0.0)
    traced = asyncio.run(_waiting(broker, vhost))
    service = drained(broker, vhost, UNREAD, traced, "on").processor
    broker.api("DELETE", "queues", vhost, UNREAD)
    return Cost(used, service * traced / count, traced / count)


async def _waiting(broker: Broker, vhost: str) -> int:
    """Ask the trace queue itself for its number of messages: statistics are late."""
    async with await aio_pika.connect(broker.amqp_url(vhost)) as connection:
        channel = await connection.channel()
        queue = await channel.declare_queue(UNREAD, passive=True)
        return queue.declaration_result.message_count or 0


def some_rows(broker: RabbitNode, size: int, count: int, rounds: int) -> Iterator[str]:
    """Yield a size's rows of the second table: medians over the rounds."""
    states: dict[str, Selection | None] = {"tracing off": None, **SOME}
    seen: dict[str, list[Cost]] = {name: [] for name in states}
    with broker.fresh_vhost() as vhost:
        asyncio.run(send(broker, vhost, LANES, b"warm"))
        for number in range(rounds):
            for name in list(states)[:: 1 if number % 2 == 0 else -1]:
                seen[name].append(turn(broker, vhost, states[name], count, b"x" * size))
    for name, costs in seen.items():
        middle = [statistics.median(part) for part in zip(*costs, strict=True)]
        ratios = [
            statistics.median(
                (one[which] / all_[which]) if all_[which] else 0.0
                for one, all_ in zip(costs, seen["all"], strict=True)
            )
            for which in (0, 1)
        ]
        yield (
            f"| {size:,} B | {name} | {middle[2]:.2f} | {middle[0]:,.0f} | {ratios[0]:.2f} "
            f"| {middle[1]:,.0f} | {ratios[1]:.2f} |\n"
        )


def main() -> None:
    """Print the tables."""
    only_some = sys.argv[1:2] == ["some"]
    numbers = [int(each) for each in sys.argv[1 + only_some :]]
    count, rounds = [*numbers, *(COUNT, ROUNDS)[len(numbers) :]]
    with RabbitNode() as broker:
        if not only_some:
            sys.stdout.write(
                "| body | messages | µs with | without | ratio | bytes stored with | without "
                "| ratio |\n|---|---|---|---|---|---|---|---|\n"
            )
            for size in SIZES:
                sys.stdout.write(row(broker, size, count, rounds))
                sys.stdout.flush()
        sys.stdout.write(
            "\n| body | taken | traced a message | broker µs | of all | service µs | of all |\n"
            "|---|---|---|---|---|---|---|\n"
        )
        for size in SOME_SIZES:
            for each in some_rows(broker, size, count, rounds):
                sys.stdout.write(each)
                sys.stdout.flush()


if __name__ == "__main__":
    main()
