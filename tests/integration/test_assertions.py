"""Assertions on a real broker: what is overdue shows within seconds, and lag is no lateness."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aio_pika
import pytest

from app.store import Store
from app.stored.assertions import HeldAssertion, Violation, ViolationFilter
from app.watch.judging import Judges
from app.watch.watcher import Watcher
from tests.contract.asserting import hold
from tests.integration.conftest import Service, until
from tools.servers import Broker

EVERY = ViolationFilter()
IN_TIME = '{"name": "invoice-in-time", "every": "order.new", "leads_to": "invoice", "within": "2s"}'
APPROVED = '{"name": "ship-approved", "every": "ship", "after": "approve"}'
NO_STORM = '{"name": "no-storm", "no": "*", "causes_more_than": 2}'


class Shop:
    """A publisher, and a worker that gets what it publishes: messages as Celery names them."""

    def __init__(self, channel: Any, worker: Any, queue: Any) -> None:
        self._channel = channel
        self._worker = worker
        self._queue = queue

    async def order(self, number: int) -> None:
        await self._say(self._channel, "order.new", f"o{number}", None)
        await self._take(f"o{number}")

    async def invoice(self, number: int) -> None:
        await self.react("invoice", f"i{number}", f"o{number}")

    async def react(self, task: str, own: str, parent: str) -> None:
        await self._say(self._worker, task, own, parent)
        await self._take(own)

    async def _take(self, own: str) -> None:
        message = await self._queue.get(timeout=10)
        assert message.headers["id"] == own
        await message.ack()

    async def _say(self, channel: Any, task: str, own: str, parent: str | None) -> None:
        headers = {"task": task, "id": own, "parent_id": parent, "root_id": "r"}
        if parent is None:
            del headers["parent_id"]
        message = aio_pika.Message(
            b"[[], {}, {}]", headers=headers, content_type="application/json"
        )
        await channel.default_exchange.publish(message, "orders")


@asynccontextmanager
async def shop(rabbit: Broker, vhost: str) -> AsyncIterator[Shop]:
    url = rabbit.amqp_url(vhost)
    async with await aio_pika.connect(url) as one, await aio_pika.connect(url) as two:
        channel, worker = await one.channel(), await two.channel()
        queue = await worker.declare_queue("orders")
        yield Shop(channel, worker, queue)


def watcher_of(service: Service) -> Watcher:
    store = service.store
    return Watcher(store.assertions, store.watching, service.registry.here, Judges(store).judge)


@asynccontextmanager
async def watching(service: Service) -> AsyncIterator[Watcher]:
    watcher = watcher_of(service)
    watcher.start()
    yield watcher
    await watcher.stop()


async def asserted(service: Service, vhost: str, *texts: str) -> None:
    trace = await service.store.traces.find(vhost)
    assert trace is not None
    for text in texts:
        name = text.split('"')[3]
        await hold(service.store, trace.id, name, text, "ann")


async def state(store: Store, name: str) -> HeldAssertion:
    (found,) = [each for each in await store.assertions.list() if each.name == name]
    return found


async def violations(store: Store) -> list[Violation]:
    return [*await store.violations.list(EVERY)][::-1]


async def judged(store: Store, name: str, count: int) -> HeldAssertion:
    async def enough() -> HeldAssertion | None:
        found = await state(store, name)
        return found if found.held + found.violated + found.unknown >= count else None

    return await until(enough, f"{count} events are judged by {name}")


async def test_what_is_overdue_shows_within_seconds_though_nothing_else_happens(
    service: Service, rabbit: Broker, vhost: str
) -> None:
    await service.running(vhost)
    await asserted(service, vhost, IN_TIME)
    async with watching(service), shop(rabbit, vhost) as its:
        await its.order(1)
        await its.invoice(1)
        await its.order(2)
        began = time.monotonic()
        found = await judged(service.store, "invoice-in-time", 2)
        took = time.monotonic() - began
    (late,) = await violations(service.store)
    events = await service.events(vhost)
    orders = [
        each.id for each in events if (each.properties or {})["headers"]["task"] == "order.new"
    ]
    assert (found.held, found.violated, found.unknown) == (1, 1, 0)
    assert (late.event, late.type, late.kind) == (orders[2], "order.new", "overdue")
    assert late.sentence == f"event {orders[2]}: order.new led to no invoice within 2.0 s"
    assert late.complete
    assert took < 2 + 5, "seconds after its time"
    assert (late.found_at - late.recorded_at) / 1e6 < 2 + 5


async def test_what_came_before_and_what_followed_too_often_is_judged_at_once(
    service: Service, rabbit: Broker, vhost: str
) -> None:
    await service.running(vhost)
    await asserted(service, vhost, APPROVED, NO_STORM)
    async with watching(service), shop(rabbit, vhost) as its:
        await its.order(1)
        await its.react("approve", "a1", "o1")
        await its.react("ship", "s1", "a1")
        await its.order(2)
        await its.react("ship", "s2", "o2")
        await its.react("mail", "m1", "s1")
        await judged(service.store, "ship-approved", 2)
        await until(lambda: _storm(service.store), "the storm is found")
    kinds = {each.kind.value: each for each in await violations(service.store)}
    assert kinds.keys() == {"unpreceded", "storm"}
    assert kinds["storm"].sentence.endswith("order.new caused more than 2 messages")
    events = {each.id: each for each in await service.events(vhost)}
    shipped = events[kinds["unpreceded"].event]
    assert (shipped.properties or {})["headers"]["id"] == "s2"
    assert shipped.queue == "orders"


async def _storm(store: Store) -> bool:
    return any(each.kind == "storm" for each in await violations(store))


async def test_a_trace_that_stops_and_goes_on_makes_it_unknown(
    service: Service, rabbit: Broker, vhost: str
) -> None:
    await service.running(vhost)
    await asserted(service, vhost, IN_TIME)
    async with watching(service), shop(rabbit, vhost) as its:
        await its.order(1)
        await service.stored(vhost, 2)
        await service.registry.stop(vhost)
        await its.invoice(1)  # which nobody traces
        await asyncio.sleep(0)
        await service.running(vhost)
        await its.order(2)
        found = await judged(service.store, "invoice-in-time", 2)
    assert (found.held, found.violated, found.unknown) == (0, 1, 1)
    (late,) = await violations(service.store)
    assert late.type == "order.new"


async def test_what_waited_in_the_queue_while_nobody_looked_is_not_late(
    service: Service, store: Store, rabbit: Broker, vhost: str
) -> None:
    await service.running(vhost)
    await asserted(service, vhost, IN_TIME)
    async with shop(rabbit, vhost) as its:
        await its.order(1)
        await service.stored(vhost, 2)
        await service.registry.shutdown(deadline=10)
        await its.invoice(1)  # in time, and read much later
        await its.order(2)
        late = time.monotonic() + 3
        await until(lambda: _is_over(late), "its time is over")
        again = Service(store, rabbit, service.registry.settings)
        try:
            await again.registry.resume()
            async with watching(again):
                found = await judged(store, "invoice-in-time", 2)
        finally:
            await again.close()
    assert (found.held, found.violated) == (0, 1), "of the second alone it is certain"
    assert [each.type for each in await violations(store)] == ["order.new"]
    assert found.unknown == 1


async def _is_over(moment: float) -> bool:
    return time.monotonic() > moment


@pytest.mark.parametrize("looks", [1, 3])
async def test_a_watcher_that_is_ended_at_any_point_finds_each_once(
    service: Service, rabbit: Broker, vhost: str, looks: int
) -> None:
    await service.running(vhost)
    await asserted(service, vhost, IN_TIME)
    async with shop(rabbit, vhost) as its:
        for number in range(12):
            await its.order(number)
            if number % 3:
                await its.invoice(number)

        async def all_judged() -> bool:
            watcher = watcher_of(service)  # which knows nothing of the one before
            for _ in range(looks):
                await watcher.look()
            found = await state(service.store, "invoice-in-time")
            return found.held + found.violated + found.unknown >= 12

        await until(all_judged, "all are judged")
    found = await state(service.store, "invoice-in-time")
    assert (found.held, found.violated, found.unknown) == (8, 4, 0)
    assert len({each.event for each in await violations(service.store)}) == 4
