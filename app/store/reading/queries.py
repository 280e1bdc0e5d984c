"""Events: one by its id, lists by keyset at any depth, lists by page, and their number.

A list for several virtual hosts is merged from one list for each: every one of them is in the order
of an index on (trace_id, id) and stops at the limit, whereas a condition on several traces at once
would make a database either sort all their events or wade through everybody else's.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import (
    ARRAY,
    BigInteger,
    ColumnElement,
    Select,
    Text,
    case,
    func,
    literal,
    or_,
    select,
    union_all,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from app.errors import BadRequestError
from app.store.capture import keys
from app.store.database import tables
from app.store.database.chunks import filters
from app.store.database.engine import Dialect
from app.store.database.lanes import Lane
from app.store.database.searched import searched_keys
from app.store.database.subject import Subject, read_method, reads, searches
from app.store.database.times import clamp, ids_between
from app.store.reading import over_time
from app.store.reading.events import all_by_ids, by_id, by_ids, list_by_ids
from app.store.reading.filters import (
    Lookup,
    conditions,
    content_encoding,
    has_key,
    has_row,
    in_plain,
    is_as_published,
    lookups,
    spellings,
)
from app.stored.reading import DEEP, EventFilter, EventList, EventPage, Histogram, Sort, is_quick
from model.bodies import may_be_escaped, searchable
from model.event import ALL_LARGE, Event, Large

_events = tables.events.c
_traces = tables.traces.c
_index = searched_keys.c

# SQLite merges at most 500 lists, and a virtual host may have two. Beyond that, several virtual
# hosts share a list.
MOST_LISTS = 200

# Compressed or escaped bodies that are read for one question: 25 µs for each.
MOST_READ = 200_000
READ_AT_ONCE = 200


class _Part(NamedTuple):
    """Some of a list's events, as a query without columns, and the column of their id.

    Those of the index are ordered by ``turn`` first (`app.store.database.searched`).
    """

    query: Select[Any]
    id: ColumnElement[int]
    turn: ColumnElement[int] | None = None


class _Order(NamedTuple):
    sort: Sort
    descending: bool

    def columns(
        self, key: ColumnElement[Any], event_id: ColumnElement[int]
    ) -> Sequence[ColumnElement[Any]]:
        columns = [event_id] if key is event_id else [key, event_id]
        return [column.desc() for column in columns] if self.descending else columns


class _OddText(msgspec.Struct, frozen=True):
    """A text in compressed or escaped bodies, which are read here, not by the database.

    ``properties`` are an event's, if they are to be searched, too.
    """

    part: str
    in_plain: ColumnElement[bool]
    encoding: ColumnElement[str | None]
    properties: ColumnElement[str | None]

    async def filter(self, connection: AsyncConnection, ids: Sequence[int]) -> list[int]:
        """The ids whose events have it, in their order."""
        matches: set[int] = set()
        for begin in range(0, len(ids), READ_AT_ONCE):
            chunk = ids[begin : begin + READ_AT_ONCE]
            columns = (_events.payload, self.encoding, self.properties)
            odd = (case((self.in_plain, None), else_=column) for column in columns)
            query = select(_events.id, self.in_plain, *odd).where(_events.id.in_(chunk))
            for event_id, is_plain, payload, encoding, properties in await connection.execute(
                query
            ):
                texts = (payload or b"", encoding), ((properties or "").encode(), None)
                if is_plain or any(self._is_in(*text) for text in texts):
                    matches.add(event_id)
        return [event_id for event_id in ids if event_id in matches]

    def _is_in(self, payload: bytes, encoding: str | None) -> bool:
        body = searchable(payload, encoding, may_be_escaped(self.part))
        return body is not None and any(spelling in body for spelling in spellings(self.part))

    def check(self, read: int) -> None:
        """Raise `BadRequestError` if more had to be read than one question may have read."""
        if read > MOST_READ:
            raise BadRequestError(
                f"more than {MOST_READ:,} compressed or escaped messages would have to be read to "
                "find this: narrow it down by vhost, since, until or after"
            )


class _Scope(msgspec.Struct, frozen=True):
    """The traces to search, and the conditions on their events; ``bounds`` are on ids alone.

    The first of the ``lookups`` leads: only its events are held to everything else.
    """

    traces: list[int]
    total: int
    conditions: list[ColumnElement[bool]]
    lookups: list[Lookup]
    bounds: list[Callable[[ColumnElement[int]], ColumnElement[bool]]]
    text: _OddText | None

    def parts(self, numbers: list[int]) -> list[list[_Part]]:
        """The events of some of the traces, as parts to be merged: older than the index, newer."""
        if not self.lookups:
            return [[self._scan_part(numbers)]]
        leads, *rest = self.lookups
        indexed = [self._index_part(numbers, leads, rest)]
        if leads.by_publish:
            indexed.append(self._publish_index_part(numbers, leads, rest))
        if leads.fallback is None:
            return [indexed]
        is_older = _events.id < leads.first
        older = self._scan_part(numbers, is_older, leads.fallback, *map(has_key, rest))
        newer = [part._replace(query=part.query.where(part.id >= leads.first)) for part in indexed]
        return [[older], newer]

    async def settle(self, connection: AsyncConnection) -> None:
        """Read odd texts, so that the conditions alone select the events."""
        if self.text is None:
            return
        ids: list[int] = []
        for part in itertools.chain.from_iterable(self.parts(self.traces)):
            query = part.query.add_columns(part.id).where(self.text.in_plain.is_not(True))
            ids += (await connection.execute(query.limit(MOST_READ + 1))).scalars()
        self.text.check(len(ids))
        matches = literal(await self.text.filter(connection, ids), ARRAY(BigInteger))
        self.conditions.append(or_(self.text.in_plain, _events.id == func.any(matches)))

    async def queries(self, connection: AsyncConnection) -> list[Select[Any]]:
        """All of the events, each by one of the queries, without columns."""
        await self.settle(connection)
        parts = itertools.chain.from_iterable(self.parts(self.traces))
        return [part.query for part in parts]

    def _index_part(self, numbers: list[int], leads: Lookup, rest: list[Lookup]) -> _Part:
        query = (
            select()
            .join_from(searched_keys, tables.events, _events.id == _index.event_id)
            .where(in_traces(_index.trace_id, numbers), _index.key == leads.key)
            .where(*(restrict(_index.event_id) for restrict in self.bounds))
            .where(*self.conditions, *map(has_key, rest))
        )
        return _Part(query, _index.event_id, _index.turn)

    def _publish_index_part(self, numbers: list[int], leads: Lookup, rest: list[Lookup]) -> _Part:
        """The deliveries that are in the index by their publishes alone."""
        # Not by an index of its trace, which SQLite would take for the narrower one.
        is_of_trace = _events.trace_id + 0 == _index.trace_id
        is_its_delivery = (_events.cause_id == _index.event_id) & is_of_trace
        query = (
            select()
            .join_from(searched_keys, tables.events, is_its_delivery)
            .where(in_traces(_index.trace_id, numbers), _index.key == leads.key)
            .where(*(restrict(_events.id) for restrict in self.bounds))
            .where(~has_row(leads, _events.id), is_as_published())
            .where(*self.conditions, *map(has_key, rest))
        )
        return _Part(query, _events.id)

    def _scan_part(self, numbers: list[int], *extra: ColumnElement[bool]) -> _Part:
        bounds = (restrict(_events.id) for restrict in self.bounds)
        query = select().select_from(tables.events).where(in_traces(_events.trace_id, numbers))
        return _Part(query.where(*bounds, *self.conditions, *extra), _events.id)


class Events(Subject):
    """Events of all traces."""

    get = read_method(by_id)
    get_all = read_method(all_by_ids)

    async def find(
        self,
        criteria: EventFilter,
        *,
        after: int | None = None,
        before: int | None = None,
        limit: int = 100,
        large: Large = ALL_LARGE,
        follow: bool = False,
    ) -> EventList:
        """Up to this many events: the first after ``after``, or else the last before ``before``.

        With ``after``, ids rise up to ``before``; without it they fall. Large fields are left out
        that are too much to read at once. ``follow``: for a reader who follows the store and does
        not wait behind other searches. Raises `BadRequestError` if it takes too long, and for an
        invalid regular expression.
        """

        async def work(connection: AsyncConnection) -> EventList:
            ids = await ids_of(
                connection, self.database.dialect, criteria, after=after, before=before, limit=limit
            )
            return await list_by_ids(connection, ids, large)

        return await self.database.search(_lane(criteria, follow=follow), work)

    async def get_existing(self, ids: Sequence[int], large: Large = ALL_LARGE) -> Sequence[Event]:
        """The events with these ids, in their order; those that do not exist are left out."""
        return await self.database.read(
            lambda connection: by_ids(connection, ids, large), Lane.bulk
        )

    async def page(
        self,
        criteria: EventFilter,
        *,
        page: int,
        page_size: int,
        sort: Sort = Sort.id,
        descending: bool = True,
        large: Large = ALL_LARGE,
    ) -> EventPage:
        """The page with this number, from 1, with counts; empty after the last. As `find`."""
        offset = (page - 1) * page_size

        async def work(connection: AsyncConnection) -> EventPage:
            scope = await _scope(connection, self.database.dialect, criteria)
            order = _Order(sort, descending)
            ids, count = await _page(connection, criteria, scope, order, page_size, offset)
            events = await list_by_ids(connection, ids, large)
            return EventPage(events.items, scope.total, count, page, page_size, events.heavy)

        return await self.database.search(_lane(criteria, sort, offset), work)

    async def count(self, criteria: EventFilter) -> int:
        async def work(connection: AsyncConnection) -> int:
            scope = await _scope(connection, self.database.dialect, criteria)
            return await _count(connection, criteria, scope)

        return await self.database.search(_lane(criteria), work)

    @searches
    async def over_time(
        self, connection: AsyncConnection, criteria: EventFilter, buckets: int
    ) -> Histogram:
        """Counts of events in each of at most this many parts of a period.

        The period is that of the filter, else from the oldest event that is kept to the newest.
        `NO_EVENTS` if there are none. Raises as `find`.
        """
        scope = await _scope(connection, self.database.dialect, criteria)

        async def queries(first: int | None) -> list[Select[Any]]:
            if first is not None:
                scope.bounds.append(lambda event_id: event_id >= first)
            return await scope.queries(connection)

        return await over_time.histogram(
            connection, criteria, scope.traces, queries, buckets, are_few=bool(scope.lookups)
        )

    @reads
    async def last_id(self, connection: AsyncConnection) -> int:
        """The newest event's id across all virtual hosts; 0 before the first."""
        newest = await connection.execute(select(func.max(_traces.last_event_id)))
        return int(newest.scalar_one() or 0)


