"""The broker plugin's bundles: their form, their order, and that nobody else sees any of it."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pika
import pika.exceptions
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.data import decode_table

from app.broker.consumer import TRACE_QUEUE
from app.broker.firehose import TRACE_EXCHANGE
from tests.integration.test_broker_plugin import evaluate, wait_for
from tools.plugin import NAME
from tools.servers import RabbitCluster, RabbitNode

WISH = "itc.batch.1."
COLLECTED = f"{TRACE_QUEUE}.batches"
MOST_RECORDS, MOST_BYTES = 256, 128 * 1024
BODY = b"x" * 100


class Record(NamedTuple):
    key: str
    properties: pika.BasicProperties
    body: bytes

    @property
    def is_traced(self) -> bool:
        """Tell whether it is the firehose's, and none of the plugin's own."""
        return not self.key.startswith("settle.")


class Message(NamedTuple):
    """A message of the trace queue: a bundle, or one record as without the plugin."""

    key: str
    properties: pika.BasicProperties
    body: bytes

    @property
    def is_bundle(self) -> bool:
        return self.key == "batch.1"

    def field(self, name: str) -> Any:
        return (self.properties.headers or {})[name]

    @property
    def records(self) -> list[Record]:
        records = []
        rest = memoryview(self.body)
        while rest:
            total, rest = int.from_bytes(rest[:4]), rest[4:]
            record, rest = bytes(rest[:total]), rest[total:]
            assert len(record) == total
            key_end = 2 + int.from_bytes(record[:2])
            header_end = key_end + 4 + int.from_bytes(record[key_end : key_end + 4])
            header, body = record[key_end + 4 : header_end], record[header_end:]
            assert header[:12] == (60).to_bytes(2) + bytes(2) + len(body).to_bytes(8)
            properties = pika.BasicProperties()
            properties.decode(header, 12)
            records.append(Record(record[2:key_end].decode(), properties, body))
        return records


class Reader:
    """A traced virtual host's trace queue."""

    def __init__(
        self, broker: RabbitNode | RabbitCluster, vhost: str, kind: str = "classic"
    ) -> None:
        self.broker, self.vhost = broker, vhost
        self.connection = pika.BlockingConnection(pika.URLParameters(broker.amqp_url(vhost)))
        self.channel = self.connection.channel()
        self.channel.queue_declare(TRACE_QUEUE, durable=True, arguments={"x-queue-type": kind})
        self.bind("#")
        broker.api("PUT", "vhosts", vhost, json={"tracing": True})

    def bind(self, *keys: str) -> None:
        for key in keys:
            self.channel.queue_bind(TRACE_QUEUE, TRACE_EXCHANGE, key)

    def unbind(self, *keys: str) -> None:
        for key in keys:
            self.channel.queue_unbind(TRACE_QUEUE, TRACE_EXCHANGE, key)

    def bound(self, queue: str = TRACE_QUEUE) -> set[str]:
        found = self.broker.api(
            "GET", "exchanges", self.vhost, TRACE_EXCHANGE, "bindings", "source"
        )
        return {each["routing_key"] for each in found if each["destination"] == queue}

    def want(self, *keys: str) -> None:
        """Ask for bundles of these keys, and wait until they are made."""
        self.bind(*(WISH + key for key in keys))
        wait_for(lambda: self.bound(COLLECTED) == {*keys} and not self.bound() & {*keys})

    def read(self) -> list[Message]:
        """All that there is, oldest first, while nobody works."""
        found = []
        for method, properties, body in self.channel.consume(
            TRACE_QUEUE, auto_ack=True, inactivity_timeout=0.3
        ):
            if method is None:
                break
            assert method.exchange == TRACE_EXCHANGE
            found.append(Message(method.routing_key, properties, body))
        self.channel.cancel()
        return found

    def until(self, records: int) -> list[Message]:
        """Take messages until they hold this many records of the firehose."""
        found: list[Message] = []
        wait_for(lambda: found.extend(self.read()) or len(traced(found)) >= records)
        return found


