"""Touched events: the future of some, counted by ranges of each participant.

A participant's events at or after any of some events are a suffix of its events. So they are
counted by a few look-ups for each participant, however many they are, and whether one event is
among them is a comparison of two numbers.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.capture.doubts import doubtful_between
from app.store.causality import ranges
from app.store.causality.links import late_between
from app.store.causality.walks import nearest, neighbours_along
from app.store.database import tables
from app.store.database.chunks import rows_with
from app.store.database.subject import Subject, reads, searches
from app.store.database.times import ids_between
from app.store.reading.events import by_id, list_by_ids
from app.stored.causality import Touched, TouchedQueue, TouchedService, of_one_trace
from model.answers import Verdict
from model.blocks import MAX_ID
from model.event import ALL_LARGE, CLOCK_ALONE, NOTHING_LARGE, Event, Large
from model.ranges import Dot, Holds, RangeEnd
from model.times import Microseconds
from model.words import Via

_events = tables.events.c

# Caused events that are followed, the nearest first.
MOST_CAUSED = 10_000
# Events of a trace that are read for a page of a list.
MOST_LOOKED_AT = 50_000
MOST_SERVICES = 1_000

_UNREACHABLE = 2**63
# From the strongest on.
_BY_RANK = (Verdict.caused, Verdict.may_have, Verdict.unknown, Verdict.cannot_have)
_RANK = {verdict: rank for rank, verdict in enumerate(_BY_RANK)}
_BEFORE_ALL = 0  # no event's id: all start events follow it


class _EffectsAfter(NamedTuple):
    """The future of start events: each participant's events from ``firsts`` on are after them.

    ``newest`` is the last event read, ``later_count`` the number of events after the first start,
    ``after_count`` of those after any. From ``unknown_firsts`` on, events are after a start or
    after a doubtful delivery: ``unknown_count`` are only the latter. ``acting`` have any.
    """

    newest: int
    later_count: int
    after_count: int
    unknown_count: int
    firsts: Mapping[int, RangeEnd]
    unknown_firsts: Mapping[int, RangeEnd]
    acting: Collection[int]

    def verdict_of(self, participant: int, height: int = _UNREACHABLE - 1) -> Verdict:
        """The verdict of an event; of a participant that of its last."""
        if height >= _height(self.firsts.get(participant)):
            return Verdict.may_have
        is_unknown = height >= _height(self.unknown_firsts.get(participant))
        return Verdict.unknown if is_unknown else Verdict.cannot_have


def _height(mark: RangeEnd | None) -> int:
    return _UNREACHABLE if mark is None else mark.height


class Futures(Subject):
    """Futures of events."""

    @reads
    async def last_within(self, connection: AsyncConnection, event_id: int, time: int) -> int:
        """The trace's last event that was recorded within some time (µs) after an event."""
        event = await by_id(connection, event_id, NOTHING_LARGE)
        end = event.recorded_at + time
        _, end_id = await ids_between(connection, None, end + 1)
        query = (
            select(_events.id)
            .where(_events.trace_id == event.trace_id, _events.id >= event_id, _events.id < end_id)
            .where(_events.recorded_at <= end)
            .order_by(_events.id.desc())
            .limit(1)
        )
        return int((await connection.execute(query)).scalar_one())

    @searches
    async def effects_of(
        self,
        connection: AsyncConnection,
        ids: Sequence[int],
        *,
        verdict: Verdict | None = None,
        limit: int = 100,
        large: Large = ALL_LARGE,
        after: int | None = None,
        last_id: int = MAX_ID,
    ) -> Touched:
        """Count what some events touched, up to ``last_id``; with a ``verdict``, list a page of it.

        The page begins after the id ``after``. Raises `NotFoundError`, and `BadRequestError` for
        events of two traces, and if it takes too long to find.
        """
        starts = [await by_id(connection, event_id, CLOCK_ALONE) for event_id in sorted({*ids})]
        trace_id = of_one_trace(starts)
        last_id = max(last_id, starts[-1].id)
        future = await _future(connection, starts, last_id)
        caused, cut = await _effects_by_messages(connection, starts, last_id)
        query = select(*_events["id", "participant", "height", "queue", "recorded_at"])
        rows = await rows_with(connection, query, _events.id, caused)
        heights = await _late_positions(connection, starts, rows)
        verdicts = Counter(future.verdict_of(*position) for position in heights)
        after_too = verdicts[Verdict.may_have] if heights else len(caused)
        services = await _services(connection, trace_id, future, rows)
        answer = Touched(
            as_of=future.newest,
            since=future.later_count,
            caused=len(caused),
            may_have=future.after_count - after_too,
            unknown=future.unknown_count - verdicts[Verdict.unknown],
            caused_truncated=cut,
            services=services[:MOST_SERVICES],
            queues=_queues(rows)[:MOST_SERVICES],
            all_heard_at=_all_heard(services),
        )
        if verdict is None:
            return answer
        begin = starts[0].id if after is None else after
        page, next_id = await _list_page(
            connection, starts, future, caused, Verdict(verdict), begin, limit
        )
        events = await list_by_ids(connection, page, large)
        return answer._replace(items=events.items, heavy=events.heavy, next=next_id)