def _lane(
    criteria: EventFilter, sort: Sort = Sort.id, offset: int = 0, *, follow: bool = False
) -> Lane:
    if is_quick(criteria, sort, offset):
        return Lane.bulk if follow else Lane.quick
    return Lane.follow if follow else Lane.search


async def _scope(
    connection: AsyncConnection, dialect: Dialect, criteria: EventFilter, after: int | None = None
) -> _Scope:
    query = select(_traces.id, _traces.events).where(
        *filters((_traces.vhost.in_, criteria.visible))
    )
    if after is not None:
        query = query.where(_traces.last_event_id > clamp(after))
    traces = (await connection.execute(query)).all()
    restrictions = conditions(criteria, dialect)
    indexed = await keys.index_starts(connection) if criteria.message_names else {}
    by_index, by_event = lookups(criteria, dialect, indexed)
    first, end = await ids_between(connection, criteria.since, criteria.until)
    numbers, total = [row[0] for row in traces], sum(row[1] for row in traces)
    text = _odd_text(criteria, dialect)
    scope = _Scope(numbers, total, restrictions + by_event, by_index, [], text)
    if first is not None and end is not None:
        scope.bounds.extend((lambda event_id: event_id >= first, lambda event_id: event_id < end))
    return scope


def _odd_text(criteria: EventFilter, dialect: Dialect) -> _OddText | None:
    encoding = content_encoding(dialect)
    if not criteria.q or dialect.searchable(_events.payload, encoding, False) is not None:
        return None
    properties: ColumnElement[Any] = (
        _events.properties if criteria.in_properties else literal(None, Text)
    )
    return _OddText(criteria.q, in_plain(criteria, dialect), encoding, properties)


