"""What jobs need of the store and of what runs them, as protocols; `app.main` hands them in."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Protocol, TypeAlias

from app.stored.jobs import Job, JobState, Json
from model.jobs import Progress

Report: TypeAlias = Callable[[Progress], None]


class JobStore(Protocol):
    """The stored jobs (`app.store.jobs`)."""

    async def create(self, kind: str, vhost: str, request: Json) -> Job: ...
    async def get(self, job_id: int) -> Job: ...
    async def list(
        self,
        vhosts: Collection[str] | None = None,
        *,
        states: Collection[JobState] | None = None,
        limit: int = 100,
    ) -> Sequence[Job]: ...
    async def move(
        self, job_id: int, state: JobState, *, result: Json | None = None, error: str | None = None
    ) -> Job: ...
    async def note_progress(self, job_id: int, progress: Progress) -> bool: ...
    async def interrupt(self) -> int: ...
    async def give_up(self, job_id: int) -> None: ...
    async def unwanted(self) -> Sequence[int]: ...
    async def forget(self, keep: int) -> int: ...


class Runner(Protocol):
    """Runs one job at a time, in a process of its own.

    `app.jobs.process.SparkProcess` does it for most kinds, `app.jobs.runners.Runners` for all.
    """

    async def start(self) -> None: ...
    async def run(self, job_id: int, kind: str, work: Json, report: Report) -> Json: ...
    async def stop(self) -> None: ...


class KindRunner(Protocol):
    """Runs jobs of one kind (`app.jobs.restamps`), and leaves nothing running between them."""

    async def run(self, job_id: int, kind: str, work: Json, report: Report) -> Json: ...
