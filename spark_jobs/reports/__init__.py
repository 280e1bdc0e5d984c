"""Reports on a period, as JSON files: what each kind finds, and what is said of all alike.

A kind is a function from a period to what it found; here that becomes a file with the period, what
may be missing of it, and what it rests on.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TypeAlias

from pyspark.sql import SparkSession

from model.times import iso_time, now
from spark_jobs import period
from spark_jobs.export import write_file
from spark_jobs.period import Period
from spark_jobs.progress import Meter, Report, silent
from spark_jobs.reports import assertions, correlations, order
from spark_jobs.reports.request import Json, Made, ReportRequest

Kind: TypeAlias = Callable[[SparkSession, ReportRequest, Period, Meter], Made]

REPORTS: dict[str, Kind] = {
    "races": order.make,
    "inversions": order.make,
    "assertions": assertions.make,
    "correlations": correlations.make,
}


def run(spark: SparkSession, request: ReportRequest, report: Report = silent) -> Json:
    """Make a report, write it, and return what the file holds except the lists."""
    meter = Meter(report)
    meter.enter("planning", 0.0)
    with period.opened(request.database, request.vhost, request.since, request.until) as opened:
        meter.enter("counting", 5.0)
        made = REPORTS[request.report](spark, request, opened, meter)
    facts = _facts(request, opened, made)
    meter.enter("finishing", 99.0)
    write_file(request.output, json.dumps({**facts, **made.lists}).encode() + b"\n")
    # Last, so what can be seen of a report is there.
    write_file(request.output.with_suffix(".facts"), json.dumps(facts).encode() + b"\n")
    return facts


def _facts(request: ReportRequest, opened: Period, made: Made) -> Json:
    return {
        "id": request.id,
        "report": request.report,
        "vhost": request.vhost,
        "since": iso_time(request.since),
        "until": iso_time(request.until),
        **request.asked,
        "made_at": iso_time(now()),
        **made.facts,
        "complete": not opened.gaps,
        "gaps": [gap.to_json() for gap in opened.gaps],
        **opened.sound.to_json(),
    }
