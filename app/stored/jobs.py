"""Jobs: their states, which may follow which, and their record."""

from __future__ import annotations

import enum
from typing import Any, Literal, TypeAlias

import msgspec

from model.times import Microseconds

Json: TypeAlias = dict[str, Any]


class JobState(enum.StrEnum):
    """The state of a job."""

    queued = "queued"
    running = "running"
    succeeded = "succeeded"
    failed = "failed"
    cancelled = "cancelled"


TRANSITIONS: dict[JobState, frozenset[JobState]] = {
    # A queued job fails if the service ends before its turn, or cannot start Spark.
    JobState.queued: frozenset({JobState.running, JobState.failed, JobState.cancelled}),
    JobState.running: frozenset({JobState.succeeded, JobState.failed, JobState.cancelled}),
    JobState.succeeded: frozenset(),
    JobState.failed: frozenset(),
    JobState.cancelled: frozenset(),
}
ENDED = frozenset(state for state, following in TRANSITIONS.items() if not following)


class Job(msgspec.Struct, frozen=True):
    """A job of the service.

    ``percent`` is from 0 to 100.
    """

    id: int
    kind: Literal["chain", "archive", "topology", "report", "restamp", "touched", "period"]
    state: JobState
    vhost: str
    request: Json
    result: Json | None
    error: str | None
    stage: str | None
    percent: float
    rows_read: int
    rows_written: int
    created_at: Microseconds
    started_at: Microseconds | None
    finished_at: Microseconds | None
