"""The demo's workload on a real broker, without the service."""

from __future__ import annotations

import asyncio

from tools.demo.judge import connections
from tools.demo.pipeline import PUBLISHING_APART, QUEUES, ROLES, Pipeline
from tools.servers import Broker


async def test_the_pipeline_does_what_it_says_and_leaves_nothing_behind(
    rabbit: Broker, vhost: str
) -> None:
    url = rabbit.amqp_url(vhost)
    async with Pipeline(lambda role: url, url, "test", heartbeats=True) as pipeline:
        roles = await asyncio.to_thread(connections, rabbit, pipeline.connections)
        assert sorted(roles.values()) == sorted([*ROLES, *PUBLISHING_APART])
        queues = await asyncio.to_thread(rabbit.api, "GET", "queues", vhost)
        assert sorted(queue["name"] for queue in queues) == sorted(QUEUES)
        outcome = await pipeline.run()

    # An order: placed and taken in, accepted and handed to two, two replies handed to the shop.
    history = pipeline.history
    orders, poison, stock = 2 * 9, 3, 2 * 2
    assert len(history) == orders + poison + stock
    chain = history.chain(outcome.first, outcome.last)
    assert len(chain) == orders + poison
    assert {action.role for action in chain} == set(ROLES) - {"stock"}
    assert outcome.last.role == "auditor"
    assert await asyncio.to_thread(rabbit.api, "GET", "queues", vhost) == []
