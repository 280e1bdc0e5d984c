"""Messages that fail, as the firehose shows it."""

from __future__ import annotations

from typing import Any

import msgspec

from app.tracker import Channel, Deliver, Publish


def channel(port: int, user: str) -> Channel:
    return Channel("rabbit@one", f"10.0.0.{port}:1 -> 10.0.0.1:5672", 1, user)


SHOP, BILLING, OTHER, ADMIN = (
    channel(5, "shop"),
    channel(6, "billing"),
    channel(7, "other"),
    channel(8, "admin"),
)


def message(number: int, queue: str = "orders", **more: Any) -> Publish:
    """An order, with a message id unless ``more`` has other properties."""
    properties = more or {"message_id": f"order-{number}", "type": "order.new"}
    return Publish(SHOP, "", (queue,), (queue,), properties, b"order %d" % number)


def handed(to: Channel, publish: Publish, queue: str = "orders", *, again: bool = False) -> Deliver:
    """A delivery of a message that has not died."""
    return Deliver(
        to, publish.exchange, publish.routing_keys, queue, again, publish.properties, publish.body
    )


def death(queue: str, reason: str = "rejected", count: int = 1) -> dict[str, Any]:
    return {
        "queue": queue,
        "reason": reason,
        "count": count,
        "exchange": "",
        "routing-keys": [queue],
    }


def letter(
    to: Channel,
    publish: Publish,
    *deaths: dict[str, Any],
    queue: str = "orders.dead",
    again: bool = False,
) -> Deliver:
    """A delivery of a dead letter; the deaths newest first."""
    headers = {**publish.properties.get("headers", {}), "x-death": list(deaths)}
    dead = msgspec.structs.replace(publish, properties={**publish.properties, "headers": headers})
    return msgspec.structs.replace(handed(to, dead, queue, again=again), exchange="dlx")