async def ids_of(
    connection: AsyncConnection,
    dialect: Dialect,
    criteria: EventFilter,
    *,
    after: int | None = None,
    before: int | None = None,
    limit: int,
    extra: Sequence[ColumnElement[bool]] = (),
) -> Sequence[int]:
    """The ids of events, as `Events.find` lists them, for which ``extra`` holds, too."""
    scope = await _scope(connection, dialect, criteria, after)
    scope.conditions.extend(extra)
    if after is not None:
        scope.bounds.append(lambda event_id: event_id > clamp(after))
    if before is not None:
        scope.bounds.append(lambda event_id: event_id < clamp(before))
    return await _ids(connection, scope, _Order(Sort.id, after is None), limit, 0)


async def ids_that_fit(
    connection: AsyncConnection, dialect: Dialect, criteria: EventFilter, ids: Sequence[int]
) -> set[int]:
    """The ids whose events match a filter, whatever their virtual hosts."""
    indexed = await keys.index_starts(connection) if criteria.message_names else {}
    by_index, by_event = lookups(criteria, dialect, indexed)
    query = select(_events.id).where(
        _events.id.in_(ids), *conditions(criteria, dialect), *by_event, *map(has_key, by_index)
    )
    matches = [*(await connection.execute(query)).scalars()]
    text = _odd_text(criteria, dialect)
    return set(matches if text is None else await text.filter(connection, matches))


async def _count(connection: AsyncConnection, criteria: EventFilter, scope: _Scope) -> int:
    if criteria.names_traces_alone or not scope.traces:
        return scope.total  # kept with each trace
    total = 0
    for query in await scope.queries(connection):
        total += (await connection.execute(query.add_columns(func.count()))).scalar_one()
    return total


