"""The time it takes to find a rule: ``python -m bench.correlate FOLDER [EVENTS…] [--key NAME]``.

In each store (100,000, 1,000,000 and 5,000,000 events, made in the folder if they are not there
yet) four services hand orders on, twenty at a time; messages carry a key and eight fields that are
none (`bench.applications`). The report runs on two cores in a session that is warm; the time is
that of the job, the memory the most that all processes of Spark had at once.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from app.tracker.links import Rules
from bench.applications import Application
from bench.stores import VHOST, fill
from spark_jobs.kinds import run_job
from spark_jobs.progress import silent
from spark_jobs.session import SparkSettings, open_session

SIZES = (100_000, 1_000_000, 5_000_000)
NAMES = ("order-id", "causation")
EVENTS_OF_ORDER = 10
END = 10**16


def stored(folder: Path, name: str, events: int) -> str:
    """The store of this many events, made if it is missing; its URL."""
    path = folder / f"{name}-{events}.db"
    if not path.exists():
        part = path.with_suffix(".part")
        records = Application(name, events // EVENTS_OF_ORDER).records()
        asyncio.run(fill(f"sqlite+aiosqlite:///{part}", islice(records, events), Rules(())))
        part.rename(path)
    return f"sqlite+aiosqlite:///{path}"


class Watch:
    """The most memory that this process and all below it have had (MB), and their processor time.

    The latter in seconds, of all processors; both while it is open. ``own`` is the most of this
    process alone, ``largest`` that of any below it.
    """

    def __init__(self) -> None:
        self.most = self.own = self.largest = 0
        self.seconds = 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Watch:
        self.seconds = -_seconds()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self.seconds += _seconds()

    def _look(self) -> None:
        while not self._ended.wait(0.5):
            memory = _memory()
            self.most = max(self.most, sum(memory.values()))
            self.own = max(self.own, memory.pop(os.getpid(), 0))
            self.largest = max(self.largest, *memory.values(), 0)


def _family() -> Iterator[tuple[Path, list[str]]]:
    """This process and all below it, with the fields of their `stat` from the third on."""
    running: dict[int, tuple[Path, list[str]]] = {}
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended
            fields = (path / "stat").read_text().rpartition(")")[2].split()
            running[int(path.name)] = path, fields
    own = {os.getpid()}
    while more := {pid for pid, (_, its) in running.items() if int(its[1]) in own} - own:
        own |= more
    yield from (running[pid] for pid in own)


def _seconds() -> float:
    ticks = sum(sum(map(int, fields[11:15])) for _, fields in _family())
    return ticks / os.sysconf("SC_CLK_TCK")


def _memory() -> dict[int, int]:
    """Megabytes by process; of pages that several have, to each its share."""
    sizes = {}
    for path, _ in _family():
        try:
            text = (path / "smaps_rollup").read_text()
        except OSError:
            continue
        found = text.partition("\nPss:")[2].split()
        sizes[int(path.name)] = int(found[0]) >> 10 if found else 0
    return sizes


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m bench.correlate")
    parser.add_argument("folder", type=Path, help="where the stores are kept")
    parser.add_argument("events", type=int, nargs="*", default=SIZES, help="sizes of the stores")
    parser.add_argument("--key", choices=NAMES, nargs="+", default=NAMES, help="what joins them")
    given = parser.parse_args()
    folder = given.folder
    folder.mkdir(parents=True, exist_ok=True)
    urls = {(name, size): stored(folder, name, size) for size in given.events for name in given.key}
    spark = open_session(SparkSettings(master="local[2]", memory="1g"))
    print("| events | looked at | key | found | seconds | of processors | MB |")
    print("|---|---|---|---|---|---|---|")
    for (name, size), url in urls.items():
        output = folder / "report.json"
        work = {
            "report": "correlations",
            "id": "0" * 16,
            "vhost": VHOST,
            "since": 0,
            "until": END,
            "output": str(output),
            "asked": {},
        }
        with Watch() as watch:
            begin = time.perf_counter()
            run_job(spark, url, "report", work, silent)
            seconds = time.perf_counter() - begin
        found = json.loads(output.read_bytes())
        kinds = ", ".join(each["kind"] for each in found["proposals"])
        print(
            f"| {size:,} | {found['looked_at']:,} | {name} | {kinds} | {seconds:.1f}"
            f" | {watch.seconds:.0f} | {watch.most:,} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
