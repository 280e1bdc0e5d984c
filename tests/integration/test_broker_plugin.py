"""The broker plugin on a broker of its own: what it tells, and that it is never in the way."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pika
import pika.exceptions
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.data import decode_table

from app.broker.consumer import TRACE_QUEUE
from app.broker.firehose import TRACE_EXCHANGE
from drills.dispositions import drill
from tools.plugin import NAME
from tools.servers import RabbitNode

CLAIMANT = """
-module(itc_claimant).
-export([description/0, init/1, intercept/3, applies_to/0]).
-behaviour(rabbit_channel_interceptor).
description() -> [].
init(_) -> none.
intercept(Method, Content, _) -> {Method, Content}.
applies_to() -> ['basic.ack'].
"""


@pytest.fixture
def vhost(broker: RabbitNode) -> Iterator[str]:
    with broker.fresh_vhost() as name:
        yield name


class Client:
    """A connection into a virtual host, and what its trace queue holds."""

    def __init__(self, broker: RabbitNode, vhost: str) -> None:
        self._broker, self.vhost = broker, vhost
        self.connection = pika.BlockingConnection(pika.URLParameters(broker.amqp_url(vhost)))
        self._reader = self.connection.channel()
        self._reader.queue_declare(TRACE_QUEUE, durable=True)
        self._reader.queue_bind(TRACE_QUEUE, TRACE_EXCHANGE, "#")

    def trace(self, on: bool) -> None:
        self._broker.api("PUT", "vhosts", self.vhost, json={"tracing": on})

    def worker(self, bodies: int = 0) -> BlockingChannel:
        """A channel, and a queue `work` with messages."""
        channel = self.connection.channel()
        channel.queue_declare("work")
        for number in range(bodies):
            channel.basic_publish("", "work", str(number).encode())
        return channel

    def told(self) -> list[tuple[str, dict[str, Any]]]:
        """The records that there are, oldest first; traces are `publish` and `deliver`."""
        found = []
        while (message := self._reader.basic_get(TRACE_QUEUE, auto_ack=True))[0] is not None:
            method, properties, body = message
            fields = fields_of(properties, body)
            kind, _, event = method.routing_key.partition(".")
            if kind == "settle":
                assert method.exchange == TRACE_EXCHANGE
                assert properties.user_id == "rmq-internal"
                assert fields["vhost"] == self.vhost
                assert fields["itc"]
            found.append((event if kind == "settle" else kind, fields))
        return found

    def until(self, event: str) -> list[tuple[str, dict[str, Any]]]:
        """Take records until one of them is of this kind."""
        found: list[tuple[str, dict[str, Any]]] = []
        wait_for(lambda: found.extend(self.told()) or any(each == event for each, _ in found))
        return found


def fields_of(properties: Any, body: bytes) -> dict[str, Any]:
    """The fields of a trace message, in its headers, or of a record, in its body."""
    table: Any = decode_table(body, 0)[0] if properties.headers is None else properties.headers
    return dict(table)


@pytest.fixture
def client(broker: RabbitNode, vhost: str) -> Iterator[Client]:
    made = Client(broker, vhost)
    yield made
    made.connection.close()


def wait_for(condition: Callable[[], object], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.05)


def events(found: list[tuple[str, dict[str, Any]]]) -> list[str]:
    return [event for event, _ in found if event not in ("publish", "deliver")]


def evaluate(broker: RabbitNode, expression: str) -> str:
    return broker.ctl("eval", expression).strip()


def test_a_channel_from_before_tracing_says_where_its_tags_are(client: Client) -> None:
    worker = client.worker(5)
    worker.basic_consume("work", lambda *_: None, consumer_tag="early")
    client.connection.process_data_events(0.3)

    client.trace(on=True)

    found = client.until("began")
    [(_, position)] = [each for each in found if each[0] == "channel" and each[1]["next_tag"] == 6]
    consumers = [headers for event, headers in found if event == "consumer"]
    assert [(each["queue"], each["auto"]) for each in consumers] == [("work", False)]
    worker.basic_ack(5, multiple=True)
    [(_, settled)] = client.until("settled")
    assert (settled["connection"], settled["channel"]) == (
        position["connection"],
        position["channel"],
    )


def test_nothing_is_told_while_tracing_is_off_and_channels_begin_anew_after_it(
    broker: RabbitNode, vhost: str, client: Client
) -> None:
    client.trace(on=True)
    client.until("began")
    worker = client.worker(4)
    client.trace(on=False)
    wait_for(lambda: vhost not in evaluate(broker, "rabbit_itc_watch:status()."))
    client.told()
    for _ in range(2):
        method, _, _ = worker.basic_get("work")
        worker.basic_ack(method.delivery_tag)
    assert client.told() == []

    client.trace(on=True)

    positions = [headers for event, headers in client.until("began") if event == "channel"]
    assert {int(each["next_tag"]) for each in positions} >= {3}


def test_who_reads_a_trace_queue_is_not_told_of(client: Client) -> None:
    client.trace(on=True)
    client.until("began")
    reader = client.connection.channel()
    client.worker(1)
    reader.basic_consume(
        TRACE_QUEUE, lambda channel, method, *_: channel.basic_ack(method.delivery_tag)
    )
    client.connection.process_data_events(0.5)
    reader.cancel()

    assert "settled" not in events(client.told())


def test_a_client_cannot_pass_for_the_broker(client: Client) -> None:
    forger = client.worker()
    forger.basic_publish("", TRACE_QUEUE, b"", pika.BasicProperties(user_id="rmq-internal"))

    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="406"):
        forger.queue_declare("work")
    assert client.told() == []


def test_a_channel_goes_on_without_trace_queue_and_through_failures(
    broker: RabbitNode, client: Client
) -> None:
    client.trace(on=True)
    client.until("began")
    worker = client.worker(3)
    evaluate(broker, "application:set_env(rabbitmq_itc, trace_queues, [nonsense]).")
    try:
        worker.basic_ack(worker.basic_get("work")[0].delivery_tag)
        assert worker.queue_declare("work").method.message_count == 2
        assert "failures => 0" not in evaluate(broker, "rabbit_itc_watch:status().")
    finally:
        evaluate(broker, 'application:set_env(rabbitmq_itc, trace_queues, [<<"itc.trace">>]).')
    worker.queue_delete(TRACE_QUEUE)

    worker.basic_ack(worker.basic_get("work")[0].delivery_tag)

    assert worker.queue_declare("work").method.message_count == 1


def test_the_broker_s_own_log_of_traces_lives_with_it(
    broker: RabbitNode, vhost: str, client: Client
) -> None:
    log = {"format": "json", "pattern": "#"}
    broker.api("PUT", "traces", vhost, "beside", json=log)
    client.until("began")
    worker = client.worker(2)
    worker.basic_ack(worker.basic_get("work")[0].delivery_tag)
    assert "settled" in events(client.told())

    worker.basic_publish("", "work", b"the last")

    written = broker.folder / "tracing" / "beside.log"
    wait_for(lambda: written.exists() and written.read_text().count('"type":"published"') == 3)
    assert "settle" not in written.read_text()
    broker.api("DELETE", "traces", vhost, "beside")


def test_it_is_silent_while_another_interceptor_claims_settlements(
    broker: RabbitNode, client: Client, plugins: Path
) -> None:
    client.trace(on=True)
    client.until("began")
    worker = client.worker(4)
    (plugins / "itc_claimant.erl").write_text(CLAIMANT)
    interceptor = 'channel_interceptor, <<"itc claimant">>'
    evaluate(
        broker,
        f'{{ok, M}} = compile:file("{plugins}/itc_claimant", [{{outdir, "{plugins}"}}]), '
        f'{{module, M}} = code:load_abs("{plugins}/itc_claimant"), '
        f"rabbit_registry:register({interceptor}, M).",
    )
    try:
        ended = client.until("ended")
        assert ended[-1][1]["reason"] == "itc_claimant claims settlements"
        worker.basic_ack(worker.basic_get("work")[0].delivery_tag)
        assert worker.queue_declare("work").method.message_count == 3
        assert "settled" not in events(client.told())
    finally:
        evaluate(broker, f"rabbit_registry:unregister({interceptor}).")

    client.until("began")
    worker.basic_ack(worker.basic_get("work")[0].delivery_tag)
    assert "settled" in events(client.told())


def test_it_is_disabled_and_enabled_with_channels_open_and_leaves_nothing(
    broker: RabbitNode, client: Client
) -> None:
    client.trace(on=True)
    client.until("began")
    worker = client.worker(4)
    held = [worker.basic_get("work")[0].delivery_tag for _ in range(2)]

    broker.ctl("disable", NAME, tool="rabbitmq-plugins")

    assert client.until("ended")[-1][1]["reason"] == "stopped"
    worker.basic_ack(held[0])
    assert worker.queue_declare("work").method.message_count == 2
    assert events(client.told()) == []
    assert evaluate(broker, "rabbit_registry:lookup_all(channel_interceptor).") == "[]"
    assert evaluate(broker, "whereis(rabbit_itc_watch).") == "undefined"

    broker.ctl("enable", NAME, tool="rabbitmq-plugins")

    found = client.until("began")
    assert [headers["next_tag"] for event, headers in found if event == "channel"].count(3) == 1
    worker.basic_nack(held[1], requeue=True)
    [(_, settled)] = [each for each in client.until("settled") if each[0] == "settled"]
    assert (settled["outcome"], settled["delivery_tag"]) == ("returned", 2)


def test_the_management_api_names_only_virtual_hosts_that_a_user_sees(
    broker: RabbitNode, vhost: str, client: Client
) -> None:
    client.trace(on=True)
    client.until("began")
    with broker.fresh_vhost() as other:
        broker.api("PUT", "vhosts", other, json={"tracing": True})
        wait_for(lambda: other in evaluate(broker, "rabbit_itc_watch:status()."))
        seen = {}
        for name, tag, vhosts in (
            ("none", "management", []),
            ("own", "management", [vhost]),
            ("watcher", "monitoring", []),
        ):
            broker.add_user(name, "secret", [tag])
            for each in vhosts:
                broker.permit(name, each, "^$", "^$", "^$")
            url = f"{broker.management_url}/api/itc"
            answer = httpx2.get(url, auth=(name, "secret")).raise_for_status().json()
            seen[name] = {*answer["vhosts"]} & {vhost, other}
            broker.delete_user(name)
    assert seen == {"none": set(), "own": {vhost}, "watcher": {vhost, other}}


def test_it_works_without_the_management_plugin(broker: RabbitNode, client: Client) -> None:
    client.trace(on=True)
    client.until("began")
    worker = client.worker(1)

    broker.ctl("disable", "rabbitmq_management", tool="rabbitmq-plugins")
    try:
        worker.basic_ack(worker.basic_get("work")[0].delivery_tag)
        assert "settled" in events(client.told())
    finally:
        broker.ctl("enable", "rabbitmq_management", "rabbitmq_tracing", tool="rabbitmq-plugins")


@pytest.mark.parametrize("work", ["classic", pytest.param("quorum", marks=pytest.mark.long(50))])
def test_each_delivery_becomes_what_its_client_made_of_it(
    broker: RabbitNode, tmp_path: Path, work: str
) -> None:
    """It is the last of this module: the service leaves a queue that makes new connections slow."""
    url = f"sqlite+aiosqlite:///{tmp_path}/itc.db"
    report = asyncio.run(drill(broker, url, tmp_path, 500, work, seed=5))

    assert report.faults == []
    assert report.right.total() > 450
    assert min(report.right[each] for each in ("acknowledged", "rejected", "returned", "auto")) > 0
