"""`/metrics/queues` agrees with what real clients log of themselves, of each kind of queue.

A publisher and a consumer note when they published, were handed and settled each message. The
service is a process of its own, on either database; killed in the end, it goes on counting.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import aio_pika
import httpx2
import pytest
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from app.store import migrate
from drills.service import Service
from tests.integration.conftest import until
from tools.servers import RabbitNode

MESSAGES = 6
HELD_SECONDS, WAIT_SECONDS = 1.0, 3.0  # of a message at its consumer; before there is one
CLOSE = 0.05  # share by which times may differ
REJECTED, RETURNED = ("1", "4", "5"), ("2", "3")
KINDS: dict[str, dict[str, Any]] = {
    "classic": {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"},
    "quorum": {
        "x-queue-type": "quorum",
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": "dead",
    },
    "stream": {"x-queue-type": "stream"},
}


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.long(30))])
async def service(
    request: pytest.FixtureRequest, broker: RabbitNode, tmp_path: Path
) -> AsyncIterator[Service]:
    database = f"sqlite:///{tmp_path / 'itc.db'}"
    if request.param == "postgresql":
        database = request.getfixturevalue("postgres_url")
    await migrate(database)
    running = Service(broker, database, tmp_path)
    running.start()
    await running.listening()
    yield running
    running.end(signal.SIGTERM)


@pytest.fixture
def vhost(broker: RabbitNode) -> str:
    name = f"queues-{os.urandom(4).hex()}"
    broker.add_vhost(name)
    return name


class QueueClients:
    """A publisher and a consumer of one queue, and their logs: times by message."""

    def __init__(self, kind: str, channel: AbstractChannel) -> None:
        self.kind, self._channel = kind, channel
        self.published: dict[str, float] = {}
        self.handed: dict[str, float] = {}
        self.settled: dict[str, float] = {}
        self.returned: list[str] = []
        self.holds: list[float] = []  # how long each was handled, until it was settled

    async def publish(self) -> None:
        await self._channel.declare_queue(self.kind, durable=True, arguments=KINDS[self.kind])
        for number in range(MESSAGES):
            message = aio_pika.Message(b"order", message_id=f"{self.kind}-{number}")
            self.published[str(number)] = time.time()
            await self._channel.default_exchange.publish(message, self.kind)

    async def consume(self) -> None:
        """Take all messages, one after another; reject some, and give some back once."""
        queue = await self._channel.get_queue(self.kind)
        await self._channel.set_qos(prefetch_count=1)
        arguments = {"x-stream-offset": "first"} if self.kind == "stream" else None
        async with queue.iterator(arguments=arguments) as messages:
            async for message in messages:
                await self._handle(message)
                if len(self.settled) == MESSAGES:
                    return

    async def _handle(self, message: AbstractIncomingMessage) -> None:
        name, moment = (message.message_id or "").rpartition("-")[2], time.time()
        self.handed.setdefault(name, moment)
        await asyncio.sleep(HELD_SECONDS)  # it works
        if self.kind != "stream" and name in RETURNED and name not in self.returned:
            self.returned.append(name)
            await message.nack(requeue=True)
            return
        is_rejected = self.kind != "stream" and name in REJECTED
        await (message.reject() if is_rejected else message.ack())
        self.settled[name] = time.time()
        self.holds.append(self.settled[name] - moment)

    @property
    def waits(self) -> list[float]:
        return [self.handed[name] - at for name, at in self.published.items()]


class Scrape:
    """The samples of one scrape."""

    def __init__(self, text: str) -> None:
        self._metrics: Sequence[Metric] = [*text_string_to_metric_families(text)]

    def of(self, name: str, **labels: str) -> dict[str, float]:
        """Values of a metric by `le` or `reason`, or under an empty one."""
        return {
            sample.labels.get("le", sample.labels.get("reason", "")): sample.value
            for metric in self._metrics
            for sample in metric.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        }

    def one(self, name: str, **labels: str) -> float | None:
        return self.of(name, **labels).get("")


async def scrape(service: Service, vhost: str) -> Scrape:
    url = f"http://127.0.0.1:{service.port}/metrics/queues"
    async with httpx2.AsyncClient(trust_env=False, timeout=60) as client:
        answer = await client.get(url, params={"vhost": vhost})
    answer.raise_for_status()
    return Scrape(answer.text)


async def probe(channel: AbstractChannel, service: Service, vhost: str) -> None:
    """Wait until the broker plugin tells of settlements in a new virtual host."""
    queue = await channel.declare_queue("probe")

    async def is_told() -> bool:
        await channel.default_exchange.publish(aio_pika.Message(b"probe"), queue.name)
        message = await queue.get(timeout=10)
        await message.ack()
        events = await service.get("", vhost=vhost, type="received")
        return any(event.get("settlement") for event in events)

    await until(is_told, "the plugin tells of settlements")


def assert_close(scrape: Scrape, name: str, queue: str, truth: Sequence[float]) -> None:
    """Assert that a histogram is of these times."""
    labels = {"queue": queue}
    assert scrape.one(f"{name}_count", **labels) == len(truth)
    total = scrape.one(f"{name}_sum", **labels)
    print(name, queue, "sum", total, "by the clients' logs", sum(truth))
    assert total == pytest.approx(sum(truth), rel=CLOSE)
    buckets = scrape.of(f"{name}_bucket", **labels)
    assert len(buckets) > 10
    for limit, times in buckets.items():
        least, most = (sum(e <= float(limit) * (1 + s) for e in truth) for s in (-CLOSE, CLOSE))
        assert least <= times <= most, (name, queue, limit)


async def test_numbers_of_each_kind_of_queue_agree_with_the_clients_logs(
    broker: RabbitNode, service: Service, vhost: str
) -> None:
    await service.start_trace(vhost)
    await service.until_running(vhost)
    async with await aio_pika.connect(broker.amqp_url(vhost)) as connection:
        channels = [await connection.channel() for _ in range(len(KINDS) + 1)]
        dead = await channels[-1].declare_queue("dead", durable=True)
        await probe(channels[-1], service, vhost)
        clients = [QueueClients(kind, channels.pop(0)) for kind in KINDS]
        await asyncio.gather(*(one.publish() for one in clients))

        async def waits() -> Scrape | None:
            found = await scrape(service, vhost)
            counts = [found.one("itc_queue_waiting_messages", queue=kind) for kind in KINDS]
            return found if counts == [MESSAGES] * len(KINDS) else None

        found = await until(waits, "all wait")
        for one in clients:
            oldest = found.one("itc_queue_waiting_oldest_timestamp_seconds", queue=one.kind)
            first = min(one.published.values())
            assert oldest == pytest.approx(first, abs=CLOSE * WAIT_SECONDS)
        await asyncio.sleep(max(0.0, first + WAIT_SECONDS - time.time()))  # nobody is there yet
        consuming = asyncio.gather(*(one.consume() for one in clients))

        async def is_held() -> bool:
            found = await scrape(service, vhost)
            return found.one("itc_queue_in_hand_messages", queue="quorum") == 1

        await until(is_held, "one is in hand")
        await consuming
        for _ in REJECTED * 2:
            await (await dead.get(timeout=10)).ack()

        async def is_counted() -> Scrape | None:
            await probe(
                channels[0], service, vhost
            )  # the last settlement shows with the next event
            found = await scrape(service, vhost)
            name = "itc_queue_settlement_seconds_count"
            counts = [found.one(name, queue=one.kind) for one in clients]
            return found if counts == [MESSAGES] * len(KINDS) else None

        found = await until(is_counted, "all are counted")
        await asyncio.to_thread(service.end, signal.SIGKILL)
        service.start()
        await service.listening()
        await service.until_running(vhost)
        again = await until(is_counted, "counts go on")
    for one in clients:
        assert_close(found, "itc_queue_delivery_seconds", one.kind, one.waits)
        assert_close(found, "itc_queue_settlement_seconds", one.kind, one.holds)
        rejected = {"rejected": float(len(REJECTED))} if one.kind != "stream" else {}
        assert found.of("itc_queue_deaths_total", queue=one.kind) == rejected
        back = {"given_back": float(len(one.returned))} if one.returned else {}
        assert found.of("itc_queue_returns_total", queue=one.kind) == back
        assert found.one("itc_queue_waiting_messages", queue=one.kind) is None
        assert found.one("itc_queue_in_hand_messages", queue=one.kind) is None
        for name in ("delivery_seconds_bucket", "deaths_total", "returns_total"):
            name = f"itc_queue_{name}"
            assert again.of(name, queue=one.kind) == found.of(name, queue=one.kind)
