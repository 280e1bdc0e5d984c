"""A backlog of real trace messages, in each trace queue that is to be drained."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Callable, Sequence
from typing import TypeAlias

import aio_pika
from aio_pika.abc import AbstractChannel, AbstractConnection, AbstractIncomingMessage, HeadersType

from app.broker.firehose import TRACE_EXCHANGE
from tools.servers import Broker

PAYLOAD = b"x" * 200

# From a message's id, and the message that its publisher has handled, to its headers.
Headers: TypeAlias = Callable[[str, AbstractIncomingMessage | None], HeadersType]


def _no_headers(identity: str, handled: AbstractIncomingMessage | None) -> HeadersType:
    return {}


async def fill(
    broker: Broker,
    vhost: str,
    queues: Sequence[str],
    participants: int,
    count: int,
    headers: Headers = _no_headers,
    payload: bytes = PAYLOAD,
) -> None:
    """Let participants gossip until each of these trace queues holds ``count`` messages or more.

    Each participant is a connection with its own queue; for each message it gets it publishes one
    to a random other, with a message id. So every message is a publish and a deliver, and clocks
    travel. Tracing is off afterwards.
    """
    async with await aio_pika.connect(broker.amqp_url(vhost)) as watcher:
        channel = await watcher.channel()
        for name in queues:
            queue = await channel.declare_queue(name, durable=True)
            await queue.bind(TRACE_EXCHANGE, "#")
        broker.api("PUT", "vhosts", vhost, json={"tracing": True})
        talking = [await aio_pika.connect(broker.amqp_url(vhost)) for _ in range(participants)]
        for number, connection in enumerate(talking):
            await _gossip(connection, number, participants, headers, payload)
        while await _queued(channel, queues[-1]) < count:  # noqa: ASYNC110 - the broker has no event
            await asyncio.sleep(0.2)
        await asyncio.gather(*(connection.close() for connection in talking))
    broker.api("PUT", "vhosts", vhost, json={"tracing": False})


async def _queued(channel: AbstractChannel, name: str) -> int:
    queue = await channel.declare_queue(name, passive=True)
    return queue.declaration_result.message_count or 0


async def _gossip(
    connection: AbstractConnection,
    own: int,
    participants: int,
    headers: Headers,
    payload: bytes,
) -> None:
    channel = await connection.channel(publisher_confirms=False)
    await channel.set_qos(prefetch_count=50)
    queue = await channel.declare_queue(f"bench-{own}")
    chance = random.Random(own)
    numbers = itertools.count()

    async def pass_on(message: AbstractIncomingMessage | None) -> None:
        identity = f"{own}-{next(numbers)}"
        onward = aio_pika.Message(
            payload,
            message_id=identity,
            content_type="text/plain",
            headers=headers(identity, message),
        )
        other = (own + chance.randrange(1, participants)) % participants
        await channel.default_exchange.publish(onward, f"bench-{other}", mandatory=False)
        if message is not None:
            await message.ack()

    await queue.consume(pass_on)
    for _ in range(max(1, 100 // participants)):
        await pass_on(None)
