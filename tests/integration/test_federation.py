"""Federation between two virtual hosts of one broker, both traced by one service."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from aio_pika.abc import AbstractIncomingMessage

from app.store import migrate
from drills.service import Service
from tests.integration.conftest import until
from tests.integration.test_cases import Clients
from tests.integration.test_streams import Node

FEDERATION = ("rabbitmq_federation", "rabbitmq_federation_management")


@pytest.fixture(scope="module")
def rabbit() -> Iterator[Node]:
    with Node(*FEDERATION) as node:
        yield node


@pytest.mark.parametrize("exchange", ["", "news"], ids=["queue", "exchange"])
async def test_a_message_is_followed_through_a_federation_link(
    rabbit: Node, tmp_path: Path, exchange: str
) -> None:
    up, down = (f"{side}-{os.urandom(4).hex()}" for side in ("up", "down"))
    for name in (up, down):
        rabbit.add_vhost(name)
    database = f"sqlite:///{tmp_path / 'itc.db'}"
    await migrate(database)
    service = Service(rabbit, database, tmp_path)
    async with service.tracing(up), AsyncExitStack() as stack:
        await service.start_trace(down)
        await service.until_running(down)
        sender, taker = (Clients(rabbit, name, stack) for name in (up, down))
        for clients in (sender, taker):
            if exchange:
                await (await clients.channel()).declare_exchange(exchange, "fanout", durable=True)
            else:
                await clients.queue("jobs", queue_type="quorum")
        jobs = await taker.queue("jobs", queue_type="quorum")
        if exchange:
            await jobs.bind(exchange)
        await jobs.consume(AbstractIncomingMessage.ack)  # without a consumer no queue asks upstream
        upstream = {"value": {"uri": rabbit.amqp_url(up)}}
        rabbit.api("PUT", "parameters", "federation-upstream", down, "dc1", json=upstream)
        policy = {"pattern": "^(jobs|news)$", "definition": {"federation-upstream-set": "all"}}
        rabbit.api("PUT", "policies", down, "all", json=policy | {"apply-to": "all"})

        async def is_linked() -> bool:
            links = await asyncio.to_thread(rabbit.api, "GET", "federation-links", down)
            names = [link.get("exchange", "") for link in links if link.get("status") == "running"]
            return exchange in names

        await until(is_linked, "the link runs")
        await sender.send("jobs", exchange=exchange, message_id="m1")

        async def events(vhost: str, count: int) -> list[dict[str, Any]] | None:
            found = await service.get("", vhost=vhost, page_size=100)
            return found[::-1] if len(found) >= count else None

        sent, left = await until(lambda: events(up, 2), "what happened upstream")
        came, handed = await until(lambda: events(down, 2), "what happened downstream")

        async def crossing_of(event: dict[str, Any]) -> dict[str, Any] | None:
            found = (await service.get(f"events/{event['id']}"))["crossing"]
            return found if found["mover"] == "federation link dc1" else None

        for event, other in ((left, came), (came, left)):
            # Its name is learnt from the broker beside its messages, a little later perhaps.
            crossing = await until(partial(crossing_of, event), "the link has a name")
            side = {"event": other["id"], "vhost": other["vhost"], "at": other["recorded_at"]}
            assert crossing["elsewhere"] == [side]
            assert crossing["certain"]
        compared = await service.get(f"compare/{sent['id']}/{handed['id']}")
        assert compared["answer"] == "caused"
        conversation = await service.get(f"conversations/{sent['id']}")
        assert conversation["outcome"] == "unknown"
        assert "left by federation link dc1" in conversation["sentence"]
        where = await service.get("where", id="m1", vhost=up)
        assert where["word"] == "handed_over", where["sentence"]
