"""Spans reach a collector once each, through kills of the service and outages of the collector.

A publisher and consumers on a broker with the plugin log what they did. The service is a process of
its own; it is killed while spans are on their way, and so is the collector.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import aio_pika
import pytest
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage

from app.store import migrate
from drills.service import Service
from tests.collector import Rotel, StandIn, collecting
from tests.integration.conftest import until
from tools.servers import RabbitNode

ROUNDS, MESSAGES = 6, 40
DEAD = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
WORDS = ("publish", "wait", "process", "receive", "ack", "reject", "requeue", "move")


class Shop:
    """Orders, some of which are rejected or given back once, and the log of what became of them."""

    def __init__(self, channel: AbstractChannel, seed: int) -> None:
        self._channel, self._chance = channel, random.Random(seed)
        self.counts: Counter[str] = Counter()
        self.returned: set[str] = set()
        self.settled = 0

    async def open(self) -> None:
        await self._channel.set_qos(prefetch_count=20)
        orders = await self._channel.declare_queue("orders", durable=True, arguments=DEAD)
        dead = await self._channel.declare_queue("dead", durable=True)
        await orders.consume(self._take)
        await dead.consume(self._bury)

    async def publish(self, count: int) -> None:
        for _ in range(count):
            name = f"order-{self.counts['publish']}"
            message = aio_pika.Message(b"order", message_id=name, delivery_mode=2)
            await self._channel.default_exchange.publish(message, "orders")
            self.counts["publish"] += 1

    async def _take(self, message: AbstractIncomingMessage) -> None:
        name, chance = message.message_id or "", self._chance.random()
        self.counts["deliver"] += 1
        if chance < 0.2 and name not in self.returned:
            self.returned.add(name)
            self.counts["requeue"] += 1
            await message.nack(requeue=True)
        elif chance < 0.4:
            self.counts["reject"] += 1
            await message.reject()
        else:
            self.counts["ack"] += 1
            self.settled += 1
            await message.ack()

    async def _bury(self, message: AbstractIncomingMessage) -> None:
        self.counts["deliver"] += 1
        self.counts["move"] += 1
        self.counts["ack"] += 1
        self.settled += 1
        await message.ack()


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.long(60))])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgresql":
        return str(request.getfixturevalue("postgres_url"))
    return f"sqlite:///{tmp_path / 'itc.db'}"


@pytest.fixture
def vhost(broker: RabbitNode) -> str:
    name = f"spans-{os.urandom(4).hex()}"
    broker.add_vhost(name)
    return name


@pytest.fixture
async def shop(broker: RabbitNode, vhost: str) -> AsyncIterator[Shop]:
    async with await aio_pika.connect(broker.amqp_url(vhost)) as connection:
        yield Shop(await connection.channel(), 7)


def spans_by_word(collector: StandIn) -> Counter[str]:
    """The number of spans, each counted once, by what they tell of."""
    words = Counter(
        span.name.partition(" ")[0]
        for span in collector.spans.values()
        if any(a.value.string_value.startswith("order-") for a in span.attributes)
    )
    words["deliver"] = words.pop("process", 0) + words.pop("receive", 0)
    return words


@pytest.mark.long(90)
async def test_each_message_is_seen_once_whoever_is_killed(
    broker: RabbitNode, vhost: str, database: str, shop: Shop, tmp_path: Path
) -> None:
    await migrate(database)
    chance = random.Random(3)
    with collecting() as collector:
        service = Service(
            broker,
            database,
            tmp_path,
            {"ITC_OTLP_EXPORT_URL": collector.url, "ITC_OTLP_EXPORT_RULES": "1"},
        )
        async with service.tracing(vhost):
            await _plugin_tells(broker, vhost, service)
            await shop.open()
            for number in range(ROUNDS):
                collector.statuses = [(503, {})] * chance.randrange(3)
                await shop.publish(MESSAGES)
                if number % 2:
                    await asyncio.sleep(chance.random() * 6)  # while spans are on their way
                    await asyncio.to_thread(service.end, signal.SIGKILL)
                    await shop.publish(MESSAGES)
                    service.start()
                    await service.listening()

            await _all_are_there(shop, collector)


@pytest.mark.long(60)
async def test_a_real_collector_that_goes_and_comes_gets_each_span(
    broker: RabbitNode, vhost: str, shop: Shop, tmp_path: Path
) -> None:
    """It passes spans on; while it is away the service is killed."""
    database = f"sqlite:///{tmp_path / 'itc.db'}"
    await migrate(database)
    with collecting() as behind:
        rotel = Rotel(behind, tmp_path)
        rotel.start()
        exporting = {"ITC_OTLP_EXPORT_URL": rotel.url, "ITC_OTLP_EXPORT_RULES": "1"}
        service = Service(broker, database, tmp_path, exporting)
        try:
            async with service.tracing(vhost):
                await _plugin_tells(broker, vhost, service)
                await shop.open()
                await shop.publish(MESSAGES)

                async def is_under_way() -> bool:
                    return spans_by_word(behind)["publish"] > 0

                await until(is_under_way, "the first spans are there")
                await asyncio.to_thread(rotel.stop)
                await shop.publish(MESSAGES)
                await asyncio.to_thread(service.end, signal.SIGKILL)
                service.start()
                await service.listening()
                rotel.start()
                await shop.publish(MESSAGES)
                await _all_are_there(shop, behind)
        finally:
            await asyncio.to_thread(rotel.stop)


async def _all_are_there(shop: Shop, collector: StandIn) -> None:
    """Wait until each message is settled and has its spans, and look that there are no others."""

    async def is_settled() -> bool:
        return shop.settled == shop.counts["publish"]

    await until(is_settled, "all orders are settled")
    shop.counts["wait"] = shop.counts["deliver"]

    async def are_there() -> bool:
        found = spans_by_word(collector)
        return all(found[word] >= count for word, count in shop.counts.items())

    await until(are_there, "all spans are there")
    found = spans_by_word(collector)
    assert {word: found[word] for word in shop.counts} == dict(shop.counts)


async def _plugin_tells(broker: RabbitNode, vhost: str, service: Service) -> None:
    """Wait until the plugin has seen that there is tracing; until then it is silent."""
    async with await aio_pika.connect(broker.amqp_url(vhost)) as connection:
        channel = await connection.channel()
        queue = await channel.declare_queue("probe")

        async def is_recorded() -> bool:
            await channel.default_exchange.publish(aio_pika.Message(b"probe"), "probe")
            await (await queue.get(timeout=10)).ack()
            listed = await service.get("", vhost=vhost, page_size=100)
            return any(event.get("settlement") for event in listed)

        await until(is_recorded, "the plugin tells of settlements")
