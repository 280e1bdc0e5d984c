"""Counts of durations: the events to count next, counting them, and reading the counts.

Counting goes through each trace's events in the order of their ids, from a stored position on. The
counts and the new position are stored in one transaction that names the old position: so each event
is counted once, even if a service is killed or several count at once. A settlement is stored with
the last event before it, and all settlements before an event are stored once it is: so the same
position serves for them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import ColumnElement, and_, delete, func, or_, select, text, update
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.causality.ranges import services_of
from app.store.conversations.deaths import first_deaths
from app.store.database import tables
from app.store.database.chunks import chunks, rows_with
from app.store.database.subject import Subject, reads, writes
from app.store.reading import messages
from app.tracker.links import SPANS_RULE
from model.durations import (
    BY_HOUR,
    BY_MINUTE,
    EVER,
    HANDED_OVER,
    MOST_OWNERS,
    REST,
    Cells,
    CopyEnd,
    CountedPeriod,
    DurationCounts,
    Owner,
    OwnerKind,
    OwnerRow,
    busiest,
    counts_of,
    number_in,
)
from model.event import Event
from model.times import HOUR, Microseconds
from model.words import Disposition, Match

MOST_ROWS = 3_000
"""Rows that are looked through for queues and services that became slow."""

_duration_places = tables.duration_places.c
_durations = tables.durations.c
_events = tables.events.c
_traces = tables.traces.c
_ROWS = select(
    _durations.trace_id, _durations.at, _durations.kind, _durations.name, _durations.cells
)
_KEY = [*tables.durations.primary_key.columns]
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Cells).decode

# The end of a copy that is handed over again, by the settlement of the delivery before.
_RETURNS = {
    Disposition.returned: CopyEnd.given_back,
    Disposition.channel_closed: CopyEnd.channel_closed,
}
# Numbers are those of `model.words`; as constants, for the index of settled deliveries.
_LED_TO = f"{{0}}.kind IN (0, 1, 2) AND {{0}}.rule <> '{SPANS_RULE}'"
_OF_DELIVERIES = (
    "SELECT e.queue, e.participant, e.recorded_at, p.recorded_at, e.match, CASE WHEN e.match = 2"
    " THEN (SELECT max(d.settlement) FROM edges AS g JOIN events AS d ON d.id = g.cause_id"
    " WHERE g.effect_id = e.id AND g.rule = 'returned') END"
    " FROM events AS e LEFT JOIN events AS p ON p.id = e.cause_id AND e.match = 1"
    " WHERE e.trace_id = :trace AND e.id > :after AND e.id <= :through AND e.type = 1"
    " AND NOT e.quiet",
    "SELECT queue, participant, settled_at, settled_at - recorded_at FROM events"  # noqa: S608
    f" WHERE trace_id = :trace AND {tables.ENDED} AND settlement IN (2, 3)"
    " AND hold >= :after AND hold < :through"
    " AND settled_at >= recorded_at AND NOT quiet",
    # In this order: from the new publishes to the deliveries that led to them and to none before.
    "SELECT d.queue, d.participant, min(e.recorded_at), min(e.recorded_at) - d.recorded_at"  # noqa: S608
    " FROM events AS e CROSS JOIN edges AS g CROSS JOIN events AS d"
    " WHERE e.trace_id = :trace AND e.id > :after AND e.id <= :through AND e.type = 0"
    f" AND g.effect_id = e.id AND {_LED_TO.format('g')} AND d.id = g.cause_id AND d.type = 1"
    " AND NOT d.quiet AND (d.settlement IS NULL OR d.settlement = 5)"
    " AND NOT EXISTS (SELECT 1 FROM edges AS b WHERE b.trace_id = :trace"
    f" AND b.cause_id = g.cause_id AND b.effect_id <= :after AND {_LED_TO.format('b')})"
    " GROUP BY g.cause_id, d.queue, d.participant, d.recorded_at"
    " HAVING min(e.recorded_at) >= d.recorded_at",
)


class DurationProgress(NamedTuple):
    """A trace whose events are counted up to one, and not yet up to its last."""

    trace_id: int
    read_id: int
    last_id: int


class DurationPortion(NamedTuple):
    """The counts of a trace's next events."""

    place: DurationProgress
    through: int
    read_at: int
    is_whole: bool  # there are no more
    counts: DurationCounts
    users: Mapping[Owner, str]


class OwnerNames(NamedTuple):
    """The queues, or the services, of a period, and the deliveries of those without own counts."""

    names: list[str]
    others: int


