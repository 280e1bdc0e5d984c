"""The planner: how a chain that clocks tell of will be found, and for the range form, the chain.

The relation comes first, from the two events' dots alone. Then come the participants with events
between the two: if ``to`` knows nothing of a participant above the height that it began with, it
takes no part. For the rest there are two forms:

- *ranges*: the planner finds both ends of each participant's range through the index on
  (trace, participant, height). Costs some look-ups per participant, nothing per event. If the span
  is so short that its rows cost less than those look-ups, it reads and compares them itself.
- *scan*: executors read ids and clocks of the whole span and compare them. Costs a little for
  each event of the span, next to nothing per participant: right for many short-lived ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from itc import Relation, packed_height_at
from model.exports import CONCURRENT
from model.jobs import Problem
from model.ranges import first_reached
from spark_jobs.errors import JobError
from spark_jobs.events.history import ChainEnd, History
from spark_jobs.events.ranges import Range, Ranges, compare_rows, merge_ranges

Form: TypeAlias = Literal["ranges", "scan", "walk"]

# The cost of a participant's look-ups, in rows that could be compared in the same time: measured on
# SQLite, on two busy cores: with 64 participants 25 to 650 µs (it grows with the logarithm of the
# answer) against 1 to 3 µs per row, so 10 to 400 rows; with up to 4,000 short-lived ones, whose
# clocks are long, 55 to 180 µs against 5 to 14 µs, so 7 to 30 rows.
ROWS_PER_PARTICIPANT = 50
# A Spark job with no events takes 0.2 s: this many rows take no longer without one.
FEW_PARTICIPANTS = 1_500
MOST_ROWS_READ = 20_000


@dataclass(frozen=True)
class Plan:
    """The plan by which the chain from ``start`` to ``end`` (in causal order) is found.

    ``relation`` is that of the request's ``from`` to its ``to``. ``bounds`` hold the upper end of
    each participant that may take part, ``ranges`` the chain itself if the form is "ranges".
    """

    relation: Relation
    start: ChainEnd
    end: ChainEnd
    form: Form
    reason: str
    bounds: Ranges
    ranges: list[Range] | None = None

    @property
    def is_empty(self) -> bool:
        """Tell whether neither event happened before the other, so that there is no chain."""
        return self.relation is Relation.concurrent


def make_plan(history: History, from_id: int, to_id: int, form: Form | None = None) -> Plan:
    """Plan the chain between two events, whichever happened first.

    Both must be of one virtual host; ``form`` asks for one form, None picks the cheaper. Raises
    `JobError` for equal ids, unknown ids, ids of two virtual hosts.
    """
    relation, start, end = ends_of(history, from_id, to_id)
    if relation is Relation.concurrent:
        return Plan(relation, start, end, "ranges", CONCURRENT, Ranges.from_ranges([]))
    bounds = upper_bounds(history, start, end)
    form, reason = choose(len(bounds), end.id - start.id + 1, form)
    plan = Plan(relation, start, end, form, reason, bounds)
    if form == "scan":
        return plan
    return Plan(relation, start, end, form, reason, bounds, find_ranges(history, plan))


def ends_of(history: History, from_id: int, to_id: int) -> tuple[Relation, ChainEnd, ChainEnd]:
    """The relation of two events, and both in causal order if they have one.

    Raises as `make_plan`.
    """
    if from_id == to_id:
        raise JobError(Problem.bad_request, "A chain needs two events; both ids are the same.")
    first, second = history.event(from_id), history.event(to_id)
    if first.trace != second.trace:
        raise JobError(
            Problem.bad_request,
            f"Event {from_id} is of virtual host {first.vhost} and event {to_id} of"
            f" {second.vhost}: a chain lies within one.",
        )
    relation = relation_of(first, second)
    start, end = (second, first) if relation is Relation.after else (first, second)
    return relation, start, end


def relation_of(first: ChainEnd, second: ChainEnd) -> Relation:
    """The relation of the first of two different events of one trace to the second."""
    if first.dot.is_reached(second.clock):
        return Relation.before
    if second.dot.is_reached(first.clock):
        return Relation.after
    return Relation.concurrent


def upper_bounds(history: History, start: ChainEnd, end: ChainEnd) -> Ranges:
    """For each participant with events between the two, the height up to which ``end`` knows it."""
    bounds = [
        (span.number, height)
        for span in history.participants(start.trace, start.id, end.id)
        if (height := packed_height_at(end.clock, span.interval)) > span.base
    ]
    numbers = np.array(sorted(bounds), dtype=np.int64).reshape(-1, 2)
    return Ranges(
        participants=numbers[:, 0].copy(),
        low=np.zeros(len(numbers), dtype=np.int64),
        high=numbers[:, 1].copy(),
        first_id=np.full(len(numbers), start.id, dtype=np.int64),
        last_id=np.full(len(numbers), end.id, dtype=np.int64),
    )


def choose(participants: int, span: int, form: Form | None) -> tuple[Form, str]:
    """The form of a plan, and a sentence that says why."""
    facts = f"{participants} participants may have part in a span of {span} ids"
    if form is not None:
        return form, f"The form {form} was asked for; {facts}."
    if span <= MOST_ROWS_READ:
        return "ranges", f"A short span: {facts}."
    if participants <= FEW_PARTICIPANTS or participants * ROWS_PER_PARTICIPANT <= span:
        return "ranges", f"Few participants against the span: {facts}."
    return "scan", f"Many participants against the span: {facts}."


def find_ranges(history: History, plan: Plan) -> list[Range]:
    """The chain's range of each participant, found by the planner alone."""
    span = plan.end.id - plan.start.id + 1
    if span <= min(len(plan.bounds) * ROWS_PER_PARTICIPANT, MOST_ROWS_READ):
        return read_span(history, plan)
    return look_up(history, plan)


def read_span(history: History, plan: Plan) -> list[Range]:
    """The ranges, by reading every row of a short span."""
    ranges: list[Range] = []
    for batch in history.clocks(plan.start.trace, plan.start.id, plan.end.id):
        ids, participants, heights, seqs = (batch.column(k).to_numpy() for k in range(4))
        clocks = batch.column(4).to_pylist()
        ranges += compare_rows(
            ids, participants, heights, seqs, clocks, plan.bounds, plan.start.dot
        )
    return merge_ranges(ranges)


def look_up(history: History, plan: Plan) -> list[Range]:
    """The ranges, with both ends looked up through the index."""
    trace, start = plan.start.trace, plan.start.dot
    bounds = zip(plan.bounds.participants.tolist(), plan.bounds.high.tolist(), strict=True)
    tops = {
        participant: mark
        for participant, mark in history.last_at_or_below(trace, bounds).items()
        if mark.id >= plan.start.id and start.is_reached(mark.clock)
    }
    firsts = first_reached(
        tops,
        lambda mark: start.is_reached(mark.clock),
        lambda heights: history.first_at_or_above(trace, heights),
    )
    return [
        Range(p, firsts[p].height, top.height, firsts[p].id, top.id, firsts[p].seq, top.seq)
        for p, top in sorted(tops.items())
    ]
