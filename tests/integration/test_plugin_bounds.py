"""The broker plugin against users who want to flood: what their frames make it tell is bounded."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pika
import pika.exceptions
import pytest
from pika import spec
from pika.adapters.blocking_connection import BlockingChannel

from app.broker.consumer import TRACE_QUEUE
from tests.integration.test_broker_plugin import Client, events, wait_for
from tools.servers import RabbitNode

NOTHING, OWN = "^$", r"^own\."
ORDINARY = r"^(?!itc\.trace(\.connections)?$|amq\.rabbitmq\.(trace|event)$)"  # as in operations.md
MOST, PER_SECOND = 600, 50  # records without deliveries, as the plugin has it
FRAMES = 2_000


@pytest.fixture
def client(broker: RabbitNode) -> Iterator[Client]:
    """In a traced virtual host."""
    with broker.fresh_vhost() as vhost:
        made = Client(broker, vhost)
        made.trace(on=True)
        made.until("began")
        yield made
        made.connection.close()


@pytest.fixture
def sign_in(broker: RabbitNode, client: Client) -> Iterator[Callable[[str, str], User]]:
    """Connects as a user of this name whose three permissions are this pattern."""
    users: list[User] = []

    def connect(name: str, pattern: str) -> User:
        broker.add_user(name, "secret")
        broker.permit(name, client.vhost, pattern, pattern, pattern)
        users.append(User(broker, client.vhost, name))
        return users[-1]

    yield connect
    for user in users:
        user.connection.close()
        broker.delete_user(user.name)


class User:
    """A user's connection."""

    def __init__(self, broker: RabbitNode, vhost: str, name: str) -> None:
        self.name = name
        url = broker.amqp_url(vhost, name, "secret")
        self.connection = pika.BlockingConnection(pika.URLParameters(url))

    def flood(self, channel: BlockingChannel, *methods: Any) -> None:
        """Send methods on a channel without waiting for answers, until all are handled."""
        send(self.connection, channel, *methods)


def send(connection: pika.BlockingConnection, channel: BlockingChannel, *methods: Any) -> None:
    for method in methods:
        vars(connection)["_impl"]._send_method(channel.channel_number, method)
    with suppress(pika.exceptions.ChannelClosedByBroker):
        channel.basic_qos(prefetch_count=0)  # is answered behind them
    if channel.is_closed:
        connection.channel().close()


def told_of(client: Client, user: str) -> list[str]:
    return [
        event
        for event, fields in client.told()
        if event not in ("publish", "deliver") and fields.get("user") == user
    ]


IDLE = [
    spec.Basic.Recover(requeue=True),
    spec.Basic.RecoverAsync(requeue=True),
    spec.Tx.Select(),
    spec.Tx.Commit(),
    spec.Tx.Rollback(),
    spec.Basic.Ack(0, multiple=True),
    spec.Basic.Nack(0, multiple=True),
    spec.Basic.Cancel("itc.channels"),
]


def test_who_may_take_nothing_makes_no_record(
    client: Client, sign_in: Callable[[str, str], User]
) -> None:
    client.worker()
    none = sign_in("none", NOTHING)
    none.flood(none.connection.channel(), *IDLE * 200)
    refused = [
        spec.Basic.Get(queue="work", no_ack=True),
        spec.Basic.Consume(queue="work", no_ack=True),
        spec.Basic.Get(queue=TRACE_QUEUE, no_ack=True),
        spec.Basic.Consume(queue=TRACE_QUEUE),
        spec.Basic.Ack(7),
    ]
    for first in refused:
        none.flood(
            none.connection.channel(),
            first,
            *[spec.Basic.Ack(1), spec.Basic.Reject(2)] * 20,
            *IDLE * 20,
        )
    for _ in range(50):
        none.connection.channel().close()

    assert told_of(client, "none") == []


@pytest.mark.parametrize(
    "method",
    [IDLE[0], *(pytest.param(each, marks=pytest.mark.long(12)) for each in (IDLE[1], *IDLE[5:7]))],
    ids=lambda each: each.NAME,
)
def test_what_changes_nothing_is_soon_told_no_more_and_later_all_again(
    client: Client, sign_in: Callable[[str, str], User], method: Any
) -> None:
    own = sign_in("own", OWN)
    channel = own.connection.channel()
    channel.queue_declare("own.work")
    channel.basic_consume("own.work", lambda *_: None)
    began = time.monotonic()
    own.flood(channel, *[method] * FRAMES)

    told = told_of(client, "own")
    assert told[:2] == ["channel", "consumer"]
    assert "silent" in told
    assert len(told) <= MOST + 10 + PER_SECOND * (time.monotonic() - began)

    def is_told_again() -> bool:
        channel.basic_ack(0, multiple=True)
        own.connection.process_data_events(0.1)
        return "channel" in told_of(client, "own")

    wait_for(is_told_again)


def test_transactions_and_gets_of_nothing_make_no_records(
    client: Client, sign_in: Callable[[str, str], User]
) -> None:
    own = sign_in("own", OWN)
    channel = own.connection.channel()
    channel.queue_declare("own.work")
    for _ in range(100):
        channel.basic_get("own.work", auto_ack=True)
    own.flood(channel, *[spec.Tx.Select(), spec.Tx.Commit(), spec.Tx.Rollback()] * 500)

    assert told_of(client, "own") == ["channel", "get", "selected"]


