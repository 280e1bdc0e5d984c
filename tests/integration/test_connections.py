"""Who connects, on a real broker: announced, listed, used again; the event exchange comes and goes.

The event exchange is one for the whole broker, and so is what these tests do to it: each has names
of its own for queues and connections, and the last a broker of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from uuid import uuid4

import aio_pika
import aiormq.exceptions
import pytest
from yarl import URL

from app.broker.announcements import EVENT_EXCHANGE, Announcements
from app.broker.management import ManagementApi
from app.errors import OutageError
from app.store import Store
from app.stored.capture import BrokerConnection
from app.traces import connectionwatch
from app.traces.connectionwatch import ConnectionWatch
from app.traces.runs.introductions import Introductions
from tests.integration.conftest import Service, until
from tests.integration.ports import ClientConnection
from tools.servers import Broker, RabbitNode, ServerError

PLUGIN = "rabbitmq_event_exchange"


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look often; yet the broker lists what is older than 5 s."""
    monkeypatch.setattr(connectionwatch, "CHECK_SECONDS", 0.2)
    monkeypatch.setattr(connectionwatch, "LIST_ALONE_SECONDS", 0.5)


class Watched:
    """A broker that is watched, as the service does it."""

    def __init__(self, broker: Broker, store: Store) -> None:
        self.broker = broker
        self.store = store
        self.management = ManagementApi(broker.management_url, broker.user, broker.password)
        trace_queue = f"itc.{uuid4().hex[:8]}"
        self.announcements = Announcements(broker.amqp_url(), self.management, trace_queue)
        self.queue = self.announcements.queue
        self.introductions = Introductions(store.connections, self.announcements)
        self.watch = self.new_watch()

    def new_watch(self) -> ConnectionWatch:
        return ConnectionWatch(self.store.connections, self.announcements)

    async def is_on(self, on: bool = True) -> None:
        async def so() -> bool:
            return (self.watch.why_not is None) == on

        await until(so, f"announcements are {'on' if on else 'off'}: {self.watch.why_not}")

    async def connect(self, name: str | None = None, vhost: str = "/") -> ClientConnection:
        """A client's connection, which knows the broker's name for it."""
        properties = {"process_id": 4711} if name is None else {"connection_name": name}
        url = URL(self.broker.amqp_url())
        connection = ClientConnection(url, vhost, client_properties=properties)
        await connection.connect(timeout=10)
        return connection

    async def known(self, connection: ClientConnection, *, is_open: bool) -> BrokerConnection:
        async def so() -> BrokerConnection | None:
            found = (await self.store.connections.find([connection.broker_name])).values()
            return next((each for each in found if (each.closed_at is None) == is_open), None)

        return await until(so, f"{connection.broker_name} is known, {is_open=}")

    async def close(self) -> None:
        await self.watch.stop()
        await self.management.close()
        with suppress(ServerError):  # where the exchange was away there is none
            self.broker.api("DELETE", "queues", "/", self.queue)


@pytest.fixture
async def watched(rabbit: Broker, store: Store) -> AsyncIterator[Watched]:
    watched = Watched(rabbit, store)
    yield watched
    await watched.close()


@pytest.fixture(scope="module")
def node() -> Iterator[RabbitNode]:
    """A broker whose plugins may be switched."""
    node = RabbitNode().start()
    yield node
    node.close()


@pytest.fixture
async def switched(node: RabbitNode, store: Store) -> AsyncIterator[Watched]:
    watched = Watched(node, store)
    yield watched
    await watched.close()


async def test_a_connection_is_announced_and_so_is_its_end(watched: Watched) -> None:
    watched.watch.start()
    await watched.is_on()
    connection = await watched.connect("orders-7")
    found = await watched.known(connection, is_open=True)
    assert found.client == "orders"
    assert (found.user, found.vhost) == (watched.broker.user, "/")
    assert found.name == connection.broker_name
    await connection.close()
    closed = await watched.known(connection, is_open=False)
    assert closed.id == found.id
    assert closed.closed_at is not None
    assert closed.closed_at >= closed.opened_at


async def test_a_trace_is_told_before_the_first_message(watched: Watched) -> None:
    watched.watch.start()
    await watched.is_on()
    loop = asyncio.get_running_loop()
    for number in range(5):
        connection = await watched.connect(f"orders-{number}")
        began = loop.time()
        found = await watched.introductions.look_up([connection.broker_name])
        assert found[connection.broker_name].client == "orders"
        assert loop.time() - began < 2  # what is not announced shows after five seconds
        await connection.close()


