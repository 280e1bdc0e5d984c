"""A conversation on a real broker: a retry, a dead letter, and parents as Celery names them."""

from __future__ import annotations

from typing import Any

import aio_pika

from app.stored.conversations import ConversationFilter
from app.stored.reading import EventFilter
from model.conversations.conversation import Conversation
from model.conversations.messages import Message, MessageFailure, Outcome
from model.words import Match, Via
from tests.integration.conftest import Service
from tools.servers import Broker


class Worker:
    """Hands tasks on, as Celery does: each names the task that was at work when it was sent."""

    def __init__(self, channel: aio_pika.abc.AbstractChannel) -> None:
        self._channel = channel

    async def send(self, task: str, queue: str, number: str, parent: str | None) -> None:
        headers: dict[str, Any] = {"task": task, "id": number, "parent_id": parent}
        message = aio_pika.Message(b"[[], {}, {}]", headers=headers, correlation_id=number)
        await self._channel.default_exchange.publish(message, routing_key=queue)

    async def take(self, queue: str) -> aio_pika.abc.AbstractIncomingMessage:
        declared = await self._channel.get_queue(queue)
        async with declared.iterator(timeout=30) as messages:
            async for message in messages:
                return message
        raise AssertionError(f"nothing came out of {queue}")


async def test_an_order_is_told_with_its_retry_its_death_and_what_waits(
    service: Service, rabbit: Broker, vhost: str
) -> None:
    await service.running(vhost)
    async with await aio_pika.connect(rabbit.amqp_url(vhost)) as connection:
        channel = await connection.channel()
        dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
        await channel.declare_queue("orders")
        await channel.declare_queue("mail", arguments=dead)
        for queue in ("dead", "later"):
            await channel.declare_queue(queue)
        worker = Worker(channel)
        await worker.send("shop.order", "orders", "a", None)
        await (await worker.take("orders")).reject(requeue=True)
        order = await worker.take("orders")
        await worker.send("shop.mail", "mail", "b", "a")
        await worker.send("shop.ship", "later", "c", "a")
        await order.ack()
        await (await worker.take("mail")).reject(requeue=False)
        await (await worker.take("dead")).ack()
        events = await service.stored(vhost, 7)
    found = await service.store.conversations.of_event(events[-1].id, Via.links)
    assert found.root == events[0].id
    _judge(found.conversation)
    page = await service.store.conversations.list(
        EventFilter(vhost=vhost, correlation_id="c"), ConversationFilter(), Via.links
    )
    assert [each.conversation.root for each in page.items] == [found.root]


def _judge(one: Conversation) -> None:
    order, mail, ship = one.messages
    assert [each.record.message_type for each in one.messages] == [
        "shop.order",
        "shop.mail",
        "shop.ship",
    ]
    assert _matches(order) == [("orders", "routed"), ("orders", "redelivered")]
    assert _matches(mail) == [("mail", "routed"), ("dead", "dead_lettered")]
    assert (order.outcome, ship.outcome) == (Outcome.done, Outcome.waiting)
    assert mail.failure == MessageFailure("died", "mail", "rejected")
    assert one.outcome is Outcome.failed
    # What came of it may have been sent before it was given back: which delivery, is not known.
    assert [each.leads_to for each in order.copies[0].deliveries] == [(), ()]
    assert {mail.cause, ship.cause} == {order.record.id}
    assert mail.how is not None
    assert mail.how.rule == "celery-parent"
    assert one.counts[:5] == (3, 4, 1, 1, 1)
    assert one.amplification == (2, order.record.id)
    assert one.sentence.startswith("shop.order led to 2 more messages so far")
    assert "1 died in mail" in one.sentence
    assert all(each.queued >= 0 for copy in order.copies for each in copy.deliveries)


def _matches(message: Message) -> list[tuple[str | None, str]]:
    return [
        (each.record.queue, Match(each.record.match).name)
        for copy in message.copies
        for each in copy.deliveries
    ]
