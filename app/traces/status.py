"""What can be said of a trace at any moment."""

from __future__ import annotations

import enum

import msgspec

from app.store.gaps import Gap
from app.tracker import Counters, Totals


class TraceState(enum.StrEnum):
    """Where a trace stands. `waiting` is an outage it sits out, `failed` a bug it gave up on."""

    starting = "starting"
    running = "running"
    waiting = "waiting"
    stopping = "stopping"
    stopped = "stopped"
    failed = "failed"


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
