"""Whatever protocol publishes, and whatever queue it goes to: each delivery finds its publish.

What real brokers make of messages on the way, over classic and quorum queues and streams, and what
is made of it. `app/tracker/streams.py` has the differences as a table.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from app.stored.reading import EventFilter
from model.event import Event
from model.words import EventType, Match
from tests.integration import other_protocols as amqp10
from tests.integration.conftest import Service
from tests.integration.other_protocols import Amqp10, mqtt_publish
from tools.servers import Broker, RabbitNode, ServerError, free_port

KINDS = ("classic", "quorum", "stream")
UUID = "urn:uuid:F81D4FAE-7DEC-11D0-A765-00A0C91E6BF6"


def headers(**given: Any) -> pika.BasicProperties:
    return pika.BasicProperties(headers=given)


PIKA = {
    "nothing": pika.BasicProperties(),
    "transient": pika.BasicProperties(delivery_mode=1),
    "persistent": pika.BasicProperties(delivery_mode=2),
    "cluster_id": pika.BasicProperties(cluster_id="c"),
    "everything": pika.BasicProperties(
        content_type="text/plain",
        content_encoding="gzip",
        priority=3,
        correlation_id="c1",
        reply_to="r",
        expiration="600000",
        message_id="m1",
        timestamp=1_700_000_000,
        type="t",
        user_id="guest",
        app_id="app",
    ),
    "simple headers": headers(a="x", empty="", n=1, low=-5, big=1 << 40, yes=True, void=None),
    "a time": headers(a=datetime(2026, 1, 1, tzinfo=UTC)),
    "bytes": headers(a=b"\0\xff\1", b=b"text"),
    "a table": headers(a={"b": 1}, c="x"),
    "only a table": headers(a={"b": 1}),
    "an array": headers(a=[1, "x", None], c="x"),
    "x-table": headers(**{"x-a": {"b": 1, "c": {"d": [1, 2]}}}),
    "x-array": headers(**{"x-a": [1, "x", None, {"y": 2}]}),
    "x-bytes": headers(**{"x-a": b"\0\xff"}),
    "long text": headers(a="x" * 256, b="é" * 200, **{"x-a": "y" * 300}),
    "no headers in the table": pika.BasicProperties(headers={}),
    "UUIDs": pika.BasicProperties(message_id=UUID, correlation_id=UUID.lower()),
    "copies": headers(CC=["nowhere"], BCC=["hidden"], k="v"),
    "names of the broker's": headers(
        **{"x-routing-key": "v", "x-exchange": "v", "x-cc": "v", "x-basic-type": "v"}
    ),
    "a type by the broker's name for it": headers(**{"x-basic-type": "t", "k": "v"}),
    "a priority by it": headers(**{"x-basic-priority": 3}),
    "a place in another stream": headers(**{"x-stream-offset": 3, "k": "v"}),
}
MQTT: dict[str, dict[str, Any]] = {
    "nothing": {},
    "quality 0": {"qos": 0},
    "everything": {
        "content_type": "text/plain",
        "response_topic": "a/b c",
        "correlation_data": b"corr",
        "user": [("k", "v"), ("x-k", "w")],
        "expiry": 600,
        "payload_format": 1,
    },
    "correlation that is no text": {"correlation_data": b"\0\xff"},
    "correlation that is a UUID": {"correlation_data": UUID.lower()},
    "a user property twice": {"user": [("k", "v"), ("k", "w")]},
    "a long user property": {"user": [("k", "v" * 300)]},
}


def body(number: int) -> bytes:
    """A body of its own: of messages that a queue makes equal none is certain."""
    return amqp10.section(amqp10.DATA, amqp10.binary(b"body %d" % number))


AMQP10 = {
    "bytes": body(1),
    "durable": amqp10.section(amqp10.HEADER, amqp10.listed(amqp10.TRUE)) + body(2),
    "a value": amqp10.section(amqp10.VALUE, amqp10.text("findable, at last")),
    "a map": amqp10.section(
        amqp10.VALUE, amqp10.mapped((amqp10.text("order"), amqp10.text("seventeen")))
    ),
    "properties": amqp10.section(
        amqp10.PROPERTIES,
        amqp10.listed(amqp10.text("m1"), amqp10.NULL, amqp10.NULL, amqp10.NULL, amqp10.text("r")),
    )
    + body(3),
    "annotations": amqp10.section(
        amqp10.ANNOTATIONS, amqp10.mapped((amqp10.symbol("x-a"), amqp10.listed(amqp10.text("b"))))
    )
    + body(4),
    "application properties": amqp10.section(
        amqp10.APPLICATION,
        amqp10.mapped(
            (amqp10.text("k"), amqp10.text("v" * 300)), (amqp10.text("b"), amqp10.binary(b"\xff"))
        ),
    )
    + body(5),
}


class Node(RabbitNode):
    """A node that also speaks MQTT."""

    def __init__(self, *plugins: str, **settings: str) -> None:
        self.mqtt_port = free_port()
        listener = {"mqtt.listeners.tcp.1": f"127.0.0.1:{self.mqtt_port}"}
        super().__init__(settings=listener | settings, plugins=("rabbitmq_mqtt", *plugins))

    @property
    def version(self) -> tuple[int, int]:
        major, minor, *_ = self.api("GET", "overview")["rabbitmq_version"].split(".")
        return int(major), int(minor)

    def needs(self, version: tuple[int, int], what: str) -> None:
        if self.version < version:
            pytest.skip(f"RabbitMQ {'.'.join(map(str, self.version))} has no {what}")


@pytest.fixture(scope="module")
def rabbit() -> Iterator[Node]:
    node = Node()
    try:
        yield node.start()
    except ServerError as error:
        pytest.fail(str(error), pytrace=False)
    finally:
        node.close()


def channel_of(broker: Broker, vhost: str) -> BlockingChannel:
    parameters = pika.URLParameters(broker.amqp_url(vhost))
    return pika.BlockingConnection(parameters).channel()


def declare(broker: Broker, vhost: str, kind: str) -> None:
    channel = channel_of(broker, vhost)
    channel.queue_declare("q", durable=True, arguments={"x-queue-type": kind})
    channel.queue_bind("q", "amq.topic", "to.q")
    channel.connection.close()


def publish(broker: Broker, vhost: str) -> None:
    """Each of `PIKA`, in order."""
    channel = channel_of(broker, vhost)
    channel.confirm_delivery()
    for name, properties in PIKA.items():
        channel.basic_publish("", "q", name.encode(), properties)
    channel.connection.close()


def take(broker: Broker, vhost: str, kind: str, count: int) -> None:
    """Take this many messages from the queue, in a stream the first ones, and no more."""
    channel = channel_of(broker, vhost)
    channel.basic_qos(prefetch_count=count)
    arguments = {"x-stream-offset": "first"} if kind == "stream" else {}
    for method, _, _ in channel.consume("q", arguments=arguments, inactivity_timeout=30):
        assert method is not None, f"not within 30 s: {count} messages"
        count -= 1
        if not count:
            break
    if kind != "stream":  # which would hand out more
        channel.basic_ack(0, multiple=True)
    channel.connection.close()


def matched(events: list[Event]) -> list[tuple[Match, int | None]]:
    """How each delivery matched, and the how manieth publish it found."""
    places = [event.id for event in events if event.type is EventType.published]
    return [
        (event.match, None if event.cause is None else places.index(event.cause))
        for event in events
        if event.type is EventType.received
    ]


async def seen(service: Service, vhost: str) -> list[Event]:
    await service.registry.stop(vhost)
    assert (await service.registry.status(vhost)).counters.quarantined == 0
    return await service.events(vhost)


@pytest.mark.parametrize("kind", KINDS)
async def test_whatever_pika_publishes_is_found(
    kind: str, service: Service, rabbit: Node, vhost: str
) -> None:
    """Also where the queue makes other properties of them."""
    declare(rabbit, vhost, kind)
    await service.running(vhost)
    await asyncio.to_thread(publish, rabbit, vhost)
    readers = 2 if kind == "stream" else 1
    for _ in range(readers):
        await asyncio.to_thread(take, rabbit, vhost, kind, len(PIKA))
    found = matched(await seen(service, vhost))
    names = [*PIKA]
    unmatched = [names[n % len(PIKA)] for n, (_, place) in enumerate(found) if place is None]
    assert unmatched == []
    if kind != "stream":
        found.sort(key=str)  # quorum queues heed priorities on RabbitMQ 4
    every = [(Match.routed, place) for place in range(len(PIKA))]
    assert found == (every * readers if kind == "stream" else sorted(every, key=str))


@pytest.mark.parametrize("kind", KINDS)
async def test_whatever_mqtt_5_publishes_is_found(
    kind: str, service: Service, rabbit: Node, vhost: str
) -> None:
    rabbit.needs((3, 13), "MQTT 5")
    declare(rabbit, vhost, kind)
    await service.running(vhost)
    for properties in MQTT.values():
        await mqtt_publish(rabbit.mqtt_port, vhost, "to/q", b"body", **properties)
    readers = 2 if kind == "stream" else 1
    for _ in range(readers):
        await asyncio.to_thread(take, rabbit, vhost, kind, len(MQTT))
    found = matched(await seen(service, vhost))
    assert found == [(Match.routed, place) for place in range(len(MQTT))] * readers


@pytest.mark.parametrize("kind", KINDS)
async def test_whatever_amqp_1_0_publishes_is_found(
    kind: str, service: Service, rabbit: Node, vhost: str
) -> None:
    rabbit.needs((4, 0), "AMQP 1.0 without a plugin")
    declare(rabbit, vhost, kind)
    await service.running(vhost)
    for message in AMQP10.values():
        client = await Amqp10.connect(rabbit.amqp_port, vhost)
        await client.send("q", message)
        await client.close()
    client = await Amqp10.connect(rabbit.amqp_port, vhost)
    await client.take("q", stream=kind == "stream")
    await client.close()
    left = len(AMQP10) - (kind != "stream")
    await asyncio.to_thread(take, rabbit, vhost, kind, left)
    found = matched(await seen(service, vhost))
    every = [(Match.routed, place) for place in range(len(AMQP10))]
    expected = [every[0], *every] if kind == "stream" else every
    assert found == expected


async def test_a_value_of_amqp_1_0_is_text_that_can_be_found(
    service: Service, rabbit: Node, vhost: str
) -> None:
    rabbit.needs((4, 0), "AMQP 1.0 without a plugin")
    declare(rabbit, vhost, "classic")
    await service.running(vhost)
    for name in ("a value", "a map"):
        client = await Amqp10.connect(rabbit.amqp_port, vhost)
        await client.send("q", AMQP10[name])
        await client.close()
    events = await seen(service, vhost)
    assert [event.payload_text for event in events] == [
        ("findable, at last", "string"),
        ('{"order":"seventeen"}', "string"),
    ]
    for text, event in zip(("findable, at last", '"order":"seventeen"'), events, strict=True):
        wanted = EventFilter(vhosts=frozenset({vhost}), q=text)
        assert [each.id for each in (await service.store.events.find(wanted, limit=9)).items] == [
            event.id
        ]


async def test_no_reader_of_a_stream_is_a_redelivery_whichever_reads_first(
    service: Service, rabbit: Node, vhost: str
) -> None:
    """Also over a restart of the service, and with equal messages behind it."""
    declare(rabbit, vhost, "stream")
    await service.running(vhost)
    await asyncio.to_thread(publish, rabbit, vhost)
    await asyncio.to_thread(take, rabbit, vhost, "stream", 3)
    await service.registry.stop(vhost)
    await service.running(vhost)
    await asyncio.to_thread(publish, rabbit, vhost)
    await asyncio.to_thread(take, rabbit, vhost, "stream", len(PIKA) + 3)
    found = matched(await seen(service, vhost))
    assert Counter(match for match, _ in found) == {Match.routed: len(PIKA) + 6}
    # Of the first three the places were read before; of others two that are equal are waiting.
    equal = [None] * (len(PIKA) - 3)
    assert [place for _, place in found] == [
        0,
        1,
        2,
        0,
        1,
        2,
        *equal,
        *range(len(PIKA), len(PIKA) + 3),
    ]
    assert (await service.registry.status(vhost)).counters.redelivered == 0


@pytest.mark.parametrize("data", [b"text-1", b"\0\xff\xfe"])
async def test_an_answer_by_mqtt_5_is_a_reply_to_its_request(
    data: bytes, service: Service, rabbit: Node, vhost: str
) -> None:
    rabbit.needs((3, 13), "MQTT 5")
    await service.running(vhost)
    given: dict[str, Any] = {"correlation_data": data, "qos": 0}
    port, topic = rabbit.mqtt_port, "answers/1"
    await mqtt_publish(port, vhost, "calls", b"ask", response_topic=topic, **given)
    await mqtt_publish(port, vhost, topic, b"answer", **given)
    await service.stored(vhost, 2)
    request, answer = await seen(service, vhost)
    steps = (await service.store.causality.path(request.id, answer.id)).steps
    assert steps is not None
    assert [step.rule for step in steps] == ["reply" if data.isascii() else "reply-by-bytes"]