class Durations(Subject):
    """Waiting and handling times of all traces' messages."""

    @reads
    async def behind(
        self, connection: AsyncConnection, trace_ids: Collection[int]
    ) -> list[DurationProgress]:
        """Traces with events to be counted, if they are among these or no service runs them."""
        read = func.coalesce(_duration_places.read_id, 0)
        query = (
            select(_traces.id, read, _traces.last_event_id)
            .join_from(tables.traces, tables.duration_places, isouter=True)
            .where(_traces.last_event_id > read)
            .where(or_(_traces.id.in_(sorted(trace_ids)), _traces.holder.is_(None)))
            .order_by(read)
        )
        return [DurationProgress(*row) for row in await connection.execute(query)]

    @reads
    async def next(
        self, connection: AsyncConnection, place: DurationProgress, limit: int
    ) -> DurationPortion:
        """The counts of the next events, at most this many, and of settlements before them."""
        trace_id, read_id, last_id = place
        query = select(_events.id).where(_events.trace_id == trace_id, _events.id > read_id)
        end = query.order_by(_events.id).offset(limit - 1).limit(1)
        until_id = (await connection.execute(end)).scalar_one_or_none()
        is_whole, until_id = until_id is None, until_id or last_id
        parameters = {"trace": trace_id, "after": read_id, "through": until_id}
        handed_over, settled, forwarded = await self.database.dialect.rows_of(
            connection, _OF_DELIVERIES, parameters
        )
        numbers = {row[1] for row in (*handed_over, *settled, *forwarded)}
        services = await services_of(connection, trace_id, numbers)
        counts, users = DurationCounts(), dict[Owner, str]()

        def owners(queue: str | None, number: int) -> list[Owner]:
            service, user = services.get(number, (None, ""))
            owners = _owners(queue, service)
            for owner in owners:
                users.setdefault(owner, user)
            return owners

        for queue, number, moment, published, match, settlement in handed_over:
            wait = None if published is None or published > moment else moment - published
            counts.count_delivery(owners(queue, number), moment, wait)
            if match == Match.redelivered:
                back = _RETURNS.get(settlement, CopyEnd.returned)
                counts.count_end(_owners(queue, None), moment, back)
        for queue, number, moment, took in (*settled, *forwarded):
            counts.count_handling(owners(queue, number), moment, took)
        async for queue, moment, death in _deaths(connection, trace_id, read_id, until_id):
            counts.count_end(_owners(queue, None), moment, death)
            users = dict.fromkeys(_owners(queue, None), "") | users
        of_last = select(_events.recorded_at).where(_events.id == until_id)
        read_at = (await connection.execute(of_last)).scalar_one_or_none() or 0
        return DurationPortion(place, until_id, read_at, is_whole, counts, users)

    @writes
    async def count(self, connection: AsyncConnection, portion: DurationPortion) -> None:
        """Store the counts of a portion, if nobody has counted it meanwhile."""
        if await self._go_on(connection, portion):
            await self._add(connection, portion)

    @writes
    async def forget(self, connection: AsyncConnection) -> None:
        """Remove counts that have been kept long enough."""
        moment, trace_ids = self.database.clock(), select(_traces.id)
        for resolution in (BY_MINUTE, BY_HOUR):
            conditions = (
                _durations.trace_id.in_(trace_ids),
                _durations.part == resolution.part,
                _durations.at < moment - resolution.retention,
            )
            await connection.execute(delete(tables.durations).where(*conditions))
        day = tables.durations.alias().c
        is_alike = [day[key] == _durations[key] for key in ("trace_id", "kind", "name")]
        recent = select(day.at).where(day.part == BY_HOUR.part, *is_alike)
        of_all = _durations.trace_id.in_(trace_ids), _durations.part == EVER.part
        await connection.execute(delete(tables.durations).where(*of_all, ~recent.exists()))

    async def _go_on(self, connection: AsyncConnection, portion: DurationPortion) -> bool:
        trace_id, read_id, _ = portion.place
        values = {"trace_id": trace_id, "read_id": portion.through, "read_at": portion.read_at}
        start = self.database.dialect.upsert(tables.duration_places).on_conflict_do_nothing()
        conditions = _duration_places.trace_id == trace_id, _duration_places.read_id == read_id
        statement = update(tables.duration_places).where(*conditions) if read_id else start
        return bool((await connection.execute(statement.values(**values))).rowcount)

    async def _add(self, connection: AsyncConnection, portion: DurationPortion) -> None:
        trace_id, moment = portion.place.trace_id, self.database.clock()
        rows = portion.counts.rows()
        for resolution in (BY_MINUTE, BY_HOUR, EVER):
            part_keys = sorted(key for key in rows if key.part == resolution.part)
            for start, keys in groupby(part_keys, key=lambda key: key.begin):
                if -HOUR <= moment - start <= resolution.retention:  # clocks may be anywhere
                    new = {(key.kind, key.name): rows[key] for key in keys}
                    await self._merge(
                        connection, (trace_id, resolution.part, start), new, portion.users
                    )

    async def _merge(
        self,
        connection: AsyncConnection,
        time_key: tuple[int, int, int],
        new: dict[Owner, Counter[int]],
        users: Mapping[Owner, str],
    ) -> None:
        """Add counts to the rows of one time of a trace."""
        conditions = [column == value for column, value in zip(_durations, time_key, strict=False)]
        for kind in OwnerKind:
            of_kind = *conditions, _durations.kind == kind
            homeless = await self._excess_names(connection, of_kind, kind, new, users)
            rest = Counter[int]()
            for portion in chunks(sorted(homeless)):
                statement = delete(tables.durations).where(*of_kind, _durations.name.in_(portion))
                for cells in await connection.scalars(statement.returning(_durations.cells)):
                    rest.update(_decode(cells))
            for name in homeless:
                rest.update(new.pop((kind, name), {}))
            if rest:
                new[kind, REST] = rest + new.get((kind, REST), Counter())
        stored = select(_durations.kind, _durations.name, _durations.cells, _durations.user).where(
            *conditions
        )
        rows = await rows_with(connection, stored, _durations.name, {name for _, name in new})
        old = {(kind, name): (cells, user) for kind, name, cells, user in rows}
        values = []
        for owner, cells in new.items():
            old_cells, user = old.get(owner, (None, users.get(owner, "")))
            total_cells = cells if old_cells is None else cells + Counter(_decode(old_cells))
            values.append((*time_key, *owner, _encode(total_cells), number_in(total_cells), user))
        changing = ("cells", "total")
        await self.database.dialect.upsert_many(connection, tables.durations, values, changing)

    async def _excess_names(
        self,
        connection: AsyncConnection,
        of_kind: Sequence[ColumnElement[bool]],
        kind: OwnerKind,
        new: Mapping[Owner, Counter[int]],
        users: Mapping[Owner, str],
    ) -> set[str]:
        """The names, stored or new, that are too many for counts of their own."""
        new_totals = {
            name: number_in(cells)
            for (cell_kind, name), cells in new.items()
            if cell_kind == kind and name
        }
        query = select(func.count()).where(*of_kind, _durations.name != REST)
        if len(new_totals) + (await connection.execute(query)).scalar_one() <= MOST_OWNERS:
            return set()
        stored = select(_durations.name, _durations.user, _durations.total).where(
            *of_kind, _durations.name != REST
        )
        totals = {name: (user, total) for name, user, total in await connection.execute(stored)}
        for name, total in new_totals.items():
            user, old_total = totals.get(name, (users[kind, name], 0))
            totals[name] = user, old_total + total
        return totals.keys() - busiest(totals, MOST_OWNERS)

    @reads
    async def of(
        self, connection: AsyncConnection, trace_id: int, owner: Owner, period: CountedPeriod
    ) -> list[OwnerRow]:
        """The rows of a queue or a service in which a period has counts."""
        part, row, _ = period.resolution
        times = [*range(period.begin - period.begin % row, period.end, row)]
        of_owner = _durations.part == part, _durations.kind == owner[0], _durations.name == owner[1]
        query = _ROWS.where(_durations.trace_id == trace_id, *of_owner)
        return [_row(row) for row in await rows_with(connection, query, _durations.at, times)]

    @reads
    async def ever(self, connection: AsyncConnection, trace_ids: Collection[int]) -> list[OwnerRow]:
        """All counts of queues and services."""
        query = _ROWS.where(_durations.part == EVER.part)
        rows = await rows_with(connection, query, _durations.trace_id, trace_ids)
        return [_row(row) for row in rows]

    @reads
    async def recent(
        self, connection: AsyncConnection, trace_ids: Collection[int], start: int
    ) -> tuple[list[OwnerRow], bool]:
        """The counts by the minute of queues and services since a time, and whether all are there.

        Beyond `MOST_ROWS` only those of each user's busiest.
        """
        of_user = [_durations.trace_id, _durations.at, _durations.kind, _durations.user]
        order = _durations.total.desc(), _durations.name
        rank = func.row_number().over(partition_by=of_user, order_by=order)
        ranks = select(*_KEY, rank.label("rank")).where(_durations.part == BY_MINUTE.part)
        ranks = ranks.where(_durations.at > start - BY_MINUTE.row, _durations.name != REST)
        of_others = select(_durations.name).where(
            _durations.part == BY_MINUTE.part,
            _durations.at > start - BY_MINUTE.row,
            _durations.name == REST,
        )
        rows, is_whole = list[OwnerRow](), True
        for ids in chunks(sorted(trace_ids)):
            ranked = ranks.where(_durations.trace_id.in_(ids)).subquery()
            busiest_rows = select(ranked).order_by(ranked.c.rank).limit(MOST_ROWS + 1).subquery()
            conditions = [column == busiest_rows.c[column.name] for column in _KEY]
            portion = (await connection.execute(_ROWS.join(busiest_rows, and_(*conditions)))).all()
            rest = await connection.execute(of_others.where(_durations.trace_id.in_(ids)).limit(1))
            is_whole &= len(portion) <= MOST_ROWS and rest.first() is None
            rows += map(_row, portion[:MOST_ROWS])
        return rows, is_whole

    @reads
    async def names(
        self, connection: AsyncConnection, trace_id: int, start: int, end: int
    ) -> dict[OwnerKind, OwnerNames]:
        """The queues and the services that have any counts in the days of a period."""
        of_days = _durations.at > start - BY_HOUR.row, _durations.at < end
        days = _durations.trace_id == trace_id, _durations.part == BY_HOUR.part, *of_days
        query = (
            select(_durations.kind, _durations.name)
            .where(*days)
            .distinct()
            .order_by(_durations.name)
        )
        rows = (await connection.execute(query)).all()
        rest = Counter[int]()
        of_others = select(_durations.kind, _durations.cells).where(*days, _durations.name == REST)
        for kind, cells in await connection.execute(of_others):
            rest[kind] += counts_of(_decode(cells)).get(HANDED_OVER, 0)
        return {
            kind: OwnerNames([e.name for e in rows if e.kind == kind and e.name], rest[kind])
            for kind in OwnerKind
        }

    @reads
    async def as_of(
        self, connection: AsyncConnection, trace_ids: Collection[int]
    ) -> Microseconds | None:
        """The time up to which all these traces are counted; None where that is their last."""
        query = (
            select(func.min(func.coalesce(_duration_places.read_at, _traces.created_at)))
            .join_from(tables.traces, tables.duration_places, isouter=True)
            .where(_traces.last_event_id > func.coalesce(_duration_places.read_id, 0))
        )
        moments = [row[0] for row in await rows_with(connection, query, _traces.id, trace_ids)]
        return min((Microseconds(moment) for moment in moments if moment is not None), default=None)