def traced(messages: Iterable[Message]) -> list[Record]:
    """The firehose's records, in order."""
    records: list[Record] = []
    for message in messages:
        if message.is_bundle:
            records += message.records
        else:
            (message.properties.headers or {}).pop("x-delivery-count", None)  # a quorum queue's own
            records.append(Record(*message))
    return [record for record in records if record.is_traced]


def check_numbers(messages: Iterable[Message], *, begun: bool = False) -> int:
    """Check that numbers and ordinals leave no hole that is not told; return how many were lost.

    Those before the first are not known where bundles had ``begun``.
    """
    lost = 0
    expected: dict[tuple[str, int], tuple[int, int]] = {}
    for message in messages:
        if message.is_bundle:
            place = (message.field("node"), message.field("epoch"))
            start = (message.field("number"), message.field("first") - message.field("lost"))
            number, ordinal = expected.get(place, start if begun else (0, 0))
            assert message.field("number") == number
            assert message.field("first") == ordinal + message.field("lost")
            assert message.field("records") == len(message.records) <= MOST_RECORDS
            assert len(message.body) <= MOST_BYTES or len(message.records) == 1
            lost += message.field("lost")
            expected[place] = (number + 1, message.field("first") + len(message.records))
    return lost


@pytest.fixture
def reader(broker: RabbitNode) -> Iterator[Reader]:
    with broker.fresh_vhost() as vhost:
        made = Reader(broker, vhost)
        yield made
        made.connection.close()


def channel_of(reader: Reader) -> BlockingChannel:
    channel: BlockingChannel = reader.connection.channel()
    channel.queue_declare("work")
    return channel


class Applications:
    """Threads that publish with confirms and consume, each on a connection of its own."""

    def __init__(self, broker: RabbitNode | RabbitCluster, vhost: str, count: int = 4) -> None:
        self.published: Counter[int] = Counter()
        self.consumed: Counter[int] = Counter()
        self.errors: list[BaseException] = []
        self._url, self._over = broker.amqp_url(vhost), threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(kind, number))
            for number in range(count)
            for kind in (self._publish, self._consume)
        ]

    def __enter__(self) -> Applications:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive()

    def wait_for_more(self, count: int) -> None:
        """Wait until each has published this many more."""
        before = Counter(self.published)
        wait_for(
            lambda: (
                self.errors
                or all(self.published[each] >= before[each] + count for each in self.published)
            )
        )
        assert self.errors == []

    def _run(self, work: Any, number: int) -> None:
        try:
            with pika.BlockingConnection(pika.URLParameters(self._url)) as connection:
                channel = connection.channel()
                channel.queue_declare(f"queue-{number}", durable=True)
                work(channel, number)
        except BaseException as error:  # whatever an application sees is a fault
            self.errors.append(error)

    def _publish(self, channel: BlockingChannel, number: int) -> None:
        channel.confirm_delivery()
        while not self._over.is_set():
            body = f"{number} {self.published[number]}".encode()
            channel.basic_publish("", f"queue-{number}", body, mandatory=True)
            self.published[number] += 1

    def _consume(self, channel: BlockingChannel, number: int) -> None:
        for method, _, body in channel.consume(f"queue-{number}", inactivity_timeout=0.2):
            if body is not None:
                assert body == f"{number} {self.consumed[number]}".encode()
                channel.basic_ack(method.delivery_tag)
                self.consumed[number] += 1
            elif self._over.is_set():
                break


@contextmanager
def applications(reader: Reader) -> Iterator[Applications]:
    """Applications at work; afterwards, that none has seen anything."""
    with Applications(reader.broker, reader.vhost) as working:
        working.wait_for_more(50)
        yield working
        working.wait_for_more(50)
    assert working.errors == []
    assert working.consumed == working.published


def places(records: Iterable[Record], kind: str) -> dict[str, list[int]]:
    """Of each application's messages the numbers that were traced, in order."""
    found: dict[str, list[int]] = {}
    for record in records:
        if record.key.partition(".")[0] == kind:
            number, place = record.body.decode().split()
            found.setdefault(number, []).append(int(place))
    return found


def check_order(records: list[Record], missing: int = 0) -> None:
    """Check that records are in order, that none is there twice, and few enough are missing."""
    for kind in ("publish", "deliver"):
        for found in places(records, kind).values():
            assert found == sorted(set(found))
            missing -= found[-1] + 1 - found[0] - len(found)
    assert missing >= 0


