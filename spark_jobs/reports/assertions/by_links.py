"""Judges what messages and links show, conversation by conversation."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from model.assertions.assertion import Assertion, Precedence
from model.assertions.judging import Causation, Judgement, judge, needs_clocks
from model.assertions.missing import matters, may_lack
from model.gaps import Gap
from model.words import Via
from spark_jobs.chains.history import MAX_ID
from spark_jobs.reports.assertions.rows import FOUND, batch_of, row_of
from spark_jobs.reports.gathering import ConversationRows, each, gathered
from spark_jobs.reports.period import Period
from spark_jobs.reports.request import ReportRequest

# So many findings are handed on together: of one conversation each assertion may have thousands.
MOST_TOGETHER = 10_000


class Breaks(NamedTuple):
    """Effects that messages and links may have had without a sign of it.

    These are ``doubtful`` deliveries, as gaps, and those of ``equal`` publishes, of which nobody
    knows whose they are; None if there are too many.
    """

    doubtful: Sequence[Gap] = ()
    equal: frozenset[int] | None = frozenset()

    def are_in(self, events: Collection[int]) -> bool:
        """Tell whether one of these events may have a delivery that is not known to be its."""
        return self.equal is None or not self.equal.isdisjoint(events)


def _breaks(period: Period) -> Breaks:
    if period.ids is None:
        return Breaks()
    history, trace, first = period.history, period.trace, period.ids[0]
    doubtful = history.doubtful(trace, first, MAX_ID).gaps()
    return Breaks(doubtful, history.with_equals(trace, first))


def by_links(
    spark: SparkSession,
    request: ReportRequest,
    period: Period,
    via: Via,
    assertions: Sequence[Assertion],
    through: int,
    gaps: Sequence[Gap],
) -> Iterator[DataFrame]:
    """The findings in the conversations that began in a period.

    ``through`` is when the newest event was recorded (µs), ``gaps`` are all that are known.
    """
    judged = [(n, one) for n, one in enumerate(assertions) if not needs_clocks(one)]
    if not judged:
        return
    frame = gathered(spark, request.database, period, via)
    if frame is None:
        return

    breaks = _breaks(period)
    since, until = period.since, period.until  # the period's store is not for tasks

    def findings(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for told in each(batches, via):
            root = told.conversation.root
            # Blocks of ids are no exact bounds.
            if not since <= told.conversation.began_at < until:
                continue
            rows = (
                row_of(number, finding, root, told.rows[finding.event]["recorded_at"])
                for number, finding in found_in(told, judged, through, gaps, breaks)
            )
            while some := [*islice(rows, MOST_TOGETHER)]:
                yield batch_of(some)

    yield frame.mapInArrow(findings, FOUND)


def found_in(
    told: ConversationRows,
    judged: Iterable[tuple[int, Assertion]],
    through: int,
    gaps: Sequence[Gap],
    breaks: Breaks,
) -> Iterator[tuple[int, Judgement]]:
    """The findings in one conversation, each with the number of its assertion."""
    conversation = told.conversation
    ways = Causation(conversation, told.open_at)
    for number, assertion in judged:
        when = matters(assertion, conversation)
        has_gap = may_lack(gaps, *when)
        if not isinstance(assertion.what, Precedence):  # whose past says itself where it is open
            has_gap |= may_lack(breaks.doubtful, *when) or breaks.are_in(told.rows)
        found = judge(assertion, ways, read_until=through, has_gap=has_gap)
        for finding in found:
            yield number, finding