async def test_those_that_were_there_before_are_listed(watched: Watched) -> None:
    connection = await watched.connect()

    async def is_listed() -> bool:
        present = await watched.announcements.present()
        return connection.broker_name in {each.name for each in present}

    await until(is_listed, "the management API lists it")
    watched.watch.start()
    found = await watched.known(connection, is_open=True)
    assert (found.client, found.process) == (None, "4711")
    await watched.is_on()
    await connection.close()
    assert (await watched.known(connection, is_open=False)).id == found.id


async def test_what_is_listed_and_announced_is_one_connection(watched: Watched) -> None:
    watched.watch.start()
    await watched.is_on()
    connection = await watched.connect("orders")
    await watched.known(connection, is_open=True)

    async def is_listed() -> bool:
        present = await watched.announcements.present()
        return connection.broker_name in {each.name for each in present}

    await until(is_listed, "the management API lists it")
    await watched.watch.stop()
    watched.watch = watched.new_watch()
    watched.watch.start()
    await watched.is_on()
    assert len(await watched.store.connections.owners([connection.broker_name], 0)) == 1
    await connection.close()


async def test_what_is_announced_while_the_service_is_down_waits_in_the_queue(
    watched: Watched,
) -> None:
    watched.watch.start()
    await watched.is_on()
    await watched.watch.stop()
    connection = await watched.connect("orders")
    await connection.close()
    watched.watch = watched.new_watch()
    watched.watch.start()
    assert (await watched.known(connection, is_open=False)).client == "orders"


async def test_a_name_that_is_used_again_is_another_connection(watched: Watched) -> None:
    """The same port, as the broker sees it, and another program."""
    watched.watch.start()
    await watched.is_on()
    names: list[str] = []
    port = 0
    for program in ("orders", "billing"):
        connection = await _from_port(watched, port, program)
        port = connection.sockets.port
        names.append(connection.broker_name)
        await watched.known(connection, is_open=True)
        await connection.close()
        await watched.known(connection, is_open=False)
    assert names[0] == names[1]
    found = await watched.store.connections.owners([names[0]], 0)
    found.sort(key=lambda each: (each.opened_at, each.id))
    assert [each.client for each in found] == ["orders", "billing"]
    assert found[0].id != found[1].id


async def test_strange_names_are_stored(watched: Watched) -> None:
    watched.watch.start()
    await watched.is_on()
    for name, client in (
        ("x" * 300, "x" * 119 + "…"),
        ('\0\x1b[31m<<">>},{', '\\x00\\x1b[31m<<">>},{'),
        ("Bestellungen-ü", "Bestellungen-ü"),
    ):
        connection = await watched.connect(name)
        assert (await watched.known(connection, is_open=True)).client == client
        await connection.close()


async def test_what_others_put_into_the_queue_is_no_announcement(watched: Watched) -> None:
    watched.watch.start()
    await watched.is_on()
    async with await aio_pika.connect(watched.broker.amqp_url()) as connection:
        channel = await connection.channel()
        message = aio_pika.Message(
            b"", headers={"name": "1:1 -> 2:2", "node": "n", "connected_at": 1}
        )
        await channel.default_exchange.publish(message, watched.queue)
    after = await watched.connect("orders")
    await watched.known(after, is_open=True)  # announced behind it
    await after.close()
    assert await watched.store.connections.find(["1:1 -> 2:2"]) == {}


async def test_a_queue_that_is_deleted_is_made_again_and_one_that_is_unbound_is_bound(
    watched: Watched,
) -> None:
    watched.watch.start()
    await watched.is_on()
    watched.broker.api("DELETE", "queues", "/", watched.queue)

    async def is_again() -> bool:
        return await watched.announcements.is_bound("/")

    await until(is_again, "the queue is there and bound")
    await watched.is_on()
    for key in ("connection.created", "connection.closed"):
        path = ("bindings", "/", "e", EVENT_EXCHANGE, "q", watched.queue, key)
        watched.broker.api("DELETE", *path)
    await until(is_again, "the queue is bound")
    connection = await watched.connect("orders")
    assert (await watched.known(connection, is_open=True)).client == "orders"
    await connection.close()


