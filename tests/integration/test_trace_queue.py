"""Our queue is as we make it, and bound: what others do to it is repaired, and a gap says so."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import aio_pika
import pytest
from aio_pika import Message
from aio_pika.abc import AbstractChannel
from yarl import URL

from app.broker import consumer
from app.broker.connection import TraceConnection
from app.broker.consumer import TRACE_QUEUE
from app.broker.trace_queue import QueueBounds
from app.store import Store
from app.traces.losses.monitor import FULL, RESTORED, UNBOUND
from app.traces.pipeline import PipelineSettings
from app.traces.registry import TraceRegistry
from tests.integration.conftest import Service, until
from tests.integration.ports import ClientConnection, FromPort
from tests.integration.raw_client import RawPublisher, entry, table, text
from tests.introductions import NOBODY
from tools.servers import Broker

TRACE_EXCHANGE = "amq.rabbitmq.trace"


@asynccontextmanager
async def channel_in(rabbit: Broker, vhost: str) -> AsyncIterator[AbstractChannel]:
    async with await aio_pika.connect(rabbit.amqp_url(vhost)) as connection:
        yield await connection.channel()


async def publish(rabbit: Broker, vhost: str, count: int) -> None:
    async with channel_in(rabbit, vhost) as channel:
        for number in range(count):
            await channel.default_exchange.publish(Message(b"%d" % number), "nowhere")


async def gap_with(service: Service, vhost: str, words: str) -> str:
    async def noted() -> str | None:
        gaps = (await service.registry.status(vhost)).gaps
        return next((gap.reason for gap in gaps if words in gap.reason), None)

    return await until(noted, f"a gap tells of: {words}")


async def unbind(rabbit: Broker, vhost: str) -> None:
    async with channel_in(rabbit, vhost) as channel:
        raw = await channel.get_underlay_channel()
        await raw.queue_unbind(TRACE_QUEUE, TRACE_EXCHANGE, routing_key="#")


async def test_a_queue_that_is_unbound_is_bound_again_with_a_gap(
    service: Service, rabbit: Broker, vhost: str
) -> None:
    await service.running(vhost)
    await publish(rabbit, vhost, 3)
    await service.stored(vhost, 3)
    await unbind(rabbit, vhost)
    assert await gap_with(service, vhost, "bound") == UNBOUND
    await publish(rabbit, vhost, 2)
    assert len(await service.stored(vhost, 5)) == 5
    assert len((await service.registry.status(vhost)).gaps) == 1


async def test_what_was_done_on_a_port_that_is_ours_now_is_traced(
    service: Service,
    store: Store,
    rabbit: Broker,
    vhost: str,
    settings: PipelineSettings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ports are used again, and with them the names of connections."""
    await service.running(vhost)
    await service.close()
    program = ClientConnection(URL(rabbit.amqp_url()), vhost)
    await program.connect(timeout=10)
    channel = await program.channel()
    await channel.default_exchange.publish(Message(b"1"), "nowhere")
    await program.close()

    class Ours(TraceConnection):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self._sockets = FromPort(program.sockets.port)

    monkeypatch.setattr(consumer, "TraceConnection", Ours)
    again = Service(store, rabbit, settings)
    await again.running(vhost)
    [event] = await again.stored(vhost, 1)
    assert event.connection == program.broker_name
    await again.close()


async def test_a_backup_of_the_first_seconds_that_is_restored_is_a_gap(
    service: Service, store: Store, rabbit: Broker, vhost: str, tmp_path: Path
) -> None:
    """What was acknowledged since is in no queue, and the counters never were at rest before."""
    file, backup = tmp_path / "itc.db", tmp_path / "backup.db"
    settings = PipelineSettings(batch_seconds=0.02, check_seconds=1e6)
    service.registry = TraceRegistry(store, service.source, settings, NOBODY)
    await service.running(vhost)
    await publish(rabbit, vhost, 3)
    await service.stored(vhost, 3)
    with closing(sqlite3.connect(file)) as source, closing(sqlite3.connect(backup)) as copy:
        source.backup(copy)
    await publish(rabbit, vhost, 5)
    await service.stored(vhost, 8)
    await service.close()

    restored = await Store.open(f"sqlite:///{backup}")
    again = Service(restored, rabbit, settings)
    await again.running(vhost)
    assert await gap_with(again, vhost, "backup") == RESTORED
    await again.close()
    once_more = Service(restored, rabbit, settings)
    await once_more.running(vhost)
    assert len((await once_more.registry.status(vhost)).gaps) == 1
    await once_more.close()
    await restored.close()


@pytest.mark.long(15)
async def test_so_is_one_that_was_unbound_while_nobody_looked(
    service: Service, store: Store, rabbit: Broker, vhost: str, settings: PipelineSettings
) -> None:
    await service.running(vhost)
    await publish(rabbit, vhost, 3)
    await service.stored(vhost, 3)
    await service.close()
    await unbind(rabbit, vhost)
    again = Service(store, rabbit, settings)
    await again.running(vhost)
    assert await gap_with(again, vhost, "bound") == UNBOUND
    await publish(rabbit, vhost, 2)
    await again.stored(vhost, 5)
    await again.close()


def arguments_of_ours(rabbit: Broker, vhost: str) -> dict[str, object]:
    """The arguments of the trace queue, which is durable, without the type that 4.x shows."""
    queue = rabbit.api("GET", "queues", vhost, TRACE_QUEUE)
    assert queue["durable"]
    assert queue["arguments"].pop("x-queue-type", "classic") == "classic"
    return queue["arguments"]


