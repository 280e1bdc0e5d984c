"""Reading for whoever holds assertions against a trace: its events, and what leads to what."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.causality import links
from app.store.database import tables
from app.store.database.chunks import rows_with
from app.store.database.subject import Subject, reads
from app.store.reading import messages
from app.stored.assertions import MOST_REACHED, Reach
from model.assertions.judging import WatchedEvent
from model.message_types import is_in_body
from model.ways import Direction

# So many events are looked at in one step from several.
MOST_A_STEP = 10_000

_its = tables.events.c
_QUERY = messages.WITHOUT_BODY.where(~_its.quiet)


class WatchPage(NamedTuple):
    """Events of a trace in order, and up to where there are no others."""

    events: Sequence[WatchedEvent]
    through: int


class Watching(Subject):
    """The events of all traces, as they come."""

    @reads
    async def page(
        self, connection: AsyncConnection, trace_id: int, after: int, limit: int
    ) -> WatchPage:
        """The next events after an id, without those of quiet traffic."""
        its = tables.traces.c
        last = select(its.last_event_id).where(its.id == trace_id)
        through = (await connection.execute(last)).scalar_one_or_none() or 0  # before the events
        query = _QUERY.where(_its.trace_id == trace_id, _its.id > after, _its.id <= through)
        rows = (await connection.execute(query.order_by(_its.id).limit(limit))).all()
        events = await _read(connection, rows)
        return WatchPage(events, events[-1].id if len(rows) == limit else max(after, through))

    @reads
    async def reached(
        self, connection: AsyncConnection, trace_id: int, ids: Sequence[int], towards: Direction
    ) -> dict[int, Reach]:
        """The events that some led to (1), or that led to them (-1), along messages and links.

        Those that are not stored are left out; where they led to something, it is not all.
        """
        # From the very first event on, so that causes show which retention has removed.
        evident = links.Evident(connection, trace_id, 0, MOST_A_STEP, towards)
        found, cut = await evident.spread(ids, MOST_REACHED)
        every = {*ids}.union(*found.values())
        equal = await links.with_equals(connection, trace_id, every) if towards == 1 else set[int]()
        known = await _seen(connection, every)
        return {
            start: Reach(
                known[start],
                [known[each] for each in sorted(reached) if each in known],
                start not in cut and (towards == 1 or reached <= known.keys()),
                not equal.isdisjoint({start, *reached}),
            )
            for start, reached in found.items()
            if start in known
        }


async def _seen(connection: AsyncConnection, ids: Collection[int]) -> dict[int, WatchedEvent]:
    rows = await rows_with(connection, _QUERY, _its.id, ids)
    return {each.id: each for each in await _read(connection, rows)}


async def _read(connection: AsyncConnection, rows: Sequence[Any]) -> list[WatchedEvent]:
    """The events; a body is read where only that can say the type of its message."""
    found = [messages.facts(row) for row in rows]
    in_body = await messages.read(connection, [e.id for e in found if is_in_body(e.properties)])
    return [
        WatchedEvent(
            each.id,
            each.recorded_at,
            is_publish=each.queue is None,
            message_type=in_body.get(each.id, each).type,
            message=each.cause,
        )
        for each in found
    ]
