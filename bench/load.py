"""Clients that publish, wait for confirms and consume, for some seconds, in a process of their own.

``python -m bench.load URL QUEUE_TYPE CLIENTS BYTES SECONDS`` prints one line of JSON, see `Load`.
Each client has a connection and a queue of its own, to which it publishes and from which it
consumes; it never has more than `WINDOW` messages that are not confirmed.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections.abc import Sequence

import aiormq
import msgspec
from aiormq.abc import DeliveredMessage

WINDOW = 20
WARM_SECONDS = 1.0


class Load(msgspec.Struct, frozen=True):
    """What clients saw: messages confirmed in ``seconds``, and times in milliseconds.

    ``total`` are all messages, those of the warm-up too.

    ``confirm`` are p50 and p99 from a publish to its confirm, ``arrival`` to its delivery; ``cpu``
    is the processor time (s) that the clients themselves took.
    """

    total: int
    messages: int
    seconds: float
    confirm: tuple[float, float]
    arrival: tuple[float, float]
    cpu: float


class _Client:
    """One client; times in seconds."""

    def __init__(self, number: int, size: int) -> None:
        self._queue = f"load-{number}"
        self._body = b"x" * max(0, size - 20)
        self.confirms: list[float] = []
        self.arrivals: list[float] = []

    async def run(self, url: str, queue_type: str, begin: asyncio.Event, end: float) -> None:
        connection = await aiormq.connect(url)
        channel = await connection.channel(publisher_confirms=True)
        await channel.queue_declare(
            self._queue, durable=True, arguments={"x-queue-type": queue_type}
        )
        consumer = await channel.basic_consume(self._queue, self._arrived, no_ack=True)
        await begin.wait()
        await asyncio.gather(*(self._publish(channel, end) for _ in range(WINDOW)))
        if consumer.consumer_tag is not None:
            await channel.basic_cancel(consumer.consumer_tag)
        await channel.queue_delete(self._queue)
        await connection.close()

    async def _publish(self, channel: aiormq.abc.AbstractChannel, end: float) -> None:
        while (sent := time.perf_counter()) < end:
            body = b"%020d" % int(sent * 1e9) + self._body
            await channel.basic_publish(body, routing_key=self._queue)
            self.confirms.append(time.perf_counter() - sent)

    async def _arrived(self, message: DeliveredMessage) -> None:
        self.arrivals.append(time.perf_counter() - int(message.body[:20]) / 1e9)


def _two(times: Sequence[float]) -> tuple[float, float]:
    hundredths = statistics.quantiles(times, n=100)
    return round(hundredths[49] * 1e3, 2), round(hundredths[98] * 1e3, 2)


async def loaded(url: str, queue_type: str, clients: int, size: int, seconds: float) -> Load:
    """Let them act, after a warm-up that does not count."""
    them = [_Client(number, size) for number in range(clients)]
    begin = asyncio.Event()
    end = time.perf_counter() + 2 * WARM_SECONDS + seconds
    running = [asyncio.create_task(each.run(url, queue_type, begin, end)) for each in them]
    await asyncio.sleep(WARM_SECONDS)  # for their connections
    begin.set()
    await asyncio.sleep(max(0.0, end - seconds - time.perf_counter()))
    before = [(len(each.confirms), len(each.arrivals)) for each in them]
    began, cpu = time.perf_counter(), time.process_time()
    await asyncio.sleep(max(0.0, end - time.perf_counter()))
    both = list(zip(them, before, strict=True))
    confirms = [took for each, (at, _) in both for took in each.confirms[at:]]
    arrivals = [took for each, (_, at) in both for took in each.arrivals[at:]]
    took, used = time.perf_counter() - began, time.process_time() - cpu
    await asyncio.gather(*running)
    total = sum(len(each.confirms) for each in them)
    return Load(total, len(confirms), took, _two(confirms), _two(arrivals), used)


if __name__ == "__main__":
    _, url, queue_type, *numbers = sys.argv
    clients, size, seconds = int(numbers[0]), int(numbers[1]), float(numbers[2])
    load = asyncio.run(loaded(url, queue_type, clients, size, seconds))
    sys.stdout.buffer.write(msgspec.json.encode(load) + b"\n")
