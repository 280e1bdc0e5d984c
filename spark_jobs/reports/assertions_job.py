"""The report ``assertions``: verdicts over a period, with the cases that violate them.

Assertions about messages and links are judged conversation by conversation
(`model.assertions.judging`), for conversations that began in the period. Those that need clocks are
judged from the period's publishes and deliveries alone: which messages of two types are concurrent,
for each value of a key, and which deliveries have no message of a type in their past.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import fields
from typing import NamedTuple

from pyspark.sql import DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as F

from model.assertions.assertion import Acknowledged, Assertion, LeadsTo, Precedence
from model.assertions.judging import AssertionVerdict
from model.assertions.language import from_json, to_json
from model.assertions.missing import may_lack
from model.blocks import MAX_ID
from model.gaps import Gap
from model.reports.assertions import AssertionReport, AssertionResult, ShownCase
from model.words import Via
from spark_jobs.progress import Meter
from spark_jobs.reports.assertions.clocks_job import by_clocks
from spark_jobs.reports.assertions.links_job import by_links
from spark_jobs.reports.period import Period
from spark_jobs.reports.report_request import ReportRequest
from spark_jobs.spark.failures import spark_errors

# The newest cases of each assertion that do not hold, or are unknown.
MOST_SHOWN = 100
NOTHING_SEEN = "nothing was recorded in the period"
NEVER_SEEN = "no message of this type was recorded"
HAS_GAPS = "the period has gaps, in which others may be missing"
PRUNED = "what the period began with is not stored any more"


class AssertionTally(NamedTuple):
    """Counts of an assertion's verdicts, and its newest cases that do not hold or are unknown."""

    counts: Counter[str]
    cases: list[ShownCase]


def make(
    spark: SparkSession, request: ReportRequest, period: Period, meter: Meter
) -> AssertionReport:
    """The verdict of each assertion of ``asked["assertions"]``, along ``asked["via"]``."""
    assertions = [from_json(value) for value in request.asked["assertions"]]
    via = Via(request.asked["via"])
    tallies = [AssertionTally(Counter(), []) for _ in assertions]
    newest = period.history.newest_until(period.trace, MAX_ID)
    newest_at = newest[1] if newest else 0
    gaps = period.history.gaps_in_time(period.trace, 0, MAX_ID)
    frames = [
        *by_links(spark, request, period, via, assertions, newest_at, gaps),
        *by_clocks(spark, request, period, via, assertions, gaps),
    ]
    for number, frame in enumerate(frames):
        with spark_errors():
            _add(tallies, frame)
        meter.enter("counting", 5.0 + 90.0 * (number + 1) / len(frames))
    reason = reason_incomplete(period, gaps)
    results = [
        result_of(assertion, tally, reason)
        for assertion, tally in zip(assertions, tallies, strict=True)
    ]
    verdicts = Counter(result.verdict.value for result in results)
    return AssertionReport(
        **request.facts(period) | _counts(verdicts), verdict=_of_all(verdicts), results=results
    )


def _of_all(verdicts: Counter[str]) -> AssertionVerdict:
    for verdict in (AssertionVerdict.violated, AssertionVerdict.unknown):
        if verdicts[verdict]:
            return verdict
    return AssertionVerdict.holds


def _counts(verdicts: Counter[str]) -> dict[str, int]:
    return {verdict.name: verdicts[verdict] for verdict in AssertionVerdict}


def reason_incomplete(period: Period, gaps: Sequence[Gap]) -> str | None:
    """The reason why the period may have had more events than are stored; None for none."""
    if period.ids is None:
        return NOTHING_SEEN
    if period.gaps or may_lack(gaps, period.since, period.until - 1):
        return HAS_GAPS
    oldest = period.history.oldest(period.trace)
    if period.ids[0] <= oldest and period.history.is_pruned(period.trace):
        return PRUNED
    return None


def result_of(assertion: Assertion, tally: AssertionTally, reason: str | None) -> AssertionResult:
    """The result of an assertion; ``reason`` is why there may have been more."""
    counts = _counts(tally.counts)
    verdict = _of_all(tally.counts)
    if verdict is not AssertionVerdict.holds:
        reason = None
    elif reason is None and not any(counts.values()):
        is_about_each = isinstance(assertion.requirement, LeadsTo | Precedence | Acknowledged)
        reason = NEVER_SEEN if is_about_each else None
    if reason is not None:
        verdict = AssertionVerdict.unknown
    cases = sorted(
        tally.cases, key=lambda case: (case.verdict is not AssertionVerdict.violated, -case.event)
    )
    return AssertionResult(
        assertion=to_json(assertion),
        verdict=verdict,
        why=reason,
        **counts,
        items=cases[:MOST_SHOWN],
        truncated=counts["violated"] + counts["unknown"] > len(cases[:MOST_SHOWN]),
    )


def _add(tallies: Sequence[AssertionTally], frame: DataFrame) -> None:
    findings = frame.persist()
    try:
        sums = findings.groupBy("assertion", "verdict").agg(F.sum("count").alias("count"))
        for row in sums.collect():
            tallies[row["assertion"]].counts[row["verdict"]] += row["count"]
        # One query for all assertions: each further one would read all findings again.
        newest = Window.partitionBy("assertion").orderBy(
            F.col("verdict") != "violated", F.desc("event")
        )
        cases = findings.where(F.col("event").isNotNull())
        numbered = cases.withColumn("rank", F.row_number().over(newest))
        for row in numbered.where(F.col("rank") <= MOST_SHOWN).collect():
            tallies[row["assertion"]].cases.append(_case(row))
    finally:
        findings.unpersist()


def _case(row: Row) -> ShownCase:
    values = {column.name: row[column.name] for column in fields(ShownCase)}
    events = json.loads(row["others"])
    return ShownCase(**values | {"verdict": AssertionVerdict(row["verdict"]), "others": events})
