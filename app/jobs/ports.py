"""What jobs need of the store and of what runs them, as protocols; `app.main` hands them in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

from app.stored.jobs import Json
from model.jobs import Progress

Report: TypeAlias = Callable[[Progress], None]


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
