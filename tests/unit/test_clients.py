"""A program's name: what its connections have in common."""

from __future__ import annotations

import random
import re
import string
from collections.abc import Mapping

import pytest
from hypothesis import example, given, strategies

from app.tracker.clients import LONGEST, client_name, shown_name

UUID = "0b9f8a52-6f5e-4a3e-9d5c-0f1e2d3c4b5a"


@pytest.mark.parametrize(
    ("name", "program"),
    [
        ("orders", "orders"),
        ("orders-0", "orders"),
        ("orders_12", "orders"),
        ("orders 3", "orders"),
        ("orders.7", "orders"),
        ("orders#2", "orders"),
        ("orders (4711)", "orders"),
        ("orders[4711]", "orders"),
        ("orders:4711", "orders"),
        ("orders-pid4711", "orders"),
        ("orders pid=4711", "orders"),
        ("orders.publisher", "orders"),
        # One program's connections by what they are for
        ("orders-consumer", "orders"),
        ("orders-producer", "orders"),
        ("orders_sub", "orders"),
        ("orders.pub-2", "orders"),
        ("orders:Reader", "orders"),
        (f"orders.writer-{UUID}", "orders"),
        ("shop orders listener", "shop orders"),
        ("pubsub", "pubsub"),
        ("consumer", "consumer"),
        ("client", "client"),
        (f"orders-{UUID}", "orders"),
        (f"orders/{UUID.replace('-', '').upper()}", "orders"),
        (f"orders-{UUID}-2", "orders"),
        ("orders#4c8e9f:12", "orders"),  # Spring
        # NServiceBus
        ("Sales MessagePump", "Sales"),
        ("Sales Publish", "Sales"),
        ("Store.Sales-2 Publish", "Store.Sales"),
        # MassTransit: the process's name
        ("Shop.Orders.Service", "Shop.Orders.Service"),
        # Celery and kombu, where a line gives a name
        ("celery@shop-1", "celery@shop-1"),
        ("worker1@shop-1:4711", "worker1@shop-1"),
        # RabbitMQ's own clients
        ("Shovel orders-to-billing", "Shovel orders-to-billing"),
        # Not a counter, a pid or a random number
        ("worker7", "worker7"),
        ("web.v2", "web.v2"),
        ("orders-deadbeef", "orders-deadbeef"),
        ("publisher", "publisher"),
        ("MessagePump", "MessagePump"),
        # Kubernetes: of a deployment, a daemon set, a stateful set, a cron job
        ("billing-6c9f7d8b5-x2x7k", "billing"),
        ("billing-cddfdf66hz-bcdfg", "billing"),
        ("log-shipper-9xk2v", "log-shipper"),
        ("ledger-0", "ledger"),
        ("nightly-report-28391234-x2x7k", "nightly-report"),
        # Where they stand does not matter
        (f"{UUID}-orders", "orders"),
        ("4711@orders", "orders"),
        ("orders-7f3a2b1c-eu", "orders-eu"),
        ("orders (7f3a2b1c)", "orders"),
        # Names of people, and not random
        *((name, name) for name in ("worker-7f", "eShopWeb", "hlr-mgmt-svc", "b2b-sync")),
        *((name, name) for name in ("html5-gw", "k8s-watch", "keycloak", "rechnungsdienst")),
        # What nobody should have to read
        ("  orders-1  ", "orders"),
        ("a\0b\x1b[31m-3", "a\\x00b\\x1b[31m"),
        ("\ud800orders\u202e", "\\ud800orders\\u202e"),
        ("Bestellungen-ü-4", "Bestellungen-ü"),
        ("x" * 300, "x" * 119 + "…"),
    ],
)
def test_a_given_name_loses_what_varies(name: str, program: str) -> None:
    assert client_name(name, {"connection_name": "another"}) == program


@pytest.mark.parametrize(
    "name",
    [
        "7",
        "10.0.0.7",
        "10.0.0.7:4711",
        "#1a:0",
        ".publisher",
        UUID,
        f"{UUID}:1",
        UUID.replace("-", ""),
        f"ID:{UUID}:1",
        "ID:shop-1-36241-1637250000000-0:1",
        "kQzXwPvbTr",
        "JzTY20BRgKO-HjmUJj0wLg",
        # A library's own name, a program's runtime or any connection's
        "repid-1a2b3c4d",
        "AMQPNetLite-7f3a2b1c",
        "SpringAMQP#1a2b3c:0",
        "rabbitConnectionFactory#6ee1dd1f:0",
        "rabbitConnectionFactory.publisher#4c8e9f:1",
        "gen1234@host",
        "dotnet",
        "connection-3",
        f"client-{UUID}",
    ],
)
def test_a_name_that_is_no_program_s_is_none(name: str) -> None:
    assert client_name(name, {}) is None
    assert client_name(None, {"container_id": name}) is None
    assert client_name(name, {"container_id": "orders"}) == "orders"


@pytest.mark.parametrize(
    ("properties", "program"),
    [
        ({"product": "Quiver", "container_id": "quiver-1a2b3c4d"}, None),
        ({"platform": "Quiver/2.1", "container_id": "QUIVER#3"}, None),
        ({"product": "Quiver", "container_id": "orders-1a2b3c4d"}, "orders"),
        ({"product": "mqtt.js", "client_id": "mqttjs_7f3a2b1c"}, None),
        ({"client_id": UUID}, None),
        ({"client_id": "sensor-7f3a2b1c"}, "sensor"),
    ],
)
def test_a_library_s_name_for_itself_is_no_program_s(
    properties: Mapping[str, str], program: str | None
) -> None:
    assert client_name(None, properties) == program