async def _future(
    connection: AsyncConnection, starts: Sequence[Event], last_id: int
) -> _EffectsAfter:
    trace_id, first = starts[0].trace_id, starts[0].id
    acting = await ranges.spans(connection, trace_id, first, last_id)
    heights = [(span.number, MAX_ID) for span in acting]
    tops = await ranges.last_at_or_below(connection, trace_id, heights)
    past_end = {number: mark for number, mark in tops.items() if mark.id > last_id}
    ends = await ranges.first_that(connection, trace_id, past_end, lambda mark: mark.id > last_id)
    limits = [(number, mark.height - 1) for number, mark in ends.items()]
    tops = {number: mark for number, mark in tops.items() if number not in past_end}
    tops |= await ranges.last_at_or_below(connection, trace_id, limits)
    dots = [Dot(event.interval, event.height) for event in starts]

    def is_after(mark: RangeEnd) -> bool:
        return any(dot.is_reached(mark.clock) for dot in dots)

    async def count_of(holds: Holds) -> tuple[int, dict[int, RangeEnd]]:
        """The number of events that hold, and the first of each participant."""
        reached = {number: mark for number, mark in tops.items() if holds(mark)}
        firsts = await ranges.first_that(connection, trace_id, reached, holds)
        # The numbers of a participant's events have no holes.
        return sum(top.seq - firsts[number].seq + 1 for number, top in reached.items()), firsts

    after_count, firsts = await count_of(is_after)
    newest = max(mark.id for mark in tops.values())
    doubtful = (await doubtful_between(connection, trace_id, first, newest)).future()
    either_count, either_firsts = after_count, firsts
    if doubtful.dots:
        either_count, either_firsts = await count_of(lambda m: is_after(m) or doubtful.holds(m))
    later_count, begins = await count_of(lambda mark: mark.id > first)
    return _EffectsAfter(
        newest=newest,
        later_count=later_count - (len(starts) - 1),
        after_count=after_count - len(starts),
        unknown_count=either_count - after_count,
        firsts=firsts,
        unknown_firsts=either_firsts,
        acting=begins.keys(),
    )


async def _effects_by_messages(
    connection: AsyncConnection, starts: Sequence[Event], last_id: int
) -> tuple[list[int], bool]:
    """The events that messages and links lead to, by id, and whether there are more."""
    ids = [event.id for event in starts]
    limit = MOST_CAUSED + len(ids)
    onwards = await neighbours_along(connection, starts[0].trace_id, limit + 1, Via.links, 1)

    async def up_to(ids: list[int]) -> dict[int, list[int]]:
        neighbours = await onwards(ids)
        return {
            cause: [effect for effect in effects if effect <= last_id]
            for cause, effects in neighbours.items()
        }

    reached, cut = await nearest(_BEFORE_ALL, limit, up_to, 1, leads=ids)
    start_ids = {*ids}
    return [event for event in reached if event not in start_ids], cut


