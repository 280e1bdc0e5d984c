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
from app.store.database.chunks import chunks, columns
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
from app.tracker.matching.copies import MOST_LOST
from app.tracker.matching.memories import MOST_PUBLISHED
from app.tracker.records import Channel
from app.tracker.tracker import Bounds
from itc import Stamp, unpack
from model.words import EdgeKind, EventType, Match

_channels = tables.channels.c
_copies = tables.copies.c
_edges = tables.edges.c
_events = tables.events.c
_lost_copies = tables.lost_copies.c
_participants = tables.participants.c
_traces = tables.traces.c

# Rows that are read at once: in between, the event loop can do other work.
CHUNK = 1_000

# Publishes that an exchange may keep are looked for among this many last events.
LOOK_BACK = 10 * MOST_PUBLISHED

References: TypeAlias = Callable[[int, bytes, int], Reference]
T = TypeVar("T")

_first_events = tables.events.alias("first").c
_EMPTY = RestorePoint(b"", [], [], [], [])


class _Restoration(NamedTuple):
    """A trace under restoration, with its earlier readings."""

    connection: AsyncConnection
    trace_id: int
    reference: References
    previous: RestorePoint

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
        named_events: int = Bounds().named_events,
        prefetched: RestorePoint | None = None,
    ) -> RestorePoint:
        """The last checkpoint of a trace, with this many last handovers and named events.

        ``state`` is empty if there is none yet. What was ``prefetched``, before a service claimed
        the trace and began its first run, is not read again. Raises `NotFoundError`.
        """
        first = select(func.min(_first_events.id)).where(_first_events.trace_id == trace_id)
        query: Select[Any] = (
            select(
                *columns(_traces, "checkpoint window ledger last_event_id epoch"),
                func.coalesce(_events.recorded_at, _traces.created_at),
                first.scalar_subquery(),
            )
            .outerjoin(tables.events, _events.id == _traces.last_event_id)
            .where(_traces.id == trace_id)
        )
        row = (await connection.execute(query)).one_or_none()
        if row is None:
            raise NotFoundError(f"no trace has the number {trace_id}")
        state, window, ledger, last_event_id, epoch, recorded_at, first_event_id = row
        previous = prefetched or _EMPTY
        # Otherwise other runs have begun meanwhile, perhaps after a restamp, or retention came.
        if (previous.begins[0] + 2, previous.begins[1]) != (epoch, first_event_id):
            previous = _EMPTY
        # One reference for each event, as the tracker had it: a publish may have many copies.
        references: References = functools.cache(
            lambda event_id, packed, lamport: Reference(packed, lamport, event_id)
        )
        await self.database.dialect.follow_indexes(connection)
        trace = _Restoration(connection, trace_id, references, previous)
        channels = await _read_channels(trace)
        return RestorePoint(
            state=state or b"",
            channels=channels,
            participants=await _read_participants(trace),
            copies=await _read_copies(trace),
            handovers=await _read_handovers(trace, handovers),
            window=window or b"",
            ledger=ledger,
            last_event_id=last_event_id,
            recorded_at=recorded_at,
            named_events=await _read_named(trace, named_events, channels),
            link_rules=tuple(
                rule.rule for rule in await link_rules.list_effective(connection, trace_id)
            ),
            own_rules=tuple(await link_rules.list_own(connection, trace_id)),
            publishes=await _read_published(trace, last_event_id),
            lost_copies=await _read_lost_copies(trace),
            open_channels=await settlements.open_channels(connection, trace_id),
            in_hand=await settlements.in_hand(connection, trace_id),
            begins=(epoch, first_event_id),
        )


def _last(earlier: Sequence[T], newest_first: Sequence[T], limit: int) -> list[T]:
    """The last of earlier values and of those that came since, oldest first."""
    return [*earlier, *reversed(newest_first)][-limit:] if limit else []


async def _read_channels(trace: _Restoration) -> list[ChannelState]:
    query = (
        select(tables.channels)
        .where(_channels.trace_id == trace.trace_id)
        .order_by(_channels.number)
    )
    return [
        ChannelState(number, Channel(node, name, channel, user), participant, last, replies)
        async for _, number, participant, node, name, channel, user, last, replies in trace.rows(
            query
        )
    ]


async def _read_participants(trace: _Restoration) -> list[tuple[ParticipantState, Stamp, int]]:
    last = tables.participants.join(tables.events, _events.id == _participants.last_event_id)
    fields = [_participants[name] for name in ParticipantState.__struct_fields__]
    query = (
        select(*fields, _events.clock, _events.id)
        .select_from(last)
        .where(_participants.trace_id == trace.trace_id)
        .order_by(_participants.number)
    )
    restored = []
    async for *values, clock, event_id in trace.rows(query):
        state = ParticipantState(*values)
        restored.append((state, unpack(clock, state.interval), event_id))
    return restored


async def _read_copies(trace: _Restoration) -> list[PendingCopy]:
    query = (
        select(
            *(_copies.number, _copies.queue, _copies.fingerprint, _copies.recorded_at),
            *(_events.id, _events.clock, _events.lamport, _events.participant),
        )
        .join(tables.events, _events.id == _copies.event_id)
        .where(_copies.trace_id == trace.trace_id)
        .order_by(_copies.number)
    )
    return [
        PendingCopy(number, queue, fingerprint, trace.reference(*cause), recorded_at, participant)
        async for number, queue, fingerprint, recorded_at, *cause, participant in trace.rows(query)
    ]


