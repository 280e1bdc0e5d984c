"""Finding a chain: its ranges and the slices to read it in, from the store and perhaps an archive.

The result is the same either way, so that what exports it need not know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from pyspark.sql import SparkSession

from itc import Relation
from model.exports import CONCURRENT
from model.gaps import Gap
from model.jobs import Problem
from model.sound import Soundness, doubts_of
from model.ways import TooFarError
from model.words import Via
from spark_jobs.chains.executors import scan, tasks_at_a_time
from spark_jobs.chains.history import ChainEnd, History
from spark_jobs.chains.in_memory import SpanColumns, chain_of, leads, ranges_of
from spark_jobs.chains.plan import Form, ends_of, make_plan
from spark_jobs.chains.ranges import Longs, Range, Ranges
from spark_jobs.chains.slices import Slice, cut
from spark_jobs.chains.source import read
from spark_jobs.chains.span_columns import columns_for, span_of
from spark_jobs.chains.walk import MOST_WALKED, Ways
from spark_jobs.errors import JobError
from spark_jobs.progress import Meter
from spark_jobs.spark.database import DatabaseAddress

WALKED = "Messages and links were followed from both ends, through the index."
READ = "The span of {span} ids was read, and followed event by event."


@dataclass(frozen=True)
class ChainResult:
    """A chain, or the fact that there is none.

    Attributes:
        vhost: whose events they are.
        relation: of the request's ``from`` to its ``to``.
        form: how the chain was found; ``reason`` says why in this way.
        gaps: in which parts of it may be missing.
        doubtful: why events that are concurrent by their clocks may be in an order after all.
        candidates: of how many equal messages the later one may be; None if that is certain.
        soundness: whether there may be more of it between participants, and what was quiet.
        caused: whether messages and links lead from the earlier event to the later.
        ranges: its events by participant, sorted; empty if there is no chain.
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
    doubtful: str | None
    candidates: int | None
    soundness: Soundness
    caused: bool
    ranges: Sequence[Range]
    slices: Sequence[Slice]
    names: Callable[[], Mapping[int, tuple[str, str]]]
    heights: Callable[[], dict[int, Longs]]
    check: Callable[[], None]

    @property
    def events(self) -> int:
        """The number of its events."""
        return sum(run.events for run in self.ranges)

    @property
    def participants(self) -> list[int]:
        """Whose events they are."""
        return numbers_of(self.ranges)


class ChainQuestion(NamedTuple):
    """A question for a chain: the ids of both ends, along what, and how to find it."""

    ends: tuple[int, int]
    via: Via
    form: Form | None


class _Chain(NamedTuple):
    """A chain before anything is looked up for it; ``start`` and ``end`` in causal order."""

    relation: Relation
    start: ChainEnd
    end: ChainEnd
    form: str
    reason: str
    caused: bool
    ranges: Sequence[Range]


def find_stored(
    spark: SparkSession,
    database: DatabaseAddress,
    history: History,
    question: ChainQuestion,
    meter: Meter,
) -> ChainResult:
    """The chain between two events that are in the store, and so is everything between them.

    Raises `JobError` for ids that make no chain, and for a form that finds no such one.
    """
    if question.via is Via.any:
        chain = _by_clocks(spark, database, history, question, meter)
    else:
        chain = _evident(database, history, question, meter)
    start, end = chain.start, chain.end
    arrays, numbers = Ranges.from_ranges(chain.ranges), numbers_of(chain.ranges)
    tasks = tasks_at_a_time(spark)
    return ChainResult(
        vhost=start.vhost,
        relation=chain.relation,
        form=chain.form,
        reason=chain.reason,
        gaps=history.gaps(start.trace, start.id, end.id),
        doubtful=_doubtful(history, chain),
        candidates=end.candidates,
        soundness=soundness_of(history, start.trace, start.id, end.id),
        caused=chain.caused,
        ranges=chain.ranges,
        slices=cut(history, start.trace, chain.ranges, tasks) if chain.ranges else [],
        names=lambda: history.names(start.trace, numbers),
        heights=lambda: by_participant(numbers, *history.members(start.trace, arrays)[1:]),
        check=lambda: _check_not_pruned(history, start),
    )