def check_settlements(messages: Iterable[Message]) -> None:
    """Check that no delivery is behind its settlement; each consumer has its own channel."""
    settled: dict[str, int] = {}
    for message in messages:
        for record in message.records if message.is_bundle else [Record(*message)]:
            fields = record.properties.headers or decode_table(record.body, 0)[0]
            channel = f"{fields.get('connection')} {fields.get('channel')}"
            if record.key.startswith("deliver."):
                assert int(record.body.split()[1]) >= settled.get(channel, 0)
            elif record.key == "settle.settled":
                settled[channel] = fields["delivery_tag"]
    assert sum(settled.values()) > 100


def collector(reader: Reader) -> str:
    """An expression for the collector's process."""
    name = f'rabbit_misc:r(<<"{reader.vhost}">>, queue, <<"{COLLECTED}">>)'
    return f"rabbit_itc_topology:process({name})"


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_a_record_in_a_bundle_is_what_the_single_message_would_be(
    broker: RabbitNode, kind: str
) -> None:
    with broker.fresh_vhost() as vhost:
        reader = Reader(broker, vhost, kind)
        worker = channel_of(reader)

        def work() -> list[Message]:
            given = pika.BasicProperties(message_id="7", headers={"a": [1, {"b": "c"}]}, priority=3)
            for body in (b"", b"small", bytes(5_000), bytes(200_000)):
                worker.basic_publish("", "work", body, given)
                worker.basic_ack(worker.basic_get("work")[0].delivery_tag)
            return reader.until(8)

        single = work()
        assert not any(message.is_bundle for message in single)
        reader.want("#")
        begun: list[Message] = []
        wait_for(lambda: begun.extend(reader.read()) or begun)
        bundles = work()

        assert [(each.is_bundle, each.records) for each in begun] == [(True, [])]
        assert all(message.is_bundle for message in bundles)
        assert traced(bundles) == traced(single)
        assert check_numbers([*begun, *bundles]) == 0
        own = [record for message in bundles for record in message.records if not record.is_traced]
        assert "settle.settled" in {record.key for record in own}
        assert {each.properties.user_id for each in (*bundles, *own)} == {"rmq-internal"}
        reader.connection.close()


def test_readers_come_and_go_while_applications_work_and_nothing_comes_twice(
    reader: Reader,
) -> None:
    with applications(reader) as working:
        for _ in range(3):
            reader.want("#")
            working.wait_for_more(50)
            reader.unbind(WISH + "#")
            wait_for(lambda: reader.bound() == {"#"})
            working.wait_for_more(50)
    messages = reader.read()

    ends = [
        each for each in messages if each.is_bundle and "end" in (each.properties.headers or {})
    ]
    assert [(each.field("records"), each.field("end")) for each in ends] == [(0, True)] * 3
    check_order(traced(messages), missing=check_numbers(messages))


@pytest.mark.long(25)  # test_bundled_capture does so too
def test_the_plugin_is_disabled_and_enabled_while_applications_work(
    broker: RabbitNode, reader: Reader
) -> None:
    reader.want("#")
    with applications(reader) as working:
        broker.ctl("disable", NAME, tool="rabbitmq-plugins")
        assert reader.bound() == {"#", WISH + "#"}
        working.wait_for_more(50)
        broker.ctl("enable", NAME, tool="rabbitmq-plugins")
        wait_for(lambda: reader.bound(COLLECTED) == {"#"})
    messages = reader.read()

    assert messages[-1].is_bundle
    assert not all(message.is_bundle for message in messages)
    check_order(traced(messages), missing=check_numbers(messages))


