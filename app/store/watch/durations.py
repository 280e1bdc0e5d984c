"""Counts of durations: which events are to be counted next, counting, and reading what was counted.

It goes through each trace's events in the order of their ids, from a stored place on. What is
counted and the new place are stored in one transaction, which names the old place: so each is
counted once, whoever is killed, and if several count at once. A settlement comes after its
delivery: what is stored of it names the last event before it, and once an event has followed, all
that name earlier ones are stored. So settlements are counted by the same place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import ColumnElement, and_, delete, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.causality.ranges import services_of
from app.store.database import tables
from app.store.database.chunks import chunks, rows_with
from app.store.database.subject import Subject, reads, writes
from app.tracker.links import SPANS_RULE
from model.durations import (
    BY_HOUR,
    BY_MINUTE,
    OTHERS,
    Cells,
    CountedPeriod,
    DurationCounts,
    Owner,
    OwnerKind,
    OwnerRow,
    busiest,
    deliveries_in,
)
from model.times import HOUR, Microseconds

MOST_OWNERS = 1_000
"""Queues of a virtual host with places in an hour, and in a day; and services."""

MOST_ROWS = 3_000
"""Rows that are looked through for what became slow."""

_its, _place, _traces = tables.durations.c, tables.duration_places.c, tables.traces.c
_events = tables.events.c
_ROWS = select(_its.trace_id, _its.at, _its.kind, _its.name, _its.cells)
_KEY = [*tables.durations.primary_key.columns]
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Cells).decode

# Numbers are those of `model.words`; as constants, for the index of what is settled.
_LED = f"{{0}}.kind IN (0, 1, 2) AND {{0}}.rule <> '{SPANS_RULE}'"
_OF_DELIVERIES = (
    "SELECT e.queue, e.participant, e.recorded_at, p.recorded_at"
    " FROM events AS e LEFT JOIN events AS p ON p.id = e.cause_id AND e.match = 1"
    " WHERE e.trace_id = :trace AND e.id > :after AND e.id <= :through AND e.type = 1"
    " AND NOT e.quiet",
    "SELECT queue, participant, settled_at, settled_at - recorded_at FROM events"
    " WHERE trace_id = :trace AND settlement IN (2, 3) AND hold >= :after AND hold < :through"
    " AND settled_at >= recorded_at AND NOT quiet",
    # In this order: from the new publishes to what led to them, if it led to none before.
    "SELECT d.queue, d.participant, min(e.recorded_at), min(e.recorded_at) - d.recorded_at"  # noqa: S608
    " FROM events AS e CROSS JOIN edges AS g CROSS JOIN events AS d"
    " WHERE e.trace_id = :trace AND e.id > :after AND e.id <= :through AND e.type = 0"
    f" AND g.effect_id = e.id AND {_LED.format('g')} AND d.id = g.cause_id AND d.type = 1"
    " AND NOT d.quiet AND (d.settlement IS NULL OR d.settlement = 5)"
    " AND NOT EXISTS (SELECT 1 FROM edges AS b WHERE b.trace_id = :trace"
    f" AND b.cause_id = g.cause_id AND b.effect_id <= :after AND {_LED.format('b')})"
    " GROUP BY g.cause_id, d.queue, d.participant, d.recorded_at"
    " HAVING min(e.recorded_at) >= d.recorded_at",
)


class DurationPlace(NamedTuple):
    """A trace whose events are counted up to one, and not yet up to its last."""

    trace_id: int
    read_id: int
    last_id: int


class DurationPortion(NamedTuple):
    """What the next events of a trace come to."""

    place: DurationPlace
    through: int
    read_at: int
    is_whole: bool  # there are no more
    counts: DurationCounts
    users: Mapping[Owner, str]


class OwnerNames(NamedTuple):
    """The queues, or the services, of a period, and the deliveries of those without a place."""

    names: list[str]
    others: int


class Durations(Subject):
    """How long messages waited and were handled, of all traces."""

    @reads
    async def behind(
        self, connection: AsyncConnection, here: Collection[int]
    ) -> list[DurationPlace]:
        """Traces with events to be counted, of those given and those that no service runs."""
        read = func.coalesce(_place.read_id, 0)
        query = (
            select(_traces.id, read, _traces.last_event_id)
            .join_from(tables.traces, tables.duration_places, isouter=True)
            .where(_traces.last_event_id > read)
            .where(or_(_traces.id.in_(sorted(here)), _traces.holder.is_(None)))
            .order_by(read)
        )
        return [DurationPlace(*row) for row in await connection.execute(query)]

    @reads
    async def next(
        self, connection: AsyncConnection, place: DurationPlace, most: int
    ) -> DurationPortion:
        """What the next events come to, at most this many, and what was settled before them."""
        trace_id, after, last_id = place
        following = select(_events.id).where(_events.trace_id == trace_id, _events.id > after)
        end = following.order_by(_events.id).offset(most - 1).limit(1)
        through = (await connection.execute(end)).scalar_one_or_none()
        is_whole, through = through is None, through or last_id
        asked = {"trace": trace_id, "after": after, "through": through}
        handed_over, settled, led = await self.database.dialect.rows_of(
            connection, _OF_DELIVERIES, asked
        )
        numbers = {row[1] for row in (*handed_over, *settled, *led)}
        services = await services_of(connection, trace_id, numbers)
        counts, users = DurationCounts(), dict[Owner, str]()

        def owners(queue: str | None, number: int) -> list[Owner]:
            service, user = services.get(number, (None, ""))
            found = _owners(queue, service)
            for each in found:
                users.setdefault(each, user)
            return found

        for queue, number, at, published in handed_over:
            waited = None if published is None or published > at else at - published
            counts.handed_over(owners(queue, number), at, waited)
        for queue, number, at, took in (*settled, *led):
            counts.handled(owners(queue, number), at, took)
        of_last = select(_events.recorded_at).where(_events.id == through)
        read_at = (await connection.execute(of_last)).scalar_one_or_none() or 0
        return DurationPortion(place, through, read_at, is_whole, counts, users)

    @writes
    async def count(self, connection: AsyncConnection, portion: DurationPortion) -> None:
        """Store the counts of a portion, if nobody has counted it meanwhile."""
        if await self._go_on(connection, portion):
            await self._add(connection, portion)

    @writes
    async def forget(self, connection: AsyncConnection) -> None:
        """Remove the counts of all traces that have been kept long enough."""
        now, those = self.database.clock(), select(_traces.id)
        for each in (BY_MINUTE, BY_HOUR):
            its = _its.trace_id.in_(those), _its.part == each.part, _its.at < now - each.kept
            await connection.execute(delete(tables.durations).where(*its))

    async def _go_on(self, connection: AsyncConnection, portion: DurationPortion) -> bool:
        trace_id, read_id, _ = portion.place
        moved = {"trace_id": trace_id, "read_id": portion.through, "read_at": portion.read_at}
        begun = self.database.dialect.upsert(tables.duration_places).on_conflict_do_nothing()
        its = _place.trace_id == trace_id, _place.read_id == read_id
        statement = update(tables.duration_places).where(*its) if read_id else begun
        return bool((await connection.execute(statement.values(**moved))).rowcount)

    async def _add(self, connection: AsyncConnection, portion: DurationPortion) -> None:
        trace_id, now = portion.place.trace_id, self.database.clock()
        rows = portion.counts.rows()
        for resolution in (BY_MINUTE, BY_HOUR):
            those = sorted(key for key in rows if key.part == resolution.part)
            for at, keys in groupby(those, key=lambda key: key.at):
                if -HOUR <= now - at <= resolution.kept:  # clocks may be anywhere
                    new = {(key.kind, key.name): rows[key] for key in keys}
                    await self._merge(
                        connection, (trace_id, resolution.part, at), new, portion.users
                    )

    async def _merge(
        self,
        connection: AsyncConnection,
        place: tuple[int, int, int],
        new: dict[Owner, Counter[int]],
        users: Mapping[Owner, str],
    ) -> None:
        """Add counts to the rows of one time of a trace."""
        its = [each == value for each, value in zip(_its, place, strict=False)]
        for kind in OwnerKind:
            of_kind = *its, _its.kind == kind
            without = await self._without_place(connection, of_kind, kind, new, users)
            others = Counter[int]()
            for some in chunks(sorted(without)):
                gone = delete(tables.durations).where(*of_kind, _its.name.in_(some))
                for cells in await connection.scalars(gone.returning(_its.cells)):
                    others.update(_decode(cells))
            for name in without:
                others.update(new.pop((kind, name), {}))
            if others:
                new[kind, OTHERS] = others + new.get((kind, OTHERS), Counter())
        stored = select(_its.kind, _its.name, _its.cells, _its.user).where(*its)
        found = await rows_with(connection, stored, _its.name, {name for _, name in new})
        known = {(kind, name): (cells, user) for kind, name, cells, user in found}
        values = []
        for owner, cells in new.items():
            before, user = known.get(owner, (None, users.get(owner, "")))
            added = cells if before is None else cells + Counter(_decode(before))
            values.append((*place, *owner, _encode(added), added.total(), user))
        changing = ("cells", "total")
        await self.database.dialect.upsert_many(connection, tables.durations, values, changing)

    async def _without_place(
        self,
        connection: AsyncConnection,
        of_kind: Sequence[ColumnElement[bool]],
        kind: OwnerKind,
        new: Mapping[Owner, Counter[int]],
        users: Mapping[Owner, str],
    ) -> set[str]:
        """The names, stored or new, that have no place beside the others."""
        ours = {name: cells.total() for (each, name), cells in new.items() if each == kind and name}
        taken = select(func.count()).where(*of_kind, _its.name != OTHERS)
        if len(ours) + (await connection.execute(taken)).scalar_one() <= MOST_OWNERS:
            return set()
        stored = select(_its.name, _its.user, _its.total).where(*of_kind, _its.name != OTHERS)
        totals = {name: (user, total) for name, user, total in await connection.execute(stored)}
        for name, total in ours.items():
            user, before = totals.get(name, (users[kind, name], 0))
            totals[name] = user, before + total
        return totals.keys() - busiest(totals, MOST_OWNERS)

    @reads
    async def of(
        self, connection: AsyncConnection, trace_id: int, owner: Owner, period: CountedPeriod
    ) -> list[OwnerRow]:
        """The rows of a queue or a service in which a period has counts."""
        part, row, _ = period.resolution
        times = [*range(period.since - period.since % row, period.until, row)]
        its = _its.part == part, _its.kind == owner[0], _its.name == owner[1]
        query = _ROWS.where(_its.trace_id == trace_id, *its)
        return [_row(each) for each in await rows_with(connection, query, _its.at, times)]

    @reads
    async def recent(
        self, connection: AsyncConnection, trace_ids: Collection[int], since: int
    ) -> tuple[list[OwnerRow], bool]:
        """The counts by the minute of queues and services since a time, and whether of all.

        Of more than `MOST_ROWS` those of the busiest of each user.
        """
        of_user = [_its.trace_id, _its.at, _its.kind, _its.user]
        order = _its.total.desc(), _its.name
        rank = func.row_number().over(partition_by=of_user, order_by=order)
        some = select(*_KEY, rank.label("rank")).where(_its.part == BY_MINUTE.part)
        some = some.where(_its.at > since - BY_MINUTE.row, _its.name != OTHERS)
        of_others = select(_its.name).where(
            _its.part == BY_MINUTE.part, _its.at > since - BY_MINUTE.row, _its.name == OTHERS
        )
        rows, is_whole = list[OwnerRow](), True
        for ids in chunks(sorted(trace_ids)):
            ranked = some.where(_its.trace_id.in_(ids)).subquery()
            chosen = select(ranked).order_by(ranked.c.rank).limit(MOST_ROWS + 1).subquery()
            joined = [each == chosen.c[each.name] for each in _KEY]
            found = (await connection.execute(_ROWS.join(chosen, and_(*joined)))).all()
            others = await connection.execute(of_others.where(_its.trace_id.in_(ids)).limit(1))
            is_whole &= len(found) <= MOST_ROWS and others.first() is None
            rows += map(_row, found[:MOST_ROWS])
        return rows, is_whole

    @reads
    async def names(
        self, connection: AsyncConnection, trace_id: int, since: int, until: int
    ) -> dict[OwnerKind, OwnerNames]:
        """The queues and the services that have any counts in the days of a period."""
        of_days = _its.at > since - BY_HOUR.row, _its.at < until
        days = _its.trace_id == trace_id, _its.part == BY_HOUR.part, *of_days
        query = select(_its.kind, _its.name).where(*days).distinct().order_by(_its.name)
        rows = (await connection.execute(query)).all()
        others = Counter[int]()
        of_others = select(_its.kind, _its.cells).where(*days, _its.name == OTHERS)
        for kind, cells in await connection.execute(of_others):
            others[kind] += deliveries_in(_decode(cells))
        return {
            kind: OwnerNames([e.name for e in rows if e.kind == kind and e.name], others[kind])
            for kind in OwnerKind
        }

    @reads
    async def as_of(
        self, connection: AsyncConnection, trace_ids: Collection[int]
    ) -> Microseconds | None:
        """The time up to which all these traces are counted; None where that is their last."""
        query = (
            select(func.min(func.coalesce(_place.read_at, _traces.created_at)))
            .join_from(tables.traces, tables.duration_places, isouter=True)
            .where(_traces.last_event_id > func.coalesce(_place.read_id, 0))
        )
        found = [each[0] for each in await rows_with(connection, query, _traces.id, trace_ids)]
        return min((Microseconds(at) for at in found if at is not None), default=None)


def _owners(queue: str | None, service: str | None) -> list[Owner]:
    """Whose durations they are. Queues that the broker named come and go, and are many."""
    if queue is not None and queue.startswith("amq."):
        queue = None
    named = ((OwnerKind.queue, queue), (OwnerKind.service, service))
    return [(kind, name) for kind, name in named if name is not None]


def _row(row: Any) -> OwnerRow:
    return OwnerRow(row.trace_id, row.at, row.kind, row.name, _decode(row.cells))
