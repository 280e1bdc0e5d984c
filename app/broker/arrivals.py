"""A trace message as it arrived, and all that reading it alone can tell."""

from __future__ import annotations

from typing import Any

import msgspec
import xxhash

from app.broker.deliveries import Delivery
from app.broker.firehose import parse
from app.tracker import Record, Unreadable
from app.tracker.fingerprint import fingerprint

_canonical = msgspec.msgpack.Encoder(order="deterministic").encode


class TraceMessage(msgspec.Struct, eq=False, gc=False):
    """One trace message as it arrived: when (µs), under which delivery tag, and what it says.

    By its ``digest`` it is recognised when it comes again. Publish and deliver of one message agree
    in the ``fingerprint``, which is empty for what cannot be read.
    """

    tag: int
    at: int
    redelivered: bool
    message: Record | Unreadable
    digest: bytes
    fingerprint: bytes

    @classmethod
    def of(cls, tag: int, at: int, redelivered: bool, message: Record | Unreadable) -> TraceMessage:
        """Make one of what was parsed."""
        mark = b"" if isinstance(message, Unreadable) else fingerprint(message)
        return cls(tag, at, redelivered, message, digest(message), mark)


def read(delivery: Delivery, at: int) -> TraceMessage:
    """Read what came off the socket at ``at`` (µs)."""
    message = parse(delivery.routing_key, delivery.header, delivery.body, at)
    return TraceMessage.of(delivery.tag, at, delivery.redelivered, message)


def digest(message: Record | Unreadable) -> bytes:
    """The 8 bytes by which a trace message is recognised when it comes again.

    Made from what was parsed, not from the raw bytes: a quorum queue adds a delivery count to the
    trace message's own headers. It guards against accidents, so it need not be cryptographic, and
    takes a third of the time (0.5 instead of 1.4 µs).
    """
    what: Any = message
    if isinstance(message, Unreadable):
        what = (message.reason, message.routing_key, message.body, message.body_bytes)
    return xxhash.xxh3_64_digest(_canonical(what))
