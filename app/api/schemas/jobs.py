"""A job as it stands."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from app.api.schemas.common import Model, Time, names_of
from app.stored.jobs import JobState

JobStateWord = Annotated[str, names_of(JobState)]


class Job(Model):
    """A job of the service."""

    id: int
    kind: Literal["chain", "archive", "topology", "report", "restamp", "touched", "period"]
    state: JobStateWord
    stage: str | None
    percent: float
    vhost: str
    rows_read: int
    rows_written: int
    created_at: Time
    started_at: Time | None
    finished_at: Time | None
    request: dict[str, Any]
    result: dict[str, Any] | None
    error: str | None
