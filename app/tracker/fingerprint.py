"""What two trace messages about the same message have in common.

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
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec

from app.tracker.records import Deliver, Record

BYTES = 16
# How many of a delivery's deaths are followed, the newest. The broker writes one for each queue and
# reason, and before 4.0 takes over what a client says.
MOST_ORIGINS = 64

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
        "x-stream-offset",
        "CC",
        "BCC",
    }
)

# Deterministic order: quorum queues and 4.x brokers hand a table back in another order.
_encode = msgspec.msgpack.Encoder(order="deterministic").encode


class Origin(NamedTuple):
    """Where a dead-lettered delivery may have been before: a queue, and the fingerprint there."""

    queue: str
    fingerprint: bytes
    delivered_before: bool  # rejected after a delivery, rather than expired or pushed out unseen


def fingerprint(record: Record) -> bytes:
    """Return the 16 bytes by which publish and deliver of one message agree."""
    key = record.routing_keys[0] if record.routing_keys else ""
    deaths = _deaths(record)
    if not deaths:
        return _digest_of_undead(record.exchange, key, record)
    return _digest(record.exchange, key, list(_carried(deaths))[-1], _message(record))


def origins(deliver: Deliver) -> Iterator[Origin]:
    """Yield the places a dead-lettered delivery may come from, the most recent publish first.

    `x-death` lists deaths newest first. The publish happened before the oldest death that it did
    not carry itself, so each entry is tried in turn as that one, with the older ones as carried:
    the newest `MOST_ORIGINS` of them.
    """
    deaths = _deaths(deliver)
    if not deaths:
        return
    message = _message(deliver)
    carried = list(_carried(deaths))[-2::-1]  # newest first: behind each death those before it
    for death, before in zip(deaths, carried[:MOST_ORIGINS], strict=False):
        queue, exchange, keys = death.get("queue"), death.get("exchange"), death.get("routing-keys")
        if not isinstance(queue, str) or not isinstance(exchange, str):
            continue
        key = keys[0] if isinstance(keys, list) and keys and isinstance(keys[0], str) else ""
        yield Origin(
            queue=queue,
            fingerprint=(
                _digest(exchange, key, before, message)
                if before
                else _digest_of_undead(exchange, key, deliver)
            ),
            delivered_before=death.get("reason") in ("rejected", "delivery_limit"),
        )


def has_broker_headers(record: Record) -> bool:
    """Whether a message has headers that may be otherwise at its next hand-over."""
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
