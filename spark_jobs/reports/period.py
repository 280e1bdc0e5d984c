"""A period that a job reads: its ids, its gaps, its doubts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from model.gaps import Gap
from model.jobs import Problem
from model.sound import Soundness
from spark_jobs.errors import JobError
from spark_jobs.events.history import History
from spark_jobs.spark.database import DatabaseAddress


@dataclass(frozen=True)
class Period:
    """A virtual host's trace from ``since`` to before ``until`` (µs).

    Attributes:
        trace: its number.
        ids: the first and the last id that may be recorded then; None if there is none. Events
            between them may have been recorded a moment outside, so their times count.
        gaps: in which events may be missing.
        sound: the doubts about who acted.
        history: reads the store, while the period is open.
    """

    vhost: str
    since: int
    until: int
    trace: int
    ids: tuple[int, int] | None
    gaps: list[Gap]
    sound: Soundness
    history: History = field(repr=False)

    def holds(self, recorded_at: int) -> bool:
        return self.since <= recorded_at < self.until


@contextmanager
def open_period(database: DatabaseAddress, vhost: str, since: int, until: int) -> Iterator[Period]:
    """A period, to be read while it is open.

    Raises `JobError` if nothing was ever traced there and, at the end, if the period's first event
    was pruned meanwhile, so that only a part was read.
    """
    with database.connect() as connection:
        history = History(connection)
        trace = history.trace(vhost)
        ids = history.ids_between(trace, since, until)
        gaps = history.gaps(trace, *ids) if ids else []
        sound = history.soundness(trace, *ids) if ids else Soundness()
        yield Period(vhost, since, until, trace, ids, gaps, sound, history)
        if ids and not history.exists(ids[0]):
            raise JobError(
                Problem.not_found,
                "The period was pruned while it was counted; ask for a later one.",
            )
