"""The traces: one for each virtual host that was ever traced."""

from __future__ import annotations

import msgspec

from app.tracker.taken import ALL, Taken
from model.times import Microseconds


class Trace(msgspec.Struct, frozen=True):
    """A trace as it is stored. ``policy`` says what a participant is, ``quiet`` which
    traffic joins no clocks, ``bodies`` whether messages' bodies are taken, ``taken`` of which
    exchanges and queues messages are; times in µs.

    ``events``, ``participants`` and ``pending_copies`` are how many are stored now;
    ``last_event_id`` is 0 before the first; ``checkpoint`` is the tracker's state as of then,
    ``ledger`` what the trace had seen.
    ``holder`` is the service that runs it, None if none does.
    """

    id: int
    vhost: str
    policy: str
    quiet: tuple[str, ...]
    wanted: bool
    created_at: Microseconds
    checkpoint: bytes | None
    ledger: bytes | None
    events: int
    last_event_id: int
    participants: int
    pending_copies: int
    holder: str | None = None
    bodies: bool = True
    taken: Taken = ALL
