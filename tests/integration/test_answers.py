"""What is said of what a real broker does by itself: who led to a delivery, for certain or perhaps.

What it keeps is in `test_kept`, what it loses in `test_lost`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from app.store import Store
from app.stored.failures import FailureFilter
from itc import Relation, compare
from model.event import Event
from model.words import Match, Via
from tests.integration.conftest import Service
from tests.integration.test_cases import (
    Clients,
    into_two_queues,
    over_a_ladder,
    put_back_and_rejected_again,
)
from tools.servers import Broker

LETTERS = {"dead_letter_exchange": "", "dead_letter_routing_key": "dead"}


@pytest.fixture
async def clients(service: Service, rabbit: Broker, vhost: str) -> AsyncIterator[Clients]:
    """Clients, each of whose connections is a participant of its own."""
    await service.running(vhost)
    async with AsyncExitStack() as stack:
        yield Clients(rabbit, vhost, stack)


async def said(store: Store, a: Event, b: Event) -> str:
    """The answer of a comparison, and by what the last step led to the later event."""
    steps = (await store.causality.path(a.id, b.id)).steps
    if steps is not None:
        return f"caused, {steps[-1].how}"
    return "may have" if compare(a.stamp, b.stamp) is Relation.before else "cannot have"


async def test_whoever_rejects_a_message_caused_its_dead_letter(
    service: Service, clients: Clients, vhost: str
) -> None:
    await clients.queue(**LETTERS)
    await clients.queue("dead")
    await clients.send()
    await (await clients.take()).reject(requeue=False)
    await (await clients.take("dead")).ack()
    _, held, dead = await service.stored(vhost, 3)
    assert await said(service.store, held, dead) == "caused, rejected"
    [failure] = (await service.store.failures.find(FailureFilter())).items
    assert failure.by is not None
    assert (failure.by.number, failure.handed_over) == (held.participant, held.id)
    found = (await service.store.conversations.of_event(dead.id, Via.links)).conversation
    assert [each.acts for copy in found.messages[0].copies for each in copy.deliveries][1] == (
        (held.id, "rejected"),
    )


async def test_whoever_gives_a_message_back_caused_its_next_delivery(
    service: Service, clients: Clients, vhost: str
) -> None:
    await clients.queue()
    await clients.send()
    await (await clients.take()).nack(requeue=True)
    await (await clients.take()).ack()
    _, first, second = await service.stored(vhost, 3)
    assert first.participant != second.participant
    assert await said(service.store, first, second) == "caused, returned"


async def test_the_only_publish_that_can_have_pushed_a_message_out_did(
    service: Service, clients: Clients, vhost: str
) -> None:
    await clients.queue(max_length=1, **LETTERS)
    await clients.queue("dead")
    await clients.send(body=b"first")
    await clients.send(body=b"second")
    await (await clients.take("dead")).ack()
    _, second, dead = await service.stored(vhost, 3)
    assert await said(service.store, second, dead) == "caused, overflow"


async def test_of_several_that_can_have_pushed_it_out_each_may_have(
    service: Service, clients: Clients, vhost: str
) -> None:
    await clients.queue(max_length=2, **LETTERS)
    await clients.queue("dead")
    for body in (b"first", b"second", b"third"):
        await clients.send(body=body)
    await (await clients.take("dead")).ack()
    _, second, third, dead = await service.stored(vhost, 4)
    assert {await said(service.store, each, dead) for each in (second, third)} == {"may have"}


async def test_a_replay_and_its_rejecter_caused_the_second_dead_letter(
    service: Service, clients: Clients, vhost: str
) -> None:
    await put_back_and_rejected_again(clients)
    _, _, _, replay, held, dead = await service.stored(vhost, 6)
    assert (dead.match, dead.cause) == (Match.dead_lettered, replay.id)
    assert (await said(service.store, replay, dead)).startswith("caused")
    assert await said(service.store, held, dead) == "caused, rejected"
    newest, *_ = (await service.store.failures.find(FailureFilter())).items
    assert (newest.message, newest.handed_over) == (replay.id, held.id)
    found = (await service.store.conversations.of_event(replay.id, Via.links)).conversation
    assert found.outcome == "failed"


async def test_a_publish_caused_the_delivery_behind_five_delays(
    service: Service, clients: Clients, vhost: str
) -> None:
    await over_a_ladder(clients)
    sent, handed = await service.stored(vhost, 2)
    assert await said(service.store, sent, handed) == "caused, message"
    assert (await service.store.failures.find(FailureFilter())).items == []


async def test_a_publish_caused_both_dead_letters_of_one_death(
    service: Service, clients: Clients, vhost: str
) -> None:
    await into_two_queues(clients)
    sent, *handed = await service.stored(vhost, 3)
    assert {await said(service.store, sent, each) for each in handed} == {"caused, message"}


async def test_of_equal_messages_of_two_programs_each_may_have_been_handed_over(
    service: Service, clients: Clients, vhost: str
) -> None:
    await clients.queue()
    for _ in range(2):
        await clients.send(message_id="same", expiration=60)
    await (await clients.take()).ack()
    first, second, handed = await service.stored(vhost, 3)
    assert {await said(service.store, each, handed) for each in (first, second)} == {"may have"}
    assert (handed.cause, handed.candidates) == (None, 2)
