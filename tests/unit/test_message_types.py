"""What a message's type is, by who wrote it."""

from __future__ import annotations

from typing import Any

import pytest

from model.message_types import LONGEST, is_in_body, type_of

MASSTRANSIT = "application/vnd.masstransit+json"
CLOUDEVENTS = "application/cloudevents+json; charset=utf-8"
URN = b'{"messageType": ["urn:message:Shop.Orders:OrderPlaced", "urn:message:Shop:Event"]}'
ENCLOSED = "Shop.Orders.OrderPlaced, Shop, Version=1.0.0.0, Culture=neutral;Shop.IEvent, Shop"


CASES: list[tuple[dict[str, Any] | None, str, tuple[str, ...], bytes | None, str]] = [
    ({"type": "order.new", "headers": {"task": "x"}}, "orders", ("k",), b"", "order.new"),
    ({"headers": {"task": "shop.tasks.bill"}}, "", ("celery",), b"", "shop.tasks.bill"),
    (
        {"headers": {"NServiceBus.EnclosedMessageTypes": ENCLOSED}},
        "e",
        ("",),
        b"",
        "OrderPlaced",
    ),
    ({"headers": {"NServiceBus.EnclosedMessageTypes": "A.B+C"}}, "e", ("",), b"", "C"),
    ({"headers": {"NServiceBus.EnclosedMessageTypes": ","}}, "e", ("k",), b"", "e/k"),
    ({"content_type": MASSTRANSIT}, "Shop:OrderPlaced", ("",), URN, "OrderPlaced"),
    ({"content_type": MASSTRANSIT}, "Shop:OrderPlaced", ("",), URN[:-9], "Shop:OrderPlaced/"),
    ({"content_type": MASSTRANSIT}, "e", ("k",), b'{"messageType": {}}', "e/k"),
    ({"content_type": MASSTRANSIT}, "e", ("k",), b"[1]", "e/k"),
    ({"content_type": "application/json"}, "e", ("k",), URN, "e/k"),
    (
        {"content_type": CLOUDEVENTS},
        "e",
        ("k",),
        b'{"type": "com.shop.order"}',
        "com.shop.order",
    ),
    ({"headers": {"cloudEvents:type": "com.shop.order"}}, "e", ("k",), b"", "com.shop.order"),
    ({"headers": {"cloudEvents_type": "com.shop.order"}}, "e", ("k",), b"", "com.shop.order"),
    ({"headers": {"ce-type": "com.shop.order"}}, "e", ("k",), b"", "com.shop.order"),
    ({"type": 5, "headers": {"task": ["x"]}}, "e", ("k",), b"", "e/k"),
    ({"type": ""}, "e", ("k", "l"), None, "e/k"),
    (None, "", ("queue",), None, "queue"),
    ({}, "", (), None, ""),
    ({"type": "x" * 500}, "", (), None, "x" * (LONGEST - 1) + "…"),
]


@pytest.mark.parametrize(("properties", "exchange", "keys", "payload", "expected"), CASES)
def test_a_type_is_what_the_message_says_or_where_it_went(
    properties: dict[str, Any] | None,
    exchange: str,
    keys: tuple[str, ...],
    payload: bytes | None,
    expected: str,
) -> None:
    assert type_of(properties, exchange, keys, payload) == expected


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({"content_type": MASSTRANSIT}, True),
        ({"content_type": CLOUDEVENTS}, True),
        ({"content_type": MASSTRANSIT, "type": "known"}, False),
        ({"content_type": "application/json"}, False),
        (None, False),
    ],
)
def test_a_body_is_read_only_where_it_alone_may_say(
    properties: dict[str, Any] | None, expected: bool
) -> None:
    assert is_in_body(properties) is expected
