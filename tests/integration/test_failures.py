"""Every way in which a real broker's messages fail, and what is said of each."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

from aio_pika import ExchangeType
from aio_pika.abc import AbstractConnection
from yarl import URL

from app.stored.failures import Failure, FailureFilter, FailureKind
from model.conversations.states import State
from model.remedies import AdminTool
from model.words import Via
from tests.integration.conftest import Service, until
from tests.integration.test_cases import Clients
from tools.servers import Broker

DEAD = {"dead_letter_exchange": "", "dead_letter_routing_key": "dead"}


async def taken_and_lost(clients: Clients, queue: str) -> AbstractConnection:
    """Hand a message to a client that dies with it."""
    connection = await clients.connect()
    there = await (await connection.channel()).get_queue(queue)
    await until(partial(there.get, fail=False), f"a message in {queue}")
    await connection.close()
    return connection


async def fail_in_every_way(clients: Clients) -> None:
    await clients.queue("dead")
    await clients.queue("rejected", **DEAD)
    await clients.queue("expired", message_ttl=1, **DEAD)
    await clients.queue("full", max_length=1, **DEAD)
    await clients.queue("limited", queue_type="quorum", delivery_limit=1, **DEAD)
    await clients.queue("orders")
    await clients.queue("error")

    await clients.send("rejected", message_id="r", type="order.new")
    await (await clients.take("rejected")).reject(requeue=False)
    await (await clients.take("dead")).nack(requeue=True)  # told once more: the same death
    await (await clients.take("dead")).ack()
    await clients.send("expired", message_id="e")
    await (await clients.take("dead")).ack()
    for name in ("f1", "f2"):
        await clients.send("full", message_id=name)
    await (await clients.take("dead")).ack()
    await clients.send("limited", message_id="l")
    for _ in range(2):
        await taken_and_lost(clients, "limited")
    await (await clients.take("dead")).ack()

    channel = await clients.channel()
    other = await channel.declare_exchange("other", ExchangeType.FANOUT)
    await (await clients.queue("rest")).bind(other)
    await channel.declare_exchange("caught", arguments={"alternate-exchange": "other"})
    await channel.declare_exchange("lost", ExchangeType.DIRECT)
    await clients.send("nobody's", exchange="caught")
    await (await clients.take("rest")).ack()
    await clients.send("nobody's", exchange="lost")

    await clients.send("orders", message_id="back")
    for _ in range(4):
        await (await clients.take("orders")).nack(requeue=True)
    await (await clients.take("orders")).ack()

    await clients.send("orders", b"poison", message_id="n")
    await (await clients.take("orders")).ack()
    failed: dict[str, Any] = {
        "NServiceBus.FailedQ": "orders@here",
        "NServiceBus.ExceptionInfo.ExceptionType": "System.Exception",
        "NServiceBus.ExceptionInfo.Message": "no stock",
    }
    await clients.send("error", b"poison", message_id="n", headers=failed)
    await (await clients.take("error")).ack()


def said(failures: Sequence[Failure]) -> list[tuple[str, str | None, str | None, int]]:
    return [(each.kind.value, each.queue, each.reason, each.times) for each in failures]


async def test_each_way_to_fail_is_listed_once(
    service: Service, rabbit: Broker, vhost: str
) -> None:
    await service.running(vhost, "connection")
    async with AsyncExitStack() as stack:
        await fail_in_every_way(Clients(rabbit, vhost, stack))

        async def all_there() -> bool:
            newest = await service.store.failures.find(FailureFilter(vhost=vhost), limit=1)
            return bool(newest.items) and newest.items[0].kind is FailureKind.error_queue

        await until(all_there, "the message in the error queue is stored")
    found = await service.store.failures.find(FailureFilter(vhost=vhost))
    # What expired where nobody takes messages, and arrived elsewhere then, was put off as planned.
    assert said(found.items[::-1]) == [
        ("died", "rejected", "rejected", 1),
        ("died", "full", "maxlen", 1),
        ("died", "limited", "delivery_limit", 1),
        ("unroutable", None, None, 1),
        ("came_back", "orders", None, 4),
        ("error_queue", "orders", None, 1),
    ]
    by_queue = {each.queue: each for each in found.items}
    assert by_queue["rejected"].type == "order.new"
    handed = {queue: each.handed_over for queue, each in by_queue.items()}
    events = {event.id: event for event in await service.events(vhost)}
    for queue in ("rejected", "limited"):
        last = events[handed[queue] or 0]
        who = by_queue[queue].by
        assert (last.queue, last.cause) == (queue, by_queue[queue].message)
        assert who is not None
        assert who.number == last.participant
    assert events[handed["limited"] or 0].redelivered
    assert handed["full"] is None
    assert by_queue[None].exchange == "lost"
    [error] = [each for each in found.items if each.kind is FailureKind.error_queue]
    assert (error.exception, error.to) == ("System.Exception: no stock", "error")
    assert found.counted_all


async def test_the_printed_command_puts_a_dead_letter_back_and_is_known_to_have(
    service: Service, rabbit: Broker, vhost: str
) -> None:
    await service.running(vhost, "connection")
    has_script = await service.management.has_admin_script()
    tool = AdminTool.script if has_script else AdminTool.program
    name, body = 'it\'s "odd" $größe\\', b"\xff body'$"
    if tool is AdminTool.program:
        body = "größe 'body'$".encode()

    async def failure() -> Failure | None:
        page = await service.store.failures.find(FailureFilter(vhost=vhost), tool=tool)
        return next(iter(page.items), None)

    async def put_back() -> int | None:
        found = await failure()
        return found and found.put_back

    async with AsyncExitStack() as stack:
        clients = Clients(rabbit, vhost, stack)
        await clients.queue("dead")
        await clients.queue(name, **DEAD)
        await clients.send(name, body, message_id="r", headers={"kind": "a"}, user_id="guest")
        await (await clients.take(name)).reject(requeue=False)
        await (await clients.take("dead")).ack()
        found = await until(failure, "the death is stored")
        assert found.remedy is not None
        url = URL(rabbit.management_url)
        options = f"-H {url.host} -P {url.port} -u {rabbit.user} -p {rabbit.password} "
        command = found.remedy.replace("rabbitmqadmin ", f"rabbitmqadmin {options}", 1)
        done = await asyncio.to_thread(
            subprocess.run, ["bash", "-c", command], capture_output=True, text=True
        )
        print(found.remedy, done.stdout, done.stderr)
        assert done.returncode == 0
        assert done.stdout.startswith("Message published")
        message = await clients.take(name)
        assert (message.body, message.message_id, message.headers["kind"]) == (body, "r", "a")
        back = await until(put_back, "it is seen to be put back")
        await message.ack()
        await service.stored(vhost, 5)
    found = await until(failure, "the death is listed")
    assert found.message is not None
    conversation = (
        await service.store.conversations.of_event(found.message, Via.links)
    ).conversation
    assert (found.remedy, found.put_back) == (None, back)
    assert conversation.state is not State.failed
    [first] = [each for each in conversation.messages if each.event == found.message]
    assert (first.failure_sentence or "").endswith(f"; it went to queue dead; put back as {back}")