async def _services(
    connection: AsyncConnection, trace_id: int, future: _EffectsAfter, caused: Iterable[Any]
) -> list[TouchedService]:
    """The services that acted since, the strongest verdict first, each with its first event."""
    first_caused: dict[int, int] = {}
    for row in caused:
        first_caused[row.participant] = min(row.id, first_caused.get(row.participant, row.id))
    services_of = await ranges.services_of(connection, trace_id, future.acting)
    ranked: defaultdict[str, list[tuple[int, int | None]]] = defaultdict(list)
    for number, (name, _) in services_of.items():
        verdict = Verdict.caused if number in first_caused else future.verdict_of(number)
        mark = future.firsts.get(number)
        ranked[name].append((_RANK[verdict], first_caused.get(number, mark and mark.id)))
    firsts = {
        name: min(entries, key=lambda entry: (entry[0], entry[1] or 0))
        for name, entries in ranked.items()
    }
    ids = sorted(first for _, first in firsts.values() if first is not None)
    query = select(_events.id, _events.recorded_at)
    times = {row.id: row.recorded_at for row in await rows_with(connection, query, _events.id, ids)}
    services = [
        TouchedService(name, _BY_RANK[rank], len(ranked[name]), first, times.get(first))
        for name, (rank, first) in firsts.items()
    ]
    services.sort(key=lambda service: (_RANK[service.verdict], service.first or 0, service.name))
    return services


def _queues(caused: Iterable[Any]) -> list[TouchedQueue]:
    """The queues of caused deliveries, each with its first."""
    first: dict[str, Any] = {}
    deliveries = Counter(row.queue for row in caused if row.queue is not None)
    for row in sorted(caused, key=attrgetter("id")):
        first.setdefault(row.queue, row)
    return [
        TouchedQueue(name, deliveries[name], row.id, row.recorded_at)
        for name, row in first.items()
        if name is not None
    ]


def _all_heard(services: Sequence[TouchedService]) -> Microseconds | None:
    times = [service.first_at for service in services if service.first_at is not None]
    return max(times) if times and len(times) == len(services) else None


async def _late_positions(
    connection: AsyncConnection, starts: Sequence[Event], caused: Sequence[Any]
) -> list[tuple[int, int]]:
    """(participant, height) of caused events, if links that no clock has may have led to some."""
    if not caused:
        return []
    first, last = starts[0], max(row.id for row in caused)
    if not await late_between(connection, first.trace_id, first.id, last):
        return []
    return [(row.participant, row.height) for row in caused]


async def _list_page(
    connection: AsyncConnection,
    starts: Sequence[Event],
    future: _EffectsAfter,
    caused: Sequence[int],
    verdict: Verdict,
    after: int,
    limit: int,
) -> tuple[list[int], int | None]:
    """A page of the events with a verdict, and the id after which the next begins."""
    if verdict is Verdict.caused:
        rest = caused[bisect_right(caused, after) :]
        return [*rest[:limit]], rest[limit - 1] if len(rest) > limit else None
    excluded = {*caused, *(start.id for start in starts)}
    query = (
        select(_events.id, _events.participant, _events.height)
        .where(
            _events.trace_id == starts[0].trace_id, _events.id > after, _events.id <= future.newest
        )
        .order_by(_events.id)
        .limit(MOST_LOOKED_AT)
    )
    rows = (await connection.execute(query)).all()
    page: list[int] = []
    for event_id, participant, height in rows:
        if future.verdict_of(participant, height) is verdict and event_id not in excluded:
            if len(page) == limit:
                return page, page[-1]
            page.append(event_id)
    return page, rows[-1].id if len(rows) == MOST_LOOKED_AT else None
