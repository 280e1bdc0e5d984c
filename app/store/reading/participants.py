"""Participants, and the vector clock that an event's stamp amounts to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, and_, literal_column, select
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.database import tables
from app.store.database.chunks import chunks, filters, rows_with
from app.store.database.subject import Subject, reads
from app.stored.reading import Participant, ParticipantChannel, VectorEntry
from app.tracker.identity import name_key
from model.event import Event
from model.sound import Evidence
from statements import EVIDENCE

_channels = tables.channels.c
_connections = tables.connections.c
_participants = tables.participants.c
_traces = tables.traces.c

SHARED_NOTE = (
    "{} processes act here, at once or one after the other, and nothing tells them apart: "
    "they are one participant"
)

# A table to join with, so that each is one look-up: given a list of pairs, SQLite reads all of a
# participant's events. As text: to have the library make it took a quarter of the processor time of
# an event's answer.
_LAST_KNOWN = (
    "WITH known (number, height) AS ({pairs})"
    " SELECT known.number, events.seq FROM known"
    " JOIN events ON events.trace_id = {trace} AND events.participant = known.number"
    " AND events.height = known.height"
    " ORDER BY known.number"
)

_EXISTING = (
    "SELECT number, name, interval, base FROM participants"
    " WHERE trace_id = :trace AND first_event_id <= :event ORDER BY number"
)

_IDENTITY = ("name", "user", "place", "client", "assumed", "key")


class Participants(Subject):
    """The participants of all traces."""

    @reads
    async def vector(self, connection: AsyncConnection, event: Event) -> list[VectorEntry]:
        """The vector clock of an event that was read with its clock, by participant's number.

        A participant raises only its own interval, and all of it. So the height there identifies
        the last of its events that this one knows of, and that event's ``seq`` counts them. A
        participant is left out if retention has removed its every event at or before this one.
        """
        height_at, dialect = event.stamp.height_at, self.database.dialect
        binds = {"trace": event.trace_id, "event": event.id}
        [owners] = await dialect.rows_of(connection, [_EXISTING], binds)
        names, heights, entries = {}, [], []
        for number, name, interval, base in owners:
            height = height_at(interval)
            if height > base:  # the base is the last owner's
                names[number] = name
                heights.append((number, height))
        for chunk in chunks(heights):
            pairs, values = dialect.numbers(chunk)
            query = _LAST_KNOWN.format(pairs=pairs, trace=event.trace_id)
            rows: Sequence[Any] = (await connection.exec_driver_sql(query, values)).all()
            entries += [VectorEntry(number, names[number], seq) for number, seq in rows]
        return entries

    @reads
    async def list(
        self,
        connection: AsyncConnection,
        trace_id: int,
        *,
        before_id: int | None = None,
        limit: int = 1_000,
    ) -> list[Participant]:
        """Participants of a trace by their last event, the newest first, and ``before_id``."""
        first, last = tables.events.alias("first"), tables.events.alias("last")
        fields: list[ColumnElement[Any]] = [
            _traces.vhost,
            _participants.number,
            *_participants[_IDENTITY],
            _participants.published,
            _participants.seq - _participants.published,
            _participants.interval,
            # Its events are numbered without holes, and retention removes the first ones.
            _participants.seq - first.c.seq + 1,
            *_participants["lamport", "first_event_id", "last_event_id"],
            last.c.recorded_at,
            *map(literal_column, EVIDENCE),
        ]
        query = (
            select(*fields)
            .join(tables.traces, _traces.id == _participants.trace_id)
            .join(first, first.c.id == _participants.first_event_id)
            .join(last, last.c.id == _participants.last_event_id)
            .where(_participants.trace_id == trace_id)
            .where(*filters((_participants.last_event_id.__lt__, before_id)))
            .order_by(_participants.last_event_id.desc())
            .limit(limit)
        )
        rows = (await connection.execute(query)).all()
        numbers = [row[1] for row in rows]
        channels = await _channels_of(connection, trace_id, numbers)
        programs = await _programs_of(connection, trace_id, numbers)
        participants = []
        for row in rows:
            columns, evidence = row[: -len(EVIDENCE)], Evidence(*row[-len(EVIDENCE) :])
            own_channels, processes = channels[row.number], len(programs[row.number])
            connections = len({(channel.node, channel.connection) for channel in own_channels})
            note = SHARED_NOTE.format(processes) if processes > 1 else None
            presence = connections, processes, note, own_channels
            participants.append(Participant(*[*columns, evidence, *presence]))
        return participants


async def _channels_of(
    connection: AsyncConnection, trace_id: int, numbers: list[int]
) -> defaultdict[int, list[ParticipantChannel]]:
    channels: defaultdict[int, list[ParticipantChannel]] = defaultdict(list)
    query = select(_channels.participant, *_channels[ParticipantChannel.__struct_fields__])
    query = query.where(_channels.trace_id == trace_id).order_by(_channels.number)
    for number, *values in await rows_with(connection, query, _channels.participant, numbers):
        channels[number].append(ParticipantChannel(*values))
    return channels


async def _programs_of(
    connection: AsyncConnection, trace_id: int, numbers: list[int]
) -> defaultdict[int, set[str]]:
    """The processes behind each participant, by its connections' client properties."""
    programs: defaultdict[int, set[str]] = defaultdict(set)
    is_connection = and_(
        _connections.name == _channels.connection,
        _connections.node == _channels.node,
        _connections.user == _channels.user,
    )
    query = (
        select(*_participants["number", "key", "user", "place", "client"])
        .add_columns(_connections.process, _connections.client.label("other"))
        .join(tables.channels, tables.CHANNELS_OF_PARTICIPANT)
        .join(tables.connections, is_connection)
        .where(_participants.trace_id == trace_id, _connections.process.is_not(None))
        .distinct()
    )
    for row in await rows_with(connection, query, _participants.number, numbers):
        # A connection's name is used again: where clients' names decide, by somebody else.
        is_by_name = row.client and row.key == name_key(row.client, row.user, row.place)
        if not is_by_name or row.other == row.client:
            programs[row.number].add(row.process)
    return programs
