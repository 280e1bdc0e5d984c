"""Reports on a period, as JSON files: each kind is a function from a period to its report."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TypeAlias

from pyspark.sql import SparkSession

from model.described import json_as, json_of
from model.reports.facts import ReportFacts
from spark_jobs.export import write_file
from spark_jobs.progress import Meter, Report, silent
from spark_jobs.reports import (
    assertions_job,
    comparison_job,
    correlations_job,
    expectations_job,
)
from spark_jobs.reports.period import Period, open_period
from spark_jobs.reports.report_request import Json, ReportRequest

Kind: TypeAlias = Callable[[SparkSession, ReportRequest, Period, Meter], ReportFacts]

REPORTS: dict[str, Kind] = {
    "assertions": assertions_job.make,
    "correlations": correlations_job.make,
    "expectations": expectations_job.make,
    "comparison": comparison_job.make,
}


def run(spark: SparkSession, request: ReportRequest, report: Report = silent) -> Json:
    """Make a report, write it, and return it without its lists."""
    meter = Meter(report)
    meter.enter("planning", 0.0)
    with open_period(request.database, request.vhost, request.since, request.until) as period:
        meter.enter("counting", 5.0)
        result = REPORTS[request.report](spark, request, period, meter)
    # A report's class is that of its facts, with lists.
    facts = json_as(type(result).__mro__[1], result)
    meter.enter("finishing", 99.0)
    write_file(request.output, json.dumps(json_of(result)).encode() + b"\n")
    # Last: a report is listed by its facts.
    write_file(request.output.with_suffix(".facts"), json.dumps(facts).encode() + b"\n")
    return facts
