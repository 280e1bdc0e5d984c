"""What is stored together or not at all: events and their checkpoint."""

from __future__ import annotations

import os

import msgspec

from app.tracker.events import Checkpoint, StampedEvent
from app.tracker.links import TraceRule
from app.tracker.records import Unreadable


def _token() -> bytes:
    return os.urandom(16)


class Batch(msgspec.Struct, frozen=True):
    """One transaction of a trace.

    ``window`` holds the digests of its trace messages and ``ledger`` what its trace has seen, both
    opaque to the store; a ledger of None leaves the stored one as it is. ``link_rules`` are all
    that its events were read by, None for those of the batch before. Without ``bodies`` no
    message's body is stored. ``token`` tells this batch from every other: appended again after an
    outage that left its commit in doubt, it is stored once.
    """

    events: list[StampedEvent]
    checkpoint: Checkpoint
    window: bytes
    unreadable: list[Unreadable] = msgspec.field(default_factory=list)
    token: bytes = msgspec.field(default_factory=_token)
    ledger: bytes | None = None
    link_rules: tuple[TraceRule, ...] | None = None
    bodies: bool = True
