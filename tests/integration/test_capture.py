"""From a real broker's firehose into the store: started, stopped, several at once, restarted."""

from __future__ import annotations

import aio_pika
import pytest

from app.errors import ConflictError, NotFoundError
from app.store import Store
from app.stored.capture import Trace
from app.traces.life import TraceState
from app.traces.pipeline import PipelineSettings
from itc import Relation, compare
from model.words import EventType, Match
from tests.integration.conftest import Service
from tools.servers import Broker


async def send_and_receive(broker: Broker, vhost: str, count: int, queue: str = "q") -> None:
    """Publish to a queue, then get every message, each role on its own connection."""
    async with (
        await aio_pika.connect(broker.amqp_url(vhost)) as publisher,
        await aio_pika.connect(broker.amqp_url(vhost)) as consumer,
    ):
        declared = await (await consumer.channel()).declare_queue(queue)
        channel = await publisher.channel()
        for number in range(count):
            message = aio_pika.Message(b"%d" % number, message_id=f"{queue}-{number}")
            await channel.default_exchange.publish(message, queue)
        for _ in range(count):
            await (await declared.get()).ack()


async def test_every_publish_and_delivery_is_stored_with_its_cause(
    service: Service, rabbit: Broker, vhost: str
) -> None:
    await service.running(vhost)
    await send_and_receive(rabbit, vhost, 20)
    events = await service.stored(vhost, 40)
    published = [e for e in events if e.type is EventType.published]
    received = [e for e in events if e.type is EventType.received]
    assert (len(published), len(received)) == (20, 20)
    assert [e.cause for e in received] == [e.id for e in published]
    assert {e.match for e in received} == {Match.routed}
    assert [e.payload for e in published] == [b"%d" % n for n in range(20)]
    assert compare(published[3].stamp, received[3].stamp) is Relation.before
    assert compare(published[4].stamp, received[3].stamp) is Relation.concurrent
    status = await service.registry.status(vhost)
    assert (status.counters.published, status.counters.received) == (20, 20)
    assert (status.participants, status.pending_copies, status.gaps) == (2, 0, [])


async def test_tracing_is_switched_on_without_blanking_the_virtual_host(
    service: Service, rabbit: Broker, vhost: str
) -> None:
    rabbit.api("PUT", "vhosts", vhost, json={"description": "ours", "tags": "a,b"})
    await service.running(vhost)
    after = rabbit.api("GET", "vhosts", vhost)
    assert (after["tracing"], after["description"], after["tags"]) == (True, "ours", ["a", "b"])


async def test_two_virtual_hosts_are_traced_at_once_and_apart(
    service: Service, rabbit: Broker, vhost: str
) -> None:
    with rabbit.fresh_vhost() as other:
        await service.running(vhost)
        await service.running(other)
        await send_and_receive(rabbit, vhost, 5, "here")
        await send_and_receive(rabbit, other, 7, "there")
        assert len(await service.stored(vhost, 10)) == 10
        assert len(await service.stored(other, 14)) == 14
        assert {e.queue for e in await service.events(other) if e.queue} == {"there"}
        await service.registry.stop(other)


async def test_stopping_empties_the_queue_into_the_store_and_leaves_nothing_behind(
    service: Service, rabbit: Broker, vhost: str
) -> None:
    await service.running(vhost)
    await send_and_receive(rabbit, vhost, 50)
    await service.registry.stop(vhost)
    assert len(await service.events(vhost)) == 100
    assert (await service.registry.status(vhost)).state is TraceState.stopped
    assert rabbit.api("GET", "vhosts", vhost)["tracing"] is False
    assert "itc.trace" not in {queue["name"] for queue in rabbit.api("GET", "queues", vhost)}


async def test_between_a_stop_and_the_next_start_is_a_gap(
    service: Service, rabbit: Broker, vhost: str
) -> None:
    await service.running(vhost)
    await send_and_receive(rabbit, vhost, 1)
    last = (await service.stored(vhost, 2))[-1].id
    await service.registry.stop(vhost)
    await send_and_receive(rabbit, vhost, 1)
    await service.running(vhost)
    (gap,) = (await service.registry.status(vhost)).gaps
    assert (gap.after_event_id, gap.reason) == (last, "the trace was stopped")
    assert gap.until is not None
    assert gap.until >= gap.since


async def test_what_happens_while_the_service_is_down_is_stored_when_it_is_back(
    store: Store, rabbit: Broker, vhost: str, settings: PipelineSettings
) -> None:
    first = Service(store, rabbit, settings)
    await first.running(vhost)
    await send_and_receive(rabbit, vhost, 5)
    await first.stored(vhost, 10)
    await first.close()
    await send_and_receive(rabbit, vhost, 5)
    second = Service(store, rabbit, settings)
    await second.registry.resume()
    events = await second.stored(vhost, 20)
    assert [e.match for e in events if e.type is EventType.received] == [Match.routed] * 10
    assert (await second.registry.status(vhost)).gaps == []
    await second.registry.stop(vhost)
    await second.close()


async def test_a_policy_cannot_change_under_stored_events(
    service: Service, rabbit: Broker, vhost: str
) -> None:
    await service.running(vhost, "user")
    assert await service.registry.start(vhost, "user") is False
    await send_and_receive(rabbit, vhost, 1)
    assert {e.participant for e in await service.stored(vhost, 2)} == {1}
    with pytest.raises(ConflictError):
        await service.registry.start(vhost, "channel")


async def test_a_trace_that_has_stored_nothing_begins_anew_by_other_rules(
    service: Service, rabbit: Broker, vhost: str
) -> None:
    await service.running(vhost, "channel")
    assert await service.registry.start(vhost, "user") is True
    assert await service.registry.start(vhost, "user") is False
    await service.running(vhost)
    await send_and_receive(rabbit, vhost, 1)

    assert {e.participant for e in await service.stored(vhost, 2)} == {1}
    with pytest.raises(ConflictError):
        await service.registry.start(vhost, None, ["queue:q"])
    status = await service.registry.status(vhost)
    assert (status.state, status.policy) == (TraceState.running, "user")


async def test_events_that_are_stored_while_other_rules_are_asked_for_keep_theirs(
    service: Service, rabbit: Broker, vhost: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await service.running(vhost, "user")
    find = service.store.traces.find

    async def before_the_last_batch(vhost: str) -> Trace | None:
        found = await find(vhost)
        monkeypatch.undo()
        await send_and_receive(rabbit, vhost, 1)
        await service.stored(vhost, 2)
        return found

    monkeypatch.setattr(service.store.traces, "find", before_the_last_batch)
    with pytest.raises(ConflictError):
        await service.registry.start(vhost, "channel")
    await send_and_receive(rabbit, vhost, 1)

    assert {e.participant for e in await service.stored(vhost, 4)} == {1}


async def test_a_virtual_host_that_the_broker_does_not_have_is_not_found(
    service: Service,
) -> None:
    with pytest.raises(NotFoundError):
        await service.registry.start("no such", None)
    assert await service.registry.statuses() == []
