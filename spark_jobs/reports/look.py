"""A look at the newest of a trace's events for what ties its messages together, without Spark.

`spark_jobs.reports.beside` is the process that looks.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from model.reports.correlations import CorrelationReport
from spark_jobs.progress import Meter, silent
from spark_jobs.reports import period
from spark_jobs.reports.correlations_job import Gathering, at_once, correlated
from spark_jobs.reports.request import ReportRequest
from spark_jobs.spark.database import DatabaseAddress

ALWAYS = 10**16  # µs


def look(database: DatabaseAddress, vhost: str, events: int) -> CorrelationReport:
    """Find rules that the newest of a trace's events speak for; raises `JobError`."""
    request = ReportRequest(database, "correlations", "0" * 16, vhost, 0, ALWAYS, Path(os.devnull))
    with period.opened(database, vhost, 0, ALWAYS) as opened:
        newest = replace(opened, ids=_newest(opened, events))
        return correlated(Gathering(1, at_once), request, newest, Meter(silent))


def _newest(opened: period.Period, events: int) -> tuple[int, int] | None:
    if opened.ids is None:
        return None
    sql = (
        "SELECT coalesce(min(id), -1) AS first FROM (SELECT id FROM events"
        f" WHERE trace_id = {opened.trace} ORDER BY id DESC LIMIT {events}) AS newest"
    )
    first = int(opened.history.connection.rows(sql)[0]["first"])
    return max(first, opened.ids[0]), opened.ids[1]
