"""Failures, newest first, by the indexes of the few events that tell of one.

The newest candidates of all kinds and virtual hosts are merged and read in batches, until there are
no others, enough are counted, or time is up. `app.store.conversations.deaths` reads dead letters.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from msgspec.structs import replace
from sqlalchemy import ColumnElement, Select, bindparam, literal_column, select, text, union_all
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.causality.ranges import names_of
from app.store.conversations.deaths import first_deaths
from app.store.conversations.remedies import with_remedies
from app.store.database import tables
from app.store.database.chunks import filters
from app.store.database.searched import searched_keys
from app.store.database.subject import Subject, searches
from app.store.database.times import ids_between
from app.store.reading import messages
from app.store.reading.queries import in_traces, shares_of_traces
from app.stored.failures import (
    Failure,
    FailureDraft,
    FailureFilter,
    FailureKind,
    FailurePage,
    failure_page,
)
from app.tracker.links.probes import FAILURE_KEY
from model.deaths import NOT_FINAL
from model.error_queues import Forward, forward_of
from model.event import Event
from model.message_types import type_of
from model.remedies import AdminTool
from model.texts import DIRECT_REPLIES
from model.times import Microseconds
from model.who import Who
from model.words import EdgeKind, EventType

_violations = tables.violations.c

_events = tables.events.c
_lost_copies = tables.lost_copies.c
_index = searched_keys.c
_traces = tables.traces.c

# Failures that are counted, and how long (s) they are searched for.
MOST_COUNTED = 5_000
LOOK_SECONDS = 3.0
# Candidates that are read together.
BATCH = 200
# Redeliveries of a copy that make a failure, and up to how many they are counted.
CAME_BACK = 3
MOST_TIMES = 1_000
# A participant's newest deliveries among which one with the same body is searched.
MOST_BEFORE = 64
# SQLite merges at most 500 lists. Beyond that, several virtual hosts share one.
MOST_LISTS = 400

# The broker's queues for direct replies: a reply may be routed to no queue, and still be delivered.
_DIRECT_REPLY = "amq.rabbitmq.reply-to."

# The third redelivery of a copy makes it a failure, whatever comes after it.
_IS_THE_THIRD = (
    "(SELECT count(*) FROM (SELECT 1 FROM events AS earlier"  # noqa: S608  our own numbers
    " WHERE earlier.cause_id = events.cause_id AND earlier.match = 2"
    " AND earlier.queue = events.queue AND earlier.id < events.id"
    f" LIMIT {CAME_BACK}) AS counted) = {CAME_BACK - 1}"
)

_NOT_FINAL = ", ".join(f"'{reason}'" for reason in sorted(NOT_FINAL))

_CONDITIONS: dict[FailureKind, str] = {
    FailureKind.died: tables.FAILURES["died"],
    FailureKind.came_back: f"{tables.FAILURES['came_back']} AND {_IS_THE_THIRD}",
    # Before 4.2 a direct reply is routed to no queue, and may still arrive.
    FailureKind.unroutable: f"{tables.FAILURES['unroutable']}"
    f" AND NOT (exchange = '' AND routing_keys LIKE '[\"{DIRECT_REPLIES}%')",
    FailureKind.error_queue: "EXISTS (SELECT 1 FROM events WHERE events.id = event_id"
    " AND events.type = 0 AND NOT events.quiet)",
    # Events that are not stored any more are shown among violations only.
    FailureKind.overdue: "kind = 'overdue'"
    " AND EXISTS (SELECT 1 FROM events WHERE events.id = violations.event_id)",
    FailureKind.gone: f"reason NOT IN ({_NOT_FINAL})"  # noqa: S608  our own words
    " AND EXISTS (SELECT 1 FROM events WHERE events.id = event_id AND NOT events.quiet)"
    # Not of a moved message, delivered from a queue that it was not routed to.
    " AND NOT EXISTS (SELECT 1 FROM events JOIN events AS publish ON publish.id = events.cause_id"
    " WHERE events.cause_id = event_id AND (events.queue = lost_copies.queue OR events.match = 3"
    " OR publish.routed_queues = replace(publish.routed_queues, '\"' || events.queue || '\"', '')"
    "))",
}
# Trace and event of kinds whose candidates have a table of their own.
_ID_COLUMNS = {
    FailureKind.error_queue: (_index.trace_id, _index.event_id),
    FailureKind.overdue: (_violations.trace_id, _violations.event_id),
    FailureKind.gone: (_lost_copies.trace_id, _lost_copies.event_id),
}

# Event, reason and queue, null for the event's own.
_ROW_COLUMNS = {
    FailureKind.overdue: (*_violations["event_id", "assertion"], literal_column("NULL")),
    FailureKind.gone: tuple(_lost_copies["event_id", "reason", "queue"]),
}

_CAME_BACK = text(
    "SELECT third.id, (SELECT count(*) FROM (SELECT 1 FROM events AS each"
    " WHERE each.cause_id = third.cause_id AND each.match = 2 AND each.queue = third.queue"
    " LIMIT :most) AS counted) AS times,"
    " (SELECT last.id FROM events AS last WHERE last.cause_id = third.cause_id"
    " AND last.match = 2 AND last.queue = third.queue ORDER BY last.id DESC LIMIT 1) AS newest"
    " FROM events AS third WHERE third.id IN :ids"
).bindparams(bindparam("ids", expanding=True), most=MOST_TIMES)
_FORWARDS = text(
    "SELECT edges.effect_id, cause.id, cause.type, cause.cause_id, cause.queue"
    " FROM edges JOIN events AS cause ON cause.id = edges.cause_id"
    " WHERE edges.kind = :forward AND edges.effect_id IN :ids"
    " ORDER BY edges.effect_id, cause.id"
).bindparams(bindparam("ids", expanding=True), forward=int(EdgeKind.forward))


# An event that may tell of a failure of some kind.
Candidate: TypeAlias = tuple[int, FailureKind]


class _FailureScope(NamedTuple):
    traces: dict[int, str]
    kinds: tuple[FailureKind, ...]
    first: int | None
    end: int | None


class Failures(Subject):
    """Failures of all traces."""

    @searches
    async def find(
        self,
        connection: AsyncConnection,
        criteria: FailureFilter,
        *,
        before: int | None = None,
        limit: int = 100,
        may_read: Callable[[str], bool] = lambda vhost: True,
        tool: AdminTool = AdminTool.script,
    ) -> FailurePage:
        """The newest failures of events before an id, with groups and counts of these.

        Messages' content of virtual hosts that the user may not read is neither shown, nor
        searched, nor does it tell groups apart. Remedies are for the broker's ``tool``. Raises
        `BadRequestError` where the database takes much longer than `LOOK_SECONDS`.
        """
        deadline = time.monotonic() + LOOK_SECONDS
        scope = await _scope(connection, criteria)
        failures: list[Failure] = []
        cursor = before
        while True:
            candidates, is_end = await _candidates(connection, scope, cursor)
            batch = await _read_failures(connection, scope, candidates)
            readable = (f if may_read(f.vhost) else f.without_content() for f in batch)
            failures += filter(criteria.lets_through, readable)
            cursor = None if is_end else candidates[-1][0]
            if is_end or len(failures) >= MOST_COUNTED or time.monotonic() > deadline:
                page = failure_page(failures, limit, cursor)
                items = await with_remedies(connection, page.items, may_read, tool)
                return replace(page, items=items)


async def _scope(connection: AsyncConnection, criteria: FailureFilter) -> _FailureScope:
    query = select(_traces.id, _traces.vhost).where(*filters((_traces.vhost.in_, criteria.visible)))
    traces = {row.id: row.vhost for row in await connection.execute(query)}
    kinds = tuple(FailureKind) if criteria.kind is None else (criteria.kind,)
    ids = await ids_between(connection, criteria.since, criteria.until)
    return _FailureScope(traces, kinds, *ids)


async def _candidates(
    connection: AsyncConnection, scope: _FailureScope, cursor: int | None
) -> tuple[list[Candidate], bool]:
    """The newest candidates before an id, and whether these are all."""
    if not scope.traces:
        return [], True
    candidates = await connection.execute(_query(scope, cursor))
    rows = [(event_id, FailureKind(kind)) for event_id, kind in candidates]
    if len(rows) < BATCH:
        return rows, True
    # One event may be a candidate twice, and the second may have been cut off.
    return [row for row in rows if row[0] != rows[-1][0]] or rows, False


def _query(scope: _FailureScope, cursor: int | None) -> Select[Any]:
    shares = shares_of_traces([*scope.traces], MOST_LISTS // len(scope.kinds))
    lists = [_list(kind, numbers, scope, cursor) for kind in scope.kinds for numbers in shares]
    union = union_all(*(select(query.subquery()) for query in lists)).subquery()
    return select(union.c.id, union.c.kind).order_by(union.c.id.desc()).limit(BATCH)


def _list(
    kind: FailureKind, numbers: list[int], scope: _FailureScope, cursor: int | None
) -> Select[Any]:
    event_id: ColumnElement[int]
    trace_id, event_id = _ID_COLUMNS.get(kind, (_events.trace_id, _events.id))
    is_before = event_id.__lt__
    bounds = [*filters((event_id.__ge__, scope.first), (is_before, scope.end), (is_before, cursor))]
    query = select(event_id.label("id"), literal_column(f"'{kind}'").label("kind"))
    order: list[ColumnElement[Any]] = [event_id.desc()]
    if kind is FailureKind.error_queue:
        bounds.append(_index.key == FAILURE_KEY)
        order = [_index.turn, *order]
    elif kind in _ID_COLUMNS:
        query = query.distinct()  # an event may be overdue twice
    query = query.where(in_traces(trace_id, numbers), text(_CONDITIONS[kind]), *bounds)
    return query.order_by(*order).limit(BATCH)


async def _read_failures(
    connection: AsyncConnection, scope: _FailureScope, candidates: Sequence[Candidate]
) -> list[Failure]:
    ids: defaultdict[FailureKind, list[int]] = defaultdict(list)
    for event_id, kind in candidates:
        ids[kind].append(event_id)
    events = await messages.read(connection, {event_id for event_id, _ in candidates})
    forwards = await _forwards(connection, ids[FailureKind.error_queue])
    causes = {event.cause for event in events.values()}
    causes.update(original.message for original in forwards.values())
    unread = [event_id for event_id in causes - events.keys() if event_id is not None]
    events |= await messages.read(connection, unread)
    letters = [events[event_id] for event_id in ids[FailureKind.died] if event_id in events]
    drafts = [
        *await first_deaths(connection, letters, events),
        *await _came_back(connection, ids[FailureKind.came_back], events),
        *_unroutable(ids[FailureKind.unroutable], events),
        *await _in_error_queues(connection, ids[FailureKind.error_queue], forwards, events),
    ]
    for kind in _ROW_COLUMNS:
        drafts += await _drafts_of_rows(connection, kind, ids[kind], events)
    names = await _names(connection, drafts, events)
    order = {kind: position for position, kind in enumerate(FailureKind)}
    drafts.sort(key=lambda draft: (-draft.event, order[draft.kind]))
    return [_failure(draft, scope, events, names) for draft in drafts]


async def _came_back(
    connection: AsyncConnection, ids: list[int], events: dict[int, Event]
) -> list[FailureDraft]:
    if not ids:
        return []
    rows = (await connection.execute(_CAME_BACK, {"ids": ids})).all()
    newest = {row.newest for row in rows}
    events |= await messages.read(connection, newest - events.keys())
    return [
        FailureDraft(
            event=row.id,
            message=events[row.id].cause,
            kind=FailureKind.came_back,
            queue=events[row.id].queue,
            by=events[row.newest].participant,
            handed_over=row.newest,
            times=row.times,
        )
        for row in rows
    ]


def _unroutable(ids: list[int], events: Mapping[int, Event]) -> list[FailureDraft]:
    return [
        FailureDraft(event=event_id, message=event_id, kind=FailureKind.unroutable)
        for event_id in ids
        if (publish := events.get(event_id))
        and (publish.exchange or not any(k.startswith(_DIRECT_REPLY) for k in publish.routing_keys))
    ]


async def _drafts_of_rows(
    connection: AsyncConnection,
    kind: FailureKind,
    ids: list[int],
    events: Mapping[int, Event],
) -> list[FailureDraft]:
    """Failures with rows of their own: overdue events, and copies that are gone."""
    columns, drafts = _ROW_COLUMNS[kind], []
    query = select(*columns).where(columns[0].in_(ids), text(_CONDITIONS[kind]))
    # In the order of event and reason; PostgreSQL takes no constant, as a missing queue is, there.
    for event_id, reason, queue in await connection.execute(query.order_by(*columns[:2])):
        event = events.get(event_id)
        if event is not None:
            message = event_id if event.cause is None else event.cause
            drafts.append(FailureDraft(event_id, message, kind, queue or event.queue, reason))
    return drafts


class _Original(NamedTuple):
    """The first publish, and the delivery, that a message published again names."""

    message: int | None
    delivery: int | None
    queue: str | None


async def _forwards(connection: AsyncConnection, ids: list[int]) -> dict[int, _Original]:
    """The newest original of each message."""
    if not ids:
        return {}
    originals = {}
    for effect, cause, kind, cause_id, queue in await connection.execute(_FORWARDS, {"ids": ids}):
        is_publish = kind == EventType.published
        originals[effect] = _Original(
            cause if is_publish else cause_id, None if is_publish else cause, queue
        )
    return originals


_UNKNOWN = Forward(None, None)


async def _in_error_queues(
    connection: AsyncConnection,
    ids: list[int],
    forwards: Mapping[int, _Original],
    events: Mapping[int, Event],
) -> list[FailureDraft]:
    """Publishes into error queues, with the message that failed if it is known."""
    drafts = []
    for event in (events[event_id] for event_id in ids if event_id in events):
        original = forwards.get(event.id, _Original(None, None, None))
        address = event.exchange, event.routing_keys
        # The body may not be stored, or the headers be too long to be read here.
        forward = forward_of(event.properties, *address, event.payload) or _UNKNOWN
        candidate = None
        if event.id not in forwards:
            candidate = await _delivery_of_body(connection, event, forward.body)
        drafts.append(
            FailureDraft(
                event=event.id,
                message=original.message,
                kind=FailureKind.error_queue,
                queue=forward.queue or original.queue,
                exception=forward.exception,
                by=event.participant,
                handed_over=original.delivery,
                candidate=candidate,
                to=next(iter(event.routed_queues or ()), None),
                path=forward.path and (forward.path[0], (forward.path[1],)),
            )
        )
    return drafts


async def _delivery_of_body(
    connection: AsyncConnection, event: Event, body: bytes | None
) -> int | None:
    """The newest of a participant's last deliveries with a ``body``, by default an event's own."""
    publish = tables.events.alias().c
    last = (
        select(_events.id, _events.payload, _events.payload_bytes, _events.payload_sha256)
        .where(_events.trace_id == event.trace_id, _events.participant == event.participant)
        .where(
            _events.height < select(publish.height).where(publish.id == event.id).scalar_subquery()
        )
        .where(_events.type == int(EventType.received))
        .order_by(_events.height.desc())
        .limit(MOST_BEFORE)
        .subquery()
        .c
    )
    query = select(last.id).order_by(last.id.desc()).limit(1)
    if body is None:
        digests = last.payload_sha256, publish.payload_sha256
        query = (
            query.where(publish.id == event.id, last.payload_bytes == publish.payload_bytes)
            .where(last.payload == publish.payload)
            .where(digests[0].is_not_distinct_from(digests[1]))
        )
    else:
        query = query.where(last.payload_bytes == len(body), last.payload == body)
    return (await connection.execute(query)).scalar()


_Names: TypeAlias = Mapping[tuple[int, int], Who]


async def _names(
    connection: AsyncConnection, drafts: Sequence[FailureDraft], events: Mapping[int, Event]
) -> _Names:
    numbers: defaultdict[int, set[int]] = defaultdict(set)
    for draft in drafts:
        event, message = events[draft.event], events.get(draft.message or 0)
        participants = draft.by, None if message is None else message.participant
        numbers[event.trace_id].update(number for number in participants if number is not None)
    return {
        (trace_id, number): who
        for trace_id, of_trace in numbers.items()
        for number, who in (await names_of(connection, trace_id, of_trace)).items()
    }


def _failure(
    draft: FailureDraft, scope: _FailureScope, events: Mapping[int, Event], names: _Names
) -> Failure:
    event, message = events[draft.event], events.get(draft.message or 0)
    publish = event if message is None else message
    exchange, keys = publish.exchange, publish.routing_keys
    if message is None and draft.path is not None:
        exchange, keys = draft.path

    def name_of(number: int | None) -> Who | None:
        return None if number is None else names.get((event.trace_id, number))

    draft_fields = draft._asdict()
    del draft_fields["path"]
    fields = {
        "message": None if message is None else message.id,
        "vhost": scope.traces[event.trace_id],
        "type": type_of(publish.properties, exchange, keys, publish.payload),
        "correlation_id": (publish.properties or {}).get("correlation_id"),
        "at": Microseconds(event.recorded_at),
        "by": name_of(draft.by),
        "publisher": None if message is None else name_of(message.participant),
        "exchange": exchange,
        "routing_key": keys[0] if keys else "",
    }
    return Failure(**draft_fields | fields)