def test_who_consumes_and_cancels_all_the_time_makes_few_records(
    client: Client, sign_in: Callable[[str, str], User]
) -> None:
    own = sign_in("own", OWN)
    channel = own.connection.channel()
    queues = [f"own.{number}" for number in range(5)]
    for queue in queues:
        channel.queue_declare(queue)
    for queue in queues * 40:
        channel.basic_cancel(channel.basic_consume(queue, lambda *_: None))

    assert told_of(client, "own") == ["channel", *["consumer"] * 5]


def test_consumers_that_are_gone_are_left_out_once_there_were_many(
    client: Client, sign_in: Callable[[str, str], User]
) -> None:
    own = sign_in("own", OWN)
    channel = own.connection.channel()
    for number in range(100):
        channel.queue_declare(f"own.{number}", auto_delete=True)
        tag = channel.basic_consume(f"own.{number}", lambda *_: None, auto_ack=True)
        if number:
            channel.basic_cancel(tag)

    told = client.told()
    first, anew = [at for at, (event, _) in enumerate(told) if event == "channel"]
    queues = [fields["queue"] for event, fields in told[anew:] if event == "consumer"]
    assert "own.0" in queues
    assert not {f"own.{number}" for number in range(1, anew - first - 2)} & {*queues}


def test_all_that_is_settled_is_told_however_much(
    client: Client, sign_in: Callable[[str, str], User]
) -> None:
    own, rounds, count = sign_in("own", OWN), 3, 500
    channel = own.connection.channel()
    channel.queue_declare("own.work")
    tags: list[int] = []
    channel.basic_consume("own.work", lambda _, method, *__: tags.append(method.delivery_tag))
    channel.tx_select()
    publisher = client.worker()
    for _ in range(rounds):
        for number in range(count):
            publisher.basic_publish("", "own.work", str(number).encode())
        wait_for(lambda: own.connection.process_data_events(0.1) or len(tags) == count)
        steps = [(spec.Basic.Ack(tag), spec.Tx.Commit()) for tag in tags]
        own.flood(channel, *[each for step in steps for each in step])
        tags.clear()

    told = told_of(client, "own")
    assert told.count("settled") == told.count("committed") == rounds * count
    assert "silent" not in told


def test_a_queue_named_like_ours_makes_nobody_a_reader(
    client: Client, sign_in: Callable[[str, str], User]
) -> None:
    ordinary = sign_in("ordinary", ORDINARY)
    channel = ordinary.connection.channel()
    for queue in ("itc.trace2", "itc.trace.marks.x"):
        channel.queue_declare(queue)
        channel.basic_consume(queue, lambda *_: None)
    client.worker().basic_publish("", "itc.trace2", b"1")
    ordinary.connection.process_data_events(0.5)
    channel.basic_ack(1)
    ordinary.flood(channel, *[spec.Basic.Cancel("itc.channels")] * 200)

    told = told_of(client, "ordinary")
    assert told == ["channel", "consumer", "consumer", "settled"]


@pytest.mark.parametrize("pattern", [ORDINARY, NOTHING], ids=["ordinary", "none"])
def test_who_is_refused_the_trace_queue_asks_for_nothing(
    client: Client, sign_in: Callable[[str, str], User], pattern: str
) -> None:
    worker = client.worker(1)
    worker.basic_get("work")
    client.told()
    user = sign_in("refused", pattern)
    asking = [spec.Basic.Cancel("itc.channels")] * 200
    user.flood(user.connection.channel(), spec.Basic.Consume(queue=TRACE_QUEUE), *asking)

    assert "channel" not in events(client.told())


def test_a_reader_has_channels_asked_once_a_second(client: Client) -> None:
    worker = client.worker(1)
    worker.basic_get("work")
    reader = client.connection.channel()
    keys: list[str] = []
    reader.basic_consume(
        TRACE_QUEUE, lambda _, method, *__: keys.append(method.routing_key), auto_ack=True
    )
    began = time.monotonic()
    send(client.connection, reader, *[spec.Basic.Cancel("itc.channels")] * 200)

    def rounds() -> int:
        client.connection.process_data_events(0.1)
        return keys.count("settle.channel")

    wait_for(lambda: rounds() >= 2)  # the second, as it was asked for during the first
    took = time.monotonic() - began
    assert rounds() <= took + 2


def test_of_who_becomes_a_reader_nothing_is_known_any_more(
    client: Client, sign_in: Callable[[str, str], User]
) -> None:
    reader = sign_in("reader", ".*")
    channel = reader.connection.channel()
    channel.queue_declare("work")
    channel.basic_consume("work", lambda *_: None)
    keys: list[str] = []

    def take(_: Any, method: Any, *__: Any) -> None:
        keys.append(method.routing_key)
        channel.basic_ack(method.delivery_tag)

    channel.basic_consume(TRACE_QUEUE, take)
    wait_for(lambda: reader.connection.process_data_events(0.1) or "settle.silent" in keys)
    reader.flood(channel, *IDLE[:2] * 10)
    reader.connection.process_data_events(0.1)

    settles = [key for key in keys if key.startswith("settle.")]
    assert settles[-1] == "settle.silent"
    assert "settle.settled" not in keys


def test_records_count_towards_the_bytes_of_the_trace_queue(
    broker: RabbitNode, client: Client
) -> None:
    worker = client.worker(100)
    client.told()
    for _ in range(100):
        worker.basic_ack(worker.basic_get("work")[0].delivery_tag)

    def size() -> int:
        queue = broker.api("GET", "queues", client.vhost, TRACE_QUEUE)
        return int(queue.get("message_bytes", 0))

    wait_for(lambda: size() > 100 * 150)
