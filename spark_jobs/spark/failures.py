"""Spark's errors, in the words of whoever asked for a job."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from model.jobs import Problem
from spark_jobs.errors import JobError, SparkGoneError

OWN_ERROR = re.compile(r"\bJobError: (.+)")
UNAVAILABLE = re.compile(
    r"SparkContext (was|has been) (shut down|stopped)|stopped SparkContext|"
    r"All masters are unresponsive|Connection refused|UNAVAILABLE",
    re.IGNORECASE,
)
CANCELLED = re.compile(r"cancell?ed|interrupted|OPERATION_CANCELED", re.IGNORECASE)
MEMORY = re.compile(r"OutOfMemoryError|Java heap space|maxResultSize")


@contextmanager
def spark_errors() -> Iterator[None]:
    """Turn what Spark raises into a JobError with a sentence."""
    try:
        yield
    except (PySparkException, Py4JError, OSError) as error:
        raise job_error(error) from error


def job_error(error: Exception) -> JobError:
    """The reason behind one of Spark's errors, its own text cut to the first line."""
    text = str(error)
    if match := OWN_ERROR.search(text):  # we raised it in an executor
        return JobError(Problem.outage, match[1].strip())
    if MEMORY.search(text):
        return SparkGoneError("Spark ran out of memory; raise ITC_SPARK_MEMORY and ask again.")
    if UNAVAILABLE.search(text) or isinstance(error, OSError):
        return SparkGoneError(
            "Spark went away in mid-job; check that it and its master are up, and ask again."
        )
    if CANCELLED.search(text):
        return JobError(Problem.cancelled, "The job was cancelled.")
    return JobError(Problem.failed, f"Spark could not finish the job: {in_short(text)}")


def in_short(text: str) -> str:
    """The message of one of Spark's errors, without the stack."""
    lines = [line.strip(" :\t") for line in text.strip().splitlines()] or [""]
    # py4j begins with what was called, and only then says what went wrong.
    sentence = lines[1] if lines[0].startswith("An error occurred") and len(lines) > 1 else lines[0]
    return sentence[:500]
