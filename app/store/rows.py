"""From what the tracker makes to rows: tuples in the order of the tables' columns.

Plain Python, because there is one for every event: building 500 rows takes a few milliseconds, and
going through an object mapper several times that.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import Any, TypeAlias

import msgspec

from app.tracker.events import ChannelState, Copy, EventType, StampedEvent
from app.tracker.records import Publish, Unreadable

Row: TypeAlias = tuple[Any, ...]

_encode = msgspec.json.Encoder().encode
_PUBLISHED, _RECEIVED = int(EventType.published), int(EventType.received)


def event_rows(trace_id: int, events: Iterable[StampedEvent], payload_max_bytes: int) -> list[Row]:
    """Rows of ``events``; ids are those that their references hold by now."""
    rows = []
    for event in events:
        record = event.record
        body = record.body
        size = len(body)
        reference = event.reference
        if isinstance(record, Publish):
            kind, queue, redelivered = _PUBLISHED, None, False
            routed_queues = _encode(record.routed_queues).decode()
        else:
            kind, queue, redelivered = _RECEIVED, record.queue, record.redelivered
            routed_queues = None
        rows.append(
            (
                reference.id,
                trace_id,
                kind,
                int(event.match),
                event.participant,
                event.channel_key,
                event.seq,
                event.lamport,
                event.height,
                reference.packed,
                None if event.cause is None else event.cause.id,
                event.recorded_at,
                record.exchange,
                queue,
                _encode(record.routing_keys).decode(),
                routed_queues,
                redelivered,
                event.fingerprint,
                _encode(record.properties).decode(),
                body[:payload_max_bytes] if payload_max_bytes else None,
                size,
                sha256(body).digest() if size > payload_max_bytes else None,
            )
        )
    return rows


def channel_rows(trace_id: int, channels: Iterable[ChannelState]) -> list[Row]:
    """Rows of channels."""
    return [
        (
            trace_id,
            state.key,
            state.participant,
            state.channel.node,
            state.channel.connection,
            state.channel.number,
            state.channel.user,
            state.last_event_id,
        )
        for state in channels
    ]


def copy_rows(trace_id: int, copies: Iterable[Copy]) -> list[Row]:
    """Rows of copies; their causes have their ids by now."""
    return [
        (trace_id, copy.number, copy.queue, copy.fingerprint, copy.cause.id, copy.recorded_at)
        for copy in copies
    ]


def quarantine_values(trace_id: int, unreadable: Iterable[Unreadable]) -> list[dict[str, Any]]:
    """Values of quarantine rows, whose ids the database deals."""
    return [{"trace_id": trace_id, **msgspec.structs.asdict(message)} for message in unreadable]
