"""Reading a checkpoint back: everything a tracker needs to continue where it stopped."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar

from sqlalchemy import Select, and_, func, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from app.errors import NotFoundError
from app.store.capture import link_rules, settlements
from app.store.database import tables
from app.store.database.subject import Subject, reads
from app.tracker.events import (
    ChannelState,
    Handover,
    NamedEvent,
    ParticipantState,
    PendingCopy,
    Reference,
    RestorePoint,
)
from app.tracker.fingerprint import BYTES, brings_deaths
from app.tracker.links.names import KEY_BYTES
from app.tracker.matching import MOST_LOST, MOST_PUBLISHED
from app.tracker.records import Channel
from app.tracker.tracker import Bounds
from itc import Stamp, unpack
from model.words import EdgeKind, EventType, Match

# Rows that are read at once: in between, the event loop can do other work.
CHUNK = 1_000

# So many events back, publishes that an exchange may keep are looked for.
LOOK_BACK = 10 * MOST_PUBLISHED

# Events that later messages may name, if the caller does not say how many.
NAMED = Bounds().named

References: TypeAlias = Callable[[int, bytes, int], Reference]
T = TypeVar("T")

_first = tables.events.alias("first").c
_NOTHING = RestorePoint(b"", [], [], [], [])


class _Restoration(NamedTuple):
    """A trace that is read, and what is known of it already."""

    connection: AsyncConnection
    trace_id: int
    reference: References
    known: RestorePoint

    async def rows(self, query: Select[Any]) -> AsyncIterator[Any]:
        result = await self.connection.stream(query)
        async for chunk in result.partitions(CHUNK):
            for row in chunk:
                yield row


class Checkpoints(Subject):
    """The trackers' checkpoints, each stored with its batch."""

    @reads
    async def restore(
        self,
        connection: AsyncConnection,
        trace_id: int,
        handovers: int,
        named: int = NAMED,
        ahead: RestorePoint | None = None,
    ) -> RestorePoint:
        """The last checkpoint of a trace, with so many of its last handovers and named events.

        ``state`` is empty if there is none yet. What was read ``ahead``, before a service claimed
        the trace and began its first run, is not read again. Raises `NotFoundError` if there is no
        such trace.
        """
        query = (
            select(
                tables.traces.c.checkpoint,
                tables.traces.c.window,
                tables.traces.c.ledger,
                tables.traces.c.last_event_id,
                func.coalesce(tables.events.c.recorded_at, tables.traces.c.created_at),
                tables.traces.c.epoch,
                select(func.min(_first.id)).where(_first.trace_id == trace_id).scalar_subquery(),
            )
            .outerjoin(tables.events, tables.events.c.id == tables.traces.c.last_event_id)
            .where(tables.traces.c.id == trace_id)
        )
        found = (await connection.execute(query)).one_or_none()
        if found is None:
            raise NotFoundError(f"no trace has the number {trace_id}")
        state, window, ledger, last_event_id, recorded_at, epoch, first_event_id = found
        known = ahead or _NOTHING
        # Else other runs have begun, perhaps of one that was stamped anew, or retention came.
        if (known.begins[0] + 2, known.begins[1]) != (epoch, first_event_id):
            known = _NOTHING
        # One reference for each event, as the tracker had it: a publish may have many copies.
        references: References = functools.cache(
            lambda event_id, packed, lamport: Reference(packed, lamport, event_id)
        )
        await self.database.dialect.follow_indexes(connection)
        reading = _Restoration(connection, trace_id, references, known)
        channels = await _channels(reading)
        return RestorePoint(
            state=state or b"",
            channels=channels,
            participants=await _participants(reading),
            copies=await _copies(reading),
            handovers=await _handovers(reading, handovers),
            window=window or b"",
            ledger=ledger,
            last_event_id=last_event_id,
            recorded_at=recorded_at,
            named=await _named(reading, named, channels),
            link_rules=tuple(each.rule for each in await link_rules.held(connection, trace_id)),
            own_rules=tuple(await link_rules.own(connection, trace_id)),
            kept=await _kept(reading, last_event_id),
            lost=await _lost(reading),
            open_channels=await settlements.open_channels(connection, trace_id),
            in_hand=await settlements.in_hand(connection, trace_id),
            begins=(epoch, first_event_id),
        )


