"""Copies that a real broker loses: purged, or deleted with their queue."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from app.errors import OutageError
from app.store import Store
from app.stored.failures import FailureFilter, FailureKind
from app.traces.losses import queuewatch
from app.traces.pipeline import PipelineSettings
from app.traces.runs import run
from model.conversations.messages import Copy
from model.event import Event
from model.words import Via
from tests.integration.conftest import Service, until
from tests.integration.test_cases import Clients
from tools.servers import Broker

# The broker's numbers are up to 5 s old.
WAITED = 7_000_000
# Without it the client gives each message an id of its own.
SAME = {"message_id": "same"}


@pytest.fixture(autouse=True)
def _hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "QUEUE_SECONDS", 0.5)
    monkeypatch.setattr(queuewatch, "WAIT", WAITED)


@pytest.fixture
async def clients(service: Service, rabbit: Broker, vhost: str) -> AsyncIterator[Clients]:
    await service.running(vhost)
    async with AsyncExitStack() as stack:
        yield Clients(rabbit, vhost, stack)


async def fate(store: Store, publish: Event) -> Copy:
    [queue] = (await store.copies.fate_of(publish.id)).message.copies
    return queue


async def gone(store: Store, publish: Event) -> Copy:
    async def is_gone() -> Copy | None:
        found = await fate(store, publish)
        return found if found.loss is not None else None

    return await until(is_gone, f"the copy of event {publish.id} is gone")


async def test_a_message_is_deleted_with_its_queue(
    service: Service, clients: Clients, vhost: str
) -> None:
    await clients.queue("kept")
    queue = await clients.queue()
    await clients.send("kept")
    await clients.send(**SAME)
    kept, sent = await service.stored(vhost, 2)
    await queue.delete(if_empty=False)
    found = await gone(service.store, sent)
    assert found.state == "gone"
    assert found.remark is not None
    assert found.remark.startswith("was deleted with its queue by 20")
    assert (await fate(service.store, kept)).state == "waiting"
    [failure] = (await service.store.failures.find(FailureFilter())).items
    assert (failure.kind, failure.queue, failure.event) == (FailureKind.gone, "q", sent.id)
    told = (await service.store.conversations.of_event(sent.id, Via.links)).conversation
    assert told.outcome == "failed"
    assert (await service.registry.status(vhost)).pending_copies == 1


async def test_after_a_purge_an_equal_message_has_a_certain_cause(
    service: Service, clients: Clients, vhost: str
) -> None:
    queue = await clients.queue()
    await clients.send(**SAME)
    [first] = await service.stored(vhost, 1)
    await queue.purge()
    found = await gone(service.store, first)
    assert found.remark is not None
    assert found.remark.startswith("was gone by 20")
    await clients.send(**SAME)
    await (await clients.take()).ack()
    _, second, delivery = await service.stored(vhost, 3)
    assert (delivery.cause, delivery.candidates) == (second.id, None)


async def test_before_that_is_known_it_may_be_either(
    service: Service, clients: Clients, vhost: str
) -> None:
    queue = await clients.queue()
    await clients.send(**SAME)
    await service.stored(vhost, 1)
    await queue.purge()
    await clients.send(**SAME)
    await (await clients.take()).ack()
    delivery = (await service.stored(vhost, 3))[-1]
    assert (delivery.cause, delivery.candidates) == (None, 2)


async def test_what_expired_into_another_queue_only_left_its_own(
    service: Service, clients: Clients, vhost: str
) -> None:
    to = {"dead_letter_exchange": "", "dead_letter_routing_key": "dead"}
    await clients.queue(message_ttl=1, **to)
    await clients.queue("dead")
    await clients.send(**SAME)
    [sent] = await service.stored(vhost, 1)
    assert (await gone(service.store, sent)).state == "gone"
    await (await clients.take("dead")).ack()
    dead = (await service.stored(vhost, 2))[-1]
    assert dead.cause == sent.id
    assert (await fate(service.store, sent)).state == "dead_lettered"
    assert (await service.store.failures.find(FailureFilter())).items == []


async def test_what_is_lost_stays_lost_over_a_restart(
    service: Service,
    clients: Clients,
    vhost: str,
    store: Store,
    rabbit: Broker,
    settings: PipelineSettings,
) -> None:
    queue = await clients.queue()
    await clients.send(**SAME)
    [first] = await service.stored(vhost, 1)
    await queue.purge()
    await gone(store, first)
    await service.close()
    again = Service(store, rabbit, settings)
    try:
        await again.registry.resume()
        await clients.send(**SAME)
        await (await clients.take()).ack()
        _, second, delivery = await again.stored(vhost, 3)
        assert (delivery.cause, delivery.candidates) == (second.id, None)
    finally:
        await again.close()


async def test_without_the_management_api_a_copy_goes_on_waiting(
    service: Service, clients: Clients, vhost: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = await clients.queue()
    await clients.send(**SAME)
    [sent] = await service.stored(vhost, 1)
    asked: list[str] = []

    async def away(vhost: str, name: str) -> None:
        asked.append(name)
        raise OutageError("the management plugin is off")

    monkeypatch.setattr(service.source, "queue", away)
    await queue.purge()

    async def often() -> bool:
        return len(asked) > 2

    await until(often, "the queue was asked for")
    assert (await fate(service.store, sent)).state == "waiting"
    assert (await service.registry.status(vhost)).state == "running"
