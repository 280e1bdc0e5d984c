"""Deliveries that differ from their publish, or come out of another queue than it went to."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from typing import Any

import pika
import pytest

from model.words import EdgeKind, EventType, Match, Via
from tests.integration.conftest import Service, until
from tests.integration.other_protocols import Amqp10, modified, symbol, text
from tests.integration.test_cases import Clients
from tests.integration.test_streams import Node, channel_of
from tools.servers import Broker

SHOVEL = ("rabbitmq_shovel", "rabbitmq_shovel_management")


@pytest.fixture(scope="module")
def rabbit() -> Iterator[Node]:
    with Node(*SHOVEL) as node:
        yield node


@pytest.fixture
async def clients(service: Service, rabbit: Node, vhost: str) -> AsyncIterator[Clients]:
    await service.running(vhost)
    async with AsyncExitStack() as stack:
        yield Clients(rabbit, vhost, stack)


def send(broker: Broker, vhost: str, exchange: str, key: str, **properties: Any) -> None:
    """Publish a message; unlike aio-pika, with no id of its own."""
    channel = channel_of(broker, vhost)
    channel.basic_publish(exchange, key, b"m", pika.BasicProperties(**properties))
    channel.connection.close()


@pytest.mark.parametrize("exchange", ["", "amq.direct"])
@pytest.mark.parametrize("message_id", ["m1", None])
async def test_what_a_local_shovel_moved_is_never_taken_for_independent_of_its_publish(
    service: Service, rabbit: Node, clients: Clients, exchange: str, message_id: str | None
) -> None:
    rabbit.needs((4, 2), "local shovels")
    for name in ("src", "dst"):
        queue = await clients.queue(name, queue_type="quorum")
        await queue.bind("amq.direct", name)
    send(rabbit, clients.vhost, exchange, "src", message_id=message_id)
    uri = f"amqp:///{clients.vhost}"
    moving = {"src-protocol": "local", "src-uri": uri, "src-queue": "src"}
    moving |= {"dest-protocol": "local", "dest-uri": uri, "dest-queue": "dst"}
    rabbit.api("PUT", "parameters", "shovel", clients.vhost, "s", json={"value": moving})
    await (await clients.take("dst")).ack()
    sent, handed = await service.stored(clients.vhost, 2)
    assert (sent.type, handed.queue) == (EventType.published, "dst")
    known = sent.id if message_id else None
    assert (handed.cause, handed.doubtful) == (known, message_id is None)
    found = await service.store.conversations.of_event(sent.id, Via.links)
    waits = found.conversation.counts.waiting
    assert waits == (not message_id), "it is not known to have left its queue"


@pytest.mark.parametrize("message_id", ["m1", None])
async def test_what_a_consumer_adds_to_a_message_does_not_hide_its_return_and_its_death(
    service: Service, rabbit: Node, clients: Clients, message_id: str | None
) -> None:
    rabbit.needs((4, 0), "AMQP 1.0 without a plugin")
    to_dead = {"dead_letter_exchange": "", "dead_letter_routing_key": "dead"}
    await clients.queue("jobs", queue_type="quorum", **to_dead)
    await clients.queue("dead")
    send(rabbit, clients.vhost, "", "jobs", message_id=message_id, headers={"x-tenant": "a"})
    for undeliverable in (False, True):
        note = symbol("x-opt-why"), text("no stock")
        client = await Amqp10.connect(rabbit.amqp_port, clients.vhost)
        await client.take("jobs", outcome=modified(note, undeliverable=undeliverable))
        await client.close()
    letter = await until(lambda: clients.take("dead"), "the dead letter")
    assert letter.headers["x-opt-why"] == "no stock"
    await letter.ack()
    sent, *handed = await service.stored(clients.vhost, 4)
    assert [each.match for each in handed] == [
        Match.routed,
        Match.redelivered,
        Match.dead_lettered,
    ]
    assert {each.cause for each in handed} == {sent.id}
    assert not any(each.doubtful for each in handed)
    found = (await service.store.conversations.of_event(handed[-1].id, Via.links)).conversation
    acts = found.messages[0].copies[0].deliveries[-1].acts
    assert [(act.cause, act.kind) for act in acts] == [(handed[1].id, EdgeKind.rejected.name)]
