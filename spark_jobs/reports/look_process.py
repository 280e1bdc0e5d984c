"""The process of a look (`look`): reads an order from stdin, and answers with a line on stdout.

It works beside capture, without Spark: at the lowest priority, an eighth of the time, within bounds
on memory and processor time. It does not answer if it reaches a bound.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import time
from contextlib import suppress
from typing import Any

# Bounds of this process. Memory is what it may write to; a look at 50,000 events takes a quarter.
MEMORY = 1 << 30
PROCESSOR_SECONDS = 60
WORKS_SECONDS, PAUSES_SECONDS = 0.025, 0.175


def _within_bounds() -> None:
    with suppress(OSError):
        os.nice(19)
        # A core that only does this counts as free: other work does not queue behind it.
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    # Even so it takes caches and memory from other work: it rests in between.
    signal.signal(signal.SIGPROF, lambda *_: time.sleep(PAUSES_SECONDS))
    signal.setitimer(signal.ITIMER_PROF, WORKS_SECONDS, WORKS_SECONDS)
    for kind, ceiling in (
        (resource.RLIMIT_DATA, MEMORY),
        (resource.RLIMIT_CPU, PROCESSOR_SECONDS),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(kind)[1]
        limit = ceiling if hard == resource.RLIM_INFINITY else min(ceiling, hard)
        resource.setrlimit(kind, (limit, limit))


def main() -> None:
    _within_bounds()
    # Loaded within the bounds, too: it takes more than a second.
    from model.described import json_of
    from spark_jobs.errors import JobError
    from spark_jobs.reports.look import look
    from spark_jobs.spark.database import DatabaseAddress

    order: dict[str, Any] = json.loads(sys.stdin.readline())
    database = DatabaseAddress.from_url(order["database_url"])
    try:
        report = look(database, order["vhost"], order["events"])
    except JobError as error:
        print(json.dumps({"say": "error", "reason": str(error)}))
        return
    print(json.dumps({"say": "done", "result": json_of(report)}))


if __name__ == "__main__":
    main()
