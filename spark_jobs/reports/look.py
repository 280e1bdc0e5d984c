"""A look at a trace's newest events for rules of links, in one process without Spark."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from model.reports.correlations import CorrelationReport
from spark_jobs.progress import Meter, silent
from spark_jobs.reports.correlations import correlate
from spark_jobs.reports.period import Period, open_period
from spark_jobs.reports.report_request import ReportRequest
from spark_jobs.reports.value_rows import Gathering, gather_here
from spark_jobs.spark.database import DatabaseAddress

END_OF_TIME = 10**16  # µs


def look(database: DatabaseAddress, vhost: str, events: int) -> CorrelationReport:
    """The correlations of a trace's newest events; raises `JobError`."""
    request = ReportRequest(
        database, "correlations", "0" * 16, vhost, 0, END_OF_TIME, Path(os.devnull)
    )
    with open_period(database, vhost, 0, END_OF_TIME) as period:
        newest = replace(period, ids=_newest(period, events))
        return correlate(Gathering(1, gather_here), request, newest, Meter(silent))


def _newest(period: Period, events: int) -> tuple[int, int] | None:
    if period.ids is None:
        return None
    sql = (
        "SELECT coalesce(min(id), -1) AS first FROM (SELECT id FROM events"
        f" WHERE trace_id = {period.trace} ORDER BY id DESC LIMIT {events}) AS newest"
    )
    first = int(period.history.connection.rows(sql)[0]["first"])
    return max(first, period.ids[0]), period.ids[1]
