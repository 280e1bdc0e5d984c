"""A second consumer of the firehose, on a queue of its own that no fault is to touch.

It tells what the broker traced, by the same keys as the clients' events. It parses nothing else,
and shares no code with the service.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiormq.abc import DeliveredMessage

from drills.faults.clients import AGAIN_SECONDS, ERRORS, connected
from drills.faults.history import Key
from model.words import EventType

QUEUE = "observer"
TRACE_EXCHANGE = "amq.rabbitmq.trace"


@asynccontextmanager
async def observed(url: str) -> AsyncIterator[Counter[Key]]:
    """Watch while the block runs; the counter grows."""
    seen: Counter[Key] = Counter()
    ready = asyncio.Event()
    watching = asyncio.create_task(_watch(url, seen, ready))
    try:
        async with asyncio.timeout(30):
            await ready.wait()
        yield seen
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


async def _watch(url: str, seen: Counter[Key], ready: asyncio.Event) -> None:
    async def take(message: DeliveredMessage) -> None:
        if key := key_of(message):
            seen[key] += 1

    while True:
        try:
            async with connected(url) as (connection, _):
                channel = await connection.channel()
                await channel.queue_declare(QUEUE, durable=True)
                await channel.queue_bind(QUEUE, TRACE_EXCHANGE, routing_key="#")
                await channel.basic_consume(QUEUE, take, no_ack=True)
                ready.set()
                await asyncio.shield(connection.closing)
        except ERRORS:
            pass
        await asyncio.sleep(AGAIN_SECONDS)


def key_of(message: DeliveredMessage) -> Key | None:
    """The key of what a trace message tells; None if it tells of no client of ours."""
    told = message.header.properties.headers or {}
    properties = told.get("properties")
    identity = properties.get("message_id") if isinstance(properties, dict) else None
    if not isinstance(identity, str):
        return None
    kind, _, place = (message.routing_key or "").partition(".")
    if kind == "publish":
        return Key(EventType.published, identity)
    return Key(EventType.received, identity, place, str(told.get("connection")))
