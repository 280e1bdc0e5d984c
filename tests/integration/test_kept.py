"""Messages that the broker keeps, and hands out later without a publish."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack

import pytest

from itc import Relation, compare
from model.event import Event
from model.words import EventType
from tests.integration.conftest import Service, until
from tests.integration.other_protocols import mqtt_retain, mqtt_take
from tests.integration.test_cases import Clients
from tools.servers import RabbitNode, free_port


class KeepingNode(RabbitNode):
    """A broker that keeps messages, for clients of MQTT and for queues that are bound later."""

    def __init__(self) -> None:
        self.mqtt_port = free_port()
        listener = {"mqtt.listeners.tcp.1": f"127.0.0.1:{self.mqtt_port}"}
        plugins = ("rabbitmq_mqtt", "rabbitmq_recent_history_exchange")
        super().__init__(settings=listener, plugins=plugins)


@pytest.fixture(scope="module")
def rabbit() -> Iterator[KeepingNode]:
    with KeepingNode() as node:
        yield node


@pytest.fixture
async def clients(service: Service, rabbit: KeepingNode, vhost: str) -> AsyncIterator[Clients]:
    await service.running(vhost)
    async with AsyncExitStack() as stack:
        yield Clients(rabbit, vhost, stack)


def is_before(a: Event, b: Event) -> bool:
    return compare(a.stamp, b.stamp) is Relation.before


async def handed_later(service: Service, clients: Clients, *ids: str) -> list[Event]:
    """Publishes to an exchange that keeps them, and what a queue is handed that is bound later."""
    channel = await clients.channel()
    exchange = await channel.declare_exchange("kept", "x-recent-history")
    for each in ids:
        await clients.send("", exchange="kept", message_id=each)
    await (await clients.queue()).bind(exchange)
    for _ in ids:
        await (await clients.take()).ack()
    return await service.stored(clients.vhost, 2 * len(ids))


async def test_what_an_exchange_kept_was_caused_by_its_publish(
    service: Service, clients: Clients
) -> None:
    first, second, *handed = await handed_later(service, clients, "a", "b")
    assert sorted(each.cause or 0 for each in handed) == [first.id, second.id]
    path = await service.store.causality.path(handed[0].cause or 0, handed[0].id)
    assert path.steps is not None


async def test_of_what_an_exchange_kept_equal_publishes_may_each_have(
    service: Service, clients: Clients
) -> None:
    first, second, *handed = await handed_later(service, clients, "same", "same")
    for each in handed:
        assert each.cause is None
        assert (is_before(first, each), is_before(second, each)) == (True, True)


async def test_a_retained_message_is_handed_over_by_mqtt_alone_or_to_whom_it_was_published(
    service: Service, clients: Clients, rabbit: KeepingNode
) -> None:
    """RabbitMQ 3.10 gives it to the subscriber's socket, and traces nothing of that."""
    await mqtt_retain(rabbit.mqtt_port, clients.vhost, "a/b", b"kept")
    assert await mqtt_take(rabbit.mqtt_port, clients.vhost, "a/b") == b"kept"
    await clients.send("nowhere")

    async def all_of_it() -> list[Event] | None:
        found = await service.events(clients.vhost)
        return found if found and found[-1].routed_queues == ("nowhere",) else None

    events = await until(all_of_it, "what came before the last publish is stored")
    sent, *handed = [each for each in events if each.exchange == "amq.topic"]
    assert (sent.type, sent.routed_queues) == (EventType.published, ())
    assert all(is_before(sent, each) for each in handed)
