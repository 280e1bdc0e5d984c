"""Counts of events in each part of a period.

The newest events are counted one by one, up to `MOST_COUNTED` ids. Of those before them only the
times of their blocks are read, and each block's events are spread evenly over its time: good enough
to draw. Blocks do not say whose their events are, so that is only done where all are asked for.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

import msgspec
from sqlalchemy import BigInteger, Select, func, literal_column, select
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.database import tables
from app.store.database.times import clamp, ids_between
from app.stored.reading import NO_EVENTS, Bucket, EventFilter, Histogram
from model.blocks import BLOCK, block_of
from model.times import Duration, Microseconds
from model.words import EventType, Match

_blocks = tables.blocks.c
_events = tables.events.c
_traces = tables.traces.c

# Counting this many takes a quarter of a second on SQLite.
MOST_COUNTED = 50 * BLOCK

SHORTEST = 1_000  # µs; the least width of a bucket


# From an id (None: all) to queries, without columns, of the filter's events from there on.
Queries: TypeAlias = Callable[[int | None], Awaitable[Sequence[Select[Any]]]]


async def _stored_extent(
    connection: AsyncConnection, numbers: Sequence[int]
) -> tuple[int, int, int, int] | None:
    """The least and the greatest id of some traces, and when these were recorded."""
    of_trace = _events.trace_id == _traces.id
    ends = select(
        select(func.min(_events.id)).where(of_trace).scalar_subquery(), _traces.last_event_id
    ).where(_traces.id.in_(numbers), _traces.events > 0)
    rows = [row for row in (await connection.execute(ends)).all() if row[0] is not None]
    if not rows:
        return None
    ids = [event_id for row in rows for event_id in row]
    query = select(_events.recorded_at).where(_events.id.in_(ids))
    times = [*(await connection.execute(query)).scalars()]
    return min(ids), max(ids), min(times), max(times)


async def histogram(
    connection: AsyncConnection,
    criteria: EventFilter,
    numbers: Sequence[int],
    queries: Queries,
    limit: int,
    *,
    are_few: bool,
) -> Histogram:
    """At most this many buckets; `NO_EVENTS` if the traces with these ``numbers`` have none.

    ``are_few``: an index leads to the filter's events, so all of them are counted.
    """
    extent = await _stored_extent(connection, numbers)
    if extent is None:
        return NO_EVENTS
    oldest, newest, oldest_at, newest_at = extent
    start_time = oldest_at if criteria.since is None else clamp(criteria.since)
    end_time = newest_at + 1 if criteria.until is None else clamp(criteria.until)
    end_time = max(end_time, start_time + 1)
    width = max(SHORTEST, -(-(end_time - start_time) // limit))
    number = -(-(end_time - start_time) // width)
    first, end = await ids_between(connection, criteria.since, criteria.until)
    first = max(oldest, first or 0)
    end = newest + 1 if end is None else min(newest + 1, end)
    begins = None if are_few else await _first_counted(connection, numbers, first, end)
    start, counted_since = begins or (None, None)
    buckets = await _count(connection, await queries(start), start_time, width, number)
    exact = Histogram(Microseconds(start_time), Duration(width), buckets, counted_since)
    if start is None or counted_since is None:
        return exact
    others = select(func.count()).where(_traces.events > 0, _traces.id.not_in(numbers))
    if criteria.is_of_times_alone and not (await connection.execute(others)).scalar_one():
        return await _estimate(connection, exact, first, start)
    first_whole = _bucket_of(exact, counted_since) + 1
    uncounted = (Bucket(bucket.at) for bucket in buckets[:first_whole])
    return msgspec.structs.replace(exact, buckets=[*uncounted, *buckets[first_whole:]])


async def _first_counted(
    connection: AsyncConnection, numbers: Sequence[int], first: int, end: int
) -> tuple[int, Microseconds] | None:
    """The id at which to begin to count, first of a block, and its time; None to count all."""
    start = block_of(end - MOST_COUNTED) * BLOCK
    if start <= first:
        return None
    query = (
        select(_events.recorded_at)
        .where(_events.trace_id.in_(numbers), _events.id >= start, _events.id < end)
        .order_by(_events.id)
        .limit(1)
    )
    moment = (await connection.execute(query)).scalar_one_or_none()
    return None if moment is None else (start, moment)


async def _count(
    connection: AsyncConnection, queries: Sequence[Select[Any]], start: int, width: int, number: int
) -> list[Bucket]:
    """The counts; events outside the buckets are in the first or the last."""
    begin, length = (literal_column(str(constant), BigInteger) for constant in (start, width))
    index = (_events.recorded_at - begin) // length
    is_unmatched = _events.match == literal_column(str(int(Match.unmatched)))
    sums = [[0, 0, 0] for _ in range(number)]
    for query in queries:
        grouped = query.add_columns(index, _events.type, is_unmatched, func.count())
        rows = await connection.execute(grouped.group_by(index, _events.type, is_unmatched))
        for bucket, kind, unmatched, count in rows:
            counts = sums[min(number - 1, max(0, int(bucket)))]
            counts[0 if kind == int(EventType.published) else 1] += count
            counts[2] += count if unmatched else 0
    return [
        Bucket(Microseconds(start + n * width), counts[0] + counts[1], *counts)
        for n, counts in enumerate(sums)
    ]


def _bucket_of(histogram: Histogram, moment: int) -> int:
    index = (moment - histogram.buckets[0].at) // histogram.width
    return min(len(histogram.buckets) - 1, max(0, index))


async def _estimate(
    connection: AsyncConnection, histogram: Histogram, first: int, end: int
) -> Histogram:
    """Add estimates of the events from ``first`` on; from ``end`` on they were counted."""
    blocks = _blocks.number >= block_of(first), _blocks.number < block_of(end)
    sums, start = [0.0] * len(histogram.buckets), histogram.buckets[0].at
    for number, earliest, latest in await connection.execute(select(tables.blocks).where(*blocks)):
        count = BLOCK - max(0, first - number * BLOCK)
        left, right = ((moment - start) / histogram.width for moment in (earliest, latest))
        _spread(sums, count, left, right)
    first_whole = _bucket_of(histogram, histogram.counted_since or start)
    buckets = [*histogram.buckets]
    for n, (bucket, extra) in enumerate(zip(histogram.buckets, sums, strict=True)):
        if extra or n <= first_whole:
            buckets[n] = Bucket(bucket.at, (bucket.events or 0) + round(extra))
    return msgspec.structs.replace(histogram, buckets=buckets)


def _spread(sums: list[float], count: int, left: float, right: float) -> None:
    """Add a count evenly to the buckets from ``left`` to ``right``, in parts of buckets."""
    length = right - left
    for n in range(max(0, int(left)), min(len(sums) - 1, int(right)) + 1):
        inside = min(n + 1.0, right) - max(float(n), left)
        sums[n] += count * (inside / length if length > 0 else 1.0)
