"""Bundles as the broker plugin makes them (app/broker/bundles.py), packed in plain Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from pamqp.commands import Basic
from pamqp.header import ContentHeader

from app.broker.deliveries import Arrival
from app.broker.firehose import BROKER_USER, BUNDLE_KEY

Message: TypeAlias = tuple[str, bytes, bytes]  # routing key, content header, body


def pack(records: Sequence[Message]) -> bytes:
    """The body of a bundle."""
    return b"".join(_sized(4, _record(*record)) for record in records)


def bundle(
    packed: Sequence[Message], number: int, first: int, *, user: str = BROKER_USER, **head: Any
) -> Message:
    """A bundle of packed records, as a message."""
    body = pack(packed)
    table: dict[str, Any] = {"itc": "0.2.0", "node": "rabbit@one", "epoch": 1_700_000_000_000_000}
    table |= {"number": number, "first": first, "records": len(packed), "lost": 0, **head}
    properties = Basic.Properties(headers=table, user_id=user)
    return BUNDLE_KEY, ContentHeader(0, len(body), properties).marshal(), body


def arrival(message: Message, tag: int = 1, *, redelivered: bool = False) -> Arrival:
    return Arrival(tag, redelivered, *message)


def _record(key: str, header: bytes, body: bytes) -> bytes:
    return _sized(2, key.encode()) + _sized(4, header) + body


def _sized(size: int, data: bytes) -> bytes:
    return len(data).to_bytes(size, "big") + data
