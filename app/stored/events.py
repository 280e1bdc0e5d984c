"""Stored events as they are read: typed values, with their channel, participant and trace."""

from __future__ import annotations

from typing import Any

import msgspec

from app.tracker.events import EventType, Match
from itc import Stamp, unpack


class Wanted(msgspec.Struct, frozen=True):
    """Which of an event's large columns to read; the rest always comes."""

    payload: bool = True
    clock: bool = True
    properties: bool = True


EVERYTHING = Wanted()
NOTHING_LARGE = Wanted(payload=False, clock=False, properties=False)
LARGE = Wanted.__struct_fields__


class EventRow(msgspec.Struct, frozen=True, kw_only=True):
    """A stored event. Times in µs.

    ``channel`` is the AMQP channel's number; ``interval`` and ``participant_name`` are
    the participant's.
    ``payload`` is the beginning of the body, None where none is kept; its SHA-256 is that of the
    whole body and there only where the payload is cut. What was not wanted is None.
    """

    id: int
    trace_id: int
    vhost: str
    type: EventType
    match: Match
    cause: int | None
    participant: int
    participant_name: str
    interval: str
    seq: int
    lamport: int
    height: int
    recorded_at: int
    exchange: str
    queue: str | None
    routing_keys: tuple[str, ...]
    routed_queues: tuple[str, ...] | None
    redelivered: bool
    node: str
    connection: str
    channel: int
    user: str
    payload_bytes: int
    payload_sha256: bytes | None
    properties: dict[str, Any] | None = None
    payload: bytes | None = None
    clock: bytes | None = None

    @property
    def payload_truncated(self) -> bool:
        """Whether a part of the body is not stored."""
        return self.payload_sha256 is not None

    @property
    def stamp(self) -> Stamp:
        """The event's stamp, with the participant's interval as its id."""
        if self.clock is None:
            raise ValueError(f"event {self.id} was read without its clock")
        return unpack(self.clock, self.interval)
