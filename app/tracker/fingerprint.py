"""Fingerprints, which two trace messages about the same message have in common.

The firehose carries no message id of the broker's, so a delivery is recognised by the parts that
the broker leaves alone on the way from publish to deliver: exchange, primary routing key,
properties and body. Left out are those that it changes:

- headers it adds or counts up while the message waits (`x-delivery-count`, `x-death`, …);
- `CC` and `BCC`: BCC is stripped from the properties, CC may be on dead-lettering, and both stand
  in the routing keys; so only the first key, the publisher's own, counts;
- `expiration`, which is removed when a message expires into a dead letter exchange.

`x-death` needs care. The broker writes it, but a client that republishes a dead letter by hand
copies it, and then it belongs to the message. So it is a part of the fingerprint, as the *set* of
its deaths; a dead letter is searched for under its fingerprints before its newest death, before the
second newest, and so on (`matching.origins`). The order of deaths differs by broker (measured;
3.10.8, 4.0.5, 4.3.6):

| | 3.10 | 4.0 and 4.3 |
|---|---|---|
| order of entries | the newest, then those there were, reversed: d5 d3 d1 d2 d4 | newest first |
| the same queue and reason again | `count` rises, and the entry comes first | the same |
| its `exchange`, `routing-keys` | of the first time | of the first time |
| its `time` | of the last time | of the first time |
| what a client has brought along | counts on in it | handed over until the first death, then gone |
| `x-last-death-*` | no | yes |
| first hand-over of what was rejected | not flagged | not flagged on 4.0, `redelivered` on 4.3 |

A death makes one dead letter for each queue that the exchange routes to, all with the same entries.
Their fingerprints leave out exchange and key: the entries say where the message was.

Streams change more (`app.tracker.streams`). Most of it is undone for each delivery from a stream. A
publish with parts that a stream loses gets a second half to its mark, and such a delivery is found
by that half; every other queue still tells apart messages that differ in these parts alone. Other
publishes cost a look at the headers. A delivery from a stream has a second half too, its offset
there, by which a repeated reading is recognised.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import Any

import msgspec

from app.tracker import _names
from app.tracker._names import has_broker_headers
from app.tracker.records import Deliver, Publish, Record
from app.tracker.streams import (
    BROKER_HEADERS,
    OFFSET,
    REVEALING,
    changes,
    is_from_stream,
    stable,
    stable_of,
)
from model.deaths import Death

BYTES = 16  # of a half
BROUGHT_BYTES = 8  # of a publish with deaths, whatever these are
# Sets of annotations that are removed from an unknown message.
MOST_UNANNOTATED = 16

# A set of deaths has the sum of its members' digests, below this.
DEATHS = 1 << 8 * (BYTES - BROUGHT_BYTES)

_LARGE = b"large"

# The `delivery_mode` that a stream gives to publishes without one, on 4.0 and later.
_ADDED_MODE = 1

# Names that the compiled reader leaves to Python, wherever they are.
_REVEALING = BROKER_HEADERS | REVEALING | {"cluster_id", "expiration"}

_EXPIRATION, _HEADERS, _MODE = map(frozenset, (["expiration"], ["headers"], ["delivery_mode"]))

# Deterministic: quorum queues and 4.x brokers hand a table back in another order.
_encode = msgspec.msgpack.Encoder(order="deterministic").encode


def fingerprint(record: Record) -> bytes:
    """The 16 bytes by which publish and deliver of one message agree.

    16 more follow for a delivery from a stream, by which a repeated reading is recognised; and for
    a publish that a stream changes, by which its delivery finds it. A client that copies an offset
    into its publish makes deliveries from any queue look as if from a stream: such a publish has
    the second half of these. And 8 more for a publish that brings deaths along, for its address:
    dead letters like it come from another exchange, or by another key.
    """
    mark = _names.mark(record, _encode, _REVEALING)
    if mark is not None:  # nearly always
        return mark
    key = record.routing_keys[0] if record.routing_keys else ""
    is_plain = not has_broker_headers(record)
    deaths = record.deaths
    is_streamed = not is_plain and is_from_stream(record)
    if not deaths:
        mark = fingerprint_without_deaths(record.exchange, key, record)
    else:
        mark = fingerprint_after_deaths(message_digest(record), sum_deaths(deaths))
    if type(record) is Publish and changes(record):
        mark += _digest_in_stream(record.exchange, key, stable_of(record), record)
    elif is_streamed:  # read there; or that, and published again with all its headers
        mark += _digest_of_reading(record, mark)
    return mark + _address(record) if deaths and type(record) is Publish else mark


def fingerprint_halves(mark: bytes) -> tuple[bytes, ...]:
    """The fingerprints in a mark: one as a rule, and one for any deaths that were brought."""
    if len(mark) == BYTES:
        return (mark,)
    whole = tuple(mark[end - BYTES : end] for end in range(BYTES, len(mark) + 1, BYTES))
    return (*whole, mark[:BROUGHT_BYTES]) if brings_deaths(mark) else whole


def is_addressed_as(deliver: Deliver, mark: bytes) -> bool:
    """Tell whether a delivery comes from where a publish with this mark went, if it brings deaths.

    Earlier checkpoints have the message's digest there.
    """
    return mark[-BROUGHT_BYTES:] in (_address(deliver), mark[:BROUGHT_BYTES])


def brings_deaths(mark: bytes) -> bool:
    """Tell whether a publish with this mark has brought deaths along."""
    return len(mark) % BYTES > 0


def of_stream(deliver: Deliver, mark: bytes) -> Iterator[bytes]:
    """Yield the fingerprints that the publish of a delivery from a stream may have.

    Messages that a stream has made equal are told apart by order alone, which streams keep.
    """
    yield mark[:BYTES]
    key = deliver.routing_keys[0] if deliver.routing_keys else ""
    yield from stream_fingerprints(deliver.exchange, key, deliver)


def strip_annotations(deliver: Deliver) -> Iterator[Deliver]:
    """Yield a message as it may have been before consumers and the broker added to its headers.

    AMQP 1.0's consumers may, with the outcome `modified`, and RabbitMQ 4.3 when it delays a retry:
    annotations begin with `x-`, and are there once it was given back or has died. Messages without
    an id are told apart by other headers that begin so: then only `x-opt-…` are removed.
    """
    if is_from_stream(deliver) or not (deliver.redelivered or has_broker_headers(deliver)):
        return
    begins = "x-" if "message_id" in deliver.properties else "x-opt-"
    headers = deliver.properties.get("headers") or {}
    names = [name for name in headers if name.startswith(begins) and name not in BROKER_HEADERS]
    optional = frozenset(name for name in names if name.startswith("x-opt-"))
    sets = [optional, frozenset(names), *(frozenset([name]) for name in names)]
    for removals in [*dict.fromkeys(filter(None, sets))][:MOST_UNANNOTATED]:
        properties = {**deliver.properties, "headers": _omit(removals, headers)}
        yield msgspec.structs.replace(deliver, properties=properties)


def death_digest(death: Death) -> int:
    """A death's part of the digest of a set of them."""
    entry = _encode((death.queue, death.reason, death.count))
    return int.from_bytes(blake2b(entry, digest_size=BYTES - BROUGHT_BYTES).digest(), "big")


