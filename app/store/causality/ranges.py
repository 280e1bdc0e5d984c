"""Each participant's part of a causal past or future, by look-ups in the index on heights."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.database import tables
from app.store.database.chunks import chunks, rows_with
from model.ranges import HeightPairs, Holds, ParticipantSpan, RangeEnd, search
from model.who import Who
from statements import Question, acting_sql, range_ends_sql

_events = tables.events.c
_participants = tables.participants.c


async def spans(
    connection: AsyncConnection, trace_id: int, first: int, last: int, limit: int | None = None
) -> list[ParticipantSpan]:
    """The participants with events in a span of ids; at most ``limit``, and one more."""
    query = acting_sql(Question(trace_id, first, last))
    clause = "" if limit is None else f" LIMIT {limit + 1}"
    return [*map(ParticipantSpan._make, await connection.exec_driver_sql(query + clause))]


async def last_at_or_below(
    connection: AsyncConnection, trace_id: int, heights: HeightPairs
) -> dict[int, RangeEnd]:
    """Each participant's last event not above its height, if it has one."""
    return await _range_ends(connection, trace_id, heights, forward=False)


async def first_that(
    connection: AsyncConnection, trace_id: int, tops: Mapping[int, RangeEnd], holds: Holds
) -> dict[int, RangeEnd]:
    """The first event of each participant that ``holds``; ``tops`` hold."""
    steps = search(tops, holds)
    try:
        heights = next(steps)
        while True:
            heights = steps.send(await _range_ends(connection, trace_id, heights, forward=True))
    except StopIteration as end:
        firsts: dict[int, RangeEnd] = end.value
        return firsts


async def _range_ends(
    connection: AsyncConnection, trace_id: int, heights: HeightPairs, *, forward: bool
) -> dict[int, RangeEnd]:
    marks: dict[int, RangeEnd] = {}
    for chunk in chunks(heights):
        query = range_ends_sql(trace_id, chunk, forward=forward)
        for row in await connection.exec_driver_sql(query):
            marks[row[0]] = RangeEnd._make(row[1:])
    return marks


async def names_of(
    connection: AsyncConnection, trace_id: int, numbers: Collection[int]
) -> dict[int, Who]:
    query = select(*_participants["number", "name"]).where(_participants.trace_id == trace_id)
    rows = await rows_with(connection, query, _participants.number, numbers)
    return {row.number: Who(*row) for row in rows}


async def services_of(
    connection: AsyncConnection, trace_id: int, numbers: Collection[int]
) -> dict[int, tuple[str, str]]:
    """(service, user) of each participant; a service is the client's name, else the user."""
    columns = _participants["number", "client", "user"]
    query = select(*columns).where(_participants.trace_id == trace_id)
    rows = await rows_with(connection, query, _participants.number, numbers)
    return {row.number: (row.user if row.client is None else row.client, row.user) for row in rows}


async def oldest(connection: AsyncConnection, trace_id: int) -> Any:
    """The id of a trace's oldest event, None for none: retention removes a prefix of ids."""
    query = select(func.min(_events.id)).where(_events.trace_id == trace_id)
    return (await connection.execute(query)).scalar_one()
