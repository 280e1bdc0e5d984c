"""A trace's events, and which led to which, for the judging of assertions."""

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
from model.happened import message_type_of
from model.message_types import is_in_body
from model.ways import Direction

# At most this many events are looked at in one step.
MOST_A_STEP = 10_000

_events = tables.events.c
_traces = tables.traces.c
_QUERY = messages.WITHOUT_BODY.where(~_events.quiet)


class WatchPage(NamedTuple):
    """The next events of a trace in order, complete ``through`` an id."""

    events: Sequence[WatchedEvent]
    through: int


class Watching(Subject):
    """The events of all traces, as they come."""

    @reads
    async def page(
        self, connection: AsyncConnection, trace_id: int, after_id: int, limit: int
    ) -> WatchPage:
        """The next events after an id, without those of quiet traffic."""
        last = select(_traces.last_event_id).where(_traces.id == trace_id)
        last_id = (await connection.execute(last)).scalar_one_or_none() or 0  # before the events
        query = _QUERY.where(
            _events.trace_id == trace_id, _events.id > after_id, _events.id <= last_id
        )
        rows = (await connection.execute(query.order_by(_events.id).limit(limit))).all()
        events = await _read(connection, rows)
        return WatchPage(events, events[-1].id if len(rows) == limit else max(after_id, last_id))

    @reads
    async def reaches(
        self, connection: AsyncConnection, trace_id: int, ids: Sequence[int], direction: Direction
    ) -> dict[int, Reach]:
        """The events that each event led to (1), or that led to it (-1), along messages and links.

        Events that are not stored are left out, and the answer is incomplete if they led on.
        """
        # From the very first event on, so that causes show that retention has removed.
        evident = links.Evident(connection, trace_id, 0, MOST_A_STEP, direction)
        effects, cut = await evident.spread(ids, MOST_REACHED)
        event_ids = {*ids}.union(*effects.values())
        equal = (
            await links.with_equals(connection, trace_id, event_ids)
            if direction == 1
            else set[int]()
        )
        events = await _find(connection, event_ids)
        return {
            start: Reach(
                events[start],
                [events[event_id] for event_id in sorted(reached) if event_id in events],
                start not in cut and (direction == 1 or reached <= events.keys()),
                not equal.isdisjoint({start, *reached}),
            )
            for start, reached in effects.items()
            if start in events
        }


async def _find(connection: AsyncConnection, ids: Collection[int]) -> dict[int, WatchedEvent]:
    rows = await rows_with(connection, _QUERY, _events.id, ids)
    return {event.id: event for event in await _read(connection, rows)}


async def _read(connection: AsyncConnection, rows: Sequence[Any]) -> list[WatchedEvent]:
    """The events; a body is read only if nothing else says the message's type."""
    events = [messages.event_of(row) for row in rows]
    in_body = await messages.read(
        connection, [event.id for event in events if is_in_body(event.properties)]
    )
    return [
        WatchedEvent(
            event.id,
            event.recorded_at,
            is_publish=event.queue is None,
            message_type=message_type_of(in_body.get(event.id, event)),
            message=event.cause,
        )
        for event in events
    ]
