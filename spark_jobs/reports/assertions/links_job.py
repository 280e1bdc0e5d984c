"""Verdicts on Spark by messages and links, conversation by conversation."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from model.assertions.assertion import Assertion, Precedence
from model.assertions.judging import Causation, Judgement, judge, needs_clocks
from model.assertions.missing import matters, may_lack
from model.blocks import MAX_ID
from model.gaps import Gap
from model.words import Via
from spark_jobs.reports.assertions.findings import FINDINGS, batch_of, row_of
from spark_jobs.reports.conversations import ConversationRows, conversations_in
from spark_jobs.reports.conversations_job import conversation_events
from spark_jobs.reports.period import Period
from spark_jobs.reports.report_request import ReportRequest

# Findings handed on together: of one conversation each assertion may have thousands.
MOST_TOGETHER = 10_000


class Breaks(NamedTuple):
    """Doubtful deliveries, as gaps, and publishes that equal others; None if these are too many.

    Messages and links may have had effects there without a sign of it.
    """

    doubtful: Sequence[Gap] = ()
    equal: frozenset[int] | None = frozenset()

    def are_in(self, events: Collection[int]) -> bool:
        """Tell whether a delivery of one of these events may be attributed to another."""
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
    newest_at: int,
    gaps: Sequence[Gap],
) -> Iterator[DataFrame]:
    """The findings in the conversations that began in a period.

    ``newest_at`` is when the newest event was recorded (µs), ``gaps`` are all that are known.
    """
    numbered = [
        (n, assertion) for n, assertion in enumerate(assertions) if not needs_clocks(assertion)
    ]
    if not numbered:
        return
    frame = conversation_events(spark, request.database, period, via)
    if frame is None:
        return

    breaks = _breaks(period)
    begin, end = period.since, period.until  # the period's store is not for tasks

    def findings(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for gathered_rows in conversations_in(batches, via):
            root = gathered_rows.conversation.root
            # Blocks of ids are no exact bounds.
            if not begin <= gathered_rows.conversation.began_at < end:
                continue
            rows = (
                row_of(number, judgement, root, gathered_rows.rows[judgement.event]["recorded_at"])
                for number, judgement in findings_in(
                    gathered_rows, numbered, newest_at, gaps, breaks
                )
            )
            while chunk := [*islice(rows, MOST_TOGETHER)]:
                yield batch_of(chunk)

    yield frame.mapInArrow(findings, from_arrow_schema(FINDINGS))


def findings_in(
    gathered_rows: ConversationRows,
    numbered: Iterable[tuple[int, Assertion]],
    newest_at: int,
    gaps: Sequence[Gap],
    breaks: Breaks,
) -> Iterator[tuple[int, Judgement]]:
    """The findings in one conversation, each with the number of its assertion."""
    conversation = gathered_rows.conversation
    causation = Causation(conversation, gathered_rows.open_at)
    for number, assertion in numbered:
        span = matters(assertion, conversation)
        has_gap = may_lack(gaps, *span)
        # The past of a precedence shows itself where it is open.
        if not isinstance(assertion.requirement, Precedence):
            has_gap |= may_lack(breaks.doubtful, *span) or breaks.are_in(gathered_rows.rows)
        for judgement in judge(assertion, causation, read_until=newest_at, has_gap=has_gap):
            yield number, judgement
