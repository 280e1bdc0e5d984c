"""A process that looks for what ties a trace's messages together: ``python -m spark_jobs.looking``.

It reads its order from the first line of stdin, answers with one line on stdout, and ends. It works
beside capture: with the lowest priority, with bounds on its memory and its processor's time, and
without Spark. It says nothing if it comes to a bound.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from model.described import shown
from model.reports.correlations import CorrelationReport
from spark_jobs import period
from spark_jobs.database import DatabaseAddress
from spark_jobs.errors import JobError
from spark_jobs.progress import Meter, silent
from spark_jobs.reports.correlations import Gathering, at_once, correlated
from spark_jobs.reports.request import ReportRequest

ALWAYS = 10**16  # µs
# Bounds of this process. Memory is what it may write to; a look at 50,000 events takes a quarter.
MEMORY = 1 << 30
PROCESSOR_SECONDS = 60


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


def _within_bounds() -> None:
    with suppress(OSError):
        os.nice(19)
    for what, most in (
        (resource.RLIMIT_DATA, MEMORY),
        (resource.RLIMIT_CPU, PROCESSOR_SECONDS),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(what)[1]
        bound = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (bound, bound))


def main() -> None:
    """Look once."""
    _within_bounds()
    order: dict[str, Any] = json.loads(sys.stdin.readline())
    database = DatabaseAddress.from_url(order["database_url"])
    try:
        found = look(database, order["vhost"], order["events"])
    except JobError as error:
        print(json.dumps({"say": "error", "reason": str(error)}))
        return
    print(json.dumps({"say": "done", "result": shown(found)}))


if __name__ == "__main__":
    main()
