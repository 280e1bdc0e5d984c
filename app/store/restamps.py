"""Restamping: new stamps beside the old ones, which take their place in one transaction.

New stamps are put aside in a table of their own while the trace goes on. Until they take their
place nothing that is stored changes, so whatever breaks off leaves the old; what is then left in
that table is removed before the next restamp.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence

import msgspec
from sqlalchemy import bindparam, delete, func, insert, select, text, true, update
from sqlalchemy.ext.asyncio import AsyncConnection

from app.errors import ConflictError
from app.store import tables
from app.store.aliases import with_aliases
from app.store.leases import lock_trace
from app.store.retention import note_first_events
from app.store.subject import Subject, reads, writes
from app.stored.restamps import Progress, Rules, Standing
from app.tracker.events import Reference
from app.tracker.records import Channel
from app.tracker.restamp import Incarnation, NewStamp, Restamped, StoredEvent, StoredLink

# How many names or ids one query looks up: both databases bound a query's parameters.
CHUNK = 500
# How many ids one statement goes through: PostgreSQL's have to end within a minute.
SPAN = 50_000

_new = tables.restamped.c
_ways = tables.restamped_ways.c
_MOVED = text(
    "UPDATE events SET participant = new.participant + :offset, seq = new.seq,"
    " lamport = new.lamport, height = new.height, clock = new.clock, quiet = new.quiet"
    " FROM restamped AS new WHERE new.event_id = events.id AND new.trace_id = :trace"
    " AND events.trace_id = :trace AND events.id BETWEEN :first AND :last"
)
_WAYS_MOVED = text(
    "UPDATE edges SET way = new.way FROM restamped_ways AS new"
    " WHERE new.effect_id = edges.effect_id AND new.cause_id = edges.cause_id"
    " AND new.rule = edges.rule AND new.trace_id = :trace"
    " AND new.effect_id BETWEEN :first AND :last AND edges.effect_id BETWEEN :first AND :last"
)


class Restamps(Subject):
    """New stamps for the events of a trace."""

    async def clear(self, trace_id: int | None = None) -> None:
        """Remove what is put aside, or was left over, for a trace or for all (None)."""
        while await self._clear_some(trace_id):
            pass
        await self.database.write(self.database.dialect.reclaim)

    @reads
    async def standing(self, connection: AsyncConnection, trace_id: int) -> Standing:
        """How far the trace is, and its checkpoint."""
        first = (
            select(func.min(tables.events.c.id))
            .where(tables.events.c.trace_id == tables.traces.c.id)
            .scalar_subquery()
        )
        query = select(
            func.coalesce(first, 0),
            tables.traces.c.last_event_id,
            tables.traces.c.events,
            tables.traces.c.checkpoint,
        ).where(tables.traces.c.id == trace_id)
        return Standing(*(await connection.execute(query)).one())

    @reads
    async def events(
        self, connection: AsyncConnection, trace_id: int, *, after: int, limit: int
    ) -> list[StoredEvent]:
        """The next events of a trace, by id."""
        its = tables.events.c
        query = (
            select(
                its.id,
                its.type,
                its.channel,
                its.recorded_at,
                its.exchange,
                its.queue,
                its.routed_queues,
                its.cause_id,
                its.quiet,
            )
            .where(its.trace_id == trace_id, its.id > after)
            .order_by(its.id)
            .limit(limit)
        )
        rows = (await connection.execute(query)).all()
        links = await _links(connection, trace_id, rows[0].id, rows[-1].id) if rows else {}
        return [
            StoredEvent(
                row.id,
                row.type,
                row.channel,
                row.recorded_at,
                row.exchange,
                row.queue,
                _texts(row.routed_queues),
                row.cause_id,
                row.quiet,
                tuple(links.get(row.id, ())),
            )
            for row in rows
        ]

    @reads
    async def channels(
        self, connection: AsyncConnection, trace_id: int, *, after: int
    ) -> list[tuple[int, Channel]]:
        """The channels of a trace with a greater key, by key."""
        its = tables.channels.c
        query = (
            select(its.number, its.node, its.connection, its.channel, its.user)
            .where(its.trace_id == trace_id, its.number > after)
            .order_by(its.number)
        )
        return [(key, Channel(*values)) for key, *values in await connection.execute(query)]

    @reads
    async def incarnations(
        self, connection: AsyncConnection, names: Collection[str]
    ) -> dict[str, list[Incarnation]]:
        """The known connections of each of these names, the oldest first."""
        found: dict[str, list[Incarnation]] = {name: [] for name in names}
        its, wanted = tables.connections.c, sorted(names)
        for start in range(0, len(wanted), CHUNK):
            query = (
                select(its.name, its.opened_at, its.user, its.client)
                .where(its.name.in_(wanted[start : start + CHUNK]))
                .order_by(its.opened_at, its.id)
            )
            for name, *values in await connection.execute(query):
                found[name].append(Incarnation(*values))
        return found

    @reads
    async def clocks(
        self, connection: AsyncConnection, trace_id: int, ids: Sequence[int]
    ) -> dict[int, Reference]:
        """The new clocks of those of these events that have one."""
        found: dict[int, Reference] = {}
        for start in range(0, len(ids), CHUNK):
            query = select(_new.event_id, _new.clock, _new.lamport).where(
                _new.event_id.in_(ids[start : start + CHUNK]), _new.trace_id == trace_id
            )
            for event_id, clock, lamport in await connection.execute(query):
                found[event_id] = Reference(None, clock, lamport, event_id)
        return found

    @writes
    async def put_aside(
        self, connection: AsyncConnection, trace_id: int, stamps: Sequence[NewStamp]
    ) -> None:
        """Keep new stamps, those of consecutive events of a trace. May be repeated."""
        first, last = stamps[0].event_id, stamps[-1].event_id
        await connection.execute(
            delete(tables.restamped).where(
                _new.event_id.between(first, last), _new.trace_id == trace_id
            )
        )
        rows = [
            (
                new.event_id,
                trace_id,
                new.participant,
                new.seq,
                new.lamport,
                new.height,
                new.clock,
                new.quiet,
            )
            for new in stamps
        ]
        dialect = self.database.dialect
        await dialect.insert_many(connection, tables.restamped, rows)
        await connection.execute(
            delete(tables.restamped_ways).where(
                _ways.effect_id.between(first, last), _ways.trace_id == trace_id
            )
        )
        ways = [
            (new.event_id, link.cause, link.rule, trace_id, link.way)
            for new in stamps
            for link in new.ways
        ]
        await dialect.insert_many(connection, tables.restamped_ways, ways)

    @writes
    async def swap(
        self,
        connection: AsyncConnection,
        trace_id: int,
        rules: Rules,
        standing: Standing,
        new: Restamped,
        report: Progress,
        epoch: int | None = None,
    ) -> None:
        """Have the new stamps, all put aside, take the place of the old.

        Raises `ConflictError` if the trace is not as ``standing`` says any more, `LeaseLostError`
        if it was taken by another since ``epoch``.
        """
        its = tables.traces.c
        await lock_trace(connection, trace_id, epoch)
        # Before anything is read: whoever writes to the trace now waits, and then finds it changed.
        changed = await connection.execute(
            update(tables.traces)
            .where(its.id == trace_id, its.last_event_id == standing.last_id)
            .where(
                its.events == standing.events, its.checkpoint.is_not_distinct_from(standing.state)
            )
            .values(
                policy=rules.policy,
                quiet=msgspec.json.encode(rules.quiet).decode(),
                checkpoint=new.state,
            )
        )
        if changed.rowcount != 1:
            raise ConflictError("the trace has gone on while its new stamps took their place")
        moved = 0
        for first in (
            range(standing.first_id, standing.last_id + 1, SPAN) if standing.events else ()
        ):
            span = {"first": first, "last": first + SPAN - 1}
            done = await connection.execute(
                _MOVED, {**span, "offset": new.offset, "trace": trace_id}
            )
            await connection.execute(_WAYS_MOVED, {**span, "trace": trace_id})
            moved += done.rowcount
            report(moved)
        if moved != standing.events:
            raise ConflictError(f"{standing.events - moved} of the events have no new stamp")
        await _replace_participants(connection, trace_id, new)
        await _replace_channels(connection, trace_id, new)
        await note_first_events(connection, trace_id, standing.first_id)

    @writes
    async def _clear_some(self, connection: AsyncConnection, trace_id: int | None) -> bool:
        its = true() if trace_id is None else _new.trace_id == trace_id
        some = select(_new.event_id).where(its).order_by(_new.event_id).limit(SPAN).subquery()
        last = (await connection.execute(select(func.max(some.c.event_id)))).scalar_one_or_none()
        if last is None:
            return False
        others = true() if trace_id is None else _ways.trace_id == trace_id
        await connection.execute(
            delete(tables.restamped_ways).where(others, _ways.effect_id <= last)
        )
        await connection.execute(delete(tables.restamped).where(its, _new.event_id <= last))
        return True


async def _replace_participants(connection: AsyncConnection, trace_id: int, new: Restamped) -> None:
    await connection.execute(
        delete(tables.participants).where(tables.participants.c.trace_id == trace_id)
    )
    if not new.participants:
        return
    values = [
        {
            **msgspec.structs.asdict(each.state),
            "trace_id": trace_id,
            "first_event_id": each.first_event_id,
            "last_event_id": each.last_event_id,
        }
        for each in new.participants
    ]
    await with_aliases(connection, trace_id, values)
    await connection.execute(insert(tables.participants), values)


async def _replace_channels(connection: AsyncConnection, trace_id: int, new: Restamped) -> None:
    """Tell channels whose they are; those without events are forgotten."""
    its = tables.channels.c
    nobody = 0
    await connection.execute(
        update(tables.channels).where(its.trace_id == trace_id).values(participant=nobody)
    )
    if new.channels:
        await connection.execute(
            update(tables.channels)
            .where(its.trace_id == trace_id, its.number == bindparam("of"))
            .values(participant=bindparam("whose"), last_event_id=bindparam("last")),
            [
                {"of": each.key, "whose": each.participant, "last": each.last_event_id}
                for each in new.channels
            ],
        )
    await connection.execute(
        delete(tables.channels).where(its.trace_id == trace_id, its.participant == nobody)
    )


async def _links(
    connection: AsyncConnection, trace_id: int, first: int, last: int
) -> dict[int, list[StoredLink]]:
    """The causes that events name, by the event."""
    its, cause = tables.edges.c, tables.events.c
    query = (
        select(its.effect_id, its.cause_id, cause.channel, its.rule, its.way)
        .join_from(tables.edges, tables.events, cause.id == its.cause_id)
        .where(its.trace_id == trace_id, its.effect_id.between(first, last))
        .order_by(its.effect_id, its.cause_id, its.rule)
    )
    links: defaultdict[int, list[StoredLink]] = defaultdict(list)
    for effect, *values in await connection.execute(query):
        links[effect].append(StoredLink(*values))
    return links


def _texts(array: str | None) -> tuple[str, ...]:
    return () if array is None else msgspec.json.decode(array, type=tuple[str, ...])
