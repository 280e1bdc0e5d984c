"""The service on a broker whose plugin makes bundles: it stores what it would without them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import aio_pika
import pytest

from app.broker.consumer import TRACE_QUEUE
from app.broker.firehose import TRACE_EXCHANGE
from app.broker.trace_queue import QueueBounds, queue_arguments
from app.store import Store
from app.traces.losses.audit import Ledger
from app.traces.losses.collectors import CollectorState
from app.traces.pipeline import PipelineSettings
from model.event import Event
from model.gaps import Gap
from model.words import EventType
from tests.integration.conftest import Service, until
from tests.integration.test_broker_plugin import evaluate
from tools.plugin import NAME
from tools.servers import RabbitNode

CHANNELS = 16
BACKLOG = 600  # more than the broker sends ahead before it is clear what comes
COLLECTED = f"{TRACE_QUEUE}.batches"


@pytest.fixture
def where(broker: RabbitNode) -> Iterator[str]:
    with broker.fresh_vhost() as name:
        yield name


class Applications:
    """Channels that publish, confirmed, and consume all of it, each message by itself."""

    def __init__(self) -> None:
        self.sent: list[int] = [0] * CHANNELS  # published and confirmed
        self.received: Counter[bytes] = Counter()
        self.is_over = False

    async def work(self, channel: aio_pika.abc.AbstractChannel, number: int) -> None:
        queue = await channel.declare_queue(f"work {number}")
        await queue.consume(self._receive)
        while not self.is_over:
            body = b"%d %d" % (number, self.sent[number])
            await channel.default_exchange.publish(aio_pika.Message(body), queue.name)
            self.sent[number] += 1

    async def _receive(self, message: aio_pika.abc.AbstractIncomingMessage) -> None:
        await message.ack()
        self.received[message.body] += 1

    async def more(self, count: int) -> None:
        """Wait until this many more have been published."""
        wanted = sum(self.sent) + count

        async def enough() -> bool:
            return sum(self.sent) >= wanted

        await until(enough, "applications go on")


@asynccontextmanager
async def applications(broker: RabbitNode, vhost: str) -> AsyncIterator[Applications]:
    working = Applications()
    async with await aio_pika.connect(broker.amqp_url(vhost)) as connection:
        channels = [await connection.channel() for _ in range(CHANNELS)]
        tasks = [
            asyncio.create_task(working.work(channel, number))
            for number, channel in enumerate(channels)
        ]
        try:
            yield working
        finally:
            working.is_over = True
            await asyncio.gather(*tasks)

        async def is_through() -> bool:
            return working.received.total() == sum(working.sent)

        await until(is_through, "all is consumed")


def bound(broker: RabbitNode, vhost: str) -> set[str]:
    found = broker.api("GET", "exchanges", vhost, TRACE_EXCHANGE, "bindings", "source")
    return {each["destination"] for each in found if each["routing_key"] == "#"}


def collector(vhost: str) -> str:
    """The process, in Erlang, that makes bundles."""
    return f'rabbit_itc_topology:process(rabbit_misc:r(<<"{vhost}">>, queue, <<"{COLLECTED}">>))'


async def bundled(broker: RabbitNode, vhost: str, *, on: bool = True) -> None:
    """Wait until the plugin has taken our queue's place, or given it back."""

    async def is_so() -> bool:
        return bound(broker, vhost) == {COLLECTED if on else TRACE_QUEUE}

    await until(is_so, "bundles are made" if on else "none are made")


async def taken_over(broker: RabbitNode, vhost: str) -> None:
    """Wait until the plugin is through with that: its process answers nobody before."""
    await bundled(broker, vhost)
    state = f"is_tuple(sys:get_state({collector(vhost)}))."
    assert await asyncio.to_thread(evaluate, broker, state) == "true"


async def collectors(store: Store, vhost: str) -> list[CollectorState]:
    trace = await store.traces.find(vhost)
    assert trace is not None
    ledger = Ledger.load(trace.ledger)
    return ledger.collectors if ledger else []


async def gaps(service: Service, vhost: str) -> list[Gap]:
    return list((await service.registry.status(vhost)).gaps)


def check(events: list[Event], working: Applications, missing: int = 0) -> None:
    """Nothing is there twice, each channel's order is its own, and at most so many are missing."""
    total = 0
    for kind in EventType:
        bodies = [e.payload for e in events if e.type is kind and e.payload is not None]
        assert max(Counter(bodies).values()) == 1
        for number in range(CHANNELS):
            mine = [int(body.split()[1]) for body in bodies if body.split()[0] == b"%d" % number]
            assert mine == sorted(mine)
            total += working.sent[number] - len(mine)
    assert 0 <= total <= missing
    by_id = {event.id: event for event in events}
    for event in events:
        if event.type is EventType.received and event.cause is not None:
            assert by_id[event.cause].payload == event.payload


