"""A trace's life: the states it can be in, and which may follow which.

A `Life` belongs to one trace, from its start until it is stopped or has failed. It is kept where
the trace runs; others get its `Standing`.
"""

from __future__ import annotations

import enum
from typing import Literal, TypeAlias

import msgspec

Away: TypeAlias = Literal["store", "broker"]


class TraceState(enum.StrEnum):
    """The state of a trace: `waiting` for an outage to end, `failed` over a bug that stays."""

    starting = "starting"
    running = "running"
    waiting = "waiting"
    stopping = "stopping"
    stopped = "stopped"
    failed = "failed"


_ENDS = frozenset({TraceState.stopping, TraceState.stopped, TraceState.failed})

# Entering the present state again is not a transition. A run that returns is over however far it
# came: a trace that was only asked to empty its queue is never `stopping`.
TRANSITIONS: dict[TraceState, frozenset[TraceState]] = {
    TraceState.starting: _ENDS | {TraceState.running, TraceState.waiting},
    TraceState.running: _ENDS | {TraceState.starting, TraceState.waiting},
    TraceState.waiting: _ENDS | {TraceState.starting, TraceState.running},
    TraceState.stopping: frozenset({TraceState.stopped}),
    TraceState.stopped: frozenset(),
    # It is tried again from time to time, and shown as failed until it runs.
    TraceState.failed: (_ENDS | {TraceState.running, TraceState.waiting}) - {TraceState.failed},
}


class IllegalTransitionError(RuntimeError):
    """A trace was to enter a state that may not follow its present one: a bug."""


class Standing(msgspec.Struct, frozen=True):
    """A life at one moment. ``restarts`` counts the failures, including the last one.

    A failed trace is ``waiting_for`` its next try. ``away`` says that the store does not
    take a batch, or that the broker is out of reach.
    """

    state: TraceState = TraceState.starting
    waiting_for: str | None = None
    last_error: str | None = None
    restarts: int = 0
    away: Away | None = None

    @property
    def is_failing(self) -> bool:
        """Tell whether it failed last, and has not been seen to run since."""
        is_new = self.state is TraceState.starting and self.last_error is not None
        return is_new or self.state is TraceState.failed


# The standing of a trace that is not running.
NOT_RUN = Standing(TraceState.stopped)


class Life:
    """The one owner of a trace's state; each method is an event in its life.

    An event that cannot happen in the present state raises `IllegalTransitionError`. Reports of the
    last run do not undo a stop.
    """

    def __init__(self) -> None:
        self.standing = Standing()

    @property
    def state(self) -> TraceState:
        return self.standing.state

    def running(self) -> None:
        self._go(self._unless_stopping(TraceState.running), waiting_for=None)

    def waiting(self, reason: str, away: Away | None = None) -> None:
        """Note that the run is waiting for an outage to end, and why."""
        self._go(self._unless_stopping(TraceState.waiting), reason, away)

    def restarting(self, error: str) -> None:
        self._fail(TraceState.starting, error)

    def failed(self, error: str, next_try: str | None = None) -> None:
        """Note that the run failed, and is started again only at ``next_try``."""
        self._fail(TraceState.failed, error, next_try)

    def stopping(self) -> None:
        self._go(TraceState.stopping, waiting_for=self.standing.waiting_for)

    def stopped(self) -> None:
        self._go(TraceState.stopped, waiting_for=None)

    def _fail(self, state: TraceState, error: str, next_try: str | None = None) -> None:
        self._go(self._unless_stopping(state), waiting_for=next_try)
        self.standing = msgspec.structs.replace(
            self.standing, last_error=error, restarts=self.standing.restarts + 1
        )

    def _unless_stopping(self, state: TraceState) -> TraceState:
        return self.state if self.state is TraceState.stopping else state

    def _go(self, state: TraceState, waiting_for: str | None, away: Away | None = None) -> None:
        if state is not self.state and state not in TRANSITIONS[self.state]:
            raise IllegalTransitionError(f"a trace that is {self.state} cannot be {state}")
        self.standing = msgspec.structs.replace(
            self.standing, state=state, waiting_for=waiting_for, away=away
        )