async def test_what_was_announced_and_purged_is_found_by_the_management_api(
    watched: Watched,
) -> None:
    watched.watch.start()
    await watched.is_on()
    await watched.watch.stop()
    connection = await watched.connect("orders")

    async def is_queued() -> bool:
        return bool(watched.broker.api("GET", "queues", "/", watched.queue).get("messages"))

    await until(is_queued, "the announcement is in the queue")
    watched.broker.api("DELETE", "queues", "/", watched.queue, "contents")
    found = await watched.introductions.look_up([connection.broker_name])
    assert found[connection.broker_name].client == "orders"
    await connection.close()


async def test_our_own_queue_does_not_show_in_traces(
    watched: Watched, service: Service, store: Store
) -> None:
    """The event exchange's own virtual host is traced, and announcements come."""
    source, queue = service.source, watched.queue.removesuffix(".connections")
    source._firehose.queue = queue
    watched.watch.start()
    await watched.is_on()
    await service.running("/")
    try:
        async with await aio_pika.connect(watched.broker.amqp_url()) as connection:
            channel = await connection.channel()
            await channel.default_exchange.publish(aio_pika.Message(b"first"), "nowhere")
            clients = [await watched.connect(f"orders-{number}") for number in range(3)]
            for client in clients:
                await client.close()
                await watched.known(client, is_open=False)
            await channel.default_exchange.publish(aio_pika.Message(b"last"), "nowhere")

        async def has_last() -> bool:
            return any(event.payload == b"last" for event in await service.events("/"))

        await until(has_last, "the last message is stored")
        about_us = [e for e in await service.events("/") if e.queue == watched.queue]
        assert about_us == []
    finally:
        await service.registry.stop("/")


async def test_without_the_plugin_connections_are_listed_until_it_is_enabled(
    switched: Watched, node: RabbitNode
) -> None:
    node.ctl("disable", PLUGIN, tool="rabbitmq-plugins")
    try:
        switched.watch.start()
        connection = await switched.connect("orders")
        assert (await switched.known(connection, is_open=True)).client == "orders"
        assert "rabbitmq-plugins enable rabbitmq_event_exchange" in (switched.watch.why_not or "")
    finally:
        node.ctl("enable", PLUGIN, tool="rabbitmq-plugins")
    await switched.is_on()
    await connection.close()
    await switched.known(connection, is_open=False)


@pytest.mark.long(16)
async def test_a_plugin_that_is_disabled_and_enabled_again_is_noticed(
    switched: Watched, node: RabbitNode
) -> None:
    switched.watch.start()
    await switched.is_on()
    node.ctl("disable", PLUGIN, tool="rabbitmq-plugins")
    await switched.is_on(False)
    unannounced = await switched.connect("orders")
    node.ctl("enable", PLUGIN, tool="rabbitmq-plugins")
    await switched.is_on()
    assert (await switched.known(unannounced, is_open=True)).client == "orders"
    announced = await switched.connect("billing")
    assert (await switched.known(announced, is_open=True)).client == "billing"
    for connection in (unannounced, announced):
        await connection.close()


async def test_a_broker_that_restarts_is_watched_again(switched: Watched, node: RabbitNode) -> None:
    switched.watch.start()
    await switched.is_on()
    node.kill()
    await switched.is_on(False)
    node.start()
    await switched.is_on()
    connection = await switched.connect("orders")
    assert (await switched.known(connection, is_open=True)).client == "orders"
    await connection.close()


async def test_an_account_without_rights_is_told_which(watched: Watched) -> None:
    broker = watched.broker
    broker.add_user("watcher", "secret")
    try:
        broker.permit("watcher", "/", configure="^$", read="^other$")
        url = broker.amqp_url("/", "watcher", "secret")
        announcements = Announcements(url, watched.management, "itc.other")
        with pytest.raises(
            OutageError, match=r"read on itc\.other\.connections and read on amq\.rabbitmq\.event"
        ):
            async with announcements.open("/"):
                pass
    finally:
        broker.delete_user("watcher")


async def _from_port(watched: Watched, port: int, name: str) -> ClientConnection:
    """A connection from a given port of ours, 0 for any; once the system lets us have it."""

    async def connected() -> ClientConnection | None:
        url = URL(watched.broker.amqp_url())
        properties = {"connection_name": name}
        connection = ClientConnection(url, "/", port=port, client_properties=properties)
        try:
            await connection.connect(timeout=10)
        except (OSError, aiormq.exceptions.AMQPError):
            return None
        return connection

    return await until(connected, f"a connection from port {port}")
