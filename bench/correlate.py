"""How long it takes to find a rule: ``python -m bench.correlate FOLDER [EVENTS…]``.

In each store (100,000, 1,000,000 and 5,000,000 events, made in the folder if they are not there
yet) four services hand orders on, twenty at a time; messages carry a key and eight fields that are
none (`bench.applications`). The report runs on two cores in a session that is warm; the time is
that of the job, the memory the most that all processes of Spark had at once.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
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


class Memory:
    """The most memory that this process and those below it have had, in MB, while it is open."""

    def __init__(self) -> None:
        self.most = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Memory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(0.2):
            self.most = max(self.most, _memory() >> 10)


def _memory() -> int:
    """Kilobytes of all processes of this session, shared pages by their share."""
    group = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[3]
    total = 0
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if (path / "stat").read_text().rpartition(")")[2].split()[3] == group:
                text = (path / "smaps_rollup").read_text()
                total += int(text.partition("\nPss:")[2].split()[0])
        except (OSError, IndexError):
            continue  # it has ended
    return total


def main() -> None:
    """Print the table."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    sizes = [int(each) for each in sys.argv[2:]] or SIZES
    urls = {(name, size): stored(folder, name, size) for size in sizes for name in NAMES}
    spark = open_session(SparkSettings(master="local[2]", memory="1g"))
    print("| events | looked at | key | found | seconds | MB |")
    print("|---|---|---|---|---|---|")
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
        with Memory() as memory:
            begin = time.perf_counter()
            run_job(spark, url, "report", work, silent)
            seconds = time.perf_counter() - begin
        found = json.loads(output.read_bytes())
        kinds = ", ".join(each["kind"] for each in found["proposals"])
        print(
            f"| {size:,} | {found['looked_at']:,} | {name} | {kinds} | {seconds:.1f}"
            f" | {memory.most:,} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
