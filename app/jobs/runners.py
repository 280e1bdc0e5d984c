"""One runner made of several: each kind of job has its own, and most have Spark's."""

from __future__ import annotations

from collections.abc import Mapping

from app.jobs.ports import KindRunner, Report, Runner
from app.stored.jobs import Json


class Runners:
    """A `Runner` that hands each job to the runner of its kind.

    Only the ``usual`` one has to be started, for the kinds that are not among ``others``.
    """

    def __init__(self, usual: Runner, others: Mapping[str, KindRunner]) -> None:
        self._usual = usual
        self._others = others

    async def start(self) -> None:
        """Start the usual one."""
        await self._usual.start()

    async def run(self, job_id: int, kind: str, work: Json, report: Report) -> Json:
        """Run one job to its end, as its runner does."""
        runner = self._others.get(kind, self._usual)
        return await runner.run(job_id, kind, work, report)

    async def stop(self) -> None:
        """Stop the usual one."""
        await self._usual.stop()
