"""A trace message as it arrived."""

from __future__ import annotations

from typing import final

import msgspec

from app.broker.deliveries import Delivery
from app.broker.firehose import parse
from app.tracker import Record, Unreadable


@final
class TraceMessage(msgspec.Struct, frozen=True, eq=False, gc=False):
    """One trace message as it arrived: when (µs), under which delivery tag, and what it says."""

    tag: int
    at: int
    redelivered: bool
    message: Record | Unreadable


def read(delivery: Delivery, at: int) -> TraceMessage:
    """Read what came off the socket at ``at`` (µs)."""
    message = parse(delivery.routing_key, delivery.header, delivery.body, at)
    return TraceMessage(delivery.tag, at, delivery.redelivered, message)
