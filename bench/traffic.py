"""Applications at work for some seconds, in a process of their own, for `bench.overhead`.

    python -m bench.traffic AMQP_URL QUEUE classic|quorum CLIENTS BODY_BYTES SECONDS

Each client has a connection, and a queue that it publishes to and consumes from, with publisher
confirms and an acknowledgement for each message. Up to IN_FLIGHT publishes wait for their confirms,
over all clients or one for each, whichever is more: the load is what the broker lets through.
"""

from __future__ import annotations

import asyncio
import struct
import subprocess
import sys
import time

import aiormq
import msgspec
import uvloop
from aiormq.abc import DeliveredMessage

from app.broker.firehose import TRACE_EXCHANGE
from app.broker.trace_queue import QueueBounds
from tools.servers import Broker

IN_FLIGHT = 16
PREFETCH = 200
WARM_SHARE = 0.2  # of the seconds; connections, caches and a trace's first batches are not counted
DRAIN_SECONDS, CHILD_SECONDS = 20.0, 180
_SENT = struct.Struct("!d")


class Traffic(msgspec.Struct, frozen=True):
    """Figures of applications: messages/s; times in ms; ``busy`` is this process's share of a core.

    Near 1 the load generator itself was the limit.
    """

    rate: float
    consumed: float
    confirm_p50: float
    confirm_p99: float
    consume_p50: float
    consume_p99: float
    busy: float


class _Times:
    """The times of what began after the warm-up, in seconds."""

    def __init__(self, seconds: float) -> None:
        self.begin = time.perf_counter() + seconds * WARM_SHARE
        self.end = time.perf_counter() + seconds
        self.confirms: list[float] = []
        self.consumes: list[float] = []
        self.consumed = 0

    def note(self, sent: float, into: list[float]) -> None:
        if self.begin <= sent < self.end:
            into.append(time.perf_counter() - sent)


async def _publish(channel: aiormq.abc.AbstractChannel, queue: str, body: int, seen: _Times) -> int:
    published = 0
    padding = bytes(max(0, body - _SENT.size))
    while (sent := time.perf_counter()) < seen.end:
        await channel.basic_publish(_SENT.pack(sent) + padding, routing_key=queue)
        seen.note(sent, seen.confirms)
        published += 1
    return published


async def _client(
    connection: aiormq.abc.AbstractConnection, queue: str, lanes: int, body: int, seen: _Times
) -> None:
    publisher = await connection.channel(publisher_confirms=True)
    consumer = await connection.channel(publisher_confirms=False)
    await consumer.basic_qos(prefetch_count=PREFETCH)
    taken, published = 0, -1  # -1 while it publishes
    done = asyncio.Event()

    async def take(message: DeliveredMessage) -> None:
        nonlocal taken
        taken += 1
        if taken == published:
            done.set()
        (sent,) = _SENT.unpack_from(message.body)
        seen.note(sent, seen.consumes)
        seen.consumed += seen.begin <= time.perf_counter() < seen.end
        await consumer.basic_ack(message.delivery_tag or 0)

    await consumer.basic_consume(queue, take)
    published = sum(
        await asyncio.gather(*(_publish(publisher, queue, body, seen) for _ in range(lanes)))
    )
    if taken < published:
        await asyncio.wait_for(done.wait(), DRAIN_SECONDS)


def _at(times: list[float], share: float) -> float:
    """A quantile, in milliseconds."""
    return sorted(times)[int(share * (len(times) - 1))] * 1000


async def traffic(
    url: str, queue: str, kind: str, clients: int, body: int, seconds: float
) -> Traffic:
    """Work for some seconds; say what was seen after the warm-up."""
    connections = await asyncio.gather(*(aiormq.connect(url) for _ in range(clients)))
    names = [f"{queue}.{kind}.{number}" for number in range(clients)]
    for connection, name in zip(connections, names, strict=True):
        channel = await connection.channel()
        await channel.queue_declare(name, durable=True, arguments={"x-queue-type": kind})
    seen, used = _Times(seconds), time.process_time()
    lanes = max(1, IN_FLIGHT // clients)
    work = (
        _client(connection, name, lanes, body, seen)
        for connection, name in zip(connections, names, strict=True)
    )
    started = time.perf_counter()
    await asyncio.gather(*work)
    busy = (time.process_time() - used) / (time.perf_counter() - started)
    await asyncio.gather(*(connection.close() for connection in connections))
    counted = seen.end - seen.begin
    return Traffic(
        rate=len(seen.confirms) / counted,
        consumed=seen.consumed / counted,
        confirm_p50=_at(seen.confirms, 0.5),
        confirm_p99=_at(seen.confirms, 0.99),
        consume_p50=_at(seen.consumes, 0.5),
        consume_p99=_at(seen.consumes, 0.99),
        busy=busy,
    )


def at_work(url: str, kind: str, clients: int, body: int, seconds: float) -> Traffic:
    """Have applications work in a process of their own."""
    arguments = map(str, (url, "bench", kind, clients, body, seconds))
    command = [sys.executable, "-m", "bench.traffic", *arguments]
    child = subprocess.run(command, check=True, stdout=subprocess.PIPE, timeout=CHILD_SECONDS)
    return msgspec.json.decode(child.stdout, type=Traffic)


def bind_unread(broker: Broker, vhost: str, queue: str) -> None:
    """Bind a trace queue with the service's bounds, which nobody reads."""
    bounds = QueueBounds()
    most = {"x-max-length-bytes": bounds.bytes, "x-max-length": bounds.messages}
    broker.api("PUT", "queues", vhost, queue, json={"durable": True, "arguments": most})
    place = ("bindings", vhost, "e", TRACE_EXCHANGE, "q", queue)
    broker.api("POST", *place, json={"routing_key": "#"})


def main() -> None:
    """Work as the arguments say; print what was seen as JSON."""
    url, queue, kind, clients, body, seconds = sys.argv[1:]
    seen = uvloop.run(traffic(url, queue, kind, int(clients), int(body), float(seconds)))
    sys.stdout.write(msgspec.json.encode(seen).decode() + "\n")


if __name__ == "__main__":
    main()
