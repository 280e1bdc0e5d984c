"""A backlog of real trace messages, in each trace queue that is to be drained."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Sequence

import aio_pika
from aio_pika.abc import AbstractChannel, AbstractConnection, AbstractIncomingMessage

from app.broker.firehose import TRACE_EXCHANGE
from tools.servers import Broker

PAYLOAD = b"x" * 200


async def fill(
    broker: Broker, vhost: str, queues: Sequence[str], participants: int, count: int
) -> None:
    """Let participants gossip until each of these trace queues holds ``count`` messages or more.

    Each participant is a connection with its own queue; for each message it gets it publishes one
    to a random other. So every message is a publish and a deliver, and clocks travel. Tracing is
    off afterwards.
    """
    async with await aio_pika.connect(broker.amqp_url(vhost)) as watcher:
        channel = await watcher.channel()
        for name in queues:
            queue = await channel.declare_queue(name, durable=True)
            await queue.bind(TRACE_EXCHANGE, "#")
        broker.api("PUT", "vhosts", vhost, json={"tracing": True})
        talking = [await aio_pika.connect(broker.amqp_url(vhost)) for _ in range(participants)]
        for number, connection in enumerate(talking):
            await _gossip(connection, number, participants)
        while await _queued(channel, queues[-1]) < count:  # noqa: ASYNC110 - the broker has no event
            await asyncio.sleep(0.2)
        await asyncio.gather(*(connection.close() for connection in talking))
    broker.api("PUT", "vhosts", vhost, json={"tracing": False})


async def _queued(channel: AbstractChannel, name: str) -> int:
    queue = await channel.declare_queue(name, passive=True)
    return queue.declaration_result.message_count or 0


async def _gossip(connection: AbstractConnection, own: int, participants: int) -> None:
    channel = await connection.channel(publisher_confirms=False)
    await channel.set_qos(prefetch_count=50)
    queue = await channel.declare_queue(f"bench-{own}")
    chance = random.Random(own)
    numbers = itertools.count()

    async def pass_on(message: AbstractIncomingMessage | None) -> None:
        identity = f"{own}-{next(numbers)}"
        onward = aio_pika.Message(PAYLOAD, message_id=identity, content_type="text/plain")
        other = (own + chance.randrange(1, participants)) % participants
        await channel.default_exchange.publish(onward, f"bench-{other}", mandatory=False)
        if message is not None:
            await message.ack()

    await queue.consume(pass_on)
    for _ in range(max(1, 100 // participants)):
        await pass_on(None)
