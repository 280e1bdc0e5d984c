"""What the manager asks of whoever runs jobs; the Spark process is one, tests have another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

from app.stored.jobs import Json, Progress

Report: TypeAlias = Callable[[Progress], None]


class Runner(Protocol):
    """Runs one job at a time."""

    async def start(self) -> None:
        """Be ready for a job, so that the first need not wait. Raises as `run` does."""
        ...

    async def run(self, job_id: int, kind: str, work: Json, report: Report) -> Json:
        """Run a job to its end; returns its result.

        Cancelling the call stops the job, and returns when it has stopped. Raises an `ItcError`
        whose text is the reason for which the job failed.
        """
        ...

    async def stop(self) -> None:
        """Give back what running jobs takes; the next job starts it again."""
        ...
