"""Each participant's part of a causal past or future, by look-ups in the index on heights."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.database import tables
from app.store.database.chunks import chunks, rows_with
from model.ranges import Asked, Holds, Mark, ParticipantSpan, search
from model.who import Who
from statements import Question, acting_sql, marks_sql


async def places(
    connection: AsyncConnection, trace_id: int, first_id: int, last_id: int, most: int | None = None
) -> list[ParticipantSpan]:
    """List who has events in a span of ids; of more than ``most`` one more than these."""
    query = acting_sql(Question(trace_id, first_id, last_id))
    bound = "" if most is None else f" LIMIT {most + 1}"
    return [*map(ParticipantSpan._make, await connection.exec_driver_sql(query + bound))]


async def last_at_or_below(
    connection: AsyncConnection, trace_id: int, asked: Asked
) -> dict[int, Mark]:
    """For each (participant, height) its last event not above that height, if it has one."""
    return await _marks(connection, trace_id, asked, forward=False)


async def first_that(
    connection: AsyncConnection, trace_id: int, tops: Mapping[int, Mark], holds: Holds
) -> dict[int, Mark]:
    """The first event of each participant for which it holds, as it does for those of ``tops``."""
    steps = search(tops, holds)
    try:
        asked = next(steps)
        while True:
            asked = steps.send(await _marks(connection, trace_id, asked, forward=True))
    except StopIteration as end:
        found: dict[int, Mark] = end.value
        return found


async def _marks(
    connection: AsyncConnection, trace_id: int, asked: Asked, *, forward: bool
) -> dict[int, Mark]:
    found: dict[int, Mark] = {}
    for some in chunks(asked):
        query = marks_sql(trace_id, some, forward=forward)
        for row in await connection.exec_driver_sql(query):
            found[row[0]] = Mark._make(row[1:])
    return found


async def names_of(
    connection: AsyncConnection, trace_id: int, numbers: Collection[int]
) -> dict[int, Who]:
    its = tables.participants.c
    query = select(its.number, its.name).where(its.trace_id == trace_id)
    rows = await rows_with(connection, query, its.number, numbers)
    return {row.number: Who(*row) for row in rows}


async def services_of(
    connection: AsyncConnection, trace_id: int, numbers: Collection[int]
) -> dict[int, tuple[str, str]]:
    """The service of each participant, its client's name, else its user; and its user."""
    its = tables.participants.c
    service = func.coalesce(its.client, its.user)
    query = select(its.number, service, its.user).where(its.trace_id == trace_id)
    rows = await rows_with(connection, query, its.number, numbers)
    return {number: (service, user) for number, service, user in rows}


async def oldest(connection: AsyncConnection, trace_id: int) -> Any:
    """The id of a trace's oldest event, None for none: retention removes a prefix of ids."""
    its = tables.events.c
    query = select(func.min(its.id)).where(its.trace_id == trace_id)
    return (await connection.execute(query)).scalar_one()
