"""The warm worker: one Spark session in a process of its own, jobs one after another.

The service starts ``python -m spark_jobs.worker`` and talks to it in lines of JSON. The first line
on stdin is the settings; then come ``{"do": "run", "id", "kind", "request"}`` and ``{"do":
"cancel", "id"}``. On stdout it says ``{"say": "ready"}``, then for each job ``progress``, and in
the end ``done`` with the result or ``error`` with the problem and a sentence, and with ``leaving``
if Spark is of no more use, so that the worker ends. What Spark prints goes to stderr. When stdin
ends the service is gone, and the worker ends too.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import sys
import threading
from dataclasses import asdict
from typing import IO, TYPE_CHECKING, Any, TypeAlias

from model.jobs import Problem
from spark_jobs.errors import JobError, SparkGoneError
from spark_jobs.spark.classes import make_in_background
from spark_jobs.spark.session import SparkSettings, open_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from model.jobs import Progress
    from spark_jobs.progress import Report

Json: TypeAlias = dict[str, Any]

# A job's time to remove its half-written file when the service is gone.
LEAVE_SECONDS = 5.0
# After this long without a job the machine may have time to make Spark's next start shorter.
QUIET_SECONDS = 60.0
# Spark's time for an empty job, after one that failed.
TRIAL_SECONDS = 20.0
START_FAILED, SPARK_GONE = 3, 4


class Worker:
    """Reads requests on one thread, runs jobs on another."""

    def __init__(self, requests: IO[str], answers: IO[str]) -> None:
        self._requests = requests
        self._answers = answers
        self._answering = threading.Lock()
        self._queue: queue.SimpleQueue[Json] = queue.SimpleQueue()
        self._cancelled: set[int] = set()
        self._leaving = threading.Event()
        self._idle = threading.Event()
        self._spark: SparkSession | None = None
        self._has_archived = False

    def serve(self) -> None:
        """Work until stdin ends. Leaves by ``os._exit``: Spark's threads would keep us."""
        settings = json.loads(self._requests.readline() or "{}")
        self._idle.set()
        threading.Thread(target=self._work, args=(settings,), daemon=True).start()
        for line in self._requests:
            self._take(json.loads(line))
        self._leaving.set()
        self._interrupt()
        self._idle.wait(LEAVE_SECONDS)
        os._exit(0)

    def _take(self, message: Json) -> None:
        if message["do"] == "run":
            self._queue.put(message)
        elif message["do"] == "cancel":
            self._cancelled.add(message["id"])
            self._interrupt()

    def _interrupt(self) -> None:
        """Stop what Spark is doing; if it is doing nothing, the next progress stops the job."""
        if self._spark is not None:
            self._spark.interruptAll()

    def _work(self, settings: Json) -> None:
        threading.Thread(target=_import_jobs, daemon=True).start()
        try:
            self._spark = spark = open_session(SparkSettings(**settings["spark"]))
            warm_up(spark, settings["database_url"])
        except JobError as error:
            self._say("error", id=None, problem=error.problem, reason=str(error))
            os._exit(START_FAILED)
        except Exception as error:  # noqa: BLE001 - silence would make the service wait for ever
            reason = f"Spark did not start: {type(error).__name__}: {error}"
            self._say("error", id=None, problem=Problem.failed, reason=reason)
            os._exit(START_FAILED)
        self._say("ready")
        while True:
            message = self._next()
            self._idle.clear()
            self._run(spark, settings["database_url"], message)
            self._idle.set()

    def _next(self) -> Json:
        """Wait for a job. If none comes for a while, Spark's classes are archived meanwhile."""
        if not self._has_archived:
            try:
                return self._queue.get(timeout=QUIET_SECONDS)
            except queue.Empty:
                self._has_archived = True
                make_in_background()
        return self._queue.get()

    def _run(self, spark: SparkSession, database_url: str, message: Json) -> None:
        job = message["id"]
        try:
            from spark_jobs.kinds import run_job  # slow to import, so it began beside Spark's start

            kind, request = message["kind"], message["request"]
            result = run_job(spark, database_url, kind, request, self._reporter(job))
        except SparkGoneError as error:
            self._say("error", id=job, problem=error.problem, reason=str(error), leaving=True)
            os._exit(SPARK_GONE)
        except JobError as error:
            problem = Problem.cancelled if job in self._cancelled else error.problem
            self._report_failure(spark, job, problem, str(error))
        except Exception as error:  # noqa: BLE001 - a bug ends its own job, not the next
            reason = f"The job broke off: {type(error).__name__}: {error}"
            self._report_failure(spark, job, Problem.failed, reason)
        else:
            self._say("done", id=job, result=result)
        self._cancelled.discard(job)

    def _report_failure(self, spark: SparkSession, job: int, problem: Problem, reason: str) -> None:
        """Report a failed job, and leave if Spark fails with an empty one, too."""
        leaving = problem is Problem.failed and not works(spark)
        self._say("error", id=job, problem=problem, reason=reason, leaving=leaving)
        if leaving:
            os._exit(SPARK_GONE)

    def _reporter(self, job: int) -> Report:
        def report(progress: Progress) -> None:
            if job in self._cancelled or self._leaving.is_set():
                raise JobError(Problem.cancelled, "The job was cancelled.")
            self._say("progress", id=job, **asdict(progress))

        return report

    def _say(self, word: str, **facts: Any) -> None:
        with self._answering:
            self._answers.write(json.dumps({"say": word, **facts}) + "\n")
            self._answers.flush()


def _import_jobs() -> None:
    """Import what jobs need while the JVM starts; if it fails, the job itself will say so."""
    with contextlib.suppress(Exception):
        import pyspark.sql  # noqa: F401 - as a whole, before the other thread takes parts of it

        import spark_jobs.kinds  # noqa: F401


def warm_up(spark: SparkSession, database_url: str) -> None:
    """Run an empty job: the first real one finds classes loaded and Python workers running."""
    from spark_jobs.formats.renderer_job import touch
    from spark_jobs.spark.database import DatabaseAddress

    try:
        touch(spark, DatabaseAddress.from_url(database_url))
    except SparkGoneError:
        raise
    except JobError:  # the store may be away now; the first job that needs it will say so
        return


def works(spark: SparkSession) -> bool:
    """Tell whether Spark still does an empty job, Python workers included, within its time.

    A stopped part of Spark fails jobs with too many different texts to tell by these.
    """
    finished = threading.Event()

    def trial() -> None:
        with contextlib.suppress(Exception):
            spark.range(1).mapInArrow(lambda batches: batches, "id bigint").toArrow()
            finished.set()

    thread = threading.Thread(target=trial, daemon=True)
    thread.start()
    thread.join(TRIAL_SECONDS)
    return finished.is_set()


def main() -> None:
    """Serve the process that started us."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # nothing else may print between the answers
    Worker(sys.stdin, answers).serve()


if __name__ == "__main__":
    main()
