"""A process that looks for what ties a trace's messages together.

It reads its order from the first line of stdin, answers with one line on stdout, and ends. It works
beside capture: with the lowest priority, an eighth of the time, with bounds on its memory and its
processor's time, and without Spark. It says nothing if it comes to a bound.
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
        # A core that only does this counts as free: who wakes does not queue behind another.
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    # Even so it takes caches and memory from those who have work to do: it rests in between.
    signal.signal(signal.SIGPROF, lambda *_: time.sleep(PAUSES_SECONDS))
    signal.setitimer(signal.ITIMER_PROF, WORKS_SECONDS, WORKS_SECONDS)
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
    # What takes more than a second to load is loaded within the bounds, too.
    from model.described import json_of
    from spark_jobs.errors import JobError
    from spark_jobs.reports.look import look
    from spark_jobs.spark.database import DatabaseAddress

    order: dict[str, Any] = json.loads(sys.stdin.readline())
    database = DatabaseAddress.from_url(order["database_url"])
    try:
        found = look(database, order["vhost"], order["events"])
    except JobError as error:
        print(json.dumps({"say": "error", "reason": str(error)}))
        return
    print(json.dumps({"say": "done", "result": json_of(found)}))


if __name__ == "__main__":
    main()
