"""Digests by which a repeated trace message is recognised."""

from __future__ import annotations

from typing import Any

import msgspec
import xxhash
from msgspec.structs import replace

from app.tracker.records import Record, Settlement, Unreadable

_canonical = msgspec.msgpack.Encoder(order="deterministic").encode


def digest(message: Record | Settlement | Unreadable) -> bytes:
    """The 8 bytes by which a repeated trace message is recognised.

    Made from the parsed message, not from the raw bytes: a quorum queue adds a delivery count to
    the trace message's own headers. It guards against accidents, so it need not be cryptographic,
    and takes a third of the time (0.5 instead of 1.4 µs).
    """
    content: Any = message
    if type(message) is Unreadable:  # isinstance takes as long as the rest
        content = (message.reason, message.routing_key, message.body, message.body_bytes)
    elif message.sha256:
        content = replace(message, body=b"")
    return xxhash.xxh3_64_digest(_canonical(content))
