"""Odd, broken and bogus trace messages: kept with a reason, and never in the way."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

import aio_pika
import pytest
from aio_pika import Message

from app.stored.capture import Quarantined
from model.words import EventType, Match
from tests.integration.conftest import Service, until
from tests.integration.raw_client import RawPublisher, entry, nested, table, text
from tests.integration.test_cases import Clients, one_to_one, told
from tools.servers import Broker

GOOD: dict[str, Any] = {
    "node": "n",
    "connection": "c",
    "channel": 1,
    "user": "u",
    "exchange_name": "",
    "routing_keys": ["k"],
    "routed_queues": [],
    "properties": {},
}


async def quarantined(service: Service, vhost: str, count: int) -> list[Quarantined]:
    async def enough() -> list[Quarantined] | None:
        found = await service.store.quarantine.newest([vhost])
        return found if len(found) >= count else None

    return await until(enough, f"{count} messages are in quarantine")


async def open_the_trace_exchange(broker: Broker, vhost: str) -> None:
    """Nobody publishes to the trace exchange itself, but to one that is bound to it."""
    async with await aio_pika.connect(broker.amqp_url(vhost)) as connection:
        channel = await connection.channel()
        await channel.declare_exchange("rubbish", "topic")
        raw = await channel.get_underlay_channel()
        await raw.exchange_bind("amq.rabbitmq.trace", "rubbish", routing_key="#")


async def is_well(service: Service, broker: Broker, vhost: str) -> None:
    """The next good messages are handled, and nothing was restarted."""
    before = len(await service.events(vhost))
    async with AsyncExitStack() as stack:
        await one_to_one(Clients(broker, vhost, stack))
    events = await service.stored(vhost, before + 2)
    assert [e.match for e in events[-2:]] == [Match.none, Match.routed]
    status = await service.registry.status(vhost)
    assert (status.state, status.restarts) == ("running", 0)


BROKEN = {
    "rubbish": ("anything", {}, "neither publish. nor deliver."),
    "no headers": ("publish.x", {}, "header node is missing"),
    **{
        f"without {name}": ("publish.", {k: v for k, v in GOOD.items() if k != name}, name)
        for name in GOOD
        if name != "properties"
    },
    **{f"mistyped {name}": ("publish.", {**GOOD, name: 1.5}, name) for name in GOOD},
    "a key that is a number": ("publish.", {**GOOD, "routing_keys": [1]}, "holds what is no text"),
    "deliver without redelivered": ("deliver.q", GOOD, "redelivered"),
}


async def test_what_is_not_a_trace_message_is_quarantined_with_its_reason(
    service: Service, rabbit: Broker, vhost: str
) -> None:
    await service.running(vhost)
    await open_the_trace_exchange(rabbit, vhost)
    async with await aio_pika.connect(rabbit.amqp_url(vhost)) as connection:
        exchange = await (await connection.channel()).get_exchange("rubbish")
        for key, headers, _ in BROKEN.values():
            await exchange.publish(Message(b"body", headers=headers), key, mandatory=False)
    found = (await quarantined(service, vhost, len(BROKEN)))[::-1]
    for (key, _, reason), each in zip(BROKEN.values(), found, strict=True):
        assert each.routing_key == key
        assert reason in each.reason
    assert {each.body for each in found} == {"body"}
    await is_well(service, rabbit, vhost)
    assert (await service.registry.status(vhost)).counters.quarantined == len(BROKEN)


async def test_channel_0_which_mqtt_clients_act_on_is_a_channel_like_others(
    service: Service, rabbit: Broker, vhost: str
) -> None:
    """Shown by hand: a broker has other protocols than AMQP 0.9.1 only where they are enabled."""
    await service.running(vhost)
    await open_the_trace_exchange(rabbit, vhost)
    publish = {**GOOD, "channel": 0, "routed_queues": ["q"]}
    deliver = {**GOOD, "channel": 0, "connection": "other", "redelivered": 0}
    async with await aio_pika.connect(rabbit.amqp_url(vhost)) as connection:
        exchange = await (await connection.channel()).get_exchange("rubbish")
        for key, headers in (("publish.", publish), ("deliver.q", deliver)):
            await exchange.publish(Message(b"body", headers=headers), key)
    stored = await service.stored(vhost, 4)  # the showing is traced as well
    published, received = (event for event in stored if event.node == GOOD["node"])
    assert (published.channel, received.channel) == (0, 0)
    assert (received.match, received.cause) == (Match.routed, published.id)
    assert published.participant != received.participant
    assert (await service.registry.status(vhost)).counters.quarantined == 0


async def test_tables_too_deep_for_any_decoder_are_quarantined(
    service: Service, rabbit: Broker, vhost: str
) -> None:
    await service.running(vhost)
    await open_the_trace_exchange(rabbit, vhost)
    async with RawPublisher(rabbit.amqp_url(vhost)) as publisher:
        publisher.publish(b"", b"nowhere", nested(5_000), b"deep")
        publisher.publish(b"rubbish", b"publish.", nested(5_000), b"deeper")
    found = await quarantined(service, vhost, 3)  # the second also as its own publish's trace
    assert all("nested deeper" in each.reason for each in found)
    await is_well(service, rabbit, vhost)


async def test_what_cannot_be_read_is_a_gap_of_its_channels_where_it_would_be(
    service: Service, rabbit: Broker, vhost: str
) -> None:
    """Published and delivered: neither is an event, and no answer across them is complete."""
    await service.running(vhost)
    async with AsyncExitStack() as stack:
        await one_to_one(Clients(rabbit, vhost, stack))
    before = [each.id for each in await service.stored(vhost, 2)]
    async with await aio_pika.connect(rabbit.amqp_url(vhost)) as connection:
        channel = await connection.channel()
        queue = await channel.declare_queue("work")
        async with RawPublisher(rabbit.amqp_url(vhost)) as publisher:
            publisher.publish(b"", b"work", nested(80), b"deep")

            async def taken() -> bool:
                return await queue.get(fail=False, no_ack=True) is not None

            await until(taken, "it is handed over")
        await quarantined(service, vhost, 2)
        await channel.default_exchange.publish(Message(b"after"), "work")
        after = [each.id for each in await service.stored(vhost, 3)][-1]
    trace = await service.store.traces.find(vhost)
    assert trace is not None
    gaps = await service.store.gaps.between(trace.id, before[-1], after)
    assert [gap.reason.partition(" channel ")[0] for gap in gaps] == [
        "a publish on",
        "a delivery from queue 'work' to",
    ]
    assert [gap.quarantined for gap in gaps] == [1, 1]
    assert len({gap.channel for gap in gaps} - {None}) == 2
    assert all("nested deeper than 64" in gap.reason for gap in gaps)
    assert await service.store.gaps.between(trace.id, *before) == []
    seen = (await service.registry.status(vhost)).audit
    assert seen is not None
    assert [seen.publishes.quarantined, seen.deliveries.quarantined] == [1, 1]
    # Each trace message is an event, in quarantine, or the service's own.
    types = [each.type for each in await service.events(vhost)]
    assert seen.publishes.events == types.count(EventType.published) == 2
    assert seen.deliveries.events == types.count(EventType.received) == 1


async def test_bytes_that_are_not_text_are_kept_as_escapes(
    service: Service, rabbit: Broker, vhost: str
) -> None:
    await service.running(vhost)
    headers = table(entry(b"\xff", b"S", text(b"\xfe")), entry(b"nul", b"S", text(b"a\0b")))
    async with RawPublisher(rabbit.amqp_url(vhost)) as publisher:
        publisher.publish(b"", b"\xc3\x28", headers, b"\xff")
    (event,) = await service.stored(vhost, 1)
    assert event.routing_keys == ("\\xc3(",)
    assert event.payload == b"\xff"
    assert event.properties["headers"] == {"\\xff": "\\xfe", "nul": "a\0b"}
    await is_well(service, rabbit, vhost)


@pytest.mark.parametrize("before", [0, pytest.param(5, marks=pytest.mark.long(27))])
async def test_a_name_too_long_for_its_trace_message_stops_nothing(
    service: Service, rabbit: Broker, vhost: str, before: int
) -> None:
    """The broker disconnects any consumer that it tries to hand such a trace message to."""
    long = "q" * 255
    await service.running(vhost)
    async with AsyncExitStack() as stack:
        clients = Clients(rabbit, vhost, stack)
        await clients.queue(long)
        for _ in range(before):
            await clients.send("nowhere")
        await clients.send(long)
        await (await clients.take(long)).ack()
        await clients.send(long)
        await (await clients.take(long)).ack()
    found = await quarantined(service, vhost, 2)
    assert all("routing key has 263 bytes" in each.reason for each in found)
    await is_well(service, rabbit, vhost)
    published, received = told(await service.events(vhost))
    assert (published, received) == (before + 3, [("q", Match.routed, before + 2)])
    types = [e.type for e in await service.events(vhost)]
    assert types[-1] is EventType.received
    gaps = (await service.registry.status(vhost)).gaps
    assert [gap.quarantined for gap in gaps] in ([2], [1, 1])
    assert all(f"a delivery from queue '{long}' to channel 1 on" in gap.reason for gap in gaps)
    assert not any(gap.channel is None for gap in gaps)
