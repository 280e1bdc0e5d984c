"""From a trace message to a record: the one parser, and it accepts any bytes.

The broker's documentation describes the firehose's messages: routing key ``publish.<exchange>`` or
``deliver.<queue>``, everything else in the headers, the body the original payload. The broker
plugin's, ``settle.<event>``, come from the broker's own user, with a table as body. Anybody who may
write to ``amq.rabbitmq.trace`` can also publish garbage there, so nothing is trusted: a message
that is no trace message becomes an `Unreadable`, with the reason.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Annotated, Any, TypeVar

import msgspec

from app.broker._wire import decode_headers, origin_of, read_record, user_of
from app.broker.deliveries import MOST_REMEMBERED, channel_of
from app.tracker import NOWHERE, Channel, Record, Settlement, Unreadable
from app.tracker.records import QUARANTINED_BODY
from model.texts import storable

TRACE_EXCHANGE = "amq.rabbitmq.trace"
KINDS = PUBLISH, DELIVER = "publish", "deliver"
SETTLE, BUNDLE_KEY = "settle", "batch.1"
# The tag of no consumer: when we cancel it, the plugin reports where channels stand. The broker
# takes it for a consumer that is gone.
CHANNELS_TAG = "itc.channels"
# No client can have this name, unless it may impersonate others.
BROKER_USER = "rmq-internal"

# The fields of the plugin's events; those of all of them, and a channel's own.
_OF_ALL = frozenset({"itc", "at", "node"})
_OF_CHANNEL = _OF_ALL | {"connection", "channel", "user"}
SETTLEMENTS: dict[str, frozenset[str]] = {
    "began": _OF_ALL,
    "ended": _OF_ALL,
    "channel": _OF_CHANNEL | {"pid", "next_tag", "transactional"},
    "closed": _OF_CHANNEL | {"pid"},
    "silent": _OF_CHANNEL,
    "consumer": _OF_CHANNEL | {"queue", "auto"},
    "get": _OF_CHANNEL | {"queue", "auto"},
    "settled": _OF_CHANNEL | {"outcome", "delivery_tag", "multiple"},
    "recovered": _OF_CHANNEL,
    "selected": _OF_CHANNEL,
    "committed": _OF_CHANNEL,
    "rolled_back": _OF_CHANNEL,
}

# The part of an unreadable message that is kept.
QUARANTINED_HEADERS = 16_384
# A settlement has a few names of 255 bytes at most.
LONGEST_SETTLEMENT = 4096
# A channel's number has 16 bits.
MOST_CHANNELS = 65_535

# Before a table this makes the payload of a header frame with nothing but headers.
_TABLE = struct.pack("!HHQH", 60, 0, 0, 1 << 13)

_to_json = msgspec.json.Encoder(order="deterministic").encode

_Read = TypeVar("_Read", bound=msgspec.Struct)


class _Station(msgspec.Struct, forbid_unknown_fields=True):
    """A channel, or a node."""

    node: str
    connection: str = ""
    channel: Annotated[int, msgspec.Meta(ge=0, le=MOST_CHANNELS)] = 0
    user: str = ""


class NotATraceMessageError(ValueError):
    """The reason why a message is not a trace message."""


def parse(
    routing_key: str, header: bytes, body: bytes, recorded_at: int, digest: bytes = b""
) -> Record | Settlement | Unreadable:
    """Turn a trace message into a `Publish`, a `Deliver`, a `Settlement`, or an `Unreadable`.

    ``header`` is the payload of its header frame; ``recorded_at`` in µs; ``digest`` the SHA-256 of
    a large body, if it has been made.
    """
    try:
        record = read_record(routing_key, header, body, digest)
        return record or _settlement(routing_key, header, body)
    except ValueError as error:
        return make_unreadable(routing_key, header, body, recorded_at, str(error))


def make_unreadable(
    routing_key: str, header: bytes, body: bytes, recorded_at: int, reason: str
) -> Unreadable:
    """A trace message that cannot be read, with the reason."""
    kind = routing_key.partition(".")[0]
    place = origin_of(_TABLE + body if kind == SETTLE else header)
    return Unreadable(
        reason=reason,
        routing_key=storable(routing_key),
        headers=_headers_json(header),
        body=body[:QUARANTINED_BODY],
        body_bytes=len(body),
        recorded_at=recorded_at,
        channel=NOWHERE if place is None else channel_of(*place),
        is_forged=kind not in KINDS and not _is_brokers(routing_key, header),
    )


def _is_brokers(routing_key: str, header: bytes) -> bool:
    """Tell whether the plugin made a message that is no publish and no deliver."""
    is_its_kind = routing_key == BUNDLE_KEY or routing_key.startswith(SETTLE)
    try:
        return is_its_kind and user_of(header) == BROKER_USER
    except ValueError:
        return False


def _settlement(routing_key: str, header: bytes, body: bytes) -> Settlement:
    kind, _, event = routing_key.partition(".")
    if kind == BUNDLE_KEY.partition(".")[0]:
        raise NotATraceMessageError("not a bundle of the broker plugin's, or within one")
    if kind != SETTLE:
        raise NotATraceMessageError("the routing key begins with neither publish. nor deliver.")
    if user_of(header) != BROKER_USER:
        raise NotATraceMessageError("somebody other than the broker published this settlement")
    names = SETTLEMENTS.get(event)
    if names is None:
        raise NotATraceMessageError("this version of rabbitmq-itc knows no such settlement")
    if len(body) > LONGEST_SETTLEMENT:
        raise NotATraceMessageError(f"a settlement of {len(body):,} bytes")
    fields = decode_headers(_TABLE + body)
    if not names <= fields.keys():
        raise NotATraceMessageError(f"field {min(names - fields.keys())} is missing")
    for name in ("pid", "queue"):
        if type(fields.get(name)) is str:
            fields[name] = storable(fields[name])
    place = [fields[name] for name in _Station.__struct_fields__ if name in names]
    try:
        channel = _channel(*place)
    except TypeError:  # a table or a list, which nobody remembers
        channel = _channel.__wrapped__(*place)
    return _convert({**fields, "event": event, "channel": channel}, Settlement)


@lru_cache(maxsize=MOST_REMEMBERED, typed=True)
def _channel(*place: object) -> Channel:
    """The channel of these fields, or a node."""
    read = _convert(dict(zip(_Station.__struct_fields__, place, strict=False)), _Station)
    node, connection, user = map(storable, (read.node, read.connection, read.user))
    return channel_of(node, connection, read.channel, user)


def _convert(fields: dict[str, Any], kind: type[_Read]) -> _Read:
    try:
        return msgspec.convert(fields, kind)
    except msgspec.ValidationError as error:
        raise NotATraceMessageError(str(error)) from error


def _headers_json(header: bytes) -> str:
    try:
        table = decode_headers(header)
    except ValueError:
        table = {}
    text = _to_json({key: value for key, value in table.items() if key != "x-delivery-count"})
    return text.decode()[:QUARANTINED_HEADERS]
