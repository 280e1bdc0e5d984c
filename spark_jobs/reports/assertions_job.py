"""Verdicts on assertions over a period, with what shows that they do not hold.

What messages and links show is judged conversation by conversation (`model.assertions.judging`),
of those that began in the period. What needs clocks is judged from the publishes and deliveries of
the period alone: which messages of two types are concurrent, for each value of a key, and which
deliveries have no message of a type in their past at all. Concurrent is said of events only where
the record is complete and sound; elsewhere the answer is that it is not known.
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
from model.gaps import Gap
from model.reports.assertions import AssertionReport, AssertionResult, ShownCase
from model.words import Via
from spark_jobs.chains.history import MAX_ID
from spark_jobs.progress import Meter
from spark_jobs.reports.assertions.by_clocks import by_clocks
from spark_jobs.reports.assertions.by_links import by_links
from spark_jobs.reports.period import Period
from spark_jobs.reports.request import ReportRequest
from spark_jobs.spark.failures import explained

# Of each assertion, this many of what does not hold, or is not known, are shown: the newest.
MOST_SHOWN = 100
NOTHING_SEEN = "nothing was recorded in the period"
NEVER_SEEN = "no message of this type was recorded"
HAS_GAPS = "the period has gaps, in which others may be missing"
PRUNED = "what the period began with is not stored any more"


class AssertionTally(NamedTuple):
    """The tally of an assertion: how often, and the newest of what does not hold or is unknown."""

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
    through = newest[1] if newest else 0
    gaps = period.history.gaps_in_time(period.trace, 0, MAX_ID)
    frames = [
        *by_links(spark, request, period, via, assertions, through, gaps),
        *by_clocks(spark, request, period, via, assertions, gaps),
    ]
    for number, frame in enumerate(frames):
        with explained():
            _add(tallies, frame)
        meter.enter("counting", 5.0 + 90.0 * (number + 1) / len(frames))
    missing = missing_of(period, gaps)
    results = [
        result_of(assertion, tally, missing)
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


def missing_of(period: Period, gaps: Sequence[Gap]) -> str | None:
    """Explain why the period may have had more than is stored of it; None if it cannot."""
    if period.ids is None:
        return NOTHING_SEEN
    if period.gaps or may_lack(gaps, period.since, period.until - 1):
        return HAS_GAPS
    oldest = period.history.oldest(period.trace)
    if period.ids[0] <= oldest and period.history.is_pruned(period.trace):
        return PRUNED
    return None


def result_of(assertion: Assertion, tally: AssertionTally, missing: str | None) -> AssertionResult:
    """The result of an assertion; ``missing`` says why there may have been more."""
    counts = _counts(tally.counts)
    verdict = _of_all(tally.counts)
    why = None
    if verdict is AssertionVerdict.holds:
        is_about_each = isinstance(assertion.what, LeadsTo | Precedence | Acknowledged)
        if missing is None and is_about_each and not any(counts.values()):
            missing = NEVER_SEEN
        if missing is not None:
            verdict, why = AssertionVerdict.unknown, missing
    cases = sorted(
        tally.cases, key=lambda one: (one.verdict is not AssertionVerdict.violated, -one.event)
    )
    return AssertionResult(
        assertion=to_json(assertion),
        verdict=verdict,
        why=why,
        **counts,
        items=cases[:MOST_SHOWN],
        truncated=counts["violated"] + counts["unknown"] > len(cases[:MOST_SHOWN]),
    )


def _add(tallies: Sequence[AssertionTally], frame: DataFrame) -> None:
    """Add what a frame of findings holds."""
    found = frame.persist()
    try:
        counted = found.groupBy("assertion", "verdict").agg(F.sum("count").alias("count"))
        for row in counted.collect():
            tallies[row["assertion"]].counts[row["verdict"]] += row["count"]
        # Of all assertions at once: each query more would go through all that was found.
        newest = Window.partitionBy("assertion").orderBy(
            F.col("verdict") != "violated", F.desc("event")
        )
        shown = found.where(F.col("event").isNotNull())
        numbered = shown.withColumn("place", F.row_number().over(newest))
        for row in numbered.where(F.col("place") <= MOST_SHOWN).collect():
            tallies[row["assertion"]].cases.append(_case(row))
    finally:
        found.unpersist()


def _case(row: Row) -> ShownCase:
    found = {each.name: row[each.name] for each in fields(ShownCase)}
    others = json.loads(row["others"])
    return ShownCase(**found | {"verdict": AssertionVerdict(row["verdict"]), "others": others})
