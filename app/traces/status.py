"""What can be said of a trace at any moment."""

from __future__ import annotations

import enum

import msgspec

from app.stored.gaps import Gap
from app.tracker import Counters, Totals
from itc import Stamp, pack


class TraceState(enum.StrEnum):
    """Where a trace stands. `waiting` is an outage it sits out, `failed` a bug it gave up on."""

    starting = "starting"
    running = "running"
    waiting = "waiting"
    stopping = "stopping"
    stopped = "stopped"
    failed = "failed"


class Work(msgspec.Struct):
    """What capture has cost since its run began, in numbers and seconds, for `/metrics`.

    ``stamp_bytes`` and ``id_depth`` are the newest event's: the size of its stored clock, and how
    often the seed was halved for its participant.
    """

    batches: int = 0
    batch_seconds: float = 0.0
    stamped: int = 0
    stamp_seconds: float = 0.0
    stamp_bytes: int = 0
    id_depth: int = 0

    def count_stamped(self, events: int, seconds: float) -> None:
        """Count events that were matched and stamped."""
        self.stamped += events
        self.stamp_seconds += seconds

    def count_stored(self, newest: Stamp | None, seconds: float) -> None:
        """Count a batch that was committed."""
        self.batches += 1
        self.batch_seconds += seconds
        if newest is not None:
            self.stamp_bytes = len(pack(newest))
            self.id_depth = len(newest.interval or "")


class Snapshot(msgspec.Struct, frozen=True):
    """How a running trace stands. ``rate`` in events/s; ``totals`` is None before its restore."""

    state: TraceState
    waiting_for: str | None = None
    last_error: str | None = None
    restarts: int = 0
    totals: Totals | None = None
    last_event_id: int = 0
    rate: float = 0.0
    lag: int | None = None
    work: Work = msgspec.field(default_factory=Work)


class TraceStatus(msgspec.Struct, frozen=True):
    """One trace, as ``GET /itc_db/traces`` shows it. ``rate`` in events/s, times in µs."""

    vhost: str
    state: TraceState
    participant: str
    wanted: bool
    created_at: int
    waiting_for: str | None
    last_error: str | None
    restarts: int
    counters: Counters  # since the trace began
    events: int  # stored now
    participants: int
    pending_copies: int
    last_event_id: int  # 0 before the first
    rate: float
    lag: int | None
    gaps: list[Gap]
    work: Work = msgspec.field(default_factory=Work)
