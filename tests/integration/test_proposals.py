"""The whole service finds by itself what ties messages together; one request makes it so."""

from __future__ import annotations

import asyncio
import json
import random
import shutil
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import aio_pika
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage

from drills.service import Service
from tests.integration.conftest import until
from tools.servers import Broker

ORDERS, JUDGED = 160, 12
WAY = {"orders": ("billing", "shipping"), "billing": ("mail",), "shipping": ("mail",), "mail": ()}


@asynccontextmanager
async def programs(rabbit: Broker, vhost: str, done: list[str]) -> AsyncIterator[AbstractChannel]:
    """Programs that hand orders on, several at a time; the order's number in the body is a key."""
    url, dice = rabbit.amqp_url(vhost), random.Random(7)
    connections = [
        await aio_pika.connect(url, client_properties={"connection_name": name})
        for name in ("front", *WAY)
    ]
    channels = [await each.channel() for each in connections]
    for name, channel in zip(WAY, channels[1:], strict=True):
        await channel.set_qos(8)
        await channel.declare_queue(name)

        async def handle(
            message: AbstractIncomingMessage, name: str = name, channel: Any = channel
        ) -> None:
            async with message.process():
                order = json.loads(message.body)["order"]
                await asyncio.sleep(dice.uniform(0, 0.02))  # so that orders overtake each other
                for to in WAY[name]:
                    await send(channel, to, order)
                if name == "mail":
                    done.append(order)

        await (await channel.get_queue(name)).consume(handle)
    try:
        yield channels[0]
    finally:
        for connection in connections:
            await connection.close()


async def send(channel: AbstractChannel, to: str, order: str) -> None:
    body = {"order": order, "tenant": "acme", "at": time.time_ns(), "state": "new"}
    message = aio_pika.Message(json.dumps(body).encode(), message_id=str(uuid4()))
    await channel.default_exchange.publish(message, to)


async def test_it_is_found_without_being_asked_for_and_then_conversations_are_exact(
    rabbit: Broker, vhost: str, tmp_path: Path, migrated_file: Path
) -> None:
    shutil.copy(migrated_file, tmp_path / "itc.db")
    settings = {"ITC_SHARED_PLACES": "0.0.0.0/0"}
    service = Service(rabbit, f"sqlite:///{tmp_path / 'itc.db'}", tmp_path, settings)
    done: list[str] = []
    orders = [f"order-{number:05}" for number in range(ORDERS)]

    async def proposals() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await service.get("proposals", vhost=vhost))["items"]
        return found

    async with service.tracing(vhost), programs(rabbit, vhost, done) as front:
        began = time.monotonic()
        for order in orders:
            await send(front, "orders", order)

        async def handled() -> bool:
            return len(done) == 2 * ORDERS

        await until(handled, "all are handled")
        [proposal] = await until(proposals, "it is found")
        print(f"found after {time.monotonic() - began:.1f} s")
        assert proposal["says"] == "order in the body ties messages together"
        assert proposal["joins"] == proposal["of"] == 4 * ORDERS
        roots = await service.get("", vhost=vhost, exchange="", routing_key="orders", page_size=500)
        chosen = [each["id"] for each in roots if each["type"] == "published"][:JUDGED]
        alone = [await service.get(f"conversations/{each}") for each in chosen]
        assert {len(each["messages"]) for each in alone} == {1}
        likely = [await service.get(f"conversations/{each}", via="likely") for each in chosen]
        path = f"proposals/{proposal['id']}/adopt"
        await service.get(path, method="POST", vhost=vhost, past="true")
        whole = [await service.get(f"conversations/{each}", via="conversation") for each in chosen]
        assert await proposals() == []
        for each in (*likely, *whole):
            orders_in = {
                (await service.get(f"events/{one['event']}"))["payload"] for one in each["messages"]
            }
            assert len(each["messages"]) == 5
            assert len({json.loads(text)["order"] for text in orders_in}) == 1