async def _page(
    connection: AsyncConnection,
    criteria: EventFilter,
    scope: _Scope,
    order: _Order,
    limit: int,
    offset: int,
) -> tuple[Sequence[int], int]:
    """A page's ids in order, and the number of all."""
    if offset == 0 and not criteria.names_traces_alone:
        # Most searches find less than a page: nothing is left to be counted.
        probe = await _ids(connection, scope, order, limit + 1, 0)
        count = len(probe) if len(probe) <= limit else await _count(connection, criteria, scope)
        return probe[:limit], count
    count = await _count(connection, criteria, scope)
    if offset >= count:
        return [], count
    if offset >= DEEP and order.sort is Sort.id and criteria.names_traces_alone:
        ids = await _ids_without_holes(connection, scope, order.descending, limit, offset)
        if ids is not None:
            return ids, count
    return await _ids(connection, scope, order, limit, offset), count


async def _ids_without_holes(
    connection: AsyncConnection, scope: _Scope, descending: bool, limit: int, offset: int
) -> range | None:
    """Ids by position; None if others' events or removed ones are among them."""
    oldest = select(func.min(_events.id)).where(_events.trace_id == _traces.id)
    query = select(oldest.scalar_subquery(), _traces.last_event_id).where(
        _traces.id.in_(scope.traces), _traces.events > 0
    )
    bounds = (await connection.execute(query)).all()
    first, last = min(row[0] for row in bounds), max(row[1] for row in bounds)
    if last - first + 1 != scope.total:
        return None
    ids = range(last, first - 1, -1) if descending else range(first, last + 1)
    return ids[offset : offset + limit]


async def _ids(
    connection: AsyncConnection, scope: _Scope, order: _Order, limit: int, offset: int
) -> Sequence[int]:
    """Ids in order; candidates with an odd text are read in portions, each twice the last one."""
    if scope.text is None:
        return await _list_ids(connection, scope, order, limit, offset)
    matches: list[int] = []
    start, size, end = 0, limit + offset, limit + offset
    while True:
        ids = await _list_ids(connection, scope, order, size, start)
        matches += await scope.text.filter(connection, ids)
        if len(matches) >= end or len(ids) < size:
            return matches[offset:end]
        start, size = start + size, 2 * size
        scope.text.check(start - len(matches))


async def _list_ids(
    connection: AsyncConnection, scope: _Scope, order: _Order, limit: int, offset: int
) -> Sequence[int]:
    shares = [scope.parts(numbers) for numbers in shares_of_traces(scope.traces)]
    if not shares:
        return []
    parts = [[*itertools.chain.from_iterable(group)] for group in zip(*shares, strict=True)]
    if len(parts) == 1:
        query = _merge(parts[0], order, limit, offset)
        return [row[0] for row in await connection.execute(query)]
    # The scanned parts are read only where the others do not fill the list.
    by_id = order.sort is Sort.id
    entries: list[tuple[Any, int]] = []
    for group in reversed(parts) if order.descending else parts:
        shortfall = limit + offset - (len(entries) if by_id else 0)
        if shortfall > 0:
            query = _merge(group, order, shortfall, 0)
            entries += [(key, event_id) for event_id, key in await connection.execute(query)]
    entries.sort(reverse=order.descending)
    return [event_id for _, event_id in entries[offset : offset + limit]]


def _merge(parts: Sequence[_Part], order: _Order, limit: int, offset: int) -> Select[Any]:
    """A query for ids in order, with their sort keys."""
    lists = []
    for query, event_id, turn in parts:
        key = event_id if order.sort is Sort.id else _events[order.sort]
        columns = query.add_columns(event_id.label("id"), key.label("key"))
        if turn is not None and key is event_id:  # so no more is read than the list takes
            columns = columns.order_by(turn if order.descending else turn.desc())
        lists.append(columns.order_by(*order.columns(key, event_id)).limit(limit + offset))
    if len(lists) == 1:
        return lists[0].limit(limit).offset(offset)
    union = union_all(*(select(part.subquery()) for part in lists)).subquery()
    return (
        select(union.c.id, union.c.key)
        .order_by(*order.columns(union.c.key, union.c.id))
        .limit(limit)
        .offset(offset)
    )


def in_traces(column: ColumnElement[int], numbers: list[int]) -> ColumnElement[bool]:
    return column == numbers[0] if len(numbers) == 1 else column.in_(numbers)


def shares_of_traces(numbers: list[int], limit: int = MOST_LISTS) -> list[list[int]]:
    """Traces that share a list: one a list, unless there are more than the database merges."""
    lists = min(len(numbers), limit)
    return [numbers[start::lists] for start in range(lists)]