def sum_deaths(deaths: Iterable[Death]) -> int:
    """The digest of a set of deaths."""
    return sum(map(death_digest, deaths)) % DEATHS


def fingerprint_after_deaths(message: bytes, total: int) -> bytes:
    """The fingerprint of a message with deaths, from the digests of both."""
    return message + total.to_bytes(BYTES - BROUGHT_BYTES, "big")


def _address(record: Record) -> bytes:
    """The digest of a message's exchange and key."""
    place = _encode((record.exchange, record.routing_keys[:1]))
    return blake2b(place, digest_size=BROUGHT_BYTES).digest()


def message_digest(record: Record) -> bytes:
    """The digest of the parts of a message that are the same in every queue."""
    return _with_body(_encode(_stable(record.properties)), record, BROUGHT_BYTES)


def fingerprint_without_deaths(exchange: str, key: str, record: Record) -> bytes:
    """The digest of a message without deaths, as nearly every message is, in one go."""
    return _with_body(_encode((exchange, key, (), _stable(record.properties))), record)


def stream_fingerprints(exchange: str, key: str, deliver: Deliver) -> Iterator[bytes]:
    """Yield the fingerprints that a message read from a stream may have had before that."""
    properties = deliver.properties
    if properties.get("delivery_mode") == _ADDED_MODE:
        published = _omit(_MODE, properties)
        yield _with_body(_encode((exchange, key, (), _stable(published))), deliver)
    yield _digest_in_stream(exchange, key, stable(properties), deliver)


def _digest_in_stream(exchange: str, key: str, properties: dict[str, Any], record: Record) -> bytes:
    return _with_body(_encode((exchange, key, "stream", properties)), record)


def _digest_of_reading(record: Record, mark: bytes) -> bytes:
    """The digest of a message's offset and of the message, as its stream may be new."""
    offset = record.properties["headers"][OFFSET]
    return blake2b(mark + _encode(offset), digest_size=BYTES).digest()


def _with_body(head: bytes, record: Record, size: int = BYTES) -> bytes:
    """The digest of both; of a large body its own digest, marked as such."""
    digest = blake2b(head, digest_size=size, person=_LARGE if record.sha256 else b"")
    digest.update(record.sha256 or record.body)
    return digest.digest()


def _stable(properties: dict[str, Any]) -> dict[str, Any]:
    """The properties that the broker leaves alone: nearly always the very table."""
    stable = _omit(_EXPIRATION, properties)
    headers = properties.get("headers")
    if isinstance(headers, dict):
        stable_headers = _omit(BROKER_HEADERS, headers)
        if not stable_headers:  # as none: the broker may have added the only key
            return _omit(_HEADERS, stable)
        if stable_headers is not headers:
            return {**stable, "headers": stable_headers}
    return stable


def _omit(names: frozenset[str], table: dict[str, Any]) -> dict[str, Any]:
    if names.isdisjoint(table):
        return table
    return {name: table[name] for name in table if name not in names}
