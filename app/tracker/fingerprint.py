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
second newest, and so on (`origins`). The order of deaths differs by broker (measured; 3.10.8,
4.0.5, 4.3.6):

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

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from heapq import heappop, heappush
from typing import Any, NamedTuple

import msgspec

from app.tracker import _names
from app.tracker.records import Deliver, Publish, Record
from app.tracker.streams import (
    BROKER_HEADERS,
    MQTT_CHANNEL,
    OFFSET,
    REVEALING,
    changes,
    is_from_stream,
    stable,
    stable_of,
)

BYTES = 16  # of a half
BROUGHT_BYTES = 8  # of a publish with deaths, whatever these are
# States before its deaths in which a dead letter is searched. There are as many as it has deaths,
# if their order is what it seems to be: some 28 where delays are made of queues in a row.
MOST_ORIGINS = 64
# Sets of annotations that are removed from an unknown message.
MOST_UNANNOTATED = 16
# Deaths beside the likeliest that may have been the newest.
MOST_OTHERS = 8
# Origins that are tried as a stream shows them: each takes the whole body twice.
MOST_STREAMED = 4

_SETS = 1 << 8 * (BYTES - BROUGHT_BYTES)  # a set has the sum of its members' digests
# 4.0 and later write it, list deaths newest first, and begin anew where a client brought some.
LAST_DEATH = "x-last-death-queue"

_LARGE = b"large"

# The `delivery_mode` that a stream gives to publishes without one, on 4.0 and later.
_ADDED_MODE = 1

# Names that the compiled reader leaves to Python, wherever they are.
_REVEALING = BROKER_HEADERS | REVEALING | {"cluster_id", "expiration"}

_EXPIRATION, _HEADERS, _MODE = map(frozenset, (["expiration"], ["headers"], ["delivery_mode"]))

# Deterministic: quorum queues and 4.x brokers hand a table back in another order.
_encode = msgspec.msgpack.Encoder(order="deterministic").encode


class DeathEntry(NamedTuple):
    """An entry of `x-death`; ``digest`` is its part of the digest of a set of them."""

    queue: Any
    reason: Any
    count: Any
    exchange: Any
    key: str
    time: Any
    digest: int

    @property
    def is_delivered_before(self) -> bool:
        """Tell whether it was a delivery; if not, it expired or was pushed out."""
        return self.reason in ("rejected", "delivery_limit")

    def predecessor(self) -> DeathEntry | None:
        """The entry before its last death, None before the first."""
        if type(self.count) is not int or self.count < 2:
            return None
        count = self.count - 1
        return self._replace(count=count, digest=_digest_of_death(self.queue, self.reason, count))


class DeathOrigin(NamedTuple):
    """A queue where a dead letter may have been, and its fingerprint there.

    ``death`` is the one by which it left, ``newer_deaths`` are those since, newest first.
    ``exchange`` is the one that it was published to, if it had not died before; ``alternatives``
    are other fingerprints that it may have there.
    """

    queue: str
    exchange: str
    fingerprint: bytes
    death: DeathEntry
    newer_deaths: tuple[DeathEntry, ...] = ()
    alternatives: tuple[bytes, ...] = ()

    @property
    def is_redelivery(self) -> bool:
        """Tell whether it was delivered from that queue, and rejected."""
        return self.death.is_delivered_before

    @property
    def copy_keys(self) -> Iterator[tuple[str, bytes]]:
        """The queue with each fingerprint, the likeliest first."""
        for mark in (self.fingerprint, *self.alternatives):
            yield self.queue, mark


def fingerprint(record: Record) -> bytes:
    """The 16 bytes by which publish and deliver of one message agree.

    16 more follow for a delivery from a stream, by which a repeated reading is recognised; and for
    a publish that a stream changes, by which its delivery finds it. A client that copies an offset
    into its publish makes deliveries from any queue look as if from a stream: such a publish has
    the second half of these. And 8 more for a publish that brings deaths along, for its address:
    dead letters like it come from another exchange, or by another key.
    """
    key = record.routing_keys[0] if record.routing_keys else ""
    if record.channel.number != MQTT_CHANNEL and not record.sha256:
        properties = record.properties
        if properties.get("headers") == {}:  # as none; some libraries write it into each message
            properties = properties.copy()
            del properties["headers"]
        head = _encode((record.exchange, key, (), properties))
        mark = _names.mark(head, record.body, properties, _REVEALING)
        if mark is not None:  # nearly always
            return mark
    is_plain = not has_broker_headers(record)
    deaths = () if is_plain else read_deaths(record)
    is_streamed = not is_plain and is_from_stream(record)
    if not deaths:
        mark = _digest_of_undead(record.exchange, key, record)
    else:
        total = sum(death.digest for death in deaths) % _SETS
        mark = _fingerprint_of_dead(_message(record), total)
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
    yield from _others_of_stream(deliver.exchange, key, deliver)


