"""What became of deliveries, on a broker with the plugin, from the client to the stored event."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial

import aio_pika
import pytest

from app.store import Store
from app.traces.pipeline import PipelineSettings
from model.conversations.messages import Outcome
from model.times import now
from model.words import EventType, Via
from tests.integration.conftest import Service, until
from tests.integration.test_assertions import asserted, judged, violations, watching
from tools.servers import RabbitNode


@pytest.fixture
def where(broker: RabbitNode) -> Iterator[str]:
    with broker.fresh_vhost() as name:
        yield name


@pytest.fixture
async def serve(
    store: Store, broker: RabbitNode, settings: PipelineSettings, where: str
) -> AsyncIterator[Callable[[], Awaitable[Service]]]:
    """Starts the service, or starts it again."""
    running: list[Service] = []

    async def start() -> Service:
        if running:
            await running.pop().close()
        running.append(Service(store, broker, settings))
        await running[0].running(where)
        return running[0]

    yield start
    await running[0].close()


async def settlements(service: Service, vhost: str) -> dict[str, list[str | None]]:
    """What became of each message's deliveries, by its body."""
    found: dict[str, list[str | None]] = {}
    for event in await service.events(vhost):
        if event.type is EventType.received and event.payload is not None:
            word = event.settlement and event.settlement.name
            found.setdefault(event.payload.decode(), []).append(word)
    return found


async def test_each_delivery_says_what_became_of_it_across_restarts(
    broker: RabbitNode, where: str, serve: Callable[[], Awaitable[Service]]
) -> None:
    service = await serve()
    async with await aio_pika.connect(broker.amqp_url(where)) as connection:

        async def is_recorded() -> bool:
            """The plugin looks now and then whether there is tracing; until then it is silent."""
            async with connection.channel() as channel:
                queue = await channel.declare_queue("probe")
                await channel.default_exchange.publish(aio_pika.Message(b"probe"), "probe")
                await (await queue.get(timeout=10)).ack()
            return any((await settlements(service, where)).get("probe", ()))

        await until(is_recorded, "the plugin tells of settlements")
        publisher, consumer, other = [await connection.channel() for _ in range(3)]
        for name in ("work", "log"):
            await consumer.declare_queue(name, auto_delete=False)
        got: dict[str, aio_pika.abc.AbstractIncomingMessage] = {}
        arrived: asyncio.Queue[None] = asyncio.Queue()

        async def take(message: aio_pika.abc.AbstractIncomingMessage) -> None:
            got[message.body.decode()] = message
            arrived.put_nowait(None)

        async def publish(queue: str, *bodies: str) -> None:
            for body in bodies:
                message = aio_pika.Message(body.encode())
                await publisher.default_exchange.publish(message, routing_key=queue)

        tag = await (await consumer.get_queue("work")).consume(take)
        await (await other.get_queue("log")).consume(take, no_ack=True)
        await publish("log", "auto")
        await publish("work", "one", "two", "rejected", "again", "held", "left")
        for _ in range(7):
            await arrived.get()
        await got["two"].ack(multiple=True)
        await got["rejected"].reject(requeue=False)
        await got["again"].nack(requeue=True)
        await arrived.get()
        expected: dict[str, list[str | None]] = {
            "auto": ["auto"],
            "one": ["acknowledged"],
            "two": ["acknowledged"],
            "rejected": ["rejected"],
            "again": ["returned", "in_hand"],
            "held": ["in_hand"],
            "left": ["in_hand"],
        }

        async def is_said() -> bool:
            return expected.items() <= (await settlements(service, where)).items()

        await until(is_said, f"{expected} is said")
        service = await serve()  # which goes on with what is in hand
        await got["held"].ack()
        await got["again"].ack()
        await (await consumer.get_queue("work")).cancel(tag)
        expected |= {"held": ["acknowledged"], "again": ["returned", "acknowledged"]}
        await until(is_said, f"{expected} is said")
        await consumer.close()
        expected["left"] = ["channel_closed"]
        await until(is_said, f"{expected} is said")
    received = [event for event in await service.events(where) if event.settlement is not None]
    assert all(event.settled_by == event.participant for event in received)
    assert all(abs(event.settled_at - event.recorded_at) < 60_000_000 for event in received)


