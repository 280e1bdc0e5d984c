"""Whether assertions hold over a period, with what shows that they do not.

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
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from model.assertions import After, Assertion, LeadsTo, Verdict, from_json, to_json
from model.assertions.missing import may_lack
from model.gaps import Gap
from model.times import iso_time
from model.words import Via
from spark_jobs.failures import explained
from spark_jobs.history import MAX_ID
from spark_jobs.period import Period
from spark_jobs.progress import Meter
from spark_jobs.reports.asserting.by_clocks import by_clocks
from spark_jobs.reports.asserting.by_links import by_links
from spark_jobs.reports.request import Json, Made, ReportRequest

# Of each assertion, this many of what does not hold, or is not known, are shown: the newest.
MOST_SHOWN = 100
NOTHING_SEEN = "nothing was recorded in the period"
NEVER_SEEN = "no message of this type was recorded"
HAS_GAPS = "the period has gaps, in which others may be missing"
PRUNED = "what the period began with is not stored any more"


class Tally(NamedTuple):
    """What an assertion came to: how often, and the newest of what does not hold or is unknown."""

    counts: Counter[str]
    shown: list[Json]


def make(spark: SparkSession, request: ReportRequest, period: Period, meter: Meter) -> Made:
    """The verdict of each assertion of ``asked["assertions"]``, along ``asked["via"]``."""
    assertions = [from_json(value) for value in request.asked["assertions"]]
    via = Via(request.asked["via"])
    tallies = [Tally(Counter(), []) for _ in assertions]
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
    verdicts = Counter(result["verdict"] for result in results)
    facts = {
        "verdict": _of_all(verdicts),
        **{str(each): verdicts[str(each)] for each in Verdict},
    }
    return Made(facts, {"results": results})


def _of_all(verdicts: Counter[str]) -> str:
    for verdict in (Verdict.violated, Verdict.unknown):
        if verdicts[str(verdict)]:
            return str(verdict)
    return str(Verdict.holds)


def missing_of(period: Period, gaps: Sequence[Gap]) -> str | None:
    """Why the period may have had more than is stored of it; None if it cannot."""
    if period.ids is None:
        return NOTHING_SEEN
    if period.gaps or may_lack(gaps, period.since, period.until - 1):
        return HAS_GAPS
    oldest = period.history.oldest(period.trace)
    if period.ids[0] <= oldest and period.history.is_pruned(period.trace):
        return PRUNED
    return None


def result_of(assertion: Assertion, tally: Tally, missing: str | None) -> Json:
    """What an assertion comes to; ``missing`` says why there may have been more."""
    counts = {str(verdict): tally.counts[str(verdict)] for verdict in Verdict}
    verdict = _of_all(Counter({name: count for name, count in counts.items() if count}))
    why = None
    if verdict == Verdict.holds:
        is_about_each = isinstance(assertion.what, LeadsTo | After)
        if missing is None and is_about_each and not any(counts.values()):
            missing = NEVER_SEEN
        if missing is not None:
            verdict, why = str(Verdict.unknown), missing
    shown = sorted(tally.shown, key=lambda one: (one["verdict"] != Verdict.violated, -one["event"]))
    return {
        "assertion": to_json(assertion),
        "verdict": verdict,
        "why": why,
        **counts,
        "items": shown[:MOST_SHOWN],
        "truncated": counts["violated"] + counts["unknown"] > len(shown[:MOST_SHOWN]),
    }


def _add(tallies: Sequence[Tally], frame: DataFrame) -> None:
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
            tallies[row["assertion"]].shown.append(_item(row))
    finally:
        found.unpersist()


def _item(row: Any) -> Json:
    return {
        "verdict": row["verdict"],
        "event": row["event"],
        "root": row["root"],
        "at": iso_time(row["at"]),
        "sentence": row["sentence"],
        "others": json.loads(row["others"]),
    }
