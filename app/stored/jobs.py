"""Jobs: requests, states and their transitions, and records."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import msgspec

from model.jobs import Problem, Progress
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
FINAL = frozenset(state for state, successors in TRANSITIONS.items() if not successors)


class Job(msgspec.Struct, frozen=True):
    """A job of the service; ``percent`` is from 0 to 100."""

    id: int
    kind: Literal["chain", "archive", "topology", "report", "restamp", "touched", "period", "spans"]
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

    def without_content(self) -> Job:
        """Without a report's content, for users who may not read every message."""
        if self.kind != "report":
            return self
        period = {name: self.request[name] for name in ("report", "vhost", "since", "until")}
        error = None if self.error is None else "its reason may tell what messages hold"
        return msgspec.structs.replace(self, request=period, result=None, error=error)


Report: TypeAlias = Callable[[Progress], None]
"""Called with the progress of a job."""


class JobRequest(msgspec.Struct, frozen=True):
    """A requested job.

    Attributes:
        owner: the user who asks; waiting jobs are taken in turns between users.
        shown: the request as ``GET /itc_db/jobs`` shows it, the same for equal requests.
        work: the worker's input.
        location: where the API serves the file, if there is one.
        is_alone: whether it is refused while its virtual host has another of its kind.
    """

    kind: str
    vhost: str
    owner: str
    shown: Json
    work: Json
    location: str | None = None
    is_alone: bool = False

    def finish(self, job_id: int, result: Json) -> Json:
        outcome = {"job": job_id, **result}
        if "file" in result:
            outcome["location"] = self.location if result["file"] else None
        return outcome

    @property
    def key(self) -> bytes:
        return msgspec.json.encode([self.kind, self.vhost, self.shown], order="sorted")


class Answer(msgspec.Struct):
    """One line from a worker process."""

    say: str
    id: int | None = None
    stage: str = ""
    percent: float = 0.0
    rows_read: int = 0
    rows_written: int = 0
    result: Json = {}
    problem: Problem = Problem.failed
    reason: str = ""
    leaving: bool = False

    @property
    def progress(self) -> Progress:
        return Progress(self.stage, self.percent, self.rows_read, self.rows_written)
