"""Three nodes: deliveries that overtake their publishes, a node that dies, tracing everywhere.

Whether a delivery overtakes its publish on the way between the nodes is chance, and large bodies
only make it likely. So one that certainly does is made as well: trace messages that the test hands
to the trace exchange in that order, one after the other is confirmed.
"""

from __future__ import annotations

import asyncio
from typing import Any

import aio_pika
import msgspec

from app.store import Store
from app.traces.pipeline import PipelineSettings
from app.tracker import Bounds
from itc import Relation, compare
from model.event import Event
from model.words import EventType, Match
from tests.integration.conftest import Service, until
from tests.integration.test_capture import send_and_receive
from tests.integration.test_hostile import open_the_trace_exchange
from tools.servers import Broker, RabbitCluster

MESSAGES = 100
BODY = bytes(200_000)


async def across(cluster: RabbitCluster, vhost: str) -> None:
    """Publish on the second node, to a queue that lives on the third and is read there."""
    _, second, third = cluster.nodes
    async with (
        await aio_pika.connect(second.amqp_url(vhost)) as publisher,
        await aio_pika.connect(third.amqp_url(vhost)) as consumer,
    ):
        queue = await (await consumer.channel()).declare_queue("far")
        channel = await publisher.channel()
        done = asyncio.Event()
        numbers = iter(range(1, MESSAGES + 1))

        async def take(message: aio_pika.abc.AbstractIncomingMessage) -> None:
            await message.ack()
            if next(numbers) == MESSAGES:
                done.set()

        await queue.consume(take)
        for number in range(MESSAGES):
            message = aio_pika.Message(BODY, message_id=str(number))
            await channel.default_exchange.publish(message, "far")
        async with asyncio.timeout(60):
            await done.wait()


async def overtake(broker: Broker, vhost: str) -> None:
    """Show the firehose a delivery, what its consumer published then, and only now its publish."""
    told: dict[str, Any] = {
        "node": "rabbit@elsewhere",
        "vhost": vhost,
        "user": "shop",
        "channel": 1,
        "exchange_name": "",
        "routing_keys": ["early"],
        "properties": {"message_id": "early"},
    }
    reaction = {"routing_keys": ["late"], "properties": {"message_id": "late"}}
    shown: list[tuple[str, dict[str, Any]]] = [
        ("deliver.early", {**told, "connection": "consumer", "redelivered": 0}),
        ("publish.", {**told, **reaction, "connection": "consumer", "routed_queues": []}),
        ("publish.", {**told, "connection": "publisher", "routed_queues": ["early"]}),
    ]
    await open_the_trace_exchange(broker, vhost)
    async with await aio_pika.connect(broker.amqp_url(vhost)) as connection:
        exchange = await (await connection.channel()).get_exchange("rubbish")
        for key, headers in shown:
            await exchange.publish(aio_pika.Message(b"m", headers=headers), key)


def overtaken(events: list[Event]) -> list[Event]:
    """Deliveries that reached the service before their publishes did."""
    at = {event.id: event.recorded_at for event in events}
    return [e for e in events if e.cause is not None and e.recorded_at < at[e.cause]]


async def test_a_cluster_is_traced_whole_in_causal_order_and_beyond_a_nodes_death(
    store: Store, settings: PipelineSettings
) -> None:
    settings = msgspec.structs.replace(settings, bounds=Bounds(reorder_window=20_000_000))
    with RabbitCluster() as cluster:
        cluster.add_vhost("v")
        service = Service(store, cluster, settings)
        await service.running("v")
        assert cluster.api("GET", "queues", "v", "itc.trace")["type"] == "quorum"
        assert set((await service.management.tracing("v")).values()) == {True}

        await across(cluster, "v")
        events = await service.stored("v", 2 * MESSAGES)
        received = [e for e in events if e.type is EventType.received]
        assert [e.match for e in received] == [Match.routed] * MESSAGES
        assert all(e.cause is not None and e.cause < e.id for e in received)

        await overtake(cluster, "v")
        # Three that were made up, and the three publishes that carried them.
        stored = (await service.stored("v", len(events) + 6))[len(events) :]
        publish, deliver, reaction = (e for e in stored if e.node == "rabbit@elsewhere")
        assert [publish.connection, deliver.connection] == ["publisher", "consumer"]
        assert overtaken(stored) == [deliver]
        assert (deliver.match, deliver.cause) == (Match.routed, publish.id)
        assert reaction.recorded_at < publish.recorded_at
        assert compare(publish.stamp, reaction.stamp) is Relation.before
        before = len(events) + 6

        third = cluster.nodes[2]
        await asyncio.to_thread(third.kill)
        await send_and_receive(cluster.nodes[1], "v", 5, "near")
        assert len(await service.stored("v", before + 10)) == before + 10
        await asyncio.to_thread(third.start)

        async def traced() -> bool:
            return (await service.management.tracing("v")).get(third.node, False)

        await until(traced, "tracing is on again on the third node")

        async def told() -> list[str]:
            gaps = (await service.registry.status("v")).gaps
            return [gap.reason for gap in gaps if gap.until is not None]

        assert any(third.node in reason for reason in await until(told, "a gap says so"))
        assert (await service.registry.status("v")).restarts == 0
        await service.close()