@pytest.mark.parametrize(
    "process",
    [
        "rabbit_itc_collectors_sup",
        pytest.param("rabbit_itc_collectors", marks=pytest.mark.long(15)),
    ],
)
def test_the_rest_of_the_plugin_is_killed_while_applications_work(
    broker: RabbitNode, reader: Reader, process: str
) -> None:
    reader.want("#")
    with applications(reader) as working:
        evaluate(broker, f"exit(whereis({process}), kill).")
        working.wait_for_more(50)
        wait_for(lambda: reader.bound(COLLECTED) == {"#"} and reader.bound() == {WISH + "#"})
        assert evaluate(broker, f"exit({collector(reader)}, kill).") == "true"
        wait_for(lambda: evaluate(broker, f"is_process_alive({collector(reader)}).") == "true")
    check_numbers(reader.read())


def test_channels_records_stay_in_order_in_both_forms(reader: Reader) -> None:
    with Applications(reader.broker, reader.vhost, 16) as working:
        working.wait_for_more(20)
        reader.want("#")
        working.wait_for_more(40)
    assert working.errors == []
    messages = reader.read()

    forms = {each.is_bundle for each in messages}
    assert forms == {True, False}
    check_order(traced(messages), missing=check_numbers(messages))
    check_settlements(messages)


def test_a_reader_that_chooses_other_keys_gets_bundles_of_these(reader: Reader) -> None:
    reader.unbind("#")
    reader.want("publish.#")
    worker = channel_of(reader)
    worker.basic_publish("", "work", b"0 0")
    worker.basic_get("work")
    reader.bind(WISH + "deliver.#")
    reader.unbind(WISH + "publish.#")
    wait_for(lambda: reader.bound(COLLECTED) == {"deliver.#"})
    worker.basic_publish("", "work", b"0 1")
    worker.basic_get("work")

    assert [each.key for each in traced(reader.until(2))] == ["publish.", "deliver.work"]
    reader.bind("deliver.#")  # as one does that has not seen that it gets bundles
    wait_for(lambda: reader.bound() == {WISH + "deliver.#"})


def test_names_of_any_length_are_in_a_record(reader: Reader) -> None:
    reader.want("#")
    name = "q" * 255
    worker = reader.connection.channel()
    worker.queue_declare(name)
    worker.basic_publish("", name, b"0 0")
    worker.basic_get(name)

    assert traced(reader.until(2))[-1].key == f"deliver.{name}"


def test_nobody_can_use_the_collector_s_queue_or_is_kept_waiting_by_it(
    broker: RabbitNode, reader: Reader
) -> None:
    reader.want("#")
    for refused in (
        lambda channel: channel.basic_get(COLLECTED),
        lambda channel: channel.basic_consume(COLLECTED, print),
        lambda channel: channel.queue_purge(COLLECTED),
        lambda channel: channel.queue_delete(COLLECTED),
        lambda channel: channel.queue_declare(COLLECTED),
        lambda channel: channel.queue_bind(COLLECTED, TRACE_EXCHANGE, "x"),
    ):
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="405"):
            refused(reader.connection.channel())
    publisher = reader.connection.channel()
    publisher.confirm_delivery()
    for _ in range(500):  # more than a channel may send before its queue gives it credit
        publisher.basic_publish("", COLLECTED, BODY, mandatory=True)

    assert {record.key for record in traced(reader.until(500))} == {"publish."}


def test_the_broker_s_own_tools_get_on_with_the_collector_s_queue(
    broker: RabbitNode, reader: Reader
) -> None:
    reader.want("#")
    broker.api(
        "PUT",
        "policies",
        reader.vhost,
        "all",
        json={"pattern": ".*", "definition": {"max-length": 1}},
    )
    columns = (
        "name",
        "pid",
        "owner_pid",
        "exclusive",
        "durable",
        "messages",
        "consumers",
        "memory",
        "policy",
    )
    listed = broker.ctl("list_queues", "-p", reader.vhost, *columns, "--quiet")
    assert COLLECTED in listed
    assert COLLECTED not in broker.ctl(
        "list_unresponsive_queues", "-p", reader.vhost, "--timeout", "10"
    )
    assert broker.api("GET", "queues", reader.vhost, COLLECTED)["exclusive"] is True
    assert COLLECTED in [each["name"] for each in broker.api("GET", "queues", reader.vhost)]
    broker.ctl("delete_queue", COLLECTED, "-p", reader.vhost)
    wait_for(lambda: reader.bound(COLLECTED) == {"#"} and reader.bound() == {WISH + "#"})
    reader.channel.queue_delete(TRACE_QUEUE)

    wait_for(lambda: COLLECTED not in broker.ctl("list_queues", "-p", reader.vhost, "--quiet"))