async def test_a_channel_from_before_the_trace_says_where_it_stands_once_it_is_asked(
    broker: RabbitNode, where: str, serve: Callable[[], Awaitable[Service]]
) -> None:
    broker.api("PUT", "vhosts", where, json={"tracing": True})

    async def is_told() -> bool:
        return where in broker.ctl("eval", "rabbit_itc_watch:status().")

    await until(is_told, "the plugin knows that the virtual host is traced")
    async with await aio_pika.connect(broker.amqp_url(where)) as connection:
        channel = await connection.channel()
        queue = await channel.declare_queue("work")
        await channel.default_exchange.publish(aio_pika.Message(b"first"), "work")
        await (await queue.get(timeout=10)).ack()
        service = await serve()

        async def is_known() -> bool:
            await channel.default_exchange.publish(aio_pika.Message(b"later"), "work")
            await (await queue.get(timeout=10)).ack()
            return "acknowledged" in (await settlements(service, where)).get("later", ())

        await until(is_known, "what the channel was handed is acknowledged")


async def test_who_also_reads_a_queue_named_like_ours_is_known_to_have_acknowledged(
    broker: RabbitNode, where: str, serve: Callable[[], Awaitable[Service]]
) -> None:
    service, bodies = await serve(), [f"{number}" for number in range(30)]
    async with await aio_pika.connect(broker.amqp_url(where)) as connection:
        publisher, consumer = await connection.channel(), await connection.channel()

        async def is_recorded() -> bool:
            queue = await publisher.declare_queue("probe")
            await publisher.default_exchange.publish(aio_pika.Message(b"probe"), "probe")
            await (await queue.get(timeout=10)).ack()
            return "acknowledged" in (await settlements(service, where)).get("probe", ())

        await until(is_recorded, "the plugin tells of settlements")
        work = await consumer.declare_queue("work")
        await work.consume(_acknowledge)
        for body in bodies[:15]:
            await publisher.default_exchange.publish(aio_pika.Message(body.encode()), "work")
        for name in ("itc.trace2", "itc.trace.marks.x"):
            await (await consumer.declare_queue(name)).consume(_acknowledge)
        for body in bodies[15:]:
            await publisher.default_exchange.publish(aio_pika.Message(body.encode()), "work")

        async def is_said() -> bool:
            found = await settlements(service, where)
            return [found.get(body) for body in bodies] == [["acknowledged"]] * 30

        await until(is_said, "each of them is acknowledged")


async def test_who_hangs_with_a_message_is_named_by_all_that_tell_of_it(
    broker: RabbitNode, where: str, serve: Callable[[], Awaitable[Service]]
) -> None:
    service = await serve()
    store = service.store
    text = '{"name": "handled", "every": "order", "acknowledged_within": "1s"}'
    async with await aio_pika.connect(broker.amqp_url(where)) as connection:
        publisher, *consumers = [await connection.channel() for _ in range(3)]

        async def is_recorded() -> bool:
            queue = await publisher.declare_queue("probe")
            await publisher.default_exchange.publish(aio_pika.Message(b"probe"), "probe")
            await (await queue.get(timeout=10)).ack()
            return "acknowledged" in (await settlements(service, where)).get("probe", ())

        await until(is_recorded, "the plugin tells of settlements")
        orders = await publisher.declare_exchange("orders", "fanout")
        got: dict[str, aio_pika.abc.AbstractIncomingMessage] = {}
        for name, channel in zip(("good", "hangs"), consumers, strict=True):
            queue = await channel.declare_queue(name)
            await queue.bind(orders)
            await queue.consume(partial(_keep, got, name))
        await asserted(service, where, text)
        async with watching(service):
            await orders.publish(aio_pika.Message(b"1", type="order", message_id="1"), "")
            await until(lambda: _are_there(got, 2), "both were handed it")
            await got["good"].ack()
            await judged(store, "handled", 1)
        [late] = await violations(store)
        fate = await store.copies.fate_of(late.event)
        held = await store.copies.in_hand({where}, moment=now())
        [one] = held.items
        [oldest] = [
            each.deliveries[0].event for each in fate.message.copies if each.queue == "hangs"
        ]
        assert (held.count, one.queue, one.oldest) == (1, "hangs", oldest)
        assert late.sentence is not None
        assert late.sentence.endswith(f"{one.holder.name} has it in hand from hangs")
        assert f"acknowledged for 1 of 2; {one.holder.name} has held hangs's for" in fate.sentence
        found = await store.conversations.of_event(late.event, Via.links, limit=100, after=None)
        assert found.conversation.outcome is Outcome.open
        assert f". 1 is in the hands of {one.holder.name}." in found.conversation.sentence
        for channel in (publisher, *consumers):
            await channel.close()


async def _acknowledge(message: aio_pika.abc.AbstractIncomingMessage) -> None:
    await message.ack()


async def _keep(
    got: dict[str, aio_pika.abc.AbstractIncomingMessage],
    name: str,
    message: aio_pika.abc.AbstractIncomingMessage,
) -> None:
    got[name] = message


async def _are_there(got: dict[str, aio_pika.abc.AbstractIncomingMessage], count: int) -> bool:
    return len(got) == count
