"""The cost of a chain along links beside one by clocks: ``python -m bench.links FOLDER [EVENTS…]``.

In each store (50,000 and 200,000 events, made in the folder if they are not there yet) sixteen
services hand requests on, a hundred of them at a time: five messages a request, each naming the one
before it in a header. The chain from a request's first publish to its last delivery has ten events
along links, and nearly everything between the two by clocks. The same ten are found by walking
through the index and by reading the whole span; each is measured for the same requests.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from app.tracker import Channel, Deliver, Publish, Record
from app.tracker.links import BUILT_IN, Rules
from bench.stores import fill
from model.words import Via
from spark_jobs.database import Connection, DatabaseAddress
from spark_jobs.following import chain_of
from spark_jobs.history import History
from spark_jobs.plan import make_plan
from spark_jobs.ranges import Ranges
from spark_jobs.slices import Slice
from spark_jobs.source import read
from spark_jobs.spans import columns_for, span_of
from spark_jobs.walking import Ways

SIZES = (50_000, 200_000)
SERVICES, AT_ONCE, HOPS = 16, 100, 5
REQUESTS = 20

Result = TypeVar("Result")


def traffic(events: int) -> Iterator[Record]:
    """Publishes and deliveries of requests that take turns."""
    chance = random.Random(events)
    services = [
        Channel("rabbit@bench", f"10.0.0.{number}:40000 -> 10.0.9.1:5672", 1, f"user-{number}")
        for number in range(SERVICES)
    ]
    under_way: list[tuple[int, Channel, int]] = []  # the last message, who has it, hops so far
    for message in range(1, events // 2 + 1):
        cause, sender, hops = 0, chance.choice(services), 0
        if len(under_way) >= AT_ONCE:
            cause, sender, hops = under_way.pop(chance.randrange(AT_ONCE))
        receiver = chance.choice(services)
        queue = f"queue-{receiver.user}"
        headers = {"causation_id": f"message {cause}"} if cause else {}
        properties = {"message_id": f"message {message}", "headers": headers}
        yield Publish(sender, "", (queue,), (queue,), properties, b"{}")
        yield Deliver(receiver, "", (queue,), queue, False, properties, b"{}")
        if hops + 1 < HOPS:
            under_way.append((message, receiver, hops + 1))


def stored(folder: Path, events: int) -> DatabaseAddress:
    """The store of this many events, made if it is missing."""
    path = folder / f"links-{events}.db"
    if not path.exists():
        asyncio.run(
            fill(f"sqlite:///{path.with_suffix('.part')}", traffic(events), Rules(BUILT_IN))
        )
        path.with_suffix(".part").rename(path)
    return DatabaseAddress.from_url(f"sqlite:///{path}")


def requests(connection: Connection, events: int) -> list[tuple[int, int]]:
    """The first and the last events of some requests from the middle of the store."""
    backwards = {row["effect_id"]: row["cause_id"] for row in _rows(connection, "edges")}
    received = {row["id"]: row["cause_id"] for row in _rows(connection, "events")}
    found = []
    for last in sorted(each for each in received if each > events // 2):
        at, hops = received[last], 1
        while at in backwards:
            at, hops = received[backwards[at]], hops + 1
        if hops == HOPS:
            found.append((at, last))
    return random.Random(1).sample(found, REQUESTS)


def _rows(connection: Connection, table: str) -> list[dict[str, int]]:
    if table == "edges":
        return connection.rows("SELECT effect_id, cause_id FROM edges")
    return connection.rows("SELECT id, cause_id FROM events WHERE cause_id IS NOT NULL")


def by_walk(connection: Connection, ends: tuple[int, int]) -> int:
    """Count the events of the chain along links, found through the index."""
    span = Ways(connection, 1, ends, Via.links).between()
    return 0 if span is None else int(chain_of(span, Via.links).sum())


def by_scan(connection: Connection, ends: tuple[int, int]) -> int:
    """The same, by reading the span."""
    batches = read(connection.database, columns_for(Via.links), Slice(1, *ends))
    return int(chain_of(span_of(batches, Via.links)[0], Via.links).sum())


def by_clocks(connection: Connection, ends: tuple[int, int]) -> int:
    """Count the events of the chain by clocks, looked up and listed."""
    history = History(connection)
    plan = make_plan(history, *ends, "ranges")
    return len(history.members(plan.start.trace, Ranges.of(plan.ranges or []))[0])


def timed(
    work: Callable[[Connection, tuple[int, int]], int],
    connection: Connection,
    asked: list[tuple[int, int]],
) -> tuple[float, float]:
    """Median ms, and median size of the answer."""
    times, sizes = [], []
    for ends in asked:
        begin = time.perf_counter()
        sizes.append(work(connection, ends))
        times.append(1000 * (time.perf_counter() - begin))
    return statistics.median(times), statistics.median(sizes)


def main() -> None:
    """Print the table."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    print("| events | span of ids | found by | events found | ms (p50) |")
    print("|---|---|---|---|---|")
    for events in [int(each) for each in sys.argv[2:]] or SIZES:
        with stored(folder, events).connect() as connection:
            asked = requests(connection, events)
            span = statistics.median(last - first for first, last in asked)
            for name, work in (("walk", by_walk), ("scan", by_scan), ("clocks", by_clocks)):
                ms, size = timed(work, connection, asked)
                print(f"| {events:,} | {span:,.0f} | {name} | {size:,.0f} | {ms:.2f} |")
            whole = [(asked[0][0], events), (1, asked[0][1])]
            for name, work in (("walk", by_walk), ("clocks", by_clocks)):
                ms, size = timed(work, connection, whole)
                print(f"| {events:,} | half | {name} | {size:,.0f} | {ms:.2f} |")


if __name__ == "__main__":
    main()