@pytest.mark.long(20)  # test_bundled_capture kills one too
def test_a_collector_that_is_killed_begins_a_new_epoch_and_applications_see_nothing(
    broker: RabbitNode, reader: Reader
) -> None:
    reader.want("#")
    with applications(reader) as working:
        for _ in range(5):
            assert evaluate(broker, f"exit({collector(reader)}, kill).") == "true"
            working.wait_for_more(20)
    messages = reader.read()

    wait_for(lambda: evaluate(broker, f"is_process_alive({collector(reader)}).") == "true")
    assert len({message.field("epoch") for message in messages if message.is_bundle}) > 1
    assert check_numbers(messages) == 0
    check_order(traced(messages), missing=10**6)


@contextmanager
def setting(broker: RabbitNode, name: str, value: int) -> Iterator[None]:
    """A setting of the plugin for a while."""
    default = evaluate(broker, f"application:get_env(rabbitmq_itc, {name}, none).")
    evaluate(broker, f"application:set_env(rabbitmq_itc, {name}, {value}).")
    yield
    evaluate(broker, f"application:set_env(rabbitmq_itc, {name}, {default}).")


def publish_numbers(reader: Reader, count: int) -> None:
    channel = channel_of(reader)
    channel.confirm_delivery()
    for number in range(count):
        channel.basic_publish("", "work", f"0 {number}".encode(), mandatory=True)


def test_one_that_comes_to_run_late_loses_a_number_that_is_told(
    broker: RabbitNode, reader: Reader
) -> None:
    reader.want("#")
    reader.read()
    count = 3_000
    with setting(broker, "collector_bytes", 500_000):
        evaluate(broker, f"sys:suspend({collector(reader)}).")
        publish_numbers(reader, count)
        evaluate(broker, f"sys:resume({collector(reader)}).")
        messages: list[Message] = []
        wait_for(lambda: messages.extend(reader.read()) or counted(messages) >= count)

    assert counted(messages) == count
    assert 0 < len(traced(messages)) < count
    check_order(traced(messages), missing=counted(messages) - len(traced(messages)))


def test_one_that_does_not_come_to_run_gives_way_to_another(
    broker: RabbitNode, reader: Reader
) -> None:
    reader.want("#")
    before = evaluate(broker, f"{collector(reader)}.")
    with setting(broker, "collector_records", 500):
        evaluate(
            broker,
            f"erlang:spawn(fun() -> erlang:suspend_process({collector(reader)}), "
            "timer:sleep(60000) end).",
        )
        publish_numbers(reader, 1_000)
        wait_for(lambda: evaluate(broker, f"{collector(reader)}.") not in (before, "none"))
    publish_numbers(reader, 1)

    assert len(traced(reader.until(1))) < 1_000


@pytest.mark.long(60)
def test_in_a_cluster_one_collector_bundles_what_each_node_traces(plugins: Path) -> None:
    with (
        RabbitCluster(2, plugins=(NAME,), plugins_folder=plugins) as cluster,
        cluster.fresh_vhost() as vhost,
    ):
        reader, (near, far) = Reader(cluster, vhost), cluster.nodes
        far.api("PUT", "vhosts", vhost, json={"tracing": True})
        with Applications(far, vhost) as working:
            working.wait_for_more(50)
            reader.want("#")
            working.wait_for_more(200)
            near.ctl("disable", NAME, tool="rabbitmq-plugins")
            wait_for(lambda: reader.bound() == {"#", WISH + "#"})
            working.wait_for_more(50)
        messages = reader.read()
        reader.connection.close()

    assert working.errors == []
    bundles = [message for message in messages if message.is_bundle]
    assert {message.field("node") for message in bundles} == {near.node}
    check_order(traced(messages), missing=check_numbers(messages))
    check_settlements(bundles)


def counted(messages: list[Message]) -> int:
    """The firehose's records that came, and those that were lost."""
    return check_numbers(messages, begun=True) + len(traced(messages))
