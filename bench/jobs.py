"""Jobs by how much is stored: ``python -m bench.jobs STORE…``, of those that `bench.scale` makes.

All of a store as an archive, a chain of some thousand events, how messages are tied together, and
what of the orders is out of the ordinary: each once, or those of ``--jobs``, on two cores in a
session that is warm, from SQLite. With ``--cluster`` these are two workers of a standalone cluster
with a core each. Seconds, those of all processors, and the most memory, MB: of all processes, of
the driver's Python, and of the largest other one, which is the driver's JVM or an executor.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from app.jobs.reports import ReportKind, Reports
from bench.chain import SHORT, chain_of
from bench.expectations import ASKED
from bench.processes import Watch
from bench.stores import FIRST_TIME, VHOST
from spark_jobs.events.history import History
from spark_jobs.formats.renderer_job import touch
from spark_jobs.kinds import run_job
from spark_jobs.progress import silent
from spark_jobs.spark.database import DatabaseAddress
from spark_jobs.spark.session import SparkSettings, open_session
from tools.servers.spark import SparkCluster

END = 10**16


def jobs(database: DatabaseAddress, folder: Path) -> dict[str, tuple[str, dict[str, Any]]]:
    """The jobs by name: kind and request."""
    with database.connect() as connection:
        # A store that was measured has been removed from.
        (row,) = connection.rows("SELECT min(id) AS oldest, max(id) AS newest FROM events")
        middle = (row["oldest"] + row["newest"]) // 2
        first, to = chain_of(History(connection), middle, SHORT, row["newest"])
    reports = Reports(folder)

    def report(kind: ReportKind, asked: dict[str, Any]) -> dict[str, Any]:
        return reports.request(kind, VHOST, FIRST_TIME, END, "bench", asked).work

    chain = {"from": first, "to": to, "output": str(folder / "chain.jsonl"), "format": "jsonl"}
    archive = {"vhost": VHOST, "before": END, "archives": str(folder / "archives")}
    return {
        "archive": ("archive", archive),
        "chain": ("chain", chain),
        "correlations": ("report", report(ReportKind.correlations, {})),
        "expectations": ("report", report(ReportKind.expectations, ASKED)),
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("store", type=Path, nargs="+")
    parser.add_argument("--cluster", action="store_true")
    parser.add_argument("--jobs", nargs="+", help="only these")
    parser.add_argument("--memory", default="1g", help="the heap of the JVM, and of each executor")
    asked = parser.parse_args()
    settings = SparkSettings(master="local[2]", memory=asked.memory)
    with ExitStack() as stack:
        if asked.cluster:
            cluster = SparkCluster()
            stack.callback(cluster.close)
            cluster.start()
            settings = SparkSettings(cluster.master, memory=asked.memory, secret=cluster.secret)
        measure(asked.store, settings, asked.jobs)


def measure(stores: Sequence[Path], settings: SparkSettings, only: Sequence[str] | None) -> None:
    """Print the rows of each store."""
    spark = open_session(settings)
    print("| store | job | seconds | of processors | MB | driver | largest |")
    print("|---|---|---|---|---|---|---|")
    for store in stores:
        url = f"sqlite:///{store.absolute()}"
        database = DatabaseAddress.from_url(url)
        touch(spark, database)
        with tempfile.TemporaryDirectory(dir=store.parent) as folder:
            made = jobs(database, Path(folder))
            for name in only or made:
                kind, request = made[name]
                with Watch() as watch:
                    begin = time.perf_counter()
                    run_job(spark, url, kind, request, silent)
                    seconds = time.perf_counter() - begin
                row = (watch.seconds, watch.most, watch.own, watch.largest)
                said = " | ".join(f"{each:,.0f}" for each in row)
                print(f"| {store.stem} | {name} | {seconds:,.1f} | {said} |")
                sys.stdout.flush()
    spark.stop()  # before its cluster is


if __name__ == "__main__":
    main()
