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

from app.store.database.tables import blocks, events, traces
from app.store.reading.times import ids_between, within
from app.stored.reading import NO_EVENTS, Bucket, EventFilter, Histogram
from model.blocks import BLOCK, block_of
from model.times import Duration, Microseconds
from model.words import EventType, Match

# Counting this many takes a quarter of a second on SQLite.
MOST_COUNTED = 50 * BLOCK

SHORTEST = 1_000  # µs; the least width of a bucket


# The events that are asked for, from an id on or all (None), as queries without columns.
Meant: TypeAlias = Callable[[int | None], Awaitable[Sequence[Select[Any]]]]


async def _kept(
    connection: AsyncConnection, numbers: Sequence[int]
) -> tuple[int, int, int, int] | None:
    """The least and the greatest id of some traces, and between which times these were recorded."""
    of_trace = events.c.trace_id == traces.c.id
    ends = select(
        select(func.min(events.c.id)).where(of_trace).scalar_subquery(), traces.c.last_event_id
    ).where(traces.c.id.in_(numbers), traces.c.events > 0)
    found = [row for row in (await connection.execute(ends)).all() if row[0] is not None]
    if not found:
        return None
    ids = [event_id for row in found for event_id in row]
    query = select(events.c.recorded_at).where(events.c.id.in_(ids))
    times = list((await connection.execute(query)).scalars())
    return min(ids), max(ids), min(times), max(times)


async def histogram(
    connection: AsyncConnection,
    asked: EventFilter,
    numbers: Sequence[int],
    meant: Meant,
    most: int,
    *,
    are_few: bool,
) -> Histogram:
    """At most this many buckets; `NO_EVENTS` if the traces with these ``numbers`` have none.

    ``are_few``: an index leads to those that are meant, so that all of them are counted.
    """
    kept = await _kept(connection, numbers)
    if kept is None:
        return NO_EVENTS
    least, greatest, first_at, last_at = kept
    since = first_at if asked.since is None else within(asked.since)
    until = last_at + 1 if asked.until is None else within(asked.until)
    until = max(until, since + 1)
    width = max(SHORTEST, -(-(until - since) // most))
    number = -(-(until - since) // width)
    # The least id that can be meant, and the one after the greatest.
    first, end = await ids_between(connection, asked.since, asked.until)
    beyond = greatest + 1
    first, end = max(least, first or 0), beyond if end is None else min(beyond, end)
    begins = None if are_few else await _first_counted(connection, numbers, first, end)
    start, counted_since = begins or (None, None)
    counted = await _counted(connection, await meant(start), since, width, number)
    found = Histogram(Microseconds(since), Duration(width), counted, counted_since)
    if start is None or counted_since is None:
        return found
    if asked.is_of_times_alone and await _are_all(connection, numbers):
        return await _estimated(connection, found, first, start)
    begun = _place(found, counted_since) + 1
    uncounted = (Bucket(each.at) for each in counted[:begun])
    return msgspec.structs.replace(found, buckets=[*uncounted, *counted[begun:]])


async def _first_counted(
    connection: AsyncConnection, numbers: Sequence[int], first: int, end: int
) -> tuple[int, Microseconds] | None:
    """Find where to begin to count so that not too many ids are looked through: an id and its time.

    None if there are few enough. Always at the beginning of a block.
    """
    start = block_of(end - MOST_COUNTED) * BLOCK
    if start <= first:
        return None
    query = (
        select(events.c.recorded_at)
        .where(events.c.trace_id.in_(numbers), events.c.id >= start, events.c.id < end)
        .order_by(events.c.id)
        .limit(1)
    )
    at = (await connection.execute(query)).scalar_one_or_none()
    return None if at is None else (start, at)


async def _counted(
    connection: AsyncConnection, meant: Sequence[Select[Any]], since: int, width: int, number: int
) -> list[Bucket]:
    """The counts; events outside the buckets are in the first or the last."""
    begin, length = (literal_column(str(each), BigInteger) for each in (since, width))
    place = (events.c.recorded_at - begin) // length
    is_unmatched = events.c.match == literal_column(str(int(Match.unmatched)))
    sums = [[0, 0, 0] for _ in range(number)]
    for query in meant:
        grouped = query.add_columns(place, events.c.type, is_unmatched, func.count())
        found = await connection.execute(grouped.group_by(place, events.c.type, is_unmatched))
        for at, kind, unmatched, count in found:
            counts = sums[min(number - 1, max(0, int(at)))]
            counts[0 if kind == int(EventType.published) else 1] += count
            counts[2] += count if unmatched else 0
    return [
        Bucket(Microseconds(since + n * width), one + other, one, other, unmatched)
        for n, (one, other, unmatched) in enumerate(sums)
    ]


def _place(histogram: Histogram, at: int) -> int:
    place = (at - histogram.buckets[0].at) // histogram.width
    return min(len(histogram.buckets) - 1, max(0, place))


async def _estimated(
    connection: AsyncConnection, found: Histogram, first: int, end: int
) -> Histogram:
    """With the events from one id to another, from where on they were counted."""
    query = select(blocks).where(
        blocks.c.number >= block_of(first), blocks.c.number < block_of(end)
    )
    sums, start = [0.0] * len(found.buckets), found.buckets[0].at
    for number, earliest, latest in await connection.execute(query):
        held = BLOCK - max(0, first - number * BLOCK)
        begin, until = ((at - start) / found.width for at in (earliest, latest))
        _spread(sums, held, begin, until)
    begun = _place(found, found.counted_since or start)
    buckets = [
        Bucket(each.at, (each.events or 0) + round(more)) if more or n <= begun else each
        for n, (each, more) in enumerate(zip(found.buckets, sums, strict=True))
    ]
    return msgspec.structs.replace(found, buckets=buckets)


def _spread(sums: list[float], number: int, begin: float, end: float) -> None:
    """Add a number evenly to the buckets from one place to another, in parts of buckets."""
    length = end - begin
    for n in range(max(0, int(begin)), min(len(sums) - 1, int(end)) + 1):
        inside = min(n + 1.0, end) - max(float(n), begin)
        sums[n] += number * (inside / length if length > 0 else 1.0)


async def _are_all(connection: AsyncConnection, numbers: Sequence[int]) -> bool:
    query = select(func.count()).where(traces.c.events > 0, traces.c.id.not_in(numbers))
    return bool((await connection.execute(query)).scalar_one() == 0)
