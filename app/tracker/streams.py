"""Streams, and what they make of a message: it comes out otherwise than it was published.

A stream keeps messages as AMQP 1.0, and what that has no place for is gone or looks otherwise when
a reader is handed it. Measured on 3.10.8, 4.0.5 and 4.3.6 (classic and quorum queues change nothing
of all this, whatever the protocol, nor does a stream change what AMQP 1.0 clients send):

| published | read from a stream |
|---|---|
| no `delivery_mode` | `delivery_mode` 1; still none before 4.0 |
| `cluster_id` | gone |
| a table or an array in the headers | gone; from 4.0 on only where its name does not begin `x-` |
| bytes in the headers | text from 4.0 on |
| `x-death` and other names that are the broker's own | gone |
| no `type`, but a header `x-basic-type`; from 4.3 on `priority`, too | that property |
| `timestamp` of the interceptor `set_header_timestamp`, beside `timestamp_in_ms` | the client's |
| `urn:uuid:` and capitals in `message_id` or `correlation_id` | small letters |
| MQTT 5 correlation data, as `correlation_id` | bytes in the header `x-correlation-id` |
| MQTT 5 response topic, as the header `x-reply-to-topic` | `reply_to: /exchanges/<name>/<topic>` |
| MQTT 5 expiry, as `expiration` and `timestamp` | gone, both |

`kept` makes both look alike. Every delivery from a stream carries its place there, in the header
`x-stream-offset`, and none is flagged as redelivered, whoever reads it how often.
"""

from __future__ import annotations

import binascii
from base64 import b64decode
from typing import Any, Final
from urllib.parse import unquote

from app.tracker.records import Publish, Record
from model.texts import text_of

OFFSET: Final = "x-stream-offset"
# Headers that the broker adds, counts up or takes away on the way from publish to deliver.
BROKER_HEADERS = frozenset(
    {
        "x-death",
        "x-first-death-exchange",
        "x-first-death-queue",
        "x-first-death-reason",
        "x-last-death-exchange",
        "x-last-death-queue",
        "x-last-death-reason",
        "x-delivery-count",
        "x-acquired-count",
        OFFSET,
        "CC",
        "BCC",
    }
)
# A client's headers that the broker takes for its own, besides those that it writes anywhere.
TAKEN_OVER: Final = frozenset(
    {"x-cc", "x-death", "x-exchange", "x-opt-deaths", "x-routing-key"}
) | {
    f"x-basic-{name}"
    for name in (
        *("app-id", "cluster-id", "content-encoding", "content-type", "correlation-id"),
        *("delivery-mode", "expiration", "message-id", "priority", "reply-to", "timestamp"),
        *("type", "user-id"),
    )
}
# And what streams make properties of, where a message has none of that name.
_MADE = {"type": "x-basic-type", "priority": "x-basic-priority"}
_BROKERS = TAKEN_OVER | BROKER_HEADERS
_CORRELATION, _REPLIES = "x-correlation-id", "x-reply-to-topic"  # of MQTT 5
# Of RabbitMQ 4's interceptor, which a publish's `timestamp` in the trace then comes from as well.
_TAKEN_AT = "timestamp_in_ms"
TELLING = TAKEN_OVER | {_CORRELATION, _REPLIES, _TAKEN_AT}
_COMPOUND = frozenset({dict, list})
_IDS = ("message_id", "correlation_id")
_UUID = "urn:uuid:"
_ADDRESS = "/exchange"  # /exchanges/NAME/KEY, percent-encoded
_PERSISTENT = 2
_LARGE = 16_384  # bytes
# Where MQTT clients act. AMQP 1.0 sessions count from 0 too.
MQTT_CHANNEL = 0
_OF_MQTT = frozenset({"correlation_id", "expiration"})
_SUSPECT = _OF_MQTT | {"cluster_id", "message_id"}


def is_from_stream(record: Record) -> bool:
    """Tell whether a delivery came out of a stream; or a client has copied that it once did."""
    headers = record.properties.get("headers")
    return isinstance(headers, dict) and OFFSET in headers


def changes(publish: Publish) -> bool:
    """Tell whether a stream may hand a message out with more than its `delivery_mode` changed."""
    # This is asked of every publish: a few looks at whole tables, and no loop in Python.
    properties = publish.properties
    headers = properties.get("headers")
    if type(headers) is dict and not (
        _COMPOUND.isdisjoint(map(type, headers.values())) and TELLING.isdisjoint(headers)
    ):
        return True
    if _SUSPECT.isdisjoint(properties):
        return False
    if "cluster_id" in properties:
        return True
    if publish.channel.number == MQTT_CHANNEL and not _OF_MQTT.isdisjoint(properties):
        return True
    return _is_uuid(properties.get("message_id")) or _is_uuid(properties.get("correlation_id"))


def kept_of(publish: Publish) -> dict[str, Any]:
    """The rest of a publish's properties by the time that it is read, as `kept` says it."""
    properties = kept(publish.properties)
    if publish.channel.number == MQTT_CHANNEL and "expiration" in publish.properties:
        properties.pop("timestamp", None)  # the time from which MQTT's expiry counts
    return properties


def kept(properties: dict[str, Any]) -> dict[str, Any]:
    """Properties without what streams lose, and with the rest in one form."""
    left = properties.copy()
    left.pop("cluster_id", None)
    left.pop("expiration", None)
    if left.get("delivery_mode") != _PERSISTENT:
        left.pop("delivery_mode", None)
    headers = left.pop("headers", None)
    named = {}
    if isinstance(headers, dict):
        named = _simple(headers)
        for name, header in _MADE.items():
            if header in headers:
                left.setdefault(name, headers[header])
    if _TAKEN_AT in named:
        left.pop("timestamp", None)
    if _CORRELATION in named:
        left["correlation_id"] = named.pop(_CORRELATION)
    for name in _IDS:
        if _is_uuid(left.get(name)):
            left[name] = left[name].lower()
    address = left.get("reply_to")
    if _REPLIES in named:
        left["reply_to"] = named.pop(_REPLIES)
    elif isinstance(address, str) and address.startswith(_ADDRESS):
        left["reply_to"] = unquote(address.split("/", 3)[-1])
    if named:
        left["headers"] = named
    return left


def _simple(headers: dict[str, Any]) -> dict[str, Any]:
    """The headers that are neither tables nor arrays; bytes as the text that they are or show."""
    left = headers.copy()
    for name in [name for name, value in headers.items() if type(value) in _COMPOUND]:
        value = left.pop(name)
        if type(value) is dict and value.keys() == {"base64"}:
            text = _text(value["base64"])
            if text is not None:
                left[name] = text
    if not _BROKERS.isdisjoint(left):
        for name in _BROKERS.intersection(left):
            del left[name]
    return left


def _text(base64: Any) -> str | None:
    """Bytes as text, odd ones as ``\\xhh``; None if they are a table that only looks like bytes.

    Large ones that are not UTF-8 stay as they are, as such texts are read: to spell them out takes
    milliseconds.
    """
    try:
        octets = b64decode(base64, validate=True)
        return octets.decode()
    except UnicodeDecodeError:
        return str(base64) if len(octets) > _LARGE else text_of(octets)
    except (TypeError, ValueError, binascii.Error):
        return None


def _is_uuid(name: Any) -> bool:
    return isinstance(name, str) and name.startswith(_UUID)