def _doubtful(history: History, chain: _Chain) -> str | None:
    if chain.relation is not Relation.concurrent:
        return None
    first, last = sorted((chain.start, chain.end), key=lambda event: event.id)
    span = history.doubtful(first.trace, first.id, last.id)
    return span.doubt(first.id, last.id, last.clock)


def _by_clocks(
    spark: SparkSession,
    database: DatabaseAddress,
    history: History,
    question: ChainQuestion,
    meter: Meter,
) -> _Chain:
    if question.form == "walk":
        raise JobError(Problem.bad_request, "The form walk follows links: ask via=links for it.")
    plan = make_plan(history, *question.ends, question.form)
    ranges: Sequence[Range] = []
    caused = False
    if not plan.is_empty:
        ranges = scan(spark, database, plan, meter) if plan.ranges is None else plan.ranges
        with suppress(TooFarError):
            caused = _ways(history, plan.start, plan.end, Via.links).lead()
    start, end = plan.start, plan.end
    return _Chain(plan.relation, start, end, plan.form, plan.reason, caused, ranges)


def _evident(
    database: DatabaseAddress, history: History, question: ChainQuestion, meter: Meter
) -> _Chain:
    if question.form == "ranges":
        raise JobError(
            Problem.bad_request,
            "The form ranges finds chains by clocks: ask via=any for it, or for the form walk.",
        )
    relation, start, end = ends_of(history, *question.ends)
    form: Form
    if relation is Relation.concurrent:
        # A link that was found after its effect had been stamped is in no clock.
        start, end = sorted((start, end), key=lambda event: event.id)
        form, reason, span = "walk", CONCURRENT, None
        with suppress(TooFarError):
            span = _ways(history, start, end, question.via).span()
    else:
        form, reason, span = _follow(database, history, question, (start, end), meter)
    if span is None:
        return _Chain(relation, start, end, form, reason, caused=False, ranges=[])
    ranges = ranges_of(span, chain_of(span, question.via))
    if ranges and relation is Relation.concurrent:
        relation = Relation.before if question.ends[0] == start.id else Relation.after
        reason = WALKED
    return _Chain(relation, start, end, form, reason, leads(span, Via.links), ranges)


def _follow(
    database: DatabaseAddress,
    history: History,
    question: ChainQuestion,
    ends: tuple[ChainEnd, ChainEnd],
    meter: Meter,
) -> tuple[Form, str, SpanColumns | None]:
    """The form, why, and events among which the chain is; None if there is no chain."""
    start, end = ends
    if question.form != "scan":
        ways = _ways(history, start, end, question.via)
        with suppress(TooFarError):
            return "walk", WALKED, ways.span(None if question.form else MOST_WALKED)
    meter.enter("following", 2.0)
    part = Slice(start.trace, start.id, end.id)
    span, _ = span_of(read(database, columns_for(question.via), part), question.via)
    return "scan", READ.format(span=end.id - start.id + 1), span


def _ways(history: History, start: ChainEnd, end: ChainEnd, via: Via) -> Ways:
    return Ways(history.connection, start.trace, (start.id, end.id), via)


def numbers_of(ranges: Iterable[Range]) -> list[int]:
    """The participants of some ranges, each once."""
    return sorted({run.participant for run in ranges})


def soundness_of(history: History, trace: int, first_id: int, last_id: int) -> Soundness:
    """The soundness of an answer's span."""
    uninformed = history.split_participants(trace, first_id, last_id)
    doubts = doubts_of(
        history.assumed_participants(trace, first_id, last_id),
        history.misfit(trace),
        uninformed,
        history.missed_links(trace, uninformed),
        history.late(trace, first_id, last_id),
    )
    return Soundness(doubts, history.quiet(trace, first_id, last_id))


def by_participant(numbers: Iterable[int], participants: Longs, heights: Longs) -> dict[int, Longs]:
    """Heights by participant, in the order in which they come."""
    return {int(number): heights[participants == number] for number in numbers}


def _check_not_pruned(history: History, start: ChainEnd) -> None:
    # Retention removes the smallest ids first: if the first event is still there, all are.
    if not history.exists(start.id):
        raise JobError(
            Problem.not_found,
            f"Event {start.id} was pruned while its chain was read, so nothing was written;"
            " choose a later event.",
        )
