"""Who took part, and the vector clock that an event's stamp stands for."""

from __future__ import annotations

from collections import defaultdict

from sqlalchemy import BigInteger, Integer, and_, column, select, values
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.tables import channels, events, participants, traces
from app.stored.events import EventRow
from app.stored.participants import Participant, ParticipantChannel, VectorEntry

# Participants that are looked up in one query: both databases bound a query's parameters.
CHUNK = 500


async def newest(
    connection: AsyncConnection, trace_id: int, before: int | None, limit: int
) -> list[Participant]:
    """Participants of a trace, those with the newest events first.

    ``before``: only those whose last event has a smaller id, as the next page asks for.
    """
    first = events.alias("first")
    query = (
        select(
            traces.c.vhost,
            participants.c.number,
            participants.c.name,
            participants.c.interval,
            # Its events are numbered without a hole, and retention takes them from the front.
            participants.c.seq - first.c.seq + 1,
            participants.c.lamport,
            participants.c.first_event_id,
            participants.c.last_event_id,
        )
        .join(traces, traces.c.id == participants.c.trace_id)
        .join(first, first.c.id == participants.c.first_event_id)
        .where(participants.c.trace_id == trace_id)
        .order_by(participants.c.last_event_id.desc())
        .limit(limit)
    )
    if before is not None:
        query = query.where(participants.c.last_event_id < before)
    rows = (await connection.execute(query)).all()
    through = await _channels(connection, trace_id, [row[1] for row in rows])
    return [Participant(*row, channels=through[row[1]]) for row in rows]


async def _channels(
    connection: AsyncConnection, trace_id: int, numbers: list[int]
) -> defaultdict[int, list[ParticipantChannel]]:
    found: defaultdict[int, list[ParticipantChannel]] = defaultdict(list)
    fields = [channels.c[name] for name in ParticipantChannel.__struct_fields__]
    for start in range(0, len(numbers), CHUNK):
        query = (
            select(channels.c.participant, *fields)
            .where(
                channels.c.trace_id == trace_id,
                channels.c.participant.in_(numbers[start : start + CHUNK]),
            )
            .order_by(channels.c.number)
        )
        for number, *shown in await connection.execute(query):
            found[number].append(ParticipantChannel(*shown))
    return found


async def vector(connection: AsyncConnection, event: EventRow) -> list[VectorEntry]:
    """The vector clock of an event that was read with its clock: who it knows of, by number.

    A participant raises its own interval only, and all of it. So the height there names the last
    of its events that this one knows of, and its ``seq`` counts them. Participants whose every
    event at or before this one has been removed by retention are left out.
    """
    heights = await _heights(connection, event)
    found = []
    for start in range(0, len(heights), CHUNK):
        # A table to join with, so that each is one look-up: for a list of pairs SQLite reads all of
        # a participant's events.
        known = (
            values(column("number", Integer), column("height", BigInteger), literal_binds=True)
            .data(heights[start : start + CHUNK])
            .cte("known")
        )
        query = (
            select(participants.c.number, participants.c.name, events.c.seq)
            .select_from(known)
            .join(participants, participants.c.number == known.c.number)
            .join(
                events,
                and_(
                    events.c.trace_id == participants.c.trace_id,
                    events.c.participant == known.c.number,
                    events.c.height == known.c.height,
                ),
            )
            .where(participants.c.trace_id == event.trace_id)
            .order_by(participants.c.number)
        )
        found += [VectorEntry(*row) for row in await connection.execute(query)]
    return found


async def _heights(connection: AsyncConnection, event: EventRow) -> list[tuple[int, int]]:
    """(participant, height that the event knows it at), for those that it knows, by number."""
    stamp = event.stamp
    query = (
        select(participants.c.number, participants.c.interval, participants.c.base)
        .where(
            participants.c.trace_id == event.trace_id,
            participants.c.first_event_id <= event.id,
        )
        .order_by(participants.c.number)
    )
    known = []
    for number, interval, base in await connection.execute(query):
        height = stamp.height_at(interval)
        if height > base:  # the base is the last owner's
            known.append((number, height))
    return known