async def _read_handovers(trace: _Restoration, limit: int) -> list[Handover]:
    """The last received events, each with its publish if that is known and still stored."""
    cause = tables.events.alias("cause")
    is_cause = and_(cause.c.id == _events.cause_id, cause.c.trace_id == trace.trace_id)
    query = (
        select(
            *columns(_events, "id clock lamport queue fingerprint participant candidates match"),
            *columns(cause.c, "id clock lamport fingerprint"),
        )
        .select_from(tables.events.outerjoin(cause, is_cause))
        .where(_events.trace_id == trace.trace_id, _events.queue.is_not(None))
        .where(_events.id > trace.previous.last_event_id)
        .order_by(_events.id.desc())
        .limit(limit)
    )
    newest_first = []
    async for row in trace.rows(query):
        event_id, clock, lamport, queue, fingerprint, participant, candidates, match, *origin = row
        delivery = publish = Reference(clock, lamport, event_id)
        has_brought = False
        if origin[0] is not None:
            publish = trace.reference(*origin[:3])
            has_brought = match != Match.dead_lettered and brings_deaths(origin[3])
        elif candidates is None:
            candidates = 0
        newest_first.append(
            Handover(queue, fingerprint, publish, delivery, participant, candidates, has_brought)
        )
    return _last(trace.previous.handovers, newest_first, limit)


async def _read_published(trace: _Restoration, last: int) -> list[tuple[bytes, Reference]]:
    """The last publishes that an exchange may keep, each with its fingerprint, oldest first."""
    first = last - LOOK_BACK
    earlier = [publish for publish in trace.previous.publishes if (publish[1].id or 0) > first]
    query = (
        select(_events.fingerprint, _events.id, _events.clock, _events.lamport)
        .where(_events.trace_id == trace.trace_id, _events.type == int(EventType.published))
        .where(
            or_(_events.exchange != "", _events.routed_queues == "[]"),
            _events.id > max(first, trace.previous.last_event_id),
        )
        .order_by(_events.id.desc())
        .limit(MOST_PUBLISHED)
    )
    newest_first = [
        (fingerprint[:BYTES], trace.reference(*event))
        async for fingerprint, *event in trace.rows(query)
    ]
    return _last(earlier, newest_first, MOST_PUBLISHED)


async def _read_lost_copies(trace: _Restoration) -> list[tuple[str, bytes, Reference]]:
    """Copies that are gone, by queue and fingerprint, in the order of their publishes."""
    query = (
        select(_lost_copies.queue, _events.fingerprint, _events.id, _events.clock, _events.lamport)
        .join(tables.events, _events.id == _lost_copies.event_id)
        .where(
            _lost_copies.trace_id == trace.trace_id,
            _lost_copies.reason.not_in(("equal", "returned")),
        )
        .order_by(_lost_copies.event_id.desc(), _lost_copies.queue)
        .limit(MOST_LOST)
    )
    newest_first = [
        (queue, fingerprint, trace.reference(*publish))
        async for queue, fingerprint, *publish in trace.rows(query)
    ]
    return newest_first[::-1]


async def _read_named(
    trace: _Restoration, limit: int, channels: list[ChannelState]
) -> list[NamedEvent]:
    """The last events that later ones may name, oldest first."""
    messages = tables.events.alias("message").c
    query = (
        select(
            *columns(
                _events, "id ids type cause_id queue participant channel height clock lamport"
            ),
            messages.clock.label("message_clock"),
            messages.lamport.label("message_lamport"),
        )
        .select_from(tables.events)
        .outerjoin(
            messages.id.table,
            and_(messages.id == _events.cause_id, _events.trace_id == messages.trace_id),
        )
        .where(_events.trace_id == trace.trace_id, _events.id > trace.previous.last_event_id)
        .where(_events.ids.is_not(None), ~_events.quiet)
        .order_by(_events.id.desc())
        .limit(limit)
    )
    newest_first = []
    connections = {state.key: state.channel.connection for state in channels}
    async for row in trace.rows(query):
        reference = trace.reference(row.id, row.clock, row.lamport)
        is_delivery = row.type == EventType.received
        message: Reference | int | None = reference
        if is_delivery:
            message = row.cause_id
            if row.message_clock is not None:
                message = trace.reference(row.cause_id, row.message_clock, row.message_lamport)
        newest_first.append(
            NamedEvent(
                keys=tuple(map(bytes, chunks(row.ids, KEY_BYTES))),
                is_delivery=is_delivery,
                participant=row.participant,
                channel_key=row.channel,
                connection=connections[row.channel],
                height=row.height,
                reference=reference,
                message=message,
                queue=row.queue,
            )
        )
    oldest_first = _last(trace.previous.named_events, newest_first, limit)
    if oldest_first:
        consequences, originals = await _read_consequences(trace, oldest_first[0].reference.id or 0)
        for event in oldest_first:
            if event.is_delivery:
                event.led_to = consequences[event.reference.id]
            else:
                event.original = originals.get(event.reference.id)
    return oldest_first


async def _read_consequences(
    trace: _Restoration, first: int
) -> tuple[defaultdict[int | None, int], dict[int | None, int]]:
    """The certain `NamedEvent.led_to` and `NamedEvent.again`, from an event on."""
    certain = tables.edges.alias("certain").c
    query = (
        select(_edges.cause_id, _edges.effect_id, _edges.kind, certain.kind)
        .join(
            certain.kind.table,
            and_(certain.effect_id == _edges.effect_id, certain.rule == _edges.rule),
        )
        .where(
            _edges.trace_id == trace.trace_id,
            _edges.cause_id >= first,
            certain.kind.in_([EdgeKind.reply, EdgeKind.forward]),
        )
        .distinct()
    )
    consequences: defaultdict[int | None, int] = defaultdict(int)
    originals: dict[int | None, int] = {}
    async for cause, effect, own_kind, kind in trace.rows(query):
        consequences[cause] |= 1 << kind
        if own_kind == EdgeKind.forward:
            originals[effect] = cause
    return consequences, originals