@pytest.mark.parametrize(
    ("durable", "arguments", "words"),
    [
        (True, {"x-max-length": 1, "x-dead-letter-exchange": "mine"}, "x-dead-letter-exchange"),
        (True, {"x-max-length": 1}, "x-max-length 1"),
        (True, {"x-max-length-bytes": 1}, "x-max-length-bytes 1"),
        (True, {"x-message-ttl": 0}, "x-message-ttl"),
        (True, {"x-overflow": "reject-publish"}, "x-overflow"),
        (True, {"x-queue-type": "stream"}, "stream"),
        (False, {}, "not durable"),
    ],
)
async def test_a_queue_that_somebody_declared_before_us_is_made_anew_with_a_gap(
    service: Service,
    rabbit: Broker,
    vhost: str,
    durable: bool,
    arguments: dict[str, int],
    words: str,
) -> None:
    async with channel_in(rabbit, vhost) as channel:
        await channel.declare_exchange("mine", "fanout")
        await channel.declare_queue(TRACE_QUEUE, durable=durable, arguments=arguments)
        raw = await channel.get_underlay_channel()
        await raw.queue_bind(TRACE_QUEUE, TRACE_EXCHANGE, routing_key="#")
    await service.running(vhost)
    await publish(rabbit, vhost, 400)
    events = await service.stored(vhost, 400)
    assert [event.payload for event in events] == [b"%d" % number for number in range(400)]
    assert words in await gap_with(service, vhost, "somebody else")
    bounds = QueueBounds()
    assert arguments_of_ours(rabbit, vhost) == {
        "x-max-length": bounds.messages,
        "x-max-length-bytes": bounds.bytes,
    }


async def test_a_queue_that_was_deleted_and_made_again_just_like_it_is_a_gap(
    service: Service, rabbit: Broker, vhost: str
) -> None:
    await service.running(vhost)
    await publish(rabbit, vhost, 3)
    await service.stored(vhost, 3)
    same = {"x-max-length": QueueBounds().messages, "x-max-length-bytes": QueueBounds().bytes}
    async with channel_in(rabbit, vhost) as channel:
        await channel.queue_delete(TRACE_QUEUE)
        await channel.declare_queue(TRACE_QUEUE, durable=True, arguments=same)
        raw = await channel.get_underlay_channel()
        await raw.queue_bind(TRACE_QUEUE, TRACE_EXCHANGE, routing_key="#")
    await gap_with(service, vhost, "the trace queue was gone")
    await publish(rabbit, vhost, 2)
    assert len(await service.stored(vhost, 5)) == 5


async def test_an_older_queue_which_has_no_bound_in_messages_goes_on(
    service: Service, rabbit: Broker, vhost: str
) -> None:
    async with channel_in(rabbit, vhost) as channel:
        older = {"x-max-length-bytes": 1 << 29}
        await channel.declare_queue(TRACE_QUEUE, durable=True, arguments=older)
        raw = await channel.get_underlay_channel()
        await raw.queue_bind(TRACE_QUEUE, TRACE_EXCHANGE, routing_key="#")
    await service.running(vhost)
    await publish(rabbit, vhost, 3)
    await service.stored(vhost, 3)
    assert (await service.registry.status(vhost)).gaps == []
    assert arguments_of_ours(rabbit, vhost) == older


async def test_a_policy_that_removes_what_waits_is_an_open_gap(
    service: Service, rabbit: Broker, vhost: str
) -> None:
    await service.running(vhost)
    await publish(rabbit, vhost, 3)
    await service.stored(vhost, 3)
    policy = {"pattern": ".*", "definition": {"message-ttl": 1_000}, "apply-to": "queues"}
    rabbit.api("PUT", "policies", vhost, "short", json=policy)
    await gap_with(service, vhost, "message-ttl 1000")
    (gap,) = (await service.registry.status(vhost)).gaps
    assert gap.until is None
    rabbit.api("DELETE", "policies", vhost, "short")

    async def closed() -> bool:
        (gap,) = (await service.registry.status(vhost)).gaps
        return gap.until is not None

    await publish(rabbit, vhost, 1)
    await until(closed, "the gap is closed")


async def test_messages_of_headers_alone_are_bounded_by_their_number(
    store: Store, rabbit: Broker, vhost: str, settings: PipelineSettings
) -> None:
    service = Service(store, rabbit, settings, QueueBounds(messages=200))
    await service.running(vhost)
    await publish(rabbit, vhost, 3)
    await service.stored(vhost, 3)
    await service.close()
    headers = table(entry(b"h", b"S", text(b"x" * 1_000)))
    async with RawPublisher(rabbit.amqp_url(vhost)) as publisher:
        for _ in range(600):
            publisher.publish(b"", b"nowhere", headers, b"")

    async def counted() -> bool:
        queue = rabbit.api("GET", "queues", vhost, TRACE_QUEUE)
        return queue.get("messages") == 200

    await until(counted, "the broker says how much there is")
    again = Service(store, rabbit, settings, QueueBounds(messages=200))
    await again.running(vhost)
    assert await gap_with(again, vhost, "limit") == FULL
    assert len(await again.stored(vhost, 203)) == 203
    await again.close()
