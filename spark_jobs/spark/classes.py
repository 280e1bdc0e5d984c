"""Spark's Java classes, read and verified beforehand: half of what the JVM does when it starts.

Java keeps them in an archive that fits one Java, one Spark and one folder of jars. It is made by
``python -m spark_jobs.spark.classes``, by the Dockerfile or, where there is none, by a worker that
has nothing to do. It lies with the installed packages, which are as trusted as it has to be. Java
checks whether it fits, and starts without it if it does not.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from model.jobs import Problem
from spark_jobs.errors import JobError
from spark_jobs.spark.java import FOLDER, SUFFIX, archive_of, check_java
from spark_jobs.spark.session import SparkSettings, open_session

PART = "making-"
# The JVM's time to write the archive when it ends: 4 s on an idle machine.
WRITE_SECONDS = 120.0
LOWEST_PRIORITY = 19


def make(folder: Path = FOLDER) -> Path | None:
    """Make the archive; None if another process is making it, the archive if it was there.

    Raises `JobError` if Spark does not start, `OSError` if the folder cannot be written to,
    `subprocess.TimeoutExpired` if Java is not done in time.
    """
    archive = archive_of(check_java(), folder)
    if archive.exists():
        return archive
    with _alone(folder) as alone:
        if not alone:
            return None
        for leftover in folder.glob(f"{PART}*"):  # by a process that was killed
            shutil.rmtree(leftover, ignore_errors=True)
        part = Path(tempfile.mkdtemp(prefix=PART, dir=folder))
        try:
            _run_spark(part / archive.name)
            for old in folder.glob(f"*{SUFFIX}"):
                old.unlink()
            (part / archive.name).rename(archive)
        finally:
            shutil.rmtree(part, ignore_errors=True)
    return archive


def make_in_background(folder: Path = FOLDER) -> subprocess.Popen[bytes] | None:
    """Start making the archive when nothing else needs the machine; None if there is no need."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if archive_of(check_java(), folder).exists() or not os.access(folder, os.W_OK):
            return None
        command = (sys.executable, "-m", "spark_jobs.spark.classes")
        maker = subprocess.Popen(command, stdin=subprocess.DEVNULL)
        os.setpriority(os.PRIO_PROCESS, maker.pid, LOWEST_PRIORITY)
    except (OSError, JobError):  # then Spark starts as it did
        return None
    return maker


@contextmanager
def _alone(folder: Path) -> Iterator[bool]:
    """Tell whether no other process is making an archive in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def _run_spark(archive: Path) -> None:
    """Use what jobs use, and have the JVM write down which classes that took."""
    from pyspark import SparkContext
    from pyspark.sql import functions as F

    spark = open_session(SparkSettings(master="local[2]"), classes_to=archive)
    gateway: Any = SparkContext._gateway
    numbers = spark.range(100, numPartitions=2)
    copies = numbers.mapInArrow(lambda batches: batches, "id bigint")
    copies.toArrow()
    pairs = copies.join(F.broadcast(numbers), "id").repartition(2, "id")
    pairs.sortWithinPartitions("id").groupBy("id").agg(F.count("id").alias("n")).orderBy(
        F.desc("n")
    ).collect()
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()  # the JVM ends when its stdin does
    try:
        gateway.proc.wait(WRITE_SECONDS)
    finally:
        gateway.proc.kill()  # nothing, if it has ended
    if not archive.exists():
        raise JobError(Problem.failed, "Java wrote no archive of Spark's classes.")


def main() -> int:
    """Make the archive; returns the exit code."""
    try:
        archive = make()
    except (JobError, OSError, subprocess.TimeoutExpired) as error:
        print(error, file=sys.stderr)
        return 1
    print(archive or "Another process is making it.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
