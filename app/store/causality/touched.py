"""Touched events: the future of some, counted by ranges of each participant.

A participant's events at or after any of some events are a suffix of its events. So what may have
been influenced is counted by a few look-ups for each participant, however much it is, and whether
one event is among it is a comparison of two numbers.
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
from app.store.reading.events import MAX_ID, by_id, found_by_ids
from app.store.reading.times import ids_between
from app.stored.causality import Touched, TouchedQueue, TouchedService, of_one_trace
from model.answers import Verdict
from model.event import ALL_LARGE, CLOCK_ALONE, NOTHING_LARGE, Event, Large
from model.ranges import Dot, Holds, Mark
from model.times import Microseconds
from model.words import Via

# So many caused events are followed, the nearest first.
MOST_CAUSED = 10_000
# Of a trace's events so many are looked at for a page of a list.
MOST_LOOKED_AT = 50_000
MOST_SERVICES = 1_000

_NEVER = 2**63
# From the strongest on.
_BY_RANK = (Verdict.caused, Verdict.may_have, Verdict.unknown, Verdict.cannot_have)
_RANK = {verdict: rank for rank, verdict in enumerate(_BY_RANK)}
_BEFORE_ALL = 0  # no event's id: all that are asked about follow it


class _EffectsAfter(NamedTuple):
    """The future of some events: from which of its events on each participant's are after them.

    ``newest`` is the last event looked at, ``since`` and ``after`` count the events after the first
    of them and those after any. From those of ``behind`` on, which are no later, events are after
    them or after doubtful deliveries; there are ``unknown`` that are only the latter. ``acting``
    are those who have any.
    """

    newest: int
    since: int
    after: int
    unknown: int
    firsts: Mapping[int, Mark]
    behind: Mapping[int, Mark]
    acting: Collection[int]

    def verdict_of(self, participant: int, height: int = _NEVER - 1) -> Verdict:
        """The verdict of an event; of a participant that of its last."""
        if height >= _height(self.firsts.get(participant)):
            return Verdict.may_have
        is_behind = height >= _height(self.behind.get(participant))
        return Verdict.unknown if is_behind else Verdict.cannot_have


def _height(mark: Mark | None) -> int:
    return _NEVER if mark is None else mark.height


class Futures(Subject):
    """The futures of events: what they had a part in."""

    @reads
    async def last_within(self, connection: AsyncConnection, event_id: int, time: int) -> int:
        """The last event of its trace that was recorded within some time (µs) after another."""
        its, event = tables.events.c, await by_id(connection, event_id, NOTHING_LARGE)
        until = event.recorded_at + time
        _, end = await ids_between(connection, None, until + 1)
        query = (
            select(its.id)
            .where(its.trace_id == event.trace_id, its.id >= event_id, its.id < end)
            .where(its.recorded_at <= until)
            .order_by(its.id.desc())
            .limit(1)
        )
        return int((await connection.execute(query)).scalar_one())

    @searches
    async def by(
        self,
        connection: AsyncConnection,
        ids: Sequence[int],
        *,
        verdict: Verdict | None = None,
        limit: int = 100,
        large: Large = ALL_LARGE,
        after: int | None = None,
        to: int = MAX_ID,
    ) -> Touched:
        """Count what some events touched; with a ``verdict``, list a page of what has it.

        Of events up to the id ``to``. The page holds those after the id ``after``. Raises
        `NotFoundError`, and `BadRequestError` for events of two traces, and if it takes too long to
        find.
        """
        starts = [await by_id(connection, each, CLOCK_ALONE) for each in sorted({*ids})]
        trace_id = of_one_trace(starts)
        to = max(to, starts[-1].id)
        future = await _future(connection, starts, to)
        caused, cut = await _caused(connection, starts, to)
        its = tables.events.c
        query = select(its.id, its.participant, its.height, its.queue, its.recorded_at)
        places = await rows_with(connection, query, its.id, caused)
        heights = await _beside(connection, starts, places)
        verdicts = Counter(future.verdict_of(*each) for each in heights)
        after_too = verdicts[Verdict.may_have] if heights else len(caused)
        services = await _services(connection, trace_id, future, places)
        answer = Touched(
            as_of=future.newest,
            since=future.since,
            caused=len(caused),
            may_have=future.after - after_too,
            unknown=future.unknown - verdicts[Verdict.unknown],
            caused_truncated=cut,
            services=services[:MOST_SERVICES],
            queues=_queues(places)[:MOST_SERVICES],
            all_heard_at=_all_heard(services),
        )
        if verdict is None:
            return answer
        begin = starts[0].id if after is None else after
        shown, beyond = await _listed(
            connection, starts, future, caused, Verdict(verdict), begin, limit
        )
        found = await found_by_ids(connection, shown, large)
        return answer._replace(items=found.items, heavy=found.heavy, next=beyond)


async def _future(connection: AsyncConnection, starts: Sequence[Event], to: int) -> _EffectsAfter:
    trace_id, first = starts[0].trace_id, starts[0].id
    acting = await ranges.places(connection, trace_id, first, to)
    asked = [(each.number, MAX_ID) for each in acting]
    tops = await ranges.last_at_or_below(connection, trace_id, asked)
    beyond = {number: mark for number, mark in tops.items() if mark.id > to}
    ends = await ranges.first_that(connection, trace_id, beyond, lambda mark: mark.id > to)
    within = [(number, mark.height - 1) for number, mark in ends.items()]
    tops = {number: mark for number, mark in tops.items() if number not in beyond}
    tops |= await ranges.last_at_or_below(connection, trace_id, within)
    dots = [Dot(each.interval, each.height) for each in starts]

    def is_after(mark: Mark) -> bool:
        return any(dot.reached_by(mark.clock) for dot in dots)

    async def all_that(holds: Holds) -> tuple[int, dict[int, Mark]]:
        """Return the number of events it holds for, and the first of each participant."""
        its = {number: mark for number, mark in tops.items() if holds(mark)}
        firsts = await ranges.first_that(connection, trace_id, its, holds)
        return _events(its, firsts), firsts

    after, firsts = await all_that(is_after)
    newest = max(mark.id for mark in tops.values())
    doubtful = (await doubtful_between(connection, trace_id, first, newest)).future()
    behind, behind_firsts = after, firsts
    if doubtful.dots:
        behind, behind_firsts = await all_that(lambda mark: is_after(mark) or doubtful.holds(mark))
    later = {number: mark for number, mark in tops.items() if mark.id > first}
    begins = await ranges.first_that(connection, trace_id, later, lambda mark: mark.id > first)
    return _EffectsAfter(
        newest=newest,
        since=_events(later, begins) - (len(starts) - 1),
        after=after - len(starts),
        unknown=behind - after,
        firsts=firsts,
        behind=behind_firsts,
        acting=later.keys(),
    )


def _events(tops: Mapping[int, Mark], firsts: Mapping[int, Mark]) -> int:
    """The number of events from the first to the last of each: their numbers have no holes."""
    return sum(top.seq - firsts[number].seq + 1 for number, top in tops.items())


async def _caused(
    connection: AsyncConnection, starts: Sequence[Event], to: int
) -> tuple[list[int], bool]:
    """The events that messages and links lead to, by id, and whether there is more of it."""
    ids = [each.id for each in starts]
    most = MOST_CAUSED + len(ids)
    onwards = await neighbours_along(connection, starts[0].trace_id, most + 1, Via.links, 1)

    async def up_to(asked: list[int]) -> dict[int, list[int]]:
        found = await onwards(asked)
        return {each: [one for one in those if one <= to] for each, those in found.items()}

    reached, cut = await nearest(_BEFORE_ALL, most, up_to, 1, leads=ids)
    own = {*ids}
    return [each for each in reached if each not in own], cut


async def _services(
    connection: AsyncConnection, trace_id: int, future: _EffectsAfter, caused: Iterable[Any]
) -> list[TouchedService]:
    """Those who did something since, what was touched first, by the first event of each."""
    its = tables.events.c
    led: dict[int, int] = {}
    for row in caused:
        led[row.participant] = min(row.id, led.get(row.participant, row.id))
    services_of = await ranges.services_of(connection, trace_id, future.acting)
    found: defaultdict[str, list[tuple[int, int | None]]] = defaultdict(list)
    for number, (name, _) in services_of.items():
        verdict = Verdict.caused if number in led else future.verdict_of(number)
        mark = future.firsts.get(number)
        found[name].append((_RANK[verdict], led.get(number, mark and mark.id)))
    firsts = {
        name: min(those, key=lambda one: (one[0], one[1] or 0)) for name, those in found.items()
    }
    ids = sorted(first for _, first in firsts.values() if first is not None)
    query = select(its.id, its.recorded_at)
    times = {row.id: row.recorded_at for row in await rows_with(connection, query, its.id, ids)}
    services = [
        TouchedService(name, _BY_RANK[rank], len(found[name]), first, times.get(first))
        for name, (rank, first) in firsts.items()
    ]
    services.sort(key=lambda one: (_RANK[one.verdict], one.first or 0, one.name))
    return services


def _queues(caused: Iterable[Any]) -> list[TouchedQueue]:
    """Those that caused deliveries were handed over from, by the first of each."""
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
    """When the last of all had heard of it, if all have."""
    times = [each.first_at for each in services if each.first_at is not None]
    return max(times) if times and len(times) == len(services) else None


async def _beside(
    connection: AsyncConnection, starts: Sequence[Event], caused: Sequence[Any]
) -> list[tuple[int, int]]:
    """The places of what was caused, where some of it may have been by links no clock has."""
    if not caused:
        return []
    first, last = starts[0], max(row.id for row in caused)
    if not await late_between(connection, first.trace_id, first.id, last):
        return []
    return [(row.participant, row.height) for row in caused]


async def _listed(
    connection: AsyncConnection,
    starts: Sequence[Event],
    future: _EffectsAfter,
    caused: Sequence[int],
    verdict: Verdict,
    after: int,
    limit: int,
) -> tuple[list[int], int | None]:
    """A page of the events with a verdict, and after which id the next begins."""
    if verdict is Verdict.caused:
        rest = caused[bisect_right(caused, after) :]
        return [*rest[:limit]], rest[limit - 1] if len(rest) > limit else None
    its = tables.events.c
    left_out = {*caused, *(each.id for each in starts)}
    query = (
        select(its.id, its.participant, its.height)
        .where(its.trace_id == starts[0].trace_id, its.id > after, its.id <= future.newest)
        .order_by(its.id)
        .limit(MOST_LOOKED_AT)
    )
    rows = (await connection.execute(query)).all()
    found: list[int] = []
    for event_id, participant, height in rows:
        if future.verdict_of(participant, height) is verdict and event_id not in left_out:
            if len(found) == limit:
                return found, found[-1]
            found.append(event_id)
    return found, rows[-1].id if len(rows) == MOST_LOOKED_AT else None
