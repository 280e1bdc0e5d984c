"""Streams, which hand messages out otherwise than they were published.

A stream keeps messages as AMQP 1.0, so parts without a place there are gone or look otherwise when
they are read. Measured on 3.10.8, 4.0.5 and 4.3.6 (classic and quorum queues change none of this,
whatever the protocol, and a stream changes nothing that AMQP 1.0 clients send):

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

`stable` makes both look alike. Every delivery from a stream carries its place there, in the header
`x-stream-offset`, and none is flagged as redelivered, however often it is read.
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
# A client's headers that the broker takes for its own, besides those that it writes.
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
# Headers of which streams make properties, where a message has none of that name.
_HEADERS_OF = {"type": "x-basic-type", "priority": "x-basic-priority"}
_BROKERS = TAKEN_OVER | BROKER_HEADERS
_CORRELATION, _REPLIES = "x-correlation-id", "x-reply-to-topic"  # of MQTT 5
# Set by RabbitMQ 4's interceptor; a publish's `timestamp` in the trace then comes from it as well.
_TAKEN_AT = "timestamp_in_ms"
REVEALING = TAKEN_OVER | {_CORRELATION, _REPLIES, _TAKEN_AT}
_COMPOUND = frozenset({dict, list})
_IDS = ("message_id", "correlation_id")
_UUID = "urn:uuid:"
_ADDRESS = "/exchange"  # /exchanges/NAME/KEY, percent-encoded
_PERSISTENT = 2
_LARGE = 16_384  # bytes
# The channel of MQTT clients. AMQP 1.0 sessions count from 0 too.
MQTT_CHANNEL = 0
_OF_MQTT = frozenset({"correlation_id", "expiration"})
_SUSPECT = _OF_MQTT | {"cluster_id", "message_id"}


def is_from_stream(record: Record) -> bool:
    """Tell whether a delivery came out of a stream, or a client has copied its offset."""
    headers = record.properties.get("headers")
    return isinstance(headers, dict) and OFFSET in headers


def changes(publish: Publish) -> bool:
    """Tell whether a stream may change more of a message than its `delivery_mode`."""
    # Asked of every publish: a few looks at whole tables, and no loop in Python.
    properties = publish.properties
    headers = properties.get("headers")
    if type(headers) is dict and not (
        _COMPOUND.isdisjoint(map(type, headers.values())) and REVEALING.isdisjoint(headers)
    ):
        return True
    if _SUSPECT.isdisjoint(properties):
        return False
    if "cluster_id" in properties:
        return True
    if publish.channel.number == MQTT_CHANNEL and not _OF_MQTT.isdisjoint(properties):
        return True
    return _is_uuid(properties.get("message_id")) or _is_uuid(properties.get("correlation_id"))


def stable_of(publish: Publish) -> dict[str, Any]:
    """The properties that a publish still has when it is read, in the form of `stable`."""
    properties = stable(publish.properties)
    if publish.channel.number == MQTT_CHANNEL and "expiration" in publish.properties:
        properties.pop("timestamp", None)  # the time from which MQTT's expiry counts
    return properties


def stable(properties: dict[str, Any]) -> dict[str, Any]:
    """Properties without those that streams lose, the rest in one form."""
    rest = properties.copy()
    rest.pop("cluster_id", None)
    rest.pop("expiration", None)
    if rest.get("delivery_mode") != _PERSISTENT:
        rest.pop("delivery_mode", None)
    headers = rest.pop("headers", None)
    simple = {}
    if isinstance(headers, dict):
        simple = _simple(headers)
        for name, header in _HEADERS_OF.items():
            if header in headers:
                rest.setdefault(name, headers[header])
    if _TAKEN_AT in simple:
        rest.pop("timestamp", None)
    if _CORRELATION in simple:
        rest["correlation_id"] = simple.pop(_CORRELATION)
    for name in _IDS:
        if _is_uuid(rest.get(name)):
            rest[name] = rest[name].lower()
    address = rest.get("reply_to")
    if _REPLIES in simple:
        rest["reply_to"] = simple.pop(_REPLIES)
    elif isinstance(address, str) and address.startswith(_ADDRESS):
        rest["reply_to"] = unquote(address.split("/", 3)[-1])
    if simple:
        rest["headers"] = simple
    return rest


def _simple(headers: dict[str, Any]) -> dict[str, Any]:
    """Headers without tables and arrays, with bytes as text."""
    rest = headers.copy()
    for name in [name for name, value in headers.items() if type(value) in _COMPOUND]:
        value = rest.pop(name)
        if type(value) is dict and value.keys() == {"base64"}:
            text = _text(value["base64"])
            if text is not None:
                rest[name] = text
    if not _BROKERS.isdisjoint(rest):
        for name in _BROKERS.intersection(rest):
            del rest[name]
    return rest


def _text(base64: Any) -> str | None:
    """Bytes as text, odd ones as ``\\xhh``; None for a table that only looks like bytes.

    Large ones that are not UTF-8 stay base64: to spell them out takes milliseconds.
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
