"""Restamping: new stamps beside the old ones, which take their place in one transaction.

New stamps are put aside in tables of their own while the trace goes on, and what the messages say
of their causes with them, if these are read again. Until they take their place nothing that is
stored changes, so whatever breaks off leaves the old; what is then left in those tables is removed
before the next restamp.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from operator import attrgetter
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from app.errors import ConflictError
from app.store.capture import link_rules
from app.store.capture.aliases import with_aliases
from app.store.capture.proposals import forget_in_hand
from app.store.capture.retention import note_first_events
from app.store.capture.rows import Row, awareness_code, roles_of
from app.store.database import tables
from app.store.database.chunks import columns, rows_with
from app.store.database.searched import Writing
from app.store.database.subject import Subject, reads, writes
from app.store.holding.leases import lock_trace
from app.store.spans.imported import Spans, count_spanned
from app.stored.capture import ParticipantSettings, Progress, TraceExtent
from app.stored.restamps import (
    Incarnation,
    NewStamp,
    RestampResult,
    StoredEvent,
    StoredLink,
)
from app.tracker.events import Reference
from app.tracker.links import SPANS_RULE
from app.tracker.records import Channel
from model.words import WITHOUT_RULE

# Ids of one statement: PostgreSQL's have to end within a minute.
SPAN = 50_000

# Columns of an event and of its message, in the order of `StoredEvent`.
_OF_EVENT = "id channel recorded_at exchange queue routed_queues cause_id quiet"
_OF_MESSAGE = "routing_keys properties payload payload_bytes"

_channels = tables.channels.c
_connections = tables.connections.c
_edges = tables.edges.c
_events = tables.events.c
_participants = tables.participants.c
_restamped = tables.restamped.c
_restamped_edges = tables.restamped_edges.c
_restamped_keys = tables.restamped_keys.c
_traces = tables.traces.c
# The rules of links that stay where messages are read again: no message says anything about them.
_UNREAD_RULES = [SPANS_RULE, *WITHOUT_RULE]
_SET = (
    "UPDATE events SET participant = new.participant + :offset, seq = new.seq,"
    " lamport = new.lamport, height = new.height, clock = new.clock, quiet = new.quiet"
)
_FROM_RESTAMPED = (
    " FROM restamped AS new WHERE new.event_id = events.id AND new.trace_id = :trace"
    " AND events.trace_id = :trace AND events.id BETWEEN :first AND :last"
)
_SET_STAMPS = sa.text(_SET + _FROM_RESTAMPED)
_SET_STAMPS_AND_IDS = sa.text(_SET + ", ids = new.ids" + _FROM_RESTAMPED)
_REMOVE_EDGES = (
    "DELETE FROM edges WHERE trace_id = :trace AND effect_id BETWEEN :first AND :last AND rule"
)
# Without links from causes that retention has removed meanwhile.
_INSERT_EDGES = (
    "INSERT INTO edges (trace_id, effect_id, cause_id, rule, kind, way)"
    " SELECT trace_id, effect_id, cause_id, rule, kind, way FROM restamped_edges"
    " WHERE trace_id = :trace AND effect_id BETWEEN :first AND :last AND cause_id >= :stored"
    " AND kind IS NOT NULL AND rule"
)
_BROKER_RULES: sa.BindParameter[str] = sa.bindparam("acts", WITHOUT_RULE, expanding=True)
_UNREAD_RULE_NAMES: sa.BindParameter[str] = sa.bindparam("kept", _UNREAD_RULES, expanding=True)
_REPLACE_BROKER_EDGES = tuple(
    sa.text(f"{statement} IN :acts").bindparams(_BROKER_RULES)
    for statement in (_REMOVE_EDGES, _INSERT_EDGES)
)
_REMOVE_LINKS, _INSERT_LINKS = (
    sa.text(f"{statement} NOT IN :kept").bindparams(_UNREAD_RULE_NAMES)
    for statement in (_REMOVE_EDGES, _INSERT_EDGES)
)
_SET_WAYS = sa.text(
    "UPDATE edges SET way = new.way FROM restamped_edges AS new"
    " WHERE new.effect_id = edges.effect_id AND new.cause_id = edges.cause_id"
    " AND new.rule = edges.rule AND new.kind IS NULL AND new.trace_id = :trace"
    " AND new.effect_id BETWEEN :first AND :last AND edges.effect_id BETWEEN :first AND :last"
)
# Links that spans told of after their effects got new stamps: the new clocks may lack them. Links
# that the new stamps have joined are put aside, with their way.
_INSERT_LATE_LINKS = sa.text(
    "INSERT INTO late_edges (trace_id, effect_id, cause_id)"
    " SELECT g.trace_id, g.effect_id, g.cause_id FROM edges AS g"
    " WHERE g.trace_id = :trace AND g.effect_id BETWEEN :first AND :last AND g.rule = :spans"
    " AND g.cause_id >= :stored AND NOT EXISTS (SELECT 1 FROM restamped_edges AS seen"
    " WHERE seen.effect_id = g.effect_id AND seen.cause_id = g.cause_id AND seen.rule = g.rule"
    " AND seen.trace_id = g.trace_id) ON CONFLICT DO NOTHING"
).bindparams(spans=SPANS_RULE)


class Restamps(Subject):
    """New stamps for the events of a trace."""

    async def clear(self, trace_id: int | None = None) -> None:
        """Remove what is put aside, or was left over, for a trace or for all (None)."""
        while await self._clear_some(trace_id):
            pass
        while await self.database.write(self.database.dialect.reclaim):
            pass

    @reads
    async def extent(self, connection: AsyncConnection, trace_id: int) -> TraceExtent:
        first = sa.select(sa.func.min(_events.id)).where(_events.trace_id == _traces.id)
        query = sa.select(
            sa.func.coalesce(first.scalar_subquery(), 0),
            *columns(_traces, "last_event_id events checkpoint"),
        ).where(_traces.id == trace_id)
        return TraceExtent(*(await connection.execute(query)).one())

    @reads
    async def events(
        self,
        connection: AsyncConnection,
        trace_id: int,
        *,
        after_id: int,
        limit: int,
        messages: bool = False,
    ) -> list[StoredEvent]:
        """The next events of a trace, by id; with their ``messages`` if these are read again."""
        of_event = columns(_events, _OF_EVENT)
        of_message = columns(_events, _OF_MESSAGE) if messages else ()
        query = (
            sa.select(*of_event, *of_message)
            .where(_events.trace_id == trace_id, _events.id > after_id)
            .order_by(_events.id)
            .limit(limit)
        )
        rows = (await connection.execute(query)).all()
        links = {}
        if rows:
            span = rows[0].id, rows[-1].id
            links = await _links(connection, trace_id, *span, that_stay=messages)
        stored = []
        for row in rows:
            *plain, routed_queues, cause, quiet = row[: len(of_event)]
            causes = tuple(links.get(row.id, ()))
            message = _message(row) if messages else ()
            values = (*plain, _texts(routed_queues), cause, quiet, causes, *message)
            stored.append(StoredEvent(*values))
        return stored

    @reads
    async def channels(
        self, connection: AsyncConnection, trace_id: int, *, after_number: int
    ) -> list[tuple[int, Channel]]:
        query = (
            sa.select(*columns(_channels, "number node connection channel user"))
            .where(_channels.trace_id == trace_id, _channels.number > after_number)
            .order_by(_channels.number)
        )
        return [(key, Channel(*values)) for key, *values in await connection.execute(query)]

    @reads
    async def incarnations(
        self, connection: AsyncConnection, names: Collection[str]
    ) -> dict[str, list[Incarnation]]:
        incarnations: dict[str, list[Incarnation]] = {name: [] for name in names}
        query = sa.select(*columns(_connections, "name opened_at user client")).order_by(
            _connections.opened_at, _connections.id
        )
        for name, *values in await rows_with(connection, query, _connections.name, names):
            incarnations[name].append(Incarnation(*values))
        return incarnations

    @reads
    async def clocks(
        self, connection: AsyncConnection, trace_id: int, ids: Sequence[int]
    ) -> dict[int, Reference]:
        query = sa.select(*columns(_restamped, "clock lamport event_id")).where(
            _restamped.trace_id == trace_id
        )
        rows = await rows_with(connection, query, _restamped.event_id, ids)
        return {row.event_id: Reference(*row) for row in rows}

    @writes
    async def put_aside(
        self, connection: AsyncConnection, trace_id: int, stamps: Sequence[NewStamp]
    ) -> None:
        """Keep new stamps of consecutive events of a trace; may be repeated."""
        first, last = stamps[0].event_id, stamps[-1].event_id
        for table, event_id in _ASIDE_TABLES:
            await connection.execute(
                sa.delete(table).where(event_id.between(first, last), table.c.trace_id == trace_id)
            )
        for table, rows in _rows_aside(trace_id, stamps):
            await self.database.dialect.insert_many(connection, table, rows)

    @writes
    async def swap(
        self,
        connection: AsyncConnection,
        trace_id: int,
        rules: ParticipantSettings,
        extent: TraceExtent,
        new: RestampResult,
        report: Progress,
        epoch: int | None = None,
    ) -> int:
        """Replace the old stamps by the new ones, all of which are put aside.

        Returns how many links there are now, if the messages were read again. Raises
        `ConflictError` if the trace is not of this ``extent`` any more, `LeaseLostError` if it was
        taken since ``epoch``.
        """
        await lock_trace(connection, trace_id, epoch)
        # Before anything is read: another writer waits from here on, and then finds it changed.
        result = await connection.execute(
            sa.update(tables.traces)
            .where(_traces.id == trace_id, _traces.last_event_id == extent.last_id)
            .where(_traces.events == extent.events)
            .where(_traces.checkpoint.is_not_distinct_from(extent.state))
            .values(
                policy=rules.policy,
                quiet=msgspec.json.encode(rules.quiet).decode(),
                checkpoint=new.state,
            )
        )
        if result.rowcount != 1:
            raise ConflictError("the trace has gone on while its new stamps took their place")
        stamps = _SET_STAMPS if rules.links is None else _SET_STAMPS_AND_IDS
        statements = [stamps, _SET_WAYS, _INSERT_LATE_LINKS, *_REPLACE_BROKER_EDGES]
        if rules.links is not None:  # the links last: their number is the answer
            statements += [*_replace_keys(self.database.dialect.keys), _REMOVE_LINKS, _INSERT_LINKS]
        of_trace = {"trace": trace_id, "stored": extent.first_id, "offset": new.offset}
        stamped = edges = 0
        for first in range(extent.first_id, extent.last_id + 1, SPAN) if extent.events else ():
            span = {"first": first, "last": first + SPAN - 1, **of_trace}
            counts = [(await connection.execute(sql, span)).rowcount for sql in statements]
            stamped += counts[0]
            edges += 0 if rules.links is None else counts[-1]
            report(stamped)
        if stamped != extent.events:
            raise ConflictError(f"{extent.events - stamped} of the events have no new stamp")
        await _replace_participants(connection, trace_id, new)
        await _replace_channels(connection, trace_id, new)
        await forget_in_hand(connection, trace_id)
        await note_first_events(connection, trace_id, extent.first_id)
        if rules.links is not None:
            first_id = extent.first_id or None
            await link_rules.store_effective(connection, trace_id, rules.links, first_id, anew=True)
        return edges

    async def settle_late(self, trace_id: int) -> int:
        return await Spans(self.database).settle_late(trace_id)

    @writes
    async def _clear_some(self, connection: AsyncConnection, trace_id: int | None) -> bool:
        condition = sa.true() if trace_id is None else _restamped.trace_id == trace_id
        ids = sa.select(_restamped.event_id).where(condition).order_by(_restamped.event_id)
        portion = ids.limit(SPAN).subquery()
        query = sa.select(sa.func.max(portion.c.event_id))
        last = (await connection.execute(query)).scalar_one_or_none()
        if last is None:
            return False
        for table, event_id in _ASIDE_TABLES:
            of_trace = sa.true() if trace_id is None else table.c.trace_id == trace_id
            await connection.execute(sa.delete(table).where(of_trace, event_id <= last))
        return True


# The tables of new stamps. Leftovers are looked for in the last, which is emptied last.
_ASIDE_TABLES: tuple[tuple[sa.Table, sa.Column[Any]], ...] = (
    (tables.restamped_keys, _restamped_keys.event_id),
    (tables.restamped_edges, _restamped_edges.effect_id),
    (tables.restamped, _restamped.event_id),
)


@functools.cache
def _replace_keys(writing: Writing) -> tuple[sa.TextClause, sa.TextClause]:
    return (
        sa.text(f"DELETE FROM keys WHERE {writing.in_span}"),  # noqa: S608  our own words
        sa.text(
            writing.insert("event_id", "key", "roles") + " FROM restamped_keys"
            " WHERE trace_id = :trace AND event_id BETWEEN :first AND :last"
        ),
    )


def _rows_aside(trace_id: int, stamps: Sequence[NewStamp]) -> Iterator[tuple[sa.Table, list[Row]]]:
    stamped = attrgetter("participant", "seq", "lamport", "height", "clock", "quiet")
    yield (
        tables.restamped,
        [
            (new.event_id, trace_id, *stamped(new), b"".join(new.names.ids) or None)
            for new in stamps
        ],
    )
    yield (
        tables.restamped_keys,
        [
            (new.event_id, key, trace_id, roles)
            for new in stamps
            for key, roles in roles_of(new.names).items()
        ],
    )
    yield (
        tables.restamped_edges,
        [
            (new.event_id, edge.cause.id, edge.rule, trace_id, int(edge.kind), awareness_code(edge))
            for new in stamps
            for edge in new.edges
        ]
        + [
            (new.event_id, link.cause, link.rule, trace_id, None, link.way)
            for new in stamps
            for link in new.ways
        ],
    )


async def _replace_participants(
    connection: AsyncConnection, trace_id: int, new: RestampResult
) -> None:
    await connection.execute(
        sa.delete(tables.participants).where(_participants.trace_id == trace_id)
    )
    if not new.participants:
        return
    values = [
        {
            **msgspec.structs.asdict(state),
            "trace_id": trace_id,
            "first_event_id": first,
            "last_event_id": last,
        }
        for state, first, last in new.participants
    ]
    await with_aliases(connection, trace_id, values)
    await connection.execute(sa.insert(tables.participants), values)
    await count_spanned(connection, trace_id)


async def _replace_channels(connection: AsyncConnection, trace_id: int, new: RestampResult) -> None:
    """Store the channels' participants; channels without events are forgotten."""
    no_participant = 0
    of_trace = _channels.trace_id == trace_id
    await connection.execute(
        sa.update(tables.channels).where(of_trace).values(participant=no_participant)
    )
    if new.channels:
        await connection.execute(
            sa.update(tables.channels)
            .where(of_trace, _channels.number == sa.bindparam("key"))
            .values(participant=sa.bindparam("owner"), last_event_id=sa.bindparam("last")),
            [
                {"key": channel.key, "owner": channel.participant, "last": channel.last_event_id}
                for channel in new.channels
            ],
        )
    has_none = _channels.participant == no_participant
    await connection.execute(sa.delete(tables.channels).where(of_trace, has_none))