def _last(known: Sequence[T], newest_first: Sequence[T], most: int) -> list[T]:
    """The last of those that were known and those that came since, oldest first."""
    return [*known, *reversed(newest_first)][-most:] if most else []


async def _channels(trace: _Restoration) -> list[ChannelState]:
    query = (
        select(tables.channels)
        .where(tables.channels.c.trace_id == trace.trace_id)
        .order_by(tables.channels.c.number)
    )
    return [
        ChannelState(number, Channel(node, name, channel, user), participant, last, replies)
        async for _, number, participant, node, name, channel, user, last, replies in trace.rows(
            query
        )
    ]


async def _participants(trace: _Restoration) -> list[tuple[ParticipantState, Stamp, int]]:
    last = tables.participants.join(
        tables.events, tables.events.c.id == tables.participants.c.last_event_id
    )
    fields = [tables.participants.c[name] for name in ParticipantState.__struct_fields__]
    query = (
        select(*fields, tables.events.c.clock, tables.events.c.id)
        .select_from(last)
        .where(tables.participants.c.trace_id == trace.trace_id)
        .order_by(tables.participants.c.number)
    )
    restored = []
    async for *values, clock, event_id in trace.rows(query):
        state = ParticipantState(*values)
        restored.append((state, unpack(clock, state.interval), event_id))
    return restored


async def _copies(trace: _Restoration) -> list[PendingCopy]:
    its, event = tables.copies.c, tables.events.c
    query = (
        select(
            *(its.number, its.queue, its.fingerprint, its.recorded_at),
            *(event.id, event.clock, event.lamport, event.participant),
        )
        .join(tables.events, event.id == its.event_id)
        .where(its.trace_id == trace.trace_id)
        .order_by(its.number)
    )
    return [
        PendingCopy(number, queue, mark, trace.reference(*of), recorded_at, who)
        async for number, queue, mark, recorded_at, *of, who in trace.rows(query)
    ]


async def _handovers(trace: _Restoration, most: int) -> list[Handover]:
    """The last received events, each with its publish if that is known and still stored."""
    its, cause = tables.events.c, tables.events.alias("cause")
    of_it = and_(cause.c.id == its.cause_id, cause.c.trace_id == trace.trace_id)
    query = (
        select(
            *(its.id, its.queue, its.fingerprint, its.clock, its.lamport, its.participant),
            *(its.candidates, its.match),
            *(cause.c.id, cause.c.clock, cause.c.lamport, cause.c.fingerprint),
        )
        .select_from(tables.events.outerjoin(cause, of_it))
        .where(its.trace_id == trace.trace_id, its.queue.is_not(None))
        .where(its.id > trace.known.last_event_id)
        .order_by(its.id.desc())
        .limit(most)
    )
    newest_first = []
    async for own_id, queue, mark, clock, lamport, who, candidates, match, *of in trace.rows(query):
        delivery = publish = Reference(clock, lamport, own_id)
        has_brought = False
        if of[0] is not None:
            publish = trace.reference(*of[:3])
            has_brought = match != Match.dead_lettered and brings_deaths(of[3])
        elif candidates is None:
            candidates = 0
        newest_first.append(Handover(queue, mark, publish, delivery, who, candidates, has_brought))
    return _last(trace.known.handovers, newest_first, most)


async def _kept(trace: _Restoration, last: int) -> list[tuple[bytes, Reference]]:
    """The last publishes that an exchange may keep, each with its mark, oldest first."""
    its, first = tables.events.c, last - LOOK_BACK
    before = [each for each in trace.known.kept if (each[1].id or 0) > first]
    query = (
        select(its.fingerprint, its.id, its.clock, its.lamport)
        .where(its.trace_id == trace.trace_id, its.type == int(EventType.published))
        .where(
            or_(its.exchange != "", its.routed_queues == "[]"),
            its.id > max(first, trace.known.last_event_id),
        )
        .order_by(its.id.desc())
        .limit(MOST_PUBLISHED)
    )
    newest_first = [
        (mark[:BYTES], trace.reference(*event)) async for mark, *event in trace.rows(query)
    ]
    return _last(before, newest_first, MOST_PUBLISHED)


