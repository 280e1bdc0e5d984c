"""Trace messages that could not be read."""

from __future__ import annotations

import msgspec


class Quarantined(msgspec.Struct, frozen=True):
    """A trace message that could not be read. Times in µs; ``headers`` is JSON text, maybe cut."""

    id: int
    vhost: str
    recorded_at: int
    reason: str
    routing_key: str
    headers: str
    body: bytes
    body_bytes: int