async def _links(
    connection: AsyncConnection, trace_id: int, first: int, last: int, *, that_stay: bool
) -> dict[int, list[StoredLink]]:
    """The causes that events name, by the event; only those ``that_stay`` if messages are read."""
    query = (
        sa.select(
            *columns(_edges, "effect_id cause_id"),
            *(_events.channel, *columns(_edges, "rule kind way")),
        )
        .join_from(tables.edges, tables.events, _events.id == _edges.cause_id)
        .where(_edges.trace_id == trace_id, _edges.effect_id.between(first, last))
        .order_by(_edges.effect_id, _edges.cause_id, _edges.rule)
    )
    if that_stay:
        query = query.where(_edges.rule.in_(_UNREAD_RULES))
    links: defaultdict[int, list[StoredLink]] = defaultdict(list)
    for effect, *values in await connection.execute(query):
        links[effect].append(StoredLink(*values))
    return links


def _message(row: Any) -> tuple[tuple[str, ...], dict[str, Any], bytes, bool]:
    body = row.payload or b""
    properties = msgspec.json.decode(row.properties, type=dict[str, Any])
    return _texts(row.routing_keys), properties, body, len(body) < row.payload_bytes


def _texts(array: str | None) -> tuple[str, ...]:
    return () if array is None else msgspec.json.decode(array, type=tuple[str, ...])
