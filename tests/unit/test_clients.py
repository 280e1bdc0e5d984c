"""A program's name: what its connections have in common."""

from __future__ import annotations

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
        (f"orders-{UUID}", "orders"),
        (f"orders/{UUID.replace('-', '').upper()}", "orders"),
        (f"orders-{UUID}-2", "orders"),
        # Spring, with and without a bean's or an application's name
        ("SpringAMQP#1a2b3c:0", "SpringAMQP"),
        ("rabbitConnectionFactory#6ee1dd1f:0", "rabbitConnectionFactory"),
        ("rabbitConnectionFactory.publisher#4c8e9f:1", "rabbitConnectionFactory"),
        ("orders#4c8e9f:12", "orders"),
        # NServiceBus
        ("Sales MessagePump", "Sales"),
        ("Sales Publish", "Sales"),
        ("Store.Sales-2 Publish", "Store.Sales"),
        # MassTransit: the process's name
        ("Shop.Orders.Service", "Shop.Orders.Service"),
        # Celery and kombu, where a line gives a name
        ("celery@shop-1", "celery@shop-1"),
        ("worker1@shop-1:4711", "worker1@shop-1"),
        ("gen1234@host", "gen@host"),
        # RabbitMQ's own clients
        ("Shovel orders-to-billing", "Shovel orders-to-billing"),
        # Not a counter, a pid or a random number
        ("worker7", "worker7"),
        ("web.v2", "web.v2"),
        ("orders-deadbeef", "orders-deadbeef"),
        ("publisher", "publisher"),
        (".publisher", ".publisher"),
        ("MessagePump", "MessagePump"),
        # What would become empty stays
        ("7", "7"),
        ("10.0.0.7", "10.0.0.7"),
        ("10.0.0.7:4711", "10.0.0.7:4711"),
        (UUID, UUID),
        ("#1a:0", "#1a:0"),
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
def test_any_name_becomes_one_that_can_be_stored_and_shown(name: str) -> None:
    program = client_name(name, {})
    assert (program is None) == (not name.strip())
    if program is not None:
        assert len(program) <= LONGEST
        assert program.isprintable()
        assert program == program.strip()
        program.encode()  # no lone surrogate
        assert client_name(program, {}) == program
        assert len(shown_name(name)) <= LONGEST


@given(
    strategies.from_regex(r"[A-Za-z][A-Za-z .]{0,20}[A-Za-z]", fullmatch=True).filter(
        lambda name: not name.endswith((".publisher", " Publish", " MessagePump", "pid"))
    ),
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
