"""Fingerprints: what two trace messages about the same message have in common.

The firehose carries no message id of the broker's, so a delivery is recognised by what the broker
leaves alone on the way from publish to deliver: exchange, primary routing key, properties and
body. Left out is what the broker changes:

- headers it adds or counts up while the message waits (`x-delivery-count`, `x-death`, …);
- `CC` and `BCC`: BCC is stripped from the properties, CC may be on dead-lettering, and both stand
  in the routing keys; so only the first key, the publisher's own, counts;
- `expiration`, which is removed when a message expires into a dead letter exchange.

`x-death` needs care. The broker writes it, but a client that republishes a dead letter by hand
copies it, and then it belongs to the message. So it is a part of the fingerprint, as the list of
its entries; a dead-lettered delivery is compared with its newest entries left out, one more each
time (`origins`).

Streams change more (`app.tracker.streams`). Most is undone for each delivery that comes out of
one; where a publish has what a stream loses, its mark has a second half, by which such a delivery
finds it. So messages that differ in nothing else are still told apart in every other queue, and
what is not for a stream costs a look at the headers. A delivery from a stream has a second half
too, its place there: who is handed the same place again, reads it again.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec

from app.tracker import _digests
from app.tracker.records import Deliver, Publish, Record
from app.tracker.streams import (
    BROKER_HEADERS,
    MQTT_CHANNEL,
    OFFSET,
    TELLING,
    changes,
    is_from_stream,
    kept,
    kept_of,
)

BYTES = 16  # of a half
# How many of a delivery's deaths are followed, the newest. The broker writes one for each queue and
# reason, and before 4.0 takes over what a client says.
MOST_ORIGINS = 64
# And of a delivery from a stream, which looks otherwise there: each takes the whole body twice.
MOST_STREAMED = 4

# A publish without one comes out of a stream with this one, on 4.0 and later.
_ADDED_MODE = 1

_SPECIAL_IN_PUBLISHES = BROKER_HEADERS | TELLING

# Deterministic order: quorum queues and 4.x brokers hand a table back in another order.
_encode = msgspec.msgpack.Encoder(order="deterministic").encode


class DeathOrigin(NamedTuple):
    """Where a dead-lettered delivery may have been before: a queue, and the fingerprint there.

    ``exchange`` is the one that it was published to then, perhaps for a death before.
    ``others`` are what it may be there as well if the delivery is from a stream.
    """

    queue: str
    exchange: str
    fingerprint: bytes
    delivered_before: bool  # rejected after a delivery, rather than expired or pushed out unseen
    others: tuple[bytes, ...] = ()

    @property
    def places(self) -> Iterator[tuple[str, bytes]]:
        """The queue with each fingerprint, the likeliest first."""
        for mark in (self.fingerprint, *self.others):
            yield self.queue, mark


def fingerprint(record: Record) -> bytes:
    """Return the 16 bytes by which publish and deliver of one message agree.

    16 more follow for a delivery from a stream, by which it is known when it is read again; and for
    a publish that comes out of a stream otherwise, by which its delivery knows it. A client that
    copies a place into what it publishes makes deliveries from any queue look as if from a stream:
    such a publish has the second half of these.
    """
    key = record.routing_keys[0] if record.routing_keys else ""
    is_publish = type(record) is Publish
    ordinary = _digests.mark(
        record.exchange,
        key,
        record.properties,
        record.body,
        _SPECIAL_IN_PUBLISHES if is_publish else BROKER_HEADERS,
        is_publish,
        record.channel.number == MQTT_CHANNEL,
    )
    # What has died or comes from a stream is rare, and takes more than C should be asked for.
    return _fingerprint(record, key) if ordinary is None else ordinary


def _fingerprint(record: Record, key: str) -> bytes:
    deaths = _deaths(record)
    if not deaths:
        mark = _digest_of_undead(record.exchange, key, record)
    else:
        mark = _digest(record.exchange, key, list(_carried(deaths))[-1], _message(record))
    if type(record) is Publish:
        if changes(record):
            mark += _digest_in_stream(record.exchange, key, kept_of(record), record)
        elif is_from_stream(record):  # read there, and published again with all its headers
            mark += _reading(record, mark)
    elif is_from_stream(record):
        mark += _reading(record, mark)
    return mark


def halves(mark: bytes) -> tuple[bytes, ...]:
    """The one or two fingerprints that a mark consists of."""
    return (mark,) if len(mark) == BYTES else (mark[:BYTES], mark[BYTES:])


def of_stream(deliver: Deliver, mark: bytes) -> Iterator[bytes]:
    """Yield the fingerprints that a publish may have whose delivery from a stream has this one.

    What a stream has made equal is told apart by order alone, which streams keep.
    """
    yield mark[:BYTES]
    key = deliver.routing_keys[0] if deliver.routing_keys else ""
    yield from _others_of_stream(deliver.exchange, key, deliver)


def origins(deliver: Deliver) -> Iterator[DeathOrigin]:
    """Yield the places a dead-lettered delivery may come from, the most recent publish first.

    `x-death` lists deaths newest first. The publish happened before the oldest death that it did
    not carry itself, so each entry is tried in turn as that one, with the older ones as carried:
    the newest `MOST_ORIGINS` of them.
    """
    deaths = _deaths(deliver)
    if not deaths:
        return
    message = _message(deliver)
    streamed = is_from_stream(deliver)
    carried = list(_carried(deaths))[-2::-1]  # newest first: behind each death those before it
    for number, (death, before) in enumerate(zip(deaths, carried[:MOST_ORIGINS], strict=False)):
        queue, exchange, keys = death.get("queue"), death.get("exchange"), death.get("routing-keys")
        if not isinstance(queue, str) or not isinstance(exchange, str):
            continue
        key = keys[0] if isinstance(keys, list) and keys and isinstance(keys[0], str) else ""
        yield DeathOrigin(
            queue=queue,
            exchange=exchange,
            fingerprint=(
                _digest(exchange, key, before, message)
                if before
                else _digest_of_undead(exchange, key, deliver)
            ),
            delivered_before=death.get("reason") in ("rejected", "delivery_limit"),
            others=(
                tuple(_others_of_stream(exchange, key, deliver))
                if streamed and number < MOST_STREAMED
                else ()
            ),
        )


def has_broker_headers(record: Record) -> bool:
    """Tell whether a message has headers that may be otherwise at its next hand-over."""
    headers = record.properties.get("headers")
    return isinstance(headers, dict) and not BROKER_HEADERS.isdisjoint(headers)


def _deaths(record: Record) -> list[dict[str, Any]]:
    headers = record.properties.get("headers")
    deaths = headers.get("x-death") if isinstance(headers, dict) else None
    return [d for d in deaths if isinstance(d, dict)] if isinstance(deaths, list) else []


def _carried(deaths: list[dict[str, Any]]) -> Iterator[bytes]:
    """Digests of no deaths, of the oldest, of the two oldest, and so on, each from the one before.

    So a list of deaths is read once, however many of its ends are asked for.
    """
    chain = b""
    yield chain
    for death in reversed(deaths):
        mark = _encode((death.get("queue"), death.get("reason"), death.get("count")))
        chain = blake2b(chain + mark, digest_size=BYTES).digest()
        yield chain


def _message(record: Record) -> bytes:
    """The digest of what stays of a message wherever it was."""
    return _with_body(_encode(_stable(record.properties)), record)


def _digest(exchange: str, key: str, carried: bytes, message: bytes) -> bytes:
    return blake2b(_encode((exchange, key, carried, message)), digest_size=BYTES).digest()


def _digest_of_undead(exchange: str, key: str, record: Record) -> bytes:
    """The digest of a message that carries no death, in one go: that is nearly every message."""
    return _with_body(_encode((exchange, key, (), _stable(record.properties))), record)


def _others_of_stream(exchange: str, key: str, deliver: Deliver) -> Iterator[bytes]:
    properties = deliver.properties
    if properties.get("delivery_mode") == _ADDED_MODE:
        published = {name: properties[name] for name in properties if name != "delivery_mode"}
        yield _with_body(_encode((exchange, key, (), _stable(published))), deliver)
    yield _digest_in_stream(exchange, key, kept(properties), deliver)


def _digest_in_stream(exchange: str, key: str, left: dict[str, Any], record: Record) -> bytes:
    return _with_body(_encode((exchange, key, "stream", left)), record)


def _reading(record: Record, mark: bytes) -> bytes:
    """The digest of a message's place in its stream; with the message, as a stream may be new."""
    offset = record.properties["headers"][OFFSET]
    return blake2b(mark + _encode(offset), digest_size=BYTES).digest()


def _with_body(head: bytes, record: Record) -> bytes:
    digest = blake2b(head, digest_size=BYTES)
    digest.update(record.body)
    return digest.digest()


def _stable(properties: dict[str, Any]) -> dict[str, Any]:
    stable = properties.copy()
    stable.pop("expiration", None)
    headers = properties.get("headers")
    if isinstance(headers, dict):
        if not BROKER_HEADERS.isdisjoint(headers):
            headers = {name: headers[name] for name in headers if name not in BROKER_HEADERS}
            stable["headers"] = headers
        # An empty table counts as none: the broker may have added the only key that there was.
        if not headers:
            del stable["headers"]
    return stable
