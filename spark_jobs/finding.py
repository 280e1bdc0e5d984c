"""Finding a chain: its ranges and the slices to read it in, from the store and perhaps an archive.

The result is the same either way, so that what exports it need not know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession

from itc import Relation
from model.gaps import Gap
from model.jobs import Problem
from model.sound import Soundness, doubts_of
from spark_jobs.database import Database
from spark_jobs.errors import JobError
from spark_jobs.executors import scan, tasks_at_a_time
from spark_jobs.history import History
from spark_jobs.plan import Form, Plan, make_plan
from spark_jobs.progress import Meter
from spark_jobs.ranges import Longs, Range, Ranges
from spark_jobs.slices import Slice, cut


@dataclass(frozen=True)
class Found:
    """A chain, or the fact that there is none.

    Attributes:
        vhost: whose events they are.
        relation: of the request's ``from`` to its ``to``.
        form: how the chain was found; ``reason`` says why in this way.
        gaps: in which parts of it may be missing.
        soundness: whether there may be more of it between participants, and what was quiet.
        ranges: its events by participant; empty if the two events are concurrent.
        slices: what to read it in, by id.
        names: looks up the names and intervals of its participants.
        heights: looks up the heights of each participant's events in it, ascending.
        check: raises JobError if part of it was removed meanwhile.
    """

    vhost: str
    relation: Relation
    form: str
    reason: str
    gaps: Sequence[Gap]
    soundness: Soundness
    ranges: Sequence[Range]
    slices: Sequence[Slice]
    names: Callable[[], Mapping[int, tuple[str, str]]]
    heights: Callable[[], dict[int, Longs]]
    check: Callable[[], None]

    @property
    def events(self) -> int:
        """How many events it has."""
        return sum(each.events for each in self.ranges)


def find_stored(
    spark: SparkSession,
    database: Database,
    history: History,
    ends: tuple[int, int],
    form: Form | None,
    meter: Meter,
) -> Found:
    """The chain between two events that are in the store, and so is everything between them."""
    plan = make_plan(history, *ends, form)
    trace = plan.start.trace
    ranges: Sequence[Range] = []
    if not plan.is_empty:
        ranges = scan(spark, database, plan, meter) if plan.ranges is None else plan.ranges
    arrays = Ranges.of(ranges)
    return Found(
        vhost=plan.start.vhost,
        relation=plan.relation,
        form=plan.form,
        reason=plan.reason,
        gaps=history.gaps(trace, plan.start.id, plan.end.id),
        soundness=_soundness(history, trace, plan.start.id, plan.end.id),
        ranges=ranges,
        slices=cut(history, trace, ranges, tasks_at_a_time(spark)) if ranges else [],
        names=lambda: history.names(trace, arrays.participants.tolist()),
        heights=lambda: by_participant(arrays.participants, *history.members(trace, arrays)[1:]),
        check=lambda: _check_not_pruned(history, plan),
    )


def _soundness(history: History, trace: int, first_id: int, last_id: int) -> Soundness:
    assumed, misfit = history.assumed(trace, first_id, last_id), history.misfit(trace)
    missing = history.missing(trace, first_id, last_id)
    doubts = doubts_of(assumed, misfit, missing, history.missed(trace, missing))
    return Soundness(doubts, history.quiet(trace, first_id, last_id))


def by_participant(numbers: Iterable[int], participants: Longs, heights: Longs) -> dict[int, Longs]:
    """Heights by participant, in the order in which they come."""
    return {int(number): heights[participants == number] for number in numbers}


def _check_not_pruned(history: History, plan: Plan) -> None:
    # Retention removes the smallest ids first: if the first event is still there, all are.
    if not history.exists(plan.start.id):
        raise JobError(
            Problem.not_found,
            f"Event {plan.start.id} was pruned while its chain was read, so nothing was written;"
            " choose a later event.",
        )
