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
from app.tracker.identity import named
from model.event import Event
from model.sound import Evidence
from statements import EVIDENCE

_who = tables.participants.c

SEVERAL = (
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

_BEGUN = (
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
        known = await self._known(connection, event)
        found = []
        for some in chunks([*known]):
            pairs, values = self.database.dialect.numbers([(each, known[each][1]) for each in some])
            query = _LAST_KNOWN.format(pairs=pairs, trace=event.trace_id)
            rows: Sequence[Any] = (await connection.exec_driver_sql(query, values)).all()
            found += [VectorEntry(number, known[number][0], seq) for number, seq in rows]
        return found

    async def _known(self, connection: AsyncConnection, event: Event) -> dict[int, tuple[str, int]]:
        height_at = event.stamp.height_at
        asked = {"trace": event.trace_id, "event": event.id}
        [rows] = await self.database.dialect.rows_of(connection, [_BEGUN], asked)
        known = {}
        for number, name, interval, base in rows:
            height = height_at(interval)
            if height > base:  # the base is the last owner's
                known[number] = (name, height)
        return known

    @reads
    async def list(
        self,
        connection: AsyncConnection,
        trace_id: int,
        *,
        before_id: int | None = None,
        limit: int = 1_000,
    ) -> list[Participant]:
        """Participants of a trace, those with the newest events first.

        ``before_id``: only those whose last event has a smaller id, for the next page.
        """
        first = tables.events.alias("first")
        fields: list[ColumnElement[Any]] = [
            tables.traces.c.vhost,
            _who.number,
            *(_who[name] for name in _IDENTITY),
            _who.published,
            _who.seq - _who.published,
            _who.interval,
            # Its events are numbered without holes, and retention removes the first ones.
            _who.seq - first.c.seq + 1,
            _who.lamport,
            _who.first_event_id,
            _who.last_event_id,
            *map(literal_column, EVIDENCE),
        ]
        query = (
            select(*fields)
            .join(tables.traces, tables.traces.c.id == _who.trace_id)
            .join(first, first.c.id == _who.first_event_id)
            .where(_who.trace_id == trace_id, *filters((_who.last_event_id.__lt__, before_id)))
            .order_by(_who.last_event_id.desc())
            .limit(limit)
        )
        rows = (await connection.execute(query)).all()
        numbers = [row[1] for row in rows]
        through = await _channels(connection, trace_id, numbers)
        programs = await _programs(connection, trace_id, numbers)
        found = []
        for row in rows:
            its_own, evidence = row[: -len(EVIDENCE)], Evidence(*row[-len(EVIDENCE) :])
            seen = _seen(through[row.number], programs[row.number])
            found.append(Participant(*[*its_own, evidence, *seen]))
        return found


async def _channels(
    connection: AsyncConnection, trace_id: int, numbers: list[int]
) -> defaultdict[int, list[ParticipantChannel]]:
    found: defaultdict[int, list[ParticipantChannel]] = defaultdict(list)
    fields = [tables.channels.c[name] for name in ParticipantChannel.__struct_fields__]
    its = tables.channels.c
    query = select(its.participant, *fields).where(its.trace_id == trace_id).order_by(its.number)
    for number, *shown in await rows_with(connection, query, its.participant, numbers):
        found[number].append(ParticipantChannel(*shown))
    return found


async def _programs(
    connection: AsyncConnection, trace_id: int, numbers: list[int]
) -> defaultdict[int, set[str]]:
    """The processes behind each participant, by what its connections' clients say."""
    found: defaultdict[int, set[str]] = defaultdict(set)
    acts, known = tables.channels.c, tables.connections.c
    behind = and_(known.name == acts.connection, known.node == acts.node, known.user == acts.user)
    query = (
        select(
            *(_who.number, _who.key, _who.user, _who.place, _who.client, known.process),
            known.client.label("other"),
        )
        .join(tables.channels, tables.CHANNELS_OF_PARTICIPANT)
        .join(tables.connections, behind)
        .where(_who.trace_id == trace_id, known.process.is_not(None))
        .distinct()
    )
    for row in await rows_with(connection, query, _who.number, numbers):
        # A connection's name is used again: where clients' names decide, by somebody else.
        is_by_name = row.client and row.key == named(row.client, row.user, row.place)
        if not is_by_name or row.other == row.client:
            found[row.number].add(row.process)
    return found


def _seen(
    channels: list[ParticipantChannel], programs: set[str]
) -> tuple[int, int, str | None, list[ParticipantChannel]]:
    connections = len({(each.node, each.connection) for each in channels})
    note = SEVERAL.format(len(programs)) if len(programs) > 1 else None
    return connections, len(programs), note, channels
