"""Finds a chain between two stored events, with Spark where the span has to be read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import SparkSession

from itc import Relation
from model.exports import CONCURRENT
from model.jobs import Problem
from model.ways import TooFarError
from model.words import Via
from spark_jobs.chains.in_memory import SpanColumns, chain_of, leads, ranges_of
from spark_jobs.chains.plan import Form, Plan, ends_of, make_plan
from spark_jobs.chains.search import ChainQuestion, ChainResult, by_participant, numbers_of
from spark_jobs.chains.span_columns import columns_for, span_of
from spark_jobs.chains.walk import MOST_WALKED, Ways
from spark_jobs.errors import JobError
from spark_jobs.events.history import ChainEnd, History
from spark_jobs.events.ranges import Range, Ranges, compare_rows, merge_ranges
from spark_jobs.events.slices import Slice, cut
from spark_jobs.events.slices_job import CLOCKS, map_slices, slices_of, tasks_at_a_time
from spark_jobs.events.source import Batches, read
from spark_jobs.progress import Meter
from spark_jobs.spark.database import DatabaseAddress
from spark_jobs.spark.failures import spark_errors

WALKED = "Messages and links were followed from both ends, through the index."
READ = "The span of {span} ids was read, and followed event by event."


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
        soundness=history.soundness(start.trace, start.id, end.id),
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


def _check_not_pruned(history: History, start: ChainEnd) -> None:
    # Retention removes the smallest ids first: if the first event is still there, all are.
    if not history.exists(start.id):
        raise JobError(
            Problem.not_found,
            f"Event {start.id} was pruned while its chain was read, so nothing was written;"
            " choose a later event.",
        )


# Compared slices have tiny answers.
COMPARED_IN_WAVE = 256


RANGES = ", ".join(f"{name} bigint" for name in Range._fields)


def scan(spark: SparkSession, database: DatabaseAddress, plan: Plan, meter: Meter) -> list[Range]:
    """The chain's ranges, found by comparing the clocks of the whole span."""
    slices = slices_of(spark, plan.start.trace, plan.start.id, plan.end.id)
    ranges: list[Range] = []
    for start in range(0, len(slices), COMPARED_IN_WAVE):
        meter.enter("comparing", 5.0 + 30.0 * start / len(slices))
        with spark_errors():
            wave = slices[start : start + COMPARED_IN_WAVE]
            frame = map_slices(spark, database, CLOCKS, wave, _comparer(plan), RANGES)
            table = frame.toArrow()
        ranges += (Range(*row) for row in zip(*table.to_pydict().values(), strict=True))
    return merge_ranges(ranges)


def _comparer(plan: Plan) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    bounds, start = plan.bounds, plan.start.dot

    def ranges(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            ids, participants, heights, seqs = (batch.column(k).to_numpy() for k in range(4))
            clocks = batch.column(4).to_pylist()
            rows = compare_rows(ids, participants, heights, seqs, clocks, bounds, start)
            yield _as_batch(Range._fields, rows)

    return ranges


def _as_batch(names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True) if rows else ([] for _ in names)
    return pa.RecordBatch.from_arrays(
        [pa.array(list(column), pa.int64()) for column in columns], names=list(names)
    )
