"""Are all that were broken found, and no other: ``python -m bench.expectations FOLDER [ORDERS]``.

In each round 50 of 10,000 orders are broken on purpose (`bench.orders`): an invoice is missing, a
step comes twice, one comes before its approval, one is slow. The report ``expectations`` is made of
them, and what it calls out of the ordinary is held to what was broken.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from typing import Any

from app.jobs.reports import ReportKind, Reports
from app.store import Store
from app.stored.reading import EventFilter
from app.tracker.links import BUILT_IN, Rules
from bench.orders import BEGIN, SECOND, Orders
from bench.stores import VHOST, fill_timed
from spark_jobs.kinds import run_job
from spark_jobs.progress import silent
from spark_jobs.spark.session import SparkSettings, open_session

ORDERS, FAULTS = 10_000, 50
ROUNDS = 5
ASKED = {"via": "links", "wait": 3_600.0, "share": 0.95, "cases": 100, "rare": 0.01}


async def broken_in(url: str, orders: Orders) -> set[int]:
    """The first events of the orders that were broken."""
    store = await Store.open(url)
    try:
        found = set()
        for order in orders.broken:
            wanted = EventFilter(correlation_id=order)
            events = (await store.events.find(wanted, limit=1_000)).items
            found.add(min(event.id for event in events))
        return found
    finally:
        await store.close()


def report_of(spark: Any, url: str, folder: Path, orders: Orders) -> dict[str, Any]:
    """The report on all of the orders."""
    until = BEGIN + round(orders.count * orders.seconds_apart * 2 * SECOND) + 3_600 * SECOND
    reports = Reports(folder)
    request = reports.request(ReportKind.expectations, VHOST, BEGIN, until, "bench", ASKED)
    run_job(spark, url, "report", request.work, silent)
    return reports.get(request.work["id"])


def main(folder: Path, count: int) -> None:
    """Print a row for each round."""
    spark = open_session(SparkSettings(master="local[2]", memory="1g"))
    print("| round | orders | events | broken | found | of others | s |")
    print("|---|---|---|---|---|---|---|")
    for seed in range(ROUNDS):
        orders = Orders(count, FAULTS * count // ORDERS, seed)
        path = folder / f"orders-{count}-{seed}.db"
        path.unlink(missing_ok=True)
        url = f"sqlite:///{path}"
        records = list(orders.records())
        asyncio.run(fill_timed(url, records, Rules(BUILT_IN)))
        truth = asyncio.run(broken_in(url, orders))
        begin = time.perf_counter()
        report = report_of(spark, url, folder, orders)
        took = time.perf_counter() - begin
        found = {one["event"] for one in report["outliers"]}
        row = (seed, count, len(records), len(truth), len(found & truth), len(found - truth))
        print("|", " | ".join(f"{each:,}" for each in row), f"| {took:.1f} |", flush=True)


if __name__ == "__main__":
    stores = Path(sys.argv[1])
    stores.mkdir(parents=True, exist_ok=True)
    main(stores, int(sys.argv[2]) if len(sys.argv) > 2 else ORDERS)
