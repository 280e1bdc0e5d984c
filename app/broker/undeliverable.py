"""What is kept of a trace message that only the management API could read."""

from __future__ import annotations

import base64
import binascii
from typing import Any

import msgspec

from app.broker.firehose import QUARANTINED_BODY, QUARANTINED_HEADERS, storable
from app.tracker import Unreadable

LONGEST_ROUTING_KEY = 255


class _Properties(msgspec.Struct):
    headers: dict[str, Any] = {}


class _Taken(msgspec.Struct):
    routing_key: str
    payload: str
    payload_bytes: int = 0
    payload_encoding: str = "base64"
    properties: _Properties | list[Any] = []  # an empty table comes as an empty list


def undeliverable(taken: bytes, now: int) -> Unreadable:
    """Read the management API's JSON of a message; ``now`` in µs."""
    message = msgspec.json.decode(taken, type=_Taken)
    length = len(message.routing_key.encode())
    reason = "the broker cannot hand it to a consumer"
    if length > LONGEST_ROUTING_KEY:
        reason += f": its routing key has {length} bytes, and AMQP allows {LONGEST_ROUTING_KEY}"
    found = message.properties
    headers = found.headers if isinstance(found, _Properties) else {}
    return Unreadable(
        reason=reason,
        routing_key=storable(message.routing_key),
        headers=storable(msgspec.json.encode(headers).decode())[:QUARANTINED_HEADERS],
        body=_body(message)[:QUARANTINED_BODY],
        body_bytes=message.payload_bytes,
        recorded_at=now,
    )


def _body(message: _Taken) -> bytes:
    if message.payload_encoding != "base64":
        return message.payload.encode()
    try:
        return base64.b64decode(message.payload)
    except binascii.Error:
        return b""
