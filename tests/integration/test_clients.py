"""Programs are participants, whatever channels and connections they use."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import aio_pika
import pytest
from aio_pika.abc import AbstractChannel

from app.traces.connectionwatch import ConnectionWatch
from app.tracker.quiet import DEFAULT
from itc import Relation, compare
from model.event import Event
from model.words import EventType, Match
from tests.integration.conftest import Service, until
from tools.servers import Broker


@pytest.fixture
async def watch(service: Service) -> AsyncIterator[ConnectionWatch]:
    """Connections are announced."""
    watch = ConnectionWatch(service.store.connections, service.announcements)
    watch.start()

    async def is_on() -> bool:
        return watch.why_not is None

    await until(is_on, "connections are announced")
    yield watch
    await watch.stop()


@asynccontextmanager
async def channels(
    rabbit: Broker, vhost: str, *names: str | None
) -> AsyncIterator[list[AbstractChannel]]:
    """A channel each on a connection of its own, whose client gives it that name."""
    async with AsyncExitStack() as stack:
        opened = []
        for name in names:
            properties = {"connection_name": name} if name else {}
            connection = await aio_pika.connect(
                rabbit.amqp_url(vhost), client_properties=properties
            )
            await stack.enter_async_context(connection)
            opened.append(await connection.channel())
        yield opened


async def say(
    channel: AbstractChannel, queue: str, body: bytes, reply_to: str | None = None
) -> None:
    await channel.default_exchange.publish(
        aio_pika.Message(body, reply_to=reply_to), routing_key=queue
    )


async def hear(channel: AbstractChannel, queue: str) -> bytes:
    declared = await channel.declare_queue(queue)
    message = await declared.get(timeout=30)
    assert message is not None
    await message.ack()
    return message.body


def publish_of(events: list[Event], body: bytes) -> Event:
    (found,) = [
        event for event in events if event.type is EventType.published and event.payload == body
    ]
    return found


async def two_connections(
    service: Service, rabbit: Broker, vhost: str, *names: str | None
) -> list[Event]:
    """An order is asked for; whoever consumes it bills it on another connection."""
    async with channels(rabbit, vhost, *names) as (asks, consumes, publishes):
        for queue in ("orders", "bills"):
            await asks.declare_queue(queue)
        await say(asks, "orders", b"order")
        assert await hear(consumes, "orders") == b"order"
        await say(publishes, "bills", b"bill")
        return await service.stored(vhost, 3)


@pytest.mark.usefixtures("watch")
async def test_what_one_program_receives_and_publishes_on_two_connections_is_ordered(
    service: Service, rabbit: Broker, vhost: str
) -> None:
    await service.running(vhost)
    events = await two_connections(service, rabbit, vhost, "shop-1", "billing", "billing.publisher")
    order, bill = publish_of(events, b"order"), publish_of(events, b"bill")
    assert compare(order.stamp, bill.stamp) is Relation.before
    assert {event.participant_name for event in events} == {
        f"shop ({rabbit.user}@127.0.0.1)",
        f"billing ({rabbit.user}@127.0.0.1)",
    }


@pytest.mark.usefixtures("watch")
async def test_without_names_they_are_assumed_to_be_programs_of_their_own(
    service: Service, rabbit: Broker, vhost: str
) -> None:
    await service.running(vhost)
    await two_connections(service, rabbit, vhost, None, None, None)
    trace = await service.store.traces.find(vhost)
    assert trace is not None
    participants = await service.store.participants.list(trace.id)
    assert [each.assumed for each in participants] == [True] * 3


@pytest.mark.usefixtures("watch")
async def test_connections_that_live_for_a_message_take_up_participants_of_those_before(
    service: Service, rabbit: Broker, vhost: str
) -> None:
    """As those of `amqp-publish`, which give no name."""
    await service.running(vhost)
    acted: list[int] = []

    async def is_taken_up() -> bool:
        async with channels(rabbit, vhost, None) as (one,):
            await say(one, "nowhere", b"")
            events = await service.stored(vhost, len(acted) + 1)
        acted.append(events[-1].participant)
        return len(set(acted)) < len(acted)

    await until(is_taken_up, "a participant is taken up")


async def test_a_direct_reply_is_received_by_whoever_asked(
    service: Service, rabbit: Broker, vhost: str
) -> None:
    await service.running(vhost, "channel")
    async with channels(rabbit, vhost, None, None) as (asks, answers):
        await answers.declare_queue("rpc")
        replies = await asks.get_queue("amq.rabbitmq.reply-to", ensure=False)
        heard: list[bytes] = []

        async def take(message: aio_pika.abc.AbstractIncomingMessage) -> None:
            heard.append(message.body)

        await replies.consume(take, no_ack=True)
        await say(asks, "rpc", b"question", reply_to="amq.rabbitmq.reply-to")
        queue = await answers.get_queue("rpc")
        request = await queue.get(timeout=30)
        assert request is not None
        assert request.reply_to is not None
        await say(answers, request.reply_to, b"answer")

        async def is_heard() -> bool:
            return heard == [b"answer"]

        await until(is_heard, "the answer came")
        await say(asks, "rpc", b"thanks")
        events = await service.stored(vhost, 5)
    question, answer, thanks = (
        publish_of(events, body) for body in (b"question", b"answer", b"thanks")
    )
    (reply,) = [event for event in events if event.cause == answer.id]
    assert reply.participant == question.participant
    assert reply.match in (Match.untraced, Match.routed)  # since 4.2 the broker traces it
    assert compare(answer.stamp, thanks.stamp) is Relation.before


async def test_quiet_traffic_is_stored_and_orders_nothing(
    service: Service, rabbit: Broker, vhost: str
) -> None:
    await service.registry.start(vhost, "channel", [*DEFAULT, "queue:beat"])
    await service.running(vhost, "channel")
    async with channels(rabbit, vhost, None, None) as (one, other):
        await one.declare_queue("beat")
        await say(one, "beat", b"alive")
        assert await hear(other, "beat") == b"alive"
        said, heard = await service.stored(vhost, 2)
    assert (said.quiet, heard.quiet, heard.cause) == (True, True, said.id)
    assert compare(said.stamp, heard.stamp) is Relation.concurrent
    walk = await service.store.causality.walk(said.id, 1)
    assert walk.items == []
