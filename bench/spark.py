"""The cost of jobs on Spark: ``python -m bench.spark FOLDER [EVENTS [CHECKOUT]]``.

From nothing to a finished chain and a warm job, through the worker that the service starts, on the
store of this many events (5,000,000) that `bench.chain` keeps in the folder, made there if it is
missing; then the whole store to Parquet. Another checkout's worker takes turns with ours, so that
what changed is compared in one run; both need their compiled modules. The last line is the one for
docs/measurements.md. On two idle cores it takes 3 minutes, and as long again to make the store.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from bench.chain import SHORT, chain_of, stored
from bench.processes import Watch, cpu_of_all
from model.exports import FORMATS
from spark_jobs.chain import ChainRequest, run
from spark_jobs.events.history import History
from spark_jobs.formats.renderer_job import touch
from spark_jobs.spark.database import DatabaseAddress
from spark_jobs.spark.session import SparkSettings, open_session

HERE = Path(__file__).resolve().parent.parent
EVENTS = 5_000_000
ROUNDS, WARM_JOBS = 5, 10


class Taken(NamedTuple):
    """Seconds from nothing to a finished chain, of them processor time, and a warm job's."""

    cold: float
    processor: float
    warm: float


def taken_by(checkout: Path, url: str, ends: tuple[int, int]) -> Taken:
    """Start a checkout's worker, and have it do the same chain several times."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        request = {"from": ends[0], "to": ends[1], "output": f"{folder}/c.jsonl", "format": "jsonl"}
        begin, before = time.perf_counter(), cpu_of_all()
        worker = started(checkout, folder)
        tell(worker, {"database_url": url, "spark": {"master": "local[2]"}})
        run_job(worker, 0, request)
        cold, processor = time.perf_counter() - begin, cpu_of_all() - before
        warm = [timed_job(worker, number, request) for number in range(1, WARM_JOBS + 1)]
        worker.communicate()
    return Taken(cold, processor, median(warm))


def started(checkout: Path, folder: str) -> subprocess.Popen[str]:
    """A checkout's worker, with a temporary folder of its own."""
    places = {"SPARK_LOCAL_DIRS": folder, "TMPDIR": folder, "PYTHONPATH": str(checkout)}
    return subprocess.Popen(
        [sys.executable, "-m", "spark_jobs.worker"],
        cwd=checkout,
        env={**os.environ, **places},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def tell(worker: subprocess.Popen[str], message: dict[str, Any]) -> None:
    """Send the worker a line."""
    assert worker.stdin is not None
    worker.stdin.write(json.dumps(message) + "\n")
    worker.stdin.flush()


def run_job(worker: subprocess.Popen[str], number: int, request: dict[str, Any]) -> None:
    """Run a chain job to its end."""
    assert worker.stdout is not None
    tell(worker, {"do": "run", "id": number, "kind": "chain", "request": request})
    for line in worker.stdout:
        said = json.loads(line)
        if said["say"] == "error":
            raise SystemExit(said["reason"])
        if said["say"] == "done":
            return
    raise SystemExit("the worker ended")


def timed_job(worker: subprocess.Popen[str], number: int, request: dict[str, Any]) -> float:
    """Seconds of one job."""
    begin = time.perf_counter()
    run_job(worker, number, request)
    return time.perf_counter() - begin


def compare(url: str, ends: tuple[int, int], checkouts: Sequence[Path]) -> list[Taken]:
    """The medians of each checkout's rounds."""
    rounds = [[taken_by(each, url, ends) for each in checkouts] for _ in range(ROUNDS)]
    print("\n| checkout | from nothing, s | processor, s | a warm job, s |")
    print("|---|---|---|---|")
    found = []
    for checkout, times in zip(checkouts, zip(*rounds, strict=True), strict=True):
        middle = Taken(*(median(values) for values in zip(*times, strict=True)))
        print(f"| {checkout} | {middle.cold:.1f} | {middle.processor:.1f} | {middle.warm:.3f} |")
        found.append(middle)
    return found


def whole_store(database: DatabaseAddress, events: int) -> tuple[float, int]:
    """Everything between the store's first event and one of its last, to Parquet.

    :returns: rows per second, and the most memory (MB).
    """
    spark = open_session(SparkSettings(master="local[2]"))
    touch(spark, database)
    with tempfile.TemporaryDirectory() as folder, Watch() as watch:
        begin = time.perf_counter()
        output = Path(folder) / "all.parquet"
        summary = run(spark, ChainRequest(database, 1, events, output, FORMATS["parquet"]))
        seconds = time.perf_counter() - begin
    spark.stop()
    return summary.events / seconds, watch.most


def main() -> None:
    """Print the tables and the line."""
    folder, events = Path(sys.argv[1]), int(sys.argv[2]) if sys.argv[2:] else EVENTS
    folder.mkdir(parents=True, exist_ok=True)
    # The archive, as an installation has it; by a process of its own, whose Java it ends.
    subprocess.run([sys.executable, "-m", "spark_jobs.spark.classes"], check=True)
    database = stored(folder, events)
    with database.connect() as connection:
        ends = chain_of(History(connection), events // 2, SHORT, events)
    url = f"sqlite:///{database.file}"
    ours, *_ = compare(url, ends, [HERE, *map(Path, sys.argv[3:])])
    rows, memory = whole_store(database, events)
    print(
        f"\nFrom nothing to a finished chain: {ours.cold:.1f} s; a warm job for a short chain:"
        f" {ours.warm:.2f} s; {events:,} events to Parquet: {rows:,.0f} rows/s, at most"
        f" {memory:,} MB of memory."
    )


if __name__ == "__main__":
    main()
