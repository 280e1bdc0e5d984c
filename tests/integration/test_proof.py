"""Losses that show nowhere in the firehose are found: by marks at once, by the audit in the end."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import aio_pika
import msgspec
import pytest
from aio_pika import Message
from aio_pika.abc import AbstractChannel

from app.broker.consumer import TRACE_QUEUE
from app.broker.firehose import TRACE_EXCHANGE
from app.store import Store
from app.traces.losses.audit import Tally
from app.traces.losses.monitor import HEAD_GONE
from app.traces.pipeline import PipelineSettings
from model.gaps import Gap
from tests.integration.conftest import Service, until
from tools.servers import Broker

NEVER = 1e6  # seconds


@pytest.fixture
def settings() -> PipelineSettings:
    """Nobody looks whether tracing is on, or at the queue: marks and audit are on their own."""
    return PipelineSettings(
        batch_seconds=0.02, check_seconds=NEVER, mark_seconds=0.2, audit_seconds=1
    )


@asynccontextmanager
async def traffic(rabbit: Broker, vhost: str) -> AsyncIterator[Callable[[], int]]:
    """Somebody who publishes all the time; yields how many there are so far."""
    async with await aio_pika.connect(rabbit.amqp_url(vhost)) as connection:
        channel = await connection.channel()
        count = 0

        async def publish() -> None:
            nonlocal count
            while True:
                await send(channel, count)
                count += 1
                await asyncio.sleep(0.002)

        task = asyncio.create_task(publish())
        try:
            yield lambda: count
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def send(channel: AbstractChannel, number: int) -> None:
    await channel.default_exchange.publish(Message(b"%d" % number), "nowhere", mandatory=False)


async def more_than(count: Callable[[], int], number: int) -> None:
    async def enough() -> bool:
        return count() > number

    await until(enough, f"{number} are published")


async def marked(service: Service) -> bool:
    [snapshot] = service.registry.here.snapshots().values()
    return snapshot.settled_id > 20


async def gaps_of(service: Service, vhost: str) -> list[Gap]:
    async def closed() -> list[Gap]:
        gaps = (await service.registry.status(vhost)).gaps
        return gaps if gaps and all(gap.until for gap in gaps) else []

    return await until(closed, "there is a gap, and it is closed")


async def is_even(service: Service, vhost: str) -> Tally:
    """Wait until the broker's count is the trace's; return it."""

    async def even() -> Tally | None:
        ledger = (await service.registry.status(vhost)).ledger
        if ledger is None or ledger.audit is None or ledger.audit.at != ledger.audit.even_at:
            return None
        return ledger.seen if ledger.audit.broker_count == ledger.seen else None

    return await until(even, "counted is traced")


async def even_after_traffic(service: Service, rabbit: Broker, vhost: str) -> Tally:
    """Trace some traffic, and wait until the broker has counted it; return how much it was."""
    await service.running(vhost)
    async with traffic(rabbit, vhost) as count:
        await more_than(count, 100)
    return await is_even(service, vhost)


async def purge(rabbit: Broker, vhost: str) -> None:
    async with await aio_pika.connect(rabbit.amqp_url(vhost)) as connection:
        raw = await (await connection.channel()).get_underlay_channel()
        await raw.queue_purge(TRACE_QUEUE)


def missing(payloads: list[bytes | None]) -> list[tuple[int, int]]:
    """Between which positions of what is stored numbers are missing."""
    numbers = [int(payload or b"-1") for payload in payloads]
    pairs = itertools.pairwise(numbers)
    return [(at, at + 1) for at, (first, second) in enumerate(pairs) if second != first + 1]


async def held_to(service: Service, vhost: str, gaps: list[Gap]) -> None:
    """Every loss is inside a gap."""
    events = await service.events(vhost)
    lost = missing([event.payload for event in events])
    assert lost, "something was lost"
    for before, after in lost:
        a, b = events[before].id, events[after].id
        assert any(gap.is_spanned(a, b) for gap in gaps), (a, b, gaps)


async def test_what_is_lost_while_tracing_is_off_for_a_moment_is_in_a_gap(
    service: Service, rabbit: Broker, vhost: str
) -> None:
    await service.running(vhost)
    async with traffic(rabbit, vhost) as count:
        await until(lambda: marked(service), "a mark shows that the first events are whole")
        rabbit.api("PUT", "vhosts", vhost, json={"tracing": False})
        await more_than(count, count() + 600)
        rabbit.api("PUT", "vhosts", vhost, json={"tracing": True})
        await more_than(count, count() + 300)
    gaps = await gaps_of(service, vhost)
    await held_to(service, vhost, gaps)
    events = await service.events(vhost)
    first, last = events[0].id, events[-1].id
    early = [gap for gap in gaps if gap.is_spanned(first, first + 20)]
    assert not early, "what was before is whole"
    assert not any(gap.is_spanned(last - 20, last) for gap in gaps), "what came after is whole"


async def test_a_binding_that_is_away_for_a_moment_is_a_gap(
    service: Service, rabbit: Broker, vhost: str
) -> None:
    await service.running(vhost)
    async with (
        traffic(rabbit, vhost) as count,
        await aio_pika.connect(rabbit.amqp_url(vhost)) as connection,
    ):
        channel = await (await connection.channel()).get_underlay_channel()
        await more_than(count, 200)
        await channel.queue_unbind(TRACE_QUEUE, TRACE_EXCHANGE, routing_key="#")
        await more_than(count, count() + 600)
        await channel.queue_bind(TRACE_QUEUE, TRACE_EXCHANGE, routing_key="#")
        await more_than(count, count() + 300)
    await held_to(service, vhost, await gaps_of(service, vhost))


@pytest.mark.long(35)
async def test_a_purge_while_nobody_looks_is_found_by_the_audit(
    service: Service, store: Store, rabbit: Broker, vhost: str, settings: PipelineSettings
) -> None:
    await even_after_traffic(service, rabbit, vhost)
    await service.close()
    async with traffic(rabbit, vhost) as count:
        await more_than(count, 50)
        await purge(rabbit, vhost)
        await more_than(count, 100)
    again = Service(store, rabbit, settings)
    await again.running(vhost)
    gaps = await gaps_of(again, vhost)
    await held_to(again, vhost, gaps)
    assert (await missing_at_last(again, vhost)).publishes > 50
    await again.close()


async def missing_at_last(service: Service, vhost: str) -> Tally:
    """Wait until what was counted is what was traced and what is missing; return the latter."""

    async def even() -> Tally | None:
        ledger = (await service.registry.status(vhost)).ledger
        audit = ledger.audit if ledger else None
        if (
            ledger is None
            or audit is None
            or audit.broker_count is None
            or audit.at != audit.even_at
        ):
            return None
        missing = audit.missing
        return missing if missing.sum and audit.broker_count == ledger.seen + missing else None

    return await until(even, "counted is traced and missing")


async def test_one_message_taken_out_by_hand_is_found(
    service: Service, store: Store, rabbit: Broker, vhost: str, settings: PipelineSettings
) -> None:
    await even_after_traffic(service, rabbit, vhost)
    await service.close()
    async with await aio_pika.connect(rabbit.amqp_url(vhost)) as connection:
        channel = await connection.channel()
        for number in range(20):
            await send(channel, number)
        await behind_the_sentinel_one_is_taken(rabbit, vhost)
    again = Service(store, rabbit, settings)
    await again.running(vhost)
    assert await missing_at_last(again, vhost) == Tally(publishes=1)
    assert await gaps_of(again, vhost)
    await again.close()


async def behind_the_sentinel_one_is_taken(rabbit: Broker, vhost: str) -> None:
    wanted = {"count": 2, "ackmode": "ack_requeue_false", "encoding": "auto"}

    async def taken() -> bool:
        return bool(rabbit.api("POST", "queues", vhost, TRACE_QUEUE, "get", json=wanted))

    await until(taken, "messages are taken")


async def test_an_idle_vhost_is_not_marked(
    service: Service, rabbit: Broker, vhost: str, settings: PipelineSettings
) -> None:
    seen = await even_after_traffic(service, rabbit, vhost)
    assert seen == await is_even(service, vhost)
    assert msgspec.structs.astuple(seen)[0] > 50, "marks are counted too"


async def test_a_queue_that_was_tampered_with_while_nobody_read_it_has_lost_its_head(
    service: Service, store: Store, rabbit: Broker, vhost: str, settings: PipelineSettings
) -> None:
    """Without any statistics, and without a quiet moment."""
    settings = msgspec.structs.replace(settings, audit_seconds=0)
    await service.close()
    service = Service(store, rabbit, settings)
    await service.running(vhost)
    async with traffic(rabbit, vhost) as count:
        await more_than(count, 100)
        await service.close()
        await more_than(count, count() + 100)
        service = Service(store, rabbit, settings)
        await service.running(vhost)
        await more_than(count, count() + 100)
        assert not (await service.registry.status(vhost)).gaps, "it was there each time"
        await service.close()
        await more_than(count, count() + 100)
        await purge(rabbit, vhost)
        await more_than(count, count() + 100)
        service = Service(store, rabbit, settings)
        await service.running(vhost)
        await more_than(count, count() + 100)
    gaps = await gaps_of(service, vhost)
    assert HEAD_GONE in {gap.reason for gap in gaps}
    await held_to(service, vhost, gaps)
    assert not any(gap.is_spanned(1, 50) for gap in gaps)
    events = await service.events(vhost)
    assert {event.exchange for event in events} == {""}
    assert {tuple(event.routing_keys) for event in events} == {("nowhere",)}
    await service.close()
