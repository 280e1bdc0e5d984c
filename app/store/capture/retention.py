"""Retention: removing the oldest events of a trace, always a prefix of its ids.

All that happened before an event has a smaller id, so no chain between two events that stay runs
through one that is removed.

The tracker refers to stored events too: its participants own intervals, its copies wait for a
delivery. So the tracker's owner prunes, between two batches:

    while plan := await retention.plan(trace_id, keep_events=…, at_most=…):
        tracker.forget_before(plan.before_id)
        await retention.prune(plan, tracker.checkpoint())
        await retention.reclaim()

Each round is one transaction of bounded size, and leaves a store that a tracker can be restored
from. A plan without a bound that is not carried out is the dry run.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Select, delete, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from app.errors import ConflictError, NotFoundError
from app.store.capture import keys, settlements
from app.store.capture.batches import remove_copies
from app.store.database import tables, times
from app.store.database.subject import Subject, reads, writes
from app.store.holding.leases import lock_trace
from app.stored.capture import PrunePlan
from app.tracker.events import Checkpoint, ParticipantState
from model.words import Disposition

_channels = tables.channels.c
_events = tables.events.c
_gaps = tables.gaps.c
_late_edges = tables.late_edges.c
_lost_copies = tables.lost_copies.c
_participants = tables.participants.c
_quarantine = tables.quarantine.c
_sent_spans = tables.sent_spans.c
_traceparents = tables.traceparents.c
_traces = tables.traces.c
# The ids of events in tables whose rows go with them.
_DEPENDENT_IDS = (
    _lost_copies.event_id,
    _late_edges.effect_id,
    _traceparents.event_id,
    tables.kept_roots.c.root,
)


class Retention(Subject):
    """Removes the oldest events of a trace: first the plan, then the removal."""

    @reads
    async def plan(
        self,
        connection: AsyncConnection,
        trace_id: int,
        *,
        keep_events: int | None = None,
        older_than: int | None = None,
        last_id: int | None = None,
        limit: int | None = None,
    ) -> PrunePlan | None:
        """Plan to remove all but the newest ``keep_events``, and what is ``older_than`` (µs).

        Nothing with an id above ``last_id`` is removed; without other bounds, everything up to it
        is. ``limit`` bounds the number of events. None if there is nothing to remove. Raises
        `NotFoundError`.
        """
        bounds = keep_events, older_than, last_id, limit
        before_id = await _before_id(connection, trace_id, *bounds, self.database.clock())
        query = select(func.count(), func.max(_events.id)).where(*_prefix(trace_id, before_id))
        number, last = (await connection.execute(query)).one()
        if not number:
            return None
        last_time = select(_events.recorded_at).where(_events.id == last)
        participants = select(
            *[_participants[name] for name in ParticipantState.__struct_fields__]
        ).where(*_without_events(trace_id, before_id))
        return PrunePlan(
            trace_id=trace_id,
            before_id=before_id,
            until=(await connection.execute(last_time)).scalar_one(),
            events=number,
            participants=[ParticipantState(*row) for row in await connection.execute(participants)],
        )

    async def reclaim(self) -> bool:
        """Give some free pages back; True if there are more (`app.store.database.sqlite`)."""
        return await self.database.write(self.database.dialect.reclaim)

    @writes
    async def prune(
        self,
        connection: AsyncConnection,
        plan: PrunePlan,
        checkpoint: Checkpoint,
        epoch: int | None = None,
    ) -> None:
        """Carry out a plan, with the checkpoint of a tracker that has forgotten these events.

        Raises `ConflictError` if the trace has moved on since the plan was made, `LeaseLostError`
        if it was taken since ``epoch``. After any error the tracker has forgotten what is still
        stored: restore it.
        """
        additions = checkpoint.copies_added or checkpoint.copies_lost
        if checkpoint.participants or checkpoint.channels or additions:
            raise ConflictError(
                "retention takes its turn between batches, not with events on the way"
            )
        trace_id, before_id = plan.trace_id, plan.before_id
        await lock_trace(connection, trace_id, epoch)
        await connection.execute(
            update(tables.traces)
            .where(_traces.id == trace_id)
            .values(checkpoint=checkpoint.state, events=_traces.events - plan.events, pruned=True)
        )
        changes, dialect = checkpoint.settlements, self.database.dialect
        await settlements.store(connection, dialect, trace_id, changes)
        await remove_copies(connection, trace_id, checkpoint.copies_removed)
        await _note_unsent(connection, trace_id, before_id)
        for event_id in _DEPENDENT_IDS:
            conditions = event_id.table.c.trace_id == trace_id, event_id < before_id
            await connection.execute(delete(event_id.table).where(*conditions))
        await keys.forget_keys_before(connection, dialect, trace_id, before_id)
        is_old = _prefix(trace_id, before_id)
        result = await connection.execute(delete(tables.events).where(*is_old))
        participants = await _remove_participants(connection, trace_id, before_id)
        if (result.rowcount, participants) != (plan.events, len(plan.participants)):
            raise ConflictError("the trace has gone on since its retention was planned")
        is_before = _gaps.trace_id == trace_id, _gaps.before_event_id <= before_id
        await connection.execute(delete(tables.gaps).where(*is_before))
        is_old = _quarantine.trace_id == trace_id, _quarantine.recorded_at <= plan.until
        await connection.execute(delete(tables.quarantine).where(*is_old))
        await times.forget_pruned(connection)


async def _note_unsent(connection: AsyncConnection, trace_id: int, before_id: int) -> None:
    """Count what goes before its spans were sent, where they are to be, and go on behind it."""
    of_trace = _sent_spans.trace_id == trace_id
    query = select(_sent_spans.read_id).where(of_trace)
    read_id = (await connection.execute(query)).scalar_one_or_none()
    if read_id is None:
        return
    ends_later = or_(_events.settlement == int(Disposition.in_hand), _events.hold >= read_id)
    is_unsent = ~_events.quiet, or_(_events.id > read_id, ends_later)
    count = select(func.count()).where(*_prefix(trace_id, before_id), *is_unsent)
    values: dict[str, Any] = {
        "missed": _sent_spans.missed + (await connection.execute(count)).scalar_one()
    }
    if read_id < before_id - 1:
        values["read_id"] = before_id - 1
    await connection.execute(update(tables.sent_spans).where(of_trace).values(**values))


async def _before_id(
    connection: AsyncConnection,
    trace_id: int,
    keep_events: int | None,
    older_than: int | None,
    last_id: int | None,
    limit: int | None,
    moment: int,
) -> int:
    query = select(_traces.events, _traces.last_event_id).where(_traces.id == trace_id)
    row = (await connection.execute(query)).one_or_none()
    if row is None:
        raise NotFoundError(f"no trace has the number {trace_id}")
    stored, last = row
    end: int = last + 1
    ids = select(_events.id).where(_events.trace_id == trace_id).order_by(_events.id).limit(1)

    async def first_of(query: Select[int]) -> int:
        event_id = (await connection.execute(query)).scalar_one_or_none()
        return end if event_id is None else int(event_id)

    # From here on only events that may be removed are looked at, which bounds the cost.
    if limit is not None:
        end = await first_of(ids.offset(limit))
    if last_id is not None:
        end = min(end, last_id + 1)
        if keep_events is None and older_than is None:
            return end
    before_id = 0
    if keep_events is not None:
        excess = max(0, stored - keep_events)
        all_may_go = limit is not None and excess >= limit
        before_id = end if all_may_go else await first_of(ids.offset(excess))
    if older_than is not None:
        # An event from the future, by a clock that was ahead, may be of any age. It is as old as
        # the next one with a credible time, and goes with that.
        young = ids.where(_events.recorded_at.between(older_than, moment), _events.id < end)
        first = await first_of(young)
        past = select(_events.id, _events.recorded_at).where(
            _events.trace_id == trace_id, _events.recorded_at <= moment
        )
        ahead_of = past.where(_events.id >= first).order_by(_events.id)
        following = (await connection.execute(ahead_of.limit(1))).first()
        if following is None or following.recorded_at >= older_than:
            earlier = past.where(_events.id < first).order_by(_events.id.desc())
            last_old = (await connection.execute(earlier.limit(1))).first()
            first = last_old.id + 1 if last_old else 0
        before_id = max(before_id, first)
    return min(before_id, end)


async def _remove_participants(connection: AsyncConnection, trace_id: int, before_id: int) -> int:
    """Remove participants and channels without events; returns how many participants.

    The others' first event is noted anew.
    """
    condition = _without_events(trace_id, before_id)
    await connection.execute(
        delete(tables.channels).where(
            _channels.trace_id == trace_id,
            or_(
                _channels.last_event_id < before_id,
                _channels.participant.in_(select(_participants.number).where(*condition)),
            ),
        )
    )
    result = await connection.execute(delete(tables.participants).where(*condition))
    await note_first_events(connection, trace_id, before_id)
    return result.rowcount


async def note_first_events(connection: AsyncConnection, trace_id: int, before_id: int) -> None:
    """Note anew the first event of each participant whose first one was before an id."""
    first = (
        select(_events.id)
        .where(
            _events.trace_id == _participants.trace_id, _events.participant == _participants.number
        )
        .order_by(_events.height)
        .limit(1)
        .scalar_subquery()
    )
    await connection.execute(
        update(tables.participants)
        .where(_participants.trace_id == trace_id, _participants.first_event_id < before_id)
        .values(first_event_id=first)
    )


def _prefix(trace_id: int, before_id: int) -> tuple[ColumnElement[bool], ...]:
    return _events.trace_id == trace_id, _events.id < before_id


def _without_events(trace_id: int, before_id: int) -> tuple[ColumnElement[bool], ...]:
    return (_participants.trace_id == trace_id, _participants.last_event_id < before_id)
