"""Reports how far a job is to whoever runs it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeAlias

from model.jobs import Progress

Report: TypeAlias = Callable[[Progress], None]
"""Called at every step. What it raises ends the job."""


def silent(progress: Progress) -> None:
    """Report to nobody."""


class Meter:
    """Counts a job's steps and reports each. Rows take it from where they begin to 99 percent."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._stage = "planning"
        self._percent = 0.0
        self._base = 0.0
        self._total = 1
        self.rows_read = 0
        self.rows_written = 0

    def enter(self, stage: str, percent: float) -> None:
        """Begin a stage; also called for steps within a stage that has no rows to count."""
        self._stage = stage
        self._percent = max(self._percent, percent)
        self._tell()

    def expect(self, rows: int) -> None:
        """Set the number of rows of the answer; from here on they are counted."""
        self._base, self._total = self._percent, max(rows, 1)

    def read(self, rows: int) -> None:
        """Count rows that came from the executors."""
        self.rows_read += rows
        self._count()

    def count_written(self, rows: int) -> None:
        """Count rows that were written to the file."""
        self.rows_written += rows
        self._count()

    def _count(self) -> None:
        share = min(1.0, (self.rows_read + self.rows_written) / (2 * self._total))
        self._percent = self._base + (99.0 - self._base) * share
        self._tell()

    def _tell(self) -> None:
        percent = round(self._percent, 1)
        self._report(Progress(self._stage, percent, self.rows_read, self.rows_written))


class Stopwatch:
    """Seconds that a job's stages took, and the whole job."""

    def __init__(self) -> None:
        self._start = self._last = time.monotonic()
        self._laps: dict[str, float] = {}

    def lap(self, stage: str) -> dict[str, float]:
        """End a stage; returns the times known so far."""
        moment = time.monotonic()
        self._laps[stage] = round(moment - self._last, 3)
        self._last = moment
        return {**self._laps, "total": round(moment - self._start, 3)}
