"""A backlog of real trace messages, in each trace queue that is to be drained."""

from __future__ import annotations

import asyncio
import itertools
import math
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TypeAlias

import aio_pika
from aio_pika.abc import AbstractConnection, AbstractIncomingMessage, HeadersType

from app.broker.bundles import bundles_queue, wishes
from app.broker.firehose import TRACE_EXCHANGE
from tools.servers import Broker, ServerError, wait_until

PAYLOAD = b"x" * 200
BUNDLING_SECONDS = 30

# From a message's id, and the message that its publisher has handled, to its headers.
Headers: TypeAlias = Callable[[str, AbstractIncomingMessage | None], HeadersType]


def _no_headers(identity: str, handled: AbstractIncomingMessage | None) -> HeadersType:
    return {}


def _own(count: int, identity: str) -> HeadersType:
    return {f"x-app-{number}": f"{number} of {identity}" for number in range(count)}


def _without_rule(identity: str, handled: AbstractIncomingMessage | None) -> HeadersType:
    return _own(8, identity)


def _with_a_cause(identity: str, handled: AbstractIncomingMessage | None) -> HeadersType:
    return _own(7, identity) | {"causation_id": _cause(identity, handled)}


def _cause(identity: str, handled: AbstractIncomingMessage | None) -> str:
    return identity if handled is None else handled.message_id or ""


def _with_rules(identity: str, handled: AbstractIncomingMessage | None) -> HeadersType:
    """A causation header, and a traceparent that goes on for ten messages or so."""
    conversation = hash(identity) if handled is None else int(handled.headers["conversation"])  # type: ignore[arg-type]
    if identity.endswith("0"):
        conversation = hash(identity)
    return _own(5, identity) | {
        "conversation": str(conversation),
        "causation_id": _cause(identity, handled),
        "traceparent": f"00-{conversation % 2**64 + 1:032x}-{abs(hash(identity)) + 1:016x}-01",
    }


def _with_four_rules(identity: str, handled: AbstractIncomingMessage | None) -> HeadersType:
    """The same, and by which names two frameworks call the conversation."""
    said = _with_rules(identity, handled)
    names = ("NServiceBus.ConversationId", "conversation-id")
    return said | dict.fromkeys(names, str(said["conversation"]))


KINDS: dict[str, Headers] = {
    "no headers": _no_headers,
    "8 headers, none of a rule": _without_rule,
    "8 headers, one of rules": _with_a_cause,
    "8 headers, two of rules": _with_rules,
    "10 headers, four of rules": _with_four_rules,
}


async def fill(
    broker: Broker,
    vhost: str,
    queues: Sequence[str],
    participants: int,
    count: int,
    headers: Headers = _no_headers,
    payload: bytes = PAYLOAD,
    bundled: Sequence[str] = (),
) -> None:
    """Let participants gossip until each of these trace queues holds ``count`` messages or more.

    Queues that are ``bundled`` have as many in bundles, if the broker's plugin makes them there.
    Each participant is a connection with its own queue; for each message it gets it publishes one
    to a random other, with a message id. So every message is a publish and a deliver, and clocks
    travel. Tracing is off afterwards.
    """
    talking = gossip(broker, vhost, queues, participants, headers, payload, bundled=bundled)
    async with talking as waiting:
        while await waiting() < count:  # noqa: ASYNC110 - the broker has no event
            await asyncio.sleep(0.2)


class Pace:
    """A rate that is kept on the average of a second: turns a second."""

    def __init__(self, rate: float) -> None:
        self._between, self._due = 1 / rate, 0.0

    async def turn(self) -> None:
        """Wait until it is somebody's turn."""
        now = asyncio.get_running_loop().time()
        self._due = max(self._due + self._between, now - 1)
        if self._between and self._due > now:
            await asyncio.sleep(self._due - now)


@asynccontextmanager
async def gossip(
    broker: Broker,
    vhost: str,
    queues: Sequence[str],
    participants: int,
    headers: Headers = _no_headers,
    payload: bytes = PAYLOAD,
    rate: float = math.inf,
    bundled: Sequence[str] = (),
) -> AsyncIterator[Callable[[], Awaitable[int]]]:
    """Let participants gossip (`fill`), at most at a rate of so many publishes a second.

    Gives what says how many messages wait in the last trace queue.
    """
    async with await aio_pika.connect(broker.amqp_url(vhost)) as watcher:
        channel = await watcher.channel()
        for name in (*bundled, *queues):
            queue = await channel.declare_queue(name, durable=True)
            for key in ("#", *(wishes("#") if name in bundled else ())):
                await queue.bind(TRACE_EXCHANGE, key)
        for name in bundled:
            there = partial(_is_there, broker, vhost, bundles_queue(name))
            await asyncio.to_thread(wait_until, there, BUNDLING_SECONDS, f"bundles of {name}")
        broker.api("PUT", "vhosts", vhost, json={"tracing": True})
        talking = [await aio_pika.connect(broker.amqp_url(vhost)) for _ in range(participants)]
        for number in range(participants):
            await channel.declare_queue(f"bench-{number}")
        pace = Pace(rate)
        for number, connection in enumerate(talking):
            await _gossip(connection, number, participants, headers, payload, pace)

        async def waiting() -> int:
            queue = await channel.declare_queue(queues[-1], passive=True)
            return queue.declaration_result.message_count or 0

        yield waiting
        # First: they talk on while they are closed, a thousand for seconds.
        broker.api("PUT", "vhosts", vhost, json={"tracing": False})
        await asyncio.gather(*(connection.close() for connection in talking))


def _is_there(broker: Broker, vhost: str, queue: str) -> bool:
    try:
        broker.api("GET", "queues", vhost, queue)
    except ServerError:
        return False
    return True


async def _gossip(
    connection: AbstractConnection,
    own: int,
    participants: int,
    headers: Headers,
    payload: bytes,
    pace: Pace,
) -> None:
    channel = await connection.channel(publisher_confirms=False)
    await channel.set_qos(prefetch_count=50)
    queue = await channel.get_queue(f"bench-{own}")
    chance = random.Random(own)
    numbers = itertools.count()

    async def pass_on(message: AbstractIncomingMessage | None) -> None:
        await pace.turn()
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