async def _deaths(
    connection: AsyncConnection, trace_id: int, after: int, through: int
) -> AsyncIterator[tuple[str | None, int, CopyEnd]]:
    """Queues, times and ends of the deaths that dead letters are the first to tell of."""
    query = select(_events.id).where(_events.trace_id == trace_id, text(tables.FAILURES["died"]))
    in_range = _events.id > after, _events.id <= through
    for ids in chunks([*await connection.scalars(query.where(*in_range))]):
        letters = await _without_bodies(connection, ids)
        causes = {event.cause for event in letters.values() if event.cause is not None}
        publishes = await _without_bodies(connection, causes)
        for death in await first_deaths(connection, [*letters.values()], publishes):
            end = CopyEnd.__members__.get(death.reason or "", CopyEnd.other)
            yield death.queue, letters[death.event].recorded_at, end


async def _without_bodies(connection: AsyncConnection, ids: Collection[int]) -> dict[int, Event]:
    rows = await rows_with(connection, messages.WITHOUT_BODY, _events.id, ids)
    return {row.id: messages.event_of(row) for row in rows}


def _owners(queue: str | None, service: str | None) -> list[Owner]:
    """The owners of durations; queues that the broker named come and go, and are too many."""
    if queue is not None and queue.startswith("amq."):
        queue = None
    owners = ((OwnerKind.queue, queue), (OwnerKind.service, service))
    return [(kind, name) for kind, name in owners if name is not None]


def _row(row: Any) -> OwnerRow:
    return OwnerRow(row.trace_id, row.at, row.kind, row.name, _decode(row.cells))