DIGITS, LOWER = string.digits, string.ascii_lowercase
# How libraries make random names, and the least share that is seen to be random.
RANDOM_NAMES: list[tuple[str, int, float]] = [
    (DIGITS + "abcdef", 8, 1.0),
    (DIGITS + "abcdef", 40, 1.0),
    (LOWER + DIGITS, 11, 0.95),
    (string.ascii_letters + DIGITS, 10, 0.93),
    (string.ascii_letters + DIGITS, 20, 0.99),
    (string.ascii_letters + DIGITS + "-_", 40, 0.97),
    (LOWER, 8, 0.88),
    (LOWER, 12, 0.96),
    (string.ascii_uppercase, 16, 0.96),
    (string.ascii_letters, 40, 0.99),
]


@pytest.mark.parametrize(("alphabet", "length", "least"), RANDOM_NAMES)
def test_random_characters_name_nothing_and_are_cut_behind_a_name(
    alphabet: str, length: int, least: float
) -> None:
    dice = random.Random(f"{alphabet} {length}")
    names = ["".join(dice.choices(alphabet, k=length)) for _ in range(1_000)]
    names = [name for name in names if not {*name} <= {*LOWER} or len(alphabet) > 16]
    assert sum(client_name(name, {}) is None for name in names) >= least * len(names)
    if "-" not in alphabet:
        programs = [client_name(f"billing-{name}", {}) for name in names]
        assert programs.count("billing") >= least * len(names)


WORDS = re.findall(
    r"\w+",
    "accounts audit basket billing booking catalog checkout claims credit crm customer delivery"
    " dispatch email fraud gateway identity import inventory invoice ledger loyalty mail market"
    " notify orders payment pricing report returns search shipping sms stock tax tracking"
    " warehouse",
)
ROLES = ["service", "svc", "api", "worker", "engine", "handler", "processor", "app", "job", "proxy"]
SAFE = "bcdfghjklmnpqrstvwxz2456789"


@given(
    strategies.lists(strategies.sampled_from(WORDS + ROLES), min_size=1, max_size=3),
    strategies.sampled_from(["-", "_", ".", ""]),
    strategies.one_of(
        strategies.just(""),
        strategies.integers(0, 99_999).map("-{}".format),
        strategies.uuids().map("-{}".format),
        strategies.text(SAFE, min_size=5, max_size=5).map("-{}".format),
        strategies.tuples(
            strategies.text(SAFE, min_size=8, max_size=10),
            strategies.text(SAFE, min_size=5, max_size=5),
        ).map(lambda parts: "-" + "-".join(parts)),
    ),
)
def test_names_of_programs_are_kept_whatever_instance_it_is(
    words: list[str], between: str, instance: str
) -> None:
    name = between.join(words) if between else "".join(word.title() for word in words)
    assert client_name(name + instance, {}) == name


@pytest.mark.parametrize(
    ("properties", "program"),
    [
        ({}, None),
        ({"product": "pika", "platform": "Python 3.11.7"}, None),
        ({"product": "py-amqp", "process_id": "4711"}, None),
        ({"endpoint_name": "Sales", "application": "dotnet", "machine_name": "shop"}, "Sales"),
        ({"application": "Billing", "product": "EasyNetQ"}, "Billing"),
        ({"application": "dotnet"}, None),
        ({"application": "PIKA"}, None),
        ({"ProcessName": "dotnet", "InputQueue": "billing"}, "billing"),
        ({"connection_name": "orders-0"}, "orders"),
        ({"client_id": "sensor-7"}, "sensor-7"),
        ({"container_id": f"billing-{UUID}"}, "billing"),
        ({"connection_name": " ", "application": "\t", "client_id": ""}, None),
    ],
)
def test_without_a_given_name_the_properties_name_the_program(
    properties: Mapping[str, str], program: str | None
) -> None:
    assert client_name(None, properties) == program
    assert client_name(" \n", properties) == program


anything = strategies.text(
    strategies.characters(exclude_categories=()) | strategies.sampled_from("ab01-_.:#@ ()/\0"),
    max_size=1_200,
)


@given(anything)
@example("a" * 118 + "-1")
@example("a" * 130 + "-1")
@example("a-" + "1" * 130)
@example("1 " * 500)
@example("-" * 1_000 + "x")
@example("a" + " 1" * 400)
@example("orders-" * 16 + "x-0a1b2c3d4e")
def test_any_name_becomes_one_that_can_be_stored_and_shown(name: str) -> None:
    program = client_name(name, {})
    assert program is None or name.strip()
    if program is not None:
        assert len(program) <= LONGEST
        assert program.isprintable()
        assert program == program.strip()
        program.encode()  # no lone surrogate
        assert client_name(program, {}) == program
        assert len(shown_name(name)) <= LONGEST


@given(
    strategies.lists(strategies.sampled_from(WORDS + ROLES), min_size=1, max_size=3).map(" ".join),
    strategies.lists(
        strategies.sampled_from(["-{}", ":{}", "#{}", "_{}", " ({})"]).flatmap(
            lambda form: strategies.integers(0, 99_999).map(form.format)
        )
        | strategies.uuids().map("-{}".format)
        | strategies.sampled_from([".publisher", " Publish", " MessagePump", "#1f2e:0"]),
        max_size=4,
    ),
)
def test_connections_of_one_program_have_one_name(program: str, suffixes: list[str]) -> None:
    assert client_name(program + "".join(suffixes), {}) == program
