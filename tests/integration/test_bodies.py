"""A trace without messages' bodies: none is stored or read for links, and all else is there."""

from __future__ import annotations

from typing import Any

import aio_pika

from app.store import Store
from app.traces.pipeline import PipelineSettings
from app.tracker.links import Rule
from model.words import Match
from tests.integration.conftest import Service, until
from tests.integration.test_capture import send_and_receive
from tools.servers import Broker

BY_BODY = Rule.from_json(
    {
        "name": "by-body",
        "kind": "parent",
        "child": "$message.payload#/caused_by",
        "parent": "$message.payload#/id",
    }
)


async def publish(broker: Broker, vhost: str, *bodies: bytes, key: str = "q") -> None:
    async with await aio_pika.connect(broker.amqp_url(vhost)) as connection:
        channel = await connection.channel()
        for body in bodies:
            await channel.default_exchange.publish(aio_pika.Message(body), key, mandatory=False)


async def test_bodies_are_left_out_and_everything_else_is_matched_as_ever(
    service: Service, rabbit: Broker, vhost: str
) -> None:
    await service.registry.start(vhost, None, bodies=False)
    await service.running(vhost)
    await send_and_receive(rabbit, vhost, 5)
    events = await service.stored(vhost, 10)

    assert {event.payload for event in events} == {None}
    assert {event.payload_bytes for event in events} == {1}
    received = [event for event in events if event.queue is not None]
    assert [event.match for event in received] == [Match.routed] * 5
    assert [event.cause for event in received] == [e.id for e in events if e.queue is None]
    status = await service.registry.status(vhost)
    assert (status.bodies, status.gaps) == (False, [])
    [remark] = [each for each in status.remarks if "bodies" in each]
    assert "masstransit" in remark


async def test_whether_bodies_are_taken_changes_while_messages_wait_and_nothing_is_lost(
    service: Service, rabbit: Broker, vhost: str
) -> None:
    await service.running(vhost)
    async with await aio_pika.connect(rabbit.amqp_url(vhost)) as connection:
        await (await connection.channel()).declare_queue("q", auto_delete=False)
    await publish(rabbit, vhost, b"kept")
    await service.stored(vhost, 1)
    assert await service.registry.start(vhost, None, bodies=False) is True
    assert await service.registry.start(vhost, None, bodies=False) is False
    assert await service.registry.start(vhost, None) is False
    await publish(rabbit, vhost, b"left out")
    await service.stored(vhost, 2)
    async with await aio_pika.connect(rabbit.amqp_url(vhost)) as connection:
        queue = await (await connection.channel()).get_queue("q")
        for _ in range(2):
            await (await queue.get()).ack()
    await service.stored(vhost, 4)
    assert await service.registry.start(vhost, None, bodies=True) is True
    await publish(rabbit, vhost, b"again")
    events = await service.stored(vhost, 5)

    assert [event.payload for event in events] == [b"kept", None, None, None, b"again"]
    assert [event.cause for event in events] == [None, None, 1, 2, None]
    status = await service.registry.status(vhost)
    assert (status.bodies, status.gaps, status.audit and status.audit.missing) == (True, [], 0)


async def test_it_stays_so_after_a_restart(
    store: Store, rabbit: Broker, vhost: str, settings: PipelineSettings
) -> None:
    first = Service(store, rabbit, settings)
    await first.registry.start(vhost, None, bodies=False)
    await first.running(vhost)
    await first.close()
    second = Service(store, rabbit, settings)
    await second.registry.resume()
    await publish(rabbit, vhost, b"left out")
    [event] = await second.stored(vhost, 1)
    assert event.payload is None
    assert (await second.registry.status(vhost)).bodies is False
    await second.registry.stop(vhost)
    await second.close()


async def test_rules_that_look_into_bodies_find_nothing_until_these_are_taken_again(
    service: Service, rabbit: Broker, vhost: str
) -> None:
    await service.registry.start(vhost, None, bodies=False)
    trace = await service.store.traces.find(vhost)
    assert trace is not None
    await service.store.link_rules.put(trace.id, BY_BODY, [])
    await service.running(vhost)

    async def held() -> bool:
        await publish(rabbit, vhost, b"{}")
        rules = await service.store.link_rules.list_effective(trace.id)
        return any(each.rule.rule.name == "by-body" for each in rules)

    await until(held, "the rule holds")
    assert any("by-body" in each for each in (await service.registry.status(vhost)).remarks)
    asked = b'{"caused_by": 1}'
    await publish(rabbit, vhost, b'{"id": 1}', asked)

    async def last() -> int | None:
        event = (await service.events(vhost))[-1]
        return event.id if event.payload_bytes == len(asked) else None

    before = await until(last, "both are stored")
    assert before is not None
    await service.registry.start(vhost, None, bodies=True)
    await publish(rabbit, vhost, b'{"caused_by": 1}', b'{"id": 2}', b'{"caused_by": 2}')

    async def counted() -> Any:
        links = (await service.registry.status(vhost)).links
        return links.get("by-body") if (count := links.get("by-body")) and count.found else None

    count = await until(counted, "the link is found")
    assert (count.found, count.early, count.unseen) == (1, 1, 0), "what it named came unread"

    async def stored() -> bool:  # counted as it is stamped, which is before
        return (await service.events(vhost))[-1].id > before

    await until(stored, "what was counted is stored")


async def test_the_body_of_what_cannot_be_read_is_left_out_too(
    service: Service, rabbit: Broker, vhost: str
) -> None:
    await service.registry.start(vhost, None, bodies=False)
    await service.running(vhost)
    await publish(rabbit, vhost, b"secret", key="itc.trace")

    async def quarantined() -> Any:
        return await service.store.quarantine.newest([vhost])

    [found] = await until(quarantined, "it is in quarantine")
    assert (found.body, found.body_bytes) == ("", 6)
