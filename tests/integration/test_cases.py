"""What the firehose shows of everything a broker can do with a message, and what is made of it.

Each case runs some traffic in a virtual host of its own and says what its events are: in the order
of ids, ``published`` or ``received@queue``, how each matched, and which publish it was matched to
(by place, from 0).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, NamedTuple

import aio_pika
import pytest
from aio_pika import DeliveryMode, ExchangeType, Message
from aio_pika.abc import (
    AbstractChannel,
    AbstractConnection,
    AbstractIncomingMessage,
    AbstractQueue,
)

from model.event import Event
from model.words import EventType, Match
from tests.integration.conftest import Service, until
from tools.servers import Broker

ROUTED, REDELIVERED, DEAD, UNMATCHED = (
    Match.routed,
    Match.redelivered,
    Match.dead_lettered,
    Match.unmatched,
)


class Clients:
    """Connections to one virtual host, and the few things that the cases do with them."""

    def __init__(self, broker: Broker, vhost: str, stack: AsyncExitStack) -> None:
        self._url = broker.amqp_url(vhost)
        self._stack = stack
        self.broker = broker
        self.vhost = vhost

    async def connect(self) -> AbstractConnection:
        return await self._stack.enter_async_context(await aio_pika.connect(self._url))

    async def channel(self, *, confirms: bool = True) -> AbstractChannel:
        return await (await self.connect()).channel(publisher_confirms=confirms)

    async def queue(self, name: str = "q", **arguments: Any) -> AbstractQueue:
        given = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
        durable = arguments.get("queue_type") in ("quorum", "stream")
        return await (await self.channel()).declare_queue(name, durable=durable, arguments=given)

    async def send(
        self, key: str = "q", body: bytes = b"m", exchange: str = "", **more: Any
    ) -> None:
        channel = await self.channel()
        to = await channel.get_exchange(exchange, ensure=False) if exchange else None
        await (to or channel.default_exchange).publish(Message(body, **more), key, mandatory=False)

    async def take(self, queue: str = "q") -> AbstractIncomingMessage:
        """Get one message; wait until there is one."""
        there = await (await self.channel()).get_queue(queue, ensure=False)
        return await until(lambda: there.get(fail=False), f"a message in {queue}")


async def one_to_one(clients: Clients) -> None:
    await clients.queue()
    await clients.send()
    await (await clients.take()).ack()


def through(kind: ExchangeType, key: str, **binding: Any) -> Callable[[Clients], Awaitable[None]]:
    async def run(clients: Clients) -> None:
        channel = await clients.channel()
        exchange = await channel.declare_exchange("x", kind)
        for name in ("a", "b"):
            await (await clients.queue(name)).bind(exchange, **binding)
        await clients.send(key, exchange="x", headers={"colour": "red"})
        await (await clients.take("a")).ack()
        await (await clients.take("b")).ack()

    return run


async def exchange_to_exchange(clients: Clients) -> None:
    channel = await clients.channel()
    first = await channel.declare_exchange("first", ExchangeType.FANOUT)
    second = await channel.declare_exchange("second", ExchangeType.TOPIC)
    await second.bind(first, "#")
    await (await clients.queue()).bind(second, "#")
    await clients.send("any", exchange="first")
    await (await clients.take()).ack()


async def alternate_exchange(clients: Clients) -> None:
    channel = await clients.channel()
    other = await channel.declare_exchange("other", ExchangeType.FANOUT)
    await channel.declare_exchange("x", arguments={"alternate-exchange": "other"})
    await (await clients.queue()).bind(other)
    await clients.send("nobody's", exchange="x")
    await (await clients.take()).ack()


async def unroutable(clients: Clients) -> None:
    await (await clients.channel()).declare_exchange("x", ExchangeType.DIRECT)
    await clients.send("nobody's", exchange="x")


async def no_such_queue(clients: Clients) -> None:
    await clients.send("nowhere")


async def requeued_by_nack(clients: Clients) -> None:
    await clients.queue()
    await clients.send()
    await (await clients.take()).nack(requeue=True)
    await (await clients.take()).ack()


async def requeued_by_death(clients: Clients) -> None:
    await clients.queue()
    await clients.send(body=b"1")
    await clients.send(body=b"2")
    connection = await clients.connect()
    queue = await (await connection.channel()).get_queue("q")
    await queue.get()
    await queue.get()
    await connection.close()
    await (await clients.take()).ack()
    await (await clients.take()).ack()


async def two_hops(clients: Clients) -> None:
    to = {"dead_letter_exchange": ""}
    await clients.queue("q", **to, dead_letter_routing_key="dead")
    await clients.queue("dead", **to, dead_letter_routing_key="deader", message_ttl=1)
    await clients.queue("deader")
    await clients.send()
    await (await clients.take()).reject(requeue=False)
    await (await clients.take("deader")).ack()


async def expired(clients: Clients) -> None:
    await clients.queue("q", dead_letter_exchange="", dead_letter_routing_key="dead")
    await clients.queue("dead")
    await clients.send(expiration=0.001)
    await (await clients.take("dead")).ack()


async def overflown(clients: Clients) -> None:
    await clients.queue("q", max_length=1, dead_letter_exchange="", dead_letter_routing_key="dead")
    await clients.queue("dead")
    await clients.send(body=b"first")
    await clients.send(body=b"second")
    await (await clients.take("dead")).ack()
    await (await clients.take()).ack()


async def publish_rejected(clients: Clients) -> None:
    await clients.queue("q", max_length=1, overflow="reject-publish")
    channel = await clients.channel(confirms=False)
    for body in (b"first", b"second"):
        await channel.default_exchange.publish(Message(body), "q")
    await channel.close()
    await (await clients.take()).ack()


async def delivered_too_often(clients: Clients) -> None:
    await clients.queue(
        "q",
        queue_type="quorum",
        delivery_limit=1,
        dead_letter_exchange="",
        dead_letter_routing_key="dead",
    )
    await clients.queue("dead")
    await clients.send()
    # By the client's death: newer brokers do not count what a client requeues itself.
    for _ in range(2):
        connection = await clients.connect()
        queue = await (await connection.channel()).get_queue("q")
        await until(partial(queue.get, fail=False), "a message in q")
        await connection.close()
    await (await clients.take("dead")).ack()


async def from_a_quorum_queue(clients: Clients) -> None:
    await clients.queue("q", queue_type="quorum")
    await clients.send(headers={"mine": 1}, delivery_mode=DeliveryMode.PERSISTENT)
    await (await clients.take()).nack(requeue=True)
    await (await clients.take()).ack()


async def by_priority(clients: Clients) -> None:
    await clients.queue("q", max_priority=9)
    await clients.send(body=b"low", priority=1)
    await clients.send(body=b"high", priority=9)
    await (await clients.take()).ack()
    await (await clients.take()).ack()


async def carbon_copies(clients: Clients) -> None:
    for name in ("q", "copied", "hidden"):
        await clients.queue(name)
    await clients.send(headers={"CC": ["copied"], "BCC": ["hidden"], "mine": "x"})
    for name in ("q", "copied", "hidden"):
        await (await clients.take(name)).ack()


async def rolled_back(clients: Clients) -> None:
    await clients.queue()
    channel = await clients.channel(confirms=False)
    async with channel.transaction() as transaction:
        await channel.default_exchange.publish(Message(b"never"), "q")
        await transaction.rollback()
        await transaction.select()
    await clients.send(body=b"after")
    await (await clients.take()).ack()


async def direct_reply(clients: Clients) -> None:
    await clients.queue()
    client = await clients.channel()
    reply = await client.get_queue("amq.rabbitmq.reply-to", ensure=False)
    answered = asyncio.Event()

    async def take(_: AbstractIncomingMessage) -> None:
        answered.set()

    await reply.consume(take, no_ack=True)
    await client.default_exchange.publish(Message(b"ask", reply_to="amq.rabbitmq.reply-to"), "q")
    request = await clients.take()
    await request.ack()
    await clients.send(str(request.reply_to), b"answer")
    async with asyncio.timeout(10):
        await answered.wait()


async def over_a_ladder(clients: Clients) -> None:
    for level in range(5):
        to = f"level{level + 1}" if level < 4 else "q"
        rule = {"dead_letter_exchange": "", "dead_letter_routing_key": to}
        await clients.queue(f"level{level}", message_ttl=1, **rule)
    await clients.queue()
    await clients.send("level0")
    await (await clients.take()).ack()


async def into_two_queues(clients: Clients) -> None:
    exchange = await (await clients.channel()).declare_exchange("dlx", ExchangeType.FANOUT)
    await clients.queue(message_ttl=1, dead_letter_exchange="dlx")
    for name in ("a", "b"):
        await (await clients.queue(name)).bind(exchange)
    await clients.send()
    for name in ("a", "b"):
        await (await clients.take(name)).ack()


async def put_back_and_rejected_again(clients: Clients) -> None:
    await clients.queue(dead_letter_exchange="", dead_letter_routing_key="dead")
    await clients.queue("dead")
    await clients.send()
    for is_last in (False, True):
        await (await clients.take()).reject(requeue=False)
        dead = await clients.take("dead")
        await dead.ack()
        if not is_last:
            await clients.send(headers=dict(dead.headers))


async def from_a_stream(clients: Clients) -> None:
    queue = await clients.queue("q", queue_type="stream")
    await clients.send(body=b"once")
    for _ in range(2):
        channel = await clients.channel()
        await channel.set_qos(1)
        got = asyncio.Event()
        there = await channel.get_queue(queue.name, ensure=False)

        async def take(message: AbstractIncomingMessage, got: asyncio.Event = got) -> None:
            await message.ack()
            got.set()

        await there.consume(take, arguments={"x-stream-offset": "first"})
        async with asyncio.timeout(10):
            await got.wait()


async def from_the_management_api(clients: Clients) -> None:
    await clients.queue()
    body = {"properties": {}, "routing_key": "q", "payload": "m", "payload_encoding": "string"}
    await asyncio.to_thread(
        clients.broker.api, "POST", "exchanges", clients.vhost, "amq.default", "publish", json=body
    )
    await (await clients.take()).ack()


async def equal_messages(clients: Clients) -> None:
    await clients.queue()
    for _ in range(3):
        await clients.send()
    for _ in range(3):
        await (await clients.take()).ack()


async def ten_megabytes(clients: Clients) -> None:
    await clients.queue()
    await clients.send(body=bytes(10 * 1024 * 1024))
    await (await clients.take()).ack()


class Case(NamedTuple):
    traffic: Callable[[Clients], Awaitable[None]]
    # For each received event in order: (queue, match, index of its publish or None).
    received: list[tuple[str, Match, int | None]]
    published: int = 1


BOTH = [("a", ROUTED, 0), ("b", ROUTED, 0)]
CASES = {
    "default exchange": Case(one_to_one, [("q", ROUTED, 0)]),
    "direct": Case(through(ExchangeType.DIRECT, "k", routing_key="k"), BOTH),
    "fanout": Case(through(ExchangeType.FANOUT, ""), BOTH),
    "topic": Case(through(ExchangeType.TOPIC, "a.b.c", routing_key="a.#"), BOTH),
    "headers": Case(
        through(ExchangeType.HEADERS, "", arguments={"x-match": "any", "colour": "red"}), BOTH
    ),
    "exchange to exchange": Case(exchange_to_exchange, [("q", ROUTED, 0)]),
    "alternate exchange": Case(alternate_exchange, [("q", ROUTED, 0)]),
    "unroutable": Case(unroutable, []),
    "no such queue": Case(no_such_queue, []),
    "requeued by nack": Case(requeued_by_nack, [("q", ROUTED, 0), ("q", REDELIVERED, 0)]),
    "requeued by death": Case(
        requeued_by_death,
        [("q", ROUTED, 0), ("q", ROUTED, 1), ("q", REDELIVERED, 0), ("q", REDELIVERED, 1)],
        published=2,
    ),
    "dead letters over two hops": Case(two_hops, [("q", ROUTED, 0), ("deader", DEAD, 0)]),
    "expired": Case(expired, [("dead", DEAD, 0)]),
    "queue overflow": Case(overflown, [("dead", DEAD, 0), ("q", ROUTED, 1)], published=2),
    "publish rejected": Case(publish_rejected, [("q", ROUTED, 0)], published=2),
    "delivery limit": Case(
        delivered_too_often, [("q", ROUTED, 0), ("q", REDELIVERED, 0), ("dead", DEAD, 0)]
    ),
    "quorum queue": Case(from_a_quorum_queue, [("q", ROUTED, 0), ("q", REDELIVERED, 0)]),
    "priority": Case(by_priority, [("q", ROUTED, 1), ("q", ROUTED, 0)], published=2),
    "CC and BCC": Case(
        carbon_copies, [("q", ROUTED, 0), ("copied", ROUTED, 0), ("hidden", ROUTED, 0)]
    ),
    # The firehose shows a publish when it is routed, and not what the transaction makes of it.
    "transaction rolled back": Case(rolled_back, [("q", ROUTED, 1)], published=2),
    "stream": Case(from_a_stream, [("q", ROUTED, 0), ("q", ROUTED, 0)]),
    "management API": Case(from_the_management_api, [("q", ROUTED, 0)]),
    "equal messages": Case(
        equal_messages, [("q", ROUTED, 0), ("q", ROUTED, 1), ("q", ROUTED, 2)], published=3
    ),
    "over a ladder of delays": Case(over_a_ladder, [("q", DEAD, 0)]),
    "into two queues": Case(into_two_queues, [("a", DEAD, 0), ("b", DEAD, 0)]),
    "put back and rejected again": Case(
        put_back_and_rejected_again,
        [("q", ROUTED, 0), ("dead", DEAD, 0), ("q", ROUTED, 1), ("dead", DEAD, 1)],
        published=2,
    ),
    "ten megabytes": Case(ten_megabytes, [("q", ROUTED, 0)]),
}


def told(events: list[Event]) -> tuple[int, list[tuple[str | None, Match, int | None]]]:
    """How many publishes there are, and each received event as the cases write it."""
    places = [e.id for e in events if e.type is EventType.published]
    received = [
        (e.queue, e.match, None if e.cause is None else places.index(e.cause))
        for e in events
        if e.type is EventType.received
    ]
    return len(places), received


@pytest.mark.parametrize("name", CASES)
async def test_the_case_comes_out_as_it_happened(
    name: str, service: Service, rabbit: Broker, vhost: str
) -> None:
    case = CASES[name]
    await service.running(vhost)
    async with AsyncExitStack() as stack:
        await case.traffic(Clients(rabbit, vhost, stack))
    await service.registry.stop(vhost)
    assert told(await service.events(vhost)) == (case.published, case.received)
    status = await service.registry.status(vhost)
    assert (status.restarts, status.counters.quarantined) == (0, 0)


async def test_a_direct_reply_is_received_whether_or_not_the_broker_traces_it(
    service: Service, rabbit: Broker, vhost: str
) -> None:
    """Up to 3.12 a reply is a publish to no queue, later ones name one, 4.2 delivers from it."""
    await service.running(vhost)
    async with AsyncExitStack() as stack:
        await direct_reply(Clients(rabbit, vhost, stack))
    await service.registry.stop(vhost)
    published, received = told(await service.events(vhost))
    assert published == 2
    assert received[0] == ("q", ROUTED, 0)
    (reply,) = received[1:]
    assert reply[1:] in ((Match.untraced, 1), (ROUTED, 1))


async def test_a_message_published_before_tracing_is_received_without_a_cause(
    service: Service, rabbit: Broker, vhost: str
) -> None:
    async with AsyncExitStack() as stack:
        clients = Clients(rabbit, vhost, stack)
        await clients.queue()
        await clients.send()
        await service.running(vhost)
        await (await clients.take()).ack()
    await service.registry.stop(vhost)
    assert told(await service.events(vhost)) == (0, [("q", UNMATCHED, None)])
    assert (await service.registry.status(vhost)).counters.unmatched == 1
