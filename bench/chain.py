"""The time that chains take: ``python -m bench.chain FOLDER [SMALL [MIDDLE [LARGE]]]``.

Three stores of 64 gossiping participants (100,000, 1,000,000 and 5,000,000 events) are made in the
folder if they are not there yet, without a broker, through the tracker and the store's batch
writer. It prints, each side in the same run:

- a short chain in the small and in the large store: its cost should depend on the answer alone;
- the planner against decoding and comparing every row, and against a recursive SQL query over
  cause links, for a short chain and for one of half the store; all three find the same ids.

On two cores the stores take about ten minutes to make; existing ones (``100k.db``, ``1m.db``,
``5m.db``) are used as they are. What Spark takes for chains is in `bench.spark`.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from bench.stores import build
from itc import unpack
from spark_jobs.chains.plan import Plan, look_up, make_plan, read_span
from spark_jobs.events.history import History
from spark_jobs.events.ranges import Range, Ranges
from spark_jobs.spark.database import Connection, DatabaseAddress

SIZES = (100_000, 1_000_000, 5_000_000)
SHORT = 1_000
ROUNDS = 5

Result = TypeVar("Result")


def stored(folder: Path, events: int) -> DatabaseAddress:
    """The store of this many events, made if it is missing."""
    path = folder / f"{name_of(events)}.db"
    if not path.exists():
        part = path.with_suffix(".part")
        speed = asyncio.run(build(f"sqlite:///{part}", events))
        part.rename(path)
        print(f"made {path}: {speed:,.0f} events/s", file=sys.stderr)
    return DatabaseAddress.from_url(f"sqlite:///{path}")


def name_of(events: int) -> str:
    """The name of a store of this many events: 100k, 5m."""
    for unit, word in ((1_000_000, "m"), (1_000, "k")):
        if events % unit == 0:
            return f"{events // unit}{word}"
    return str(events)


def timed(work: Callable[[], Result], rounds: int = ROUNDS) -> tuple[float, Result]:
    """Seconds of the fastest, least disturbed round, and the result of the last."""
    seconds = []
    for _ in range(rounds):
        begin = time.perf_counter()
        result = work()
        seconds.append(time.perf_counter() - begin)
    return min(seconds), result


def size_of(plan: Plan) -> int:
    """Count the events of the planned chain."""
    return sum(each.events for each in plan.ranges or [])


def chain_of(history: History, first: int, about: int, last: int) -> tuple[int, int]:
    """The ends of a chain from ``first`` on with about this many events, before ``last``."""
    low, high = first + 1, last
    while low < high:
        middle = (low + high) // 2
        if size_of(make_plan(history, first, middle, "ranges")) < about:
            low = middle + 1
        else:
            high = middle
    return first, low


def by_planner(connection: Connection, first: int, last: int) -> set[int]:
    """The chain's ids through the index."""
    history = History(connection)
    plan = make_plan(history, first, last, "ranges")
    return set(history.members(plan.start.trace, Ranges.from_ranges(plan.ranges or []))[0].tolist())


def by_look_ups(connection: Connection, first: int, last: int) -> set[int]:
    """The chain's ids with both ends of each range looked up through the index."""
    return _ids(connection, first, last, look_up)


def by_reading(connection: Connection, first: int, last: int) -> set[int]:
    """The chain's ids by comparing heights in the packed clocks of the whole span."""
    return _ids(connection, first, last, read_span)


def _ids(
    connection: Connection, first: int, last: int, find: Callable[[History, Plan], list[Range]]
) -> set[int]:
    history = History(connection)
    plan = make_plan(history, first, last, "scan")  # finds no ranges yet
    return set(
        history.members(plan.start.trace, Ranges.from_ranges(find(history, plan)))[0].tolist()
    )


def by_decoding(connection: Connection, first: int, last: int) -> set[int]:
    """The chain's ids by building every event's clock and comparing it with both ends'."""
    history = History(connection)
    start, end = (unpack(history.event(each).clock) for each in (first, last))
    found = set()
    for batch in connection.query("SELECT id, clock FROM events", 20_000):
        for event, clock in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            stamp = unpack(clock)
            if start.leq(stamp) and stamp.leq(end):
                found.add(event)
    return found


RECURSIVE = """
WITH RECURSIVE
past (id) AS (
  SELECT {last}
  UNION
  SELECT link.id FROM past JOIN events e ON e.id = past.id JOIN events link
    ON link.id = e.cause_id OR link.id = (
      SELECT b.id FROM events b WHERE b.trace_id = e.trace_id AND b.participant = e.participant
        AND b.height < e.height ORDER BY b.height DESC LIMIT 1)
  WHERE link.id >= {first}
),
future (id) AS (
  SELECT {first}
  UNION
  SELECT link.id FROM future JOIN events e ON e.id = future.id JOIN events link
    ON link.cause_id = e.id OR link.id = (
      SELECT b.id FROM events b WHERE b.trace_id = e.trace_id AND b.participant = e.participant
        AND b.height > e.height ORDER BY b.height LIMIT 1)
  WHERE link.id <= {last}
)
SELECT id FROM past INTERSECT SELECT id FROM future
"""


def by_recursion(connection: Connection, first: int, last: int) -> set[int]:
    """The chain's ids by following cause links and each participant's order both ways."""
    batches = connection.query(RECURSIVE.format(first=first, last=last), 65_536)
    return {event for batch in batches for event in batch.column(0).to_pylist()}


# What the planner is compared with, and in how many rounds.
OTHERS = (
    ("its look-ups", by_look_ups, ROUNDS),
    ("its reading of the whole span", by_reading, ROUNDS),
    ("recursive SQL", by_recursion, ROUNDS),
    ("decode and compare every row", by_decoding, 1),
)


def growth(folder: Path, small: int, large: int) -> None:
    """The same answer from two stores."""
    print("\n| a chain of about 1,000 events in a store of | events | seconds | ratio |")
    print("|---|---|---|---|")
    base = None
    for events in (small, large):
        with stored(folder, events).connect() as connection:
            ends = chain_of(History(connection), events // 2, SHORT, events)
            seconds, found = timed(lambda c=connection, e=ends: by_planner(c, *e), 10 * ROUNDS)  # type: ignore[misc]
        base = base or seconds
        print(f"| {events:,} | {len(found):,} | {seconds:.4f} | {seconds / base:.2f} |")


def ways(folder: Path, events: int) -> None:
    """The planner against all other ways."""
    print(f"\n| {events:,} events, 64 participants | chain | seconds | ratio |")
    print("|---|---|---|---|")
    with stored(folder, events).connect() as connection:
        history = History(connection)
        half = chain_of(history, 1, events // 2, events)
        for ends in (chain_of(history, events // 2, SHORT, events), half):
            base, truth = timed(lambda e=ends: by_planner(connection, *e))  # type: ignore[misc]
            print(f"| planner | {len(truth):,} | {base:.4f} | 1 |")
            for name, way, rounds in OTHERS:
                seconds, found = timed(lambda w=way, e=ends: w(connection, *e), rounds)  # type: ignore[misc]
                if found != truth:
                    raise SystemExit(f"{name} disagrees: {len(found)} against {len(truth)} events")
                print(f"| {name} | {len(found):,} | {seconds:.4f} | {seconds / base:.1f} |")


def main() -> None:
    """Print the tables."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    given = [int(each) for each in sys.argv[2:]]
    small, middle, large = [*given, *SIZES[len(given) :]]
    growth(folder, small, large)
    ways(folder, middle)


if __name__ == "__main__":
    main()
