"""Bundles: messages in which the broker plugin hands over many records at once.

To hand out a message costs the broker more than to make it, and us more than to read it. So where
the plugin is, its **collector** takes what the firehose gives, and its own settlements, and puts up
to 256 records, 128 KiB or 20 ms of them into one message. It has the trace exchange's name, the
routing key ``batch.1`` (of this form), the broker's own user, which no client can claim, and the
headers of `Bundle`. The collector begins a new epoch whenever it begins, with a bundle that has no
records, and counts what it is handed. So each record has an ordinal by which it is known when it
comes again, and a hole is exact (`app.traces.losses.collectors`).

The body has the records one after the other, in big-endian numbers: its length (32 bits), a routing
key after its length (16 bits), the payload of a content header's frame after its length (32 bits),
and the record's body.

The trace queue asks for them by bindings that no trace message fits: a **wish** for each key that
it is bound with. The plugin then binds a queue of its own by those keys and unbinds ours; when it
ends, or a wish is gone, it gives the binding back. Without the plugin nobody heeds them, and
messages come one by one.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import xxhash

from app.broker._wire import decode_headers, unpack, user_of
from app.broker.deliveries import Arrival, Bundle
from app.broker.firehose import BROKER_USER, make_unreadable
from model.texts import storable

PLUGIN = "rabbitmq_itc"
WISH = "itc.batch.1."
# A routing key has 255 bytes, and the plugin adds to its own.
LONGEST_WISHED = 240
# After this time what the collector held is in the queue, or has come.
HELD_SECONDS = 0.1


def bundles_queue(trace_queue: str) -> str:
    """The name of the queue that the plugin binds in the place of a trace queue."""
    return f"{trace_queue}.batches"


def wishes(keys: Iterable[str]) -> tuple[str, ...]:
    """The keys by which a trace queue asks for bundles of what these keys give it."""
    wished = tuple(WISH + key for key in keys)
    return wished if all(len(wish.encode()) <= LONGEST_WISHED for wish in wished) else ()


def read_head(header: bytes) -> Bundle | None:
    """The head of a bundle; None if the plugin has not made it, or nobody can say which it is."""
    try:
        if user_of(header) != BROKER_USER:
            return None
        return msgspec.convert(decode_headers(header), Bundle)
    except (ValueError, msgspec.ValidationError):
        return None


def open_bundle(message: Arrival) -> list[Arrival]:
    """The records of a bundle; the bundle itself where it has none, or cannot be read."""
    bundle = message.bundle
    if bundle is None:
        return [message]
    collector = f"{bundle.epoch} {bundle.node}".encode()
    first_id = (xxhash.xxh3_64_intdigest(collector) + bundle.first) % 2**64
    fault = "its records are not that many"
    unpacked: list[Arrival]
    try:
        unpacked = unpack(message.body, message, first_id)
    except ValueError as error:
        unpacked, fault = [], str(error)
    if bundle.records and len(unpacked) == bundle.records:
        return unpacked
    message.digest = xxhash.xxh3_64_digest(b"%d %b" % (bundle.number, collector))
    if bundle.records or unpacked:
        reason = (
            f"bundle {bundle.number} of {storable(bundle.node)} since {bundle.epoch}, of "
            f"{bundle.records} records, from the {bundle.first + 1:,}th on, cannot be read: {fault}"
        )
        message.message = make_unreadable(
            message.routing_key, message.header, message.body, message.at, reason
        )
    return [message]