def origins(deliver: Deliver, deaths: Sequence[DeathEntry] | None = None) -> Iterator[DeathOrigin]:
    """Yield the places that a dead letter may come from, the nearest in time first.

    Before its newest death it had the others, or that one less often; and so on, back to none. Of
    the first step it is known which death was the newest, of earlier ones it is only likely: the
    likeliest are tried first, and `MOST_ORIGINS` in all.
    """
    deaths = read_deaths(deliver) if deaths is None else deaths
    if not deaths:
        return
    message = _message(deliver)
    streamed = is_from_stream(deliver)
    is_newest_first = LAST_DEATH in deliver.properties["headers"]
    # By how often not the likeliest death is taken for the newest; then, in turn.
    steps: list[tuple[int, int, Sequence[DeathEntry], int, int, tuple[DeathEntry, ...]]] = []
    total = sum(death.digest for death in deaths) % _SETS
    orders = (deaths, _from_both_ends(deaths))
    for order in orders if is_newest_first else orders[::-1]:
        steps.append((len(steps), len(steps), order, 0, total, ()))
    visited: set[tuple[str, int]] = set()
    undead = 0
    turns = len(steps)
    for _ in range(4 * MOST_ORIGINS):  # invalid entries, and repetitions
        if not steps or len(visited) == MOST_ORIGINS:
            return
        detours, _, order, newest, total, deaths_since = heappop(steps)
        death = order[newest]
        rest, total = _undone(order, newest, total)
        queue = death.queue
        if (
            isinstance(queue, str)
            and isinstance(death.exchange, str)
            and (queue, total) not in visited
        ):
            visited.add((queue, total))
            if rest:
                mark, alternatives = _fingerprint_of_dead(message, total), tuple[bytes, ...]()
            else:
                mark = _digest_of_undead(death.exchange, death.key, deliver)
                alternatives = (message,) if is_newest_first else ()
                if streamed and undead < MOST_STREAMED:
                    alternatives += tuple(_others_of_stream(death.exchange, death.key, deliver))
                undead += 1
            yield DeathOrigin(queue, death.exchange, mark, death, deaths_since, alternatives)
        for place in range(min(len(rest), 1 + MOST_OTHERS)):
            step = (detours + (place > 0), turns, rest, place, total, (*deaths_since, death))
            heappush(steps, step)
            turns += 1


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


def read_deaths(record: Record) -> Sequence[DeathEntry]:
    """The deaths of a message, as its broker lists them."""
    headers = record.properties.get("headers")
    if type(headers) is not dict or "x-death" not in headers:  # nearly always
        return ()
    deaths = headers["x-death"]
    return [_death(d) for d in deaths if isinstance(d, dict)] if isinstance(deaths, list) else ()


def dead_in(deliver: Deliver) -> tuple[list[str], str]:
    """The queues in which a message died, and the exchange that it was published to."""
    deaths = read_deaths(deliver)
    if not deaths:
        return [], deliver.exchange
    exchange = deliver.properties["headers"].get("x-first-death-exchange")
    if not isinstance(exchange, str):
        exchange = deaths[-1].exchange
    queues = [death.queue for death in deaths if isinstance(death.queue, str)]
    return queues, exchange if isinstance(exchange, str) else deliver.exchange


def has_broker_headers(record: Record) -> bool:
    """Tell whether a message has headers that may change until its next handover."""
    headers = record.properties.get("headers")
    if not headers:
        return False
    return isinstance(headers, dict) and not BROKER_HEADERS.isdisjoint(headers)


def _death(entry: dict[str, Any]) -> DeathEntry:
    queue, reason, count = entry.get("queue"), entry.get("reason"), entry.get("count")
    keys = entry.get("routing-keys")
    return DeathEntry(
        queue,
        reason,
        count,
        entry.get("exchange"),
        keys[0] if isinstance(keys, list) and keys and isinstance(keys[0], str) else "",
        entry.get("time"),
        _digest_of_death(queue, reason, count),
    )


def _digest_of_death(queue: Any, reason: Any, count: Any) -> int:
    digest = blake2b(_encode((queue, reason, count)), digest_size=BYTES - BROUGHT_BYTES).digest()
    return int.from_bytes(digest, "big")


def _from_both_ends(deaths: Sequence[DeathEntry]) -> list[DeathEntry]:
    """Entries newest first, where each death has reversed those before it."""
    half = (len(deaths) + 1) // 2
    order = [*deaths]
    order[0::2], order[1::2] = deaths[:half], deaths[half:][::-1]
    return order


def _undone(order: Sequence[DeathEntry], newest: int, total: int) -> tuple[list[DeathEntry], int]:
    """The deaths before one of them, newest first as far as that is known, and their digest.

    A repeated one goes to its place in a circle: behind those that have happened as often since.
    """
    death = order[newest]
    rest = [*order[:newest], *order[newest + 1 :]]
    total = (total - death.digest) % _SETS
    previous = death.predecessor()
    if previous is not None:
        total = (total + previous.digest) % _SETS
        place = 0
        while place < len(rest) and _times(rest[place]) >= previous.count:
            place += 1
        rest.insert(place, previous)
    return rest, total


def _times(death: DeathEntry) -> int:
    return death.count if type(death.count) is int else 1


def _fingerprint_of_dead(message: bytes, total: int) -> bytes:
    return message + total.to_bytes(BYTES - BROUGHT_BYTES, "big")


def _address(record: Record) -> bytes:
    """The digest of a message's exchange and key."""
    place = _encode((record.exchange, record.routing_keys[:1]))
    return blake2b(place, digest_size=BROUGHT_BYTES).digest()


def _message(record: Record) -> bytes:
    """The digest of the parts of a message that are the same in every queue."""
    return _with_body(_encode(_stable(record.properties)), record, BROUGHT_BYTES)


def _digest_of_undead(exchange: str, key: str, record: Record) -> bytes:
    """The digest of a message without deaths, as nearly every message is, in one go."""
    return _with_body(_encode((exchange, key, (), _stable(record.properties))), record)


def _others_of_stream(exchange: str, key: str, deliver: Deliver) -> Iterator[bytes]:
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