async def test_all_is_stored_once_in_order_with_its_cause_and_settlement(
    store: Store, broker: RabbitNode, where: str, settings: PipelineSettings
) -> None:
    service = Service(store, broker, settings)
    await service.running(where)
    await bundled(broker, where)
    async with applications(broker, where) as working:
        await working.more(1_500)
    await service.registry.stop(where)
    events = await service.events(where)
    check(events, working)
    received = [event for event in events if event.type is EventType.received]
    assert all(event.cause is not None for event in received)
    assert {event.settlement.name for event in received if event.settlement} == {"acknowledged"}
    assert [gap.reason for gap in await gaps(service, where)] == ["the trace was stopped"]
    assert (await collectors(store, where))[0].has_ended
    await service.close()


async def test_a_service_that_goes_and_comes_misses_and_doubles_nothing(
    store: Store, broker: RabbitNode, where: str, settings: PipelineSettings
) -> None:
    async with applications(broker, where) as working:
        for _ in range(4):
            service = Service(store, broker, settings)
            await service.running(where)
            await bundled(broker, where)
            await working.more(300)
            for run in service.registry.here._running.values():  # as if it were killed
                run._task.cancel()
            await service.close()
            await working.more(100)
    service = Service(store, broker, settings)
    await service.running(where)
    await service.registry.stop(where)
    events = await service.events(where)
    first = min(event.id for event in events)
    assert first
    losses = [gap.reason for gap in await gaps(service, where)]
    assert losses == ["the trace was stopped"]
    check(events, working, missing=await lost(service, where) + untraced(events, working))
    await service.close()


def untraced(events: list[Event], working: Applications) -> int:
    """What was published and consumed before the trace began."""
    count = 0
    for kind in EventType:
        for number in range(CHANNELS):
            mine = [
                int(e.payload.split()[1])
                for e in events
                if e.type is kind and e.payload and e.payload.split()[0] == b"%d" % number
            ]
            count += min(mine, default=working.sent[number])
    return count


async def lost(service: Service, vhost: str) -> int:
    """The records that gaps count."""
    return sum(
        int(gap.reason.split()[0].replace(",", ""))
        for gap in await gaps(service, vhost)
        if "never came" in gap.reason
    )


def _plugin(broker: RabbitNode, verb: str) -> None:
    broker.ctl(verb, NAME, tool="rabbitmq-plugins")


async def test_the_plugin_may_go_and_come_while_applications_work(
    store: Store, broker: RabbitNode, where: str, settings: PipelineSettings
) -> None:
    service = Service(store, broker, settings)
    await service.running(where)
    await bundled(broker, where)
    async with applications(broker, where) as working:
        await working.more(200)
        await asyncio.to_thread(_plugin, broker, "disable")
        await bundled(broker, where, on=False)
        await working.more(200)
        await asyncio.to_thread(_plugin, broker, "enable")
        await bundled(broker, where)
        await working.more(200)
    await service.registry.stop(where)
    reasons = {gap.reason for gap in await gaps(service, where)} - {"the trace was stopped"}
    assert all("never came" in reason for reason in reasons)
    check(await service.events(where), working, missing=await lost(service, where))
    await service.close()


@pytest.mark.parametrize("quorum", [False, pytest.param(True, marks=pytest.mark.long(20))])
async def test_a_backlog_in_both_forms_is_read_in_its_order(
    store: Store, broker: RabbitNode, where: str, settings: PipelineSettings, quorum: bool
) -> None:
    service = Service(store, broker, settings)
    arguments = queue_arguments(QueueBounds(), quorum=quorum)
    declared = {"durable": True, "arguments": arguments}
    broker.api("PUT", "queues", where, TRACE_QUEUE, json=declared)
    await service.running(where)
    await bundled(broker, where)
    await service.close()
    count = 4 * BACKLOG
    async with await aio_pika.connect(broker.amqp_url(where)) as connection:
        channel = await connection.channel()
        for number in range(count):
            if not number % BACKLOG:
                if number // BACKLOG % 2:
                    await asyncio.to_thread(_plugin, broker, "enable")
                    await taken_over(broker, where)
                else:
                    await asyncio.to_thread(_plugin, broker, "disable")
                    await bundled(broker, where, on=False)
            message = aio_pika.Message(b"%d" % number)
            await channel.default_exchange.publish(message, "nowhere", mandatory=False)
    service = Service(store, broker, settings)
    await service.running(where)
    bodies = [int(event.payload or b"") for event in await service.stored(where, count)]
    assert bodies == [*range(count)]
    reasons = [gap.reason for gap in await gaps(service, where)]
    assert reasons == [*filter(lambda reason: "never came" in reason, reasons)]
    assert await lost(service, where) == 0
    await service.close()


async def test_a_killed_collector_leaves_a_gap_and_nothing_doubled(
    store: Store, broker: RabbitNode, where: str, settings: PipelineSettings
) -> None:
    service = Service(store, broker, settings)
    await service.running(where)
    await bundled(broker, where)
    async with applications(broker, where) as working:
        for _ in range(3):
            await working.more(300)
            kill = f"exit({collector(where)}, kill)."
            assert await asyncio.to_thread(evaluate, broker, kill) == "true"
        await working.more(300)
    await service.registry.stop(where)
    reasons = [gap.reason for gap in await gaps(service, where)]
    assert sum("ended without notice" in reason for reason in reasons) == 3
    check(await service.events(where), working, missing=10_000)
    await service.close()