async def _lost(trace: _Restoration) -> list[tuple[str, bytes, Reference]]:
    """Copies that are gone, by queue and mark, those of the oldest publishes first."""
    its, event = tables.lost_copies.c, tables.events.c
    query = (
        select(its.queue, event.fingerprint, event.id, event.clock, event.lamport)
        .join(tables.events, event.id == its.event_id)
        .where(its.trace_id == trace.trace_id, its.reason != "equal")
        .order_by(its.event_id.desc(), its.queue)
        .limit(MOST_LOST)
    )
    newest_first = [
        (queue, mark, trace.reference(*of)) async for queue, mark, *of in trace.rows(query)
    ]
    return newest_first[::-1]


async def _named(trace: _Restoration, most: int, channels: list[ChannelState]) -> list[NamedEvent]:
    """The last events that others may name, oldest first."""
    its, message = tables.events.c, tables.events.alias("message").c
    query = (
        select(
            *(its.id, its.ids, its.type, its.cause_id, its.queue, its.participant, its.channel),
            *(its.height, its.clock, its.lamport),
            message.clock.label("message_clock"),
            message.lamport.label("message_lamport"),
        )
        .select_from(tables.events)
        .outerjoin(
            message.id.table, and_(message.id == its.cause_id, its.trace_id == message.trace_id)
        )
        .where(its.trace_id == trace.trace_id, its.id > trace.known.last_event_id)
        .where(its.ids.is_not(None), ~its.quiet)
        .order_by(its.id.desc())
        .limit(most)
    )
    newest_first = []
    connections = {each.key: each.channel.connection for each in channels}
    async for row in trace.rows(query):
        this = trace.reference(row.id, row.clock, row.lamport)
        is_delivery = row.type == EventType.received
        of: Reference | int | None = this
        if is_delivery:
            of = row.cause_id
            if row.message_clock is not None:
                of = trace.reference(row.cause_id, row.message_clock, row.message_lamport)
        ids = row.ids
        newest_first.append(
            NamedEvent(
                keys=tuple(ids[at : at + KEY_BYTES] for at in range(0, len(ids), KEY_BYTES)),
                is_delivery=is_delivery,
                participant=row.participant,
                channel_key=row.channel,
                connection=connections[row.channel],
                height=row.height,
                reference=this,
                message=of,
                queue=row.queue,
            )
        )
    oldest_first = _last(trace.known.named, newest_first, most)
    if oldest_first:
        led_to, again = await _led_to(trace, oldest_first[0].reference.id or 0)
        for event in oldest_first:
            if event.is_delivery:
                event.led_to = led_to[event.reference.id]
            else:
                event.again = again.get(event.reference.id)
    return oldest_first


async def _led_to(
    trace: _Restoration, first: int
) -> tuple[defaultdict[int | None, int], dict[int | None, int]]:
    """`NamedEvent.led_to` and `NamedEvent.again`, from an event on, of what is certain."""
    its, certain = tables.edges.c, tables.edges.alias("certain").c
    query = (
        select(its.cause_id, its.effect_id, its.kind, certain.kind)
        .join(
            certain.kind.table, and_(certain.effect_id == its.effect_id, certain.rule == its.rule)
        )
        .where(
            its.trace_id == trace.trace_id,
            its.cause_id >= first,
            certain.kind.in_([EdgeKind.reply, EdgeKind.forward]),
        )
        .distinct()
    )
    led_to: defaultdict[int | None, int] = defaultdict(int)
    again: dict[int | None, int] = {}
    async for cause, effect, own_kind, kind in trace.rows(query):
        led_to[cause] |= 1 << kind
        if own_kind == EdgeKind.forward:
            again[effect] = cause
    return led_to, again
