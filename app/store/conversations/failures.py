"""Failures, newest first: found through the indexes of the few events that tell of one.

The newest candidates of all kinds and virtual hosts are merged and looked at some at a time, until
there are no others, or enough were counted, or it took long enough. What a dead letter tells is
read by `app.store.conversations.deaths`.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from sqlalchemy import ColumnElement, Select, bindparam, literal_column, select, text, union_all
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.causality.ranges import names_of
from app.store.conversations.deaths import died
from app.store.database import tables
from app.store.database.chunks import filters
from app.store.database.searched import searched_keys
from app.store.database.subject import Subject, reads, searches
from app.store.reading import messages
from app.store.reading.events import MAX_ID
from app.store.reading.messages import MessageFacts
from app.store.reading.queries import in_traces, shares_of_traces
from app.store.reading.times import ids_between
from app.stored.failures import (
    Failure,
    FailureDraft,
    FailureFilter,
    FailureKind,
    FailurePage,
    found,
)
from app.tracker.links.probes import FAILED
from model.deaths import NOT_FINAL
from model.error_queues import Forward, forward_of
from model.texts import DIRECT_REPLIES
from model.times import Microseconds
from model.who import Who
from model.words import EdgeKind, EventType

# How many failures are counted, and how long (s) they are looked for.
MOST_COUNTED = 5_000
LOOK_SECONDS = 3.0
# How many events are looked at together.
TOGETHER = 200
# How many redeliveries of a copy are a failure, and up to how many they are counted.
CAME_BACK = 3
MOST_TIMES = 1_000
# How many of a participant's deliveries are looked through for one with the same body.
MOST_BEFORE = 64
# SQLite merges at most 500 lists. Beyond that, several virtual hosts share one.
MOST_LISTS = 400

# A queue of the broker's for direct replies, which it may route to no queue and hand over all the
# same.
_DIRECT_REPLY = "amq.rabbitmq.reply-to."

# What makes it a failure: the third redelivery of a copy, whatever comes after it.
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
    # Before 4.2 a direct reply is routed to no queue, and may reach whoever asked.
    FailureKind.unroutable: f"{tables.FAILURES['unroutable']}"
    f" AND NOT (exchange = '' AND routing_keys LIKE '[\"{DIRECT_REPLIES}%')",
    FailureKind.error_queue: "EXISTS (SELECT 1 FROM events WHERE events.id = event_id"
    " AND events.type = 0 AND NOT events.quiet)",
    # What is not stored any more is shown among violations only.
    FailureKind.overdue: "kind = 'overdue'"
    " AND EXISTS (SELECT 1 FROM events WHERE events.id = violations.event_id)",
    FailureKind.gone: f"reason NOT IN ({_NOT_FINAL})"  # noqa: S608  our own words
    " AND EXISTS (SELECT 1 FROM events WHERE events.id = event_id AND NOT events.quiet)"
    # Nor of what was moved: handed over from a queue that it was not routed to.
    " AND NOT EXISTS (SELECT 1 FROM events JOIN events AS publish ON publish.id = events.cause_id"
    " WHERE events.cause_id = event_id AND (events.queue = lost_copies.queue OR events.match = 3"
    " OR publish.routed_queues = replace(publish.routed_queues, '\"' || events.queue || '\"', '')"
    "))",
}
# Where these events are found, where not among the events themselves.
_PLACES = {
    FailureKind.error_queue: (searched_keys.c.trace_id, searched_keys.c.event_id),
    FailureKind.overdue: (tables.violations.c.trace_id, tables.violations.c.event_id),
    FailureKind.gone: (tables.lost_copies.c.trace_id, tables.lost_copies.c.event_id),
}

# And what these say: the event, why, and in which queue, null for the event's own.
_NOTED = {
    FailureKind.overdue: (*tables.violations.c["event_id", "assertion"], literal_column("NULL")),
    FailureKind.gone: tuple(tables.lost_copies.c["event_id", "reason", "queue"]),
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
    """The bounds of a search: traces, kinds, and ids."""

    traces: dict[int, str]
    kinds: tuple[FailureKind, ...]
    first: int | None
    end: int | None


class Failures(Subject):
    """The failures of all traces."""

    @searches
    async def find(
        self,
        connection: AsyncConnection,
        asked: FailureFilter,
        *,
        before: int | None = None,
        limit: int = 100,
        may_read: Callable[[str], bool] = lambda vhost: True,
    ) -> FailurePage:
        """The newest failures, only of events before an id; groups and counts begin there too.

        What messages of other virtual hosts hold than those that one ``may_read`` is neither shown,
        nor looked for, nor does it tell groups apart.

        Raises `BadRequestError` where the database takes much longer than `LOOK_SECONDS`.
        """
        until = time.monotonic() + LOOK_SECONDS
        scope = await _scope(connection, asked)
        counted: list[Failure] = []
        at = before
        while True:
            candidates, is_end = await _candidates(connection, scope, at)
            told = await _told(connection, scope, candidates)
            shown = (one if may_read(one.vhost) else one.without_content() for one in told)
            counted += filter(asked.lets_through, shown)
            if is_end:
                return found(counted, limit, None)
            at, _ = candidates[-1]
            if len(counted) >= MOST_COUNTED or time.monotonic() > until:
                return found(counted, limit, at)

    @reads
    async def span(self, connection: AsyncConnection, asked: FailureFilter) -> tuple[int, int]:
        first, end = await ids_between(connection, asked.since, asked.until)
        return max(1, first or 1), MAX_ID if end is None else max(1, end - 1)


async def _scope(connection: AsyncConnection, asked: FailureFilter) -> _FailureScope:
    its = tables.traces.c
    query = select(its.id, its.vhost).where(*filters((its.vhost.in_, asked.visible)))
    traces = {row.id: row.vhost for row in await connection.execute(query)}
    kinds = tuple(FailureKind) if asked.kind is None else (asked.kind,)
    return _FailureScope(traces, kinds, *await ids_between(connection, asked.since, asked.until))


async def _candidates(
    connection: AsyncConnection, scope: _FailureScope, before: int | None
) -> tuple[list[Candidate], bool]:
    """The newest candidates before an id, and whether there are no others."""
    if not scope.traces:
        return [], True
    found = await connection.execute(_query(scope, before))
    rows = [(event_id, FailureKind(kind)) for event_id, kind in found]
    if len(rows) < TOGETHER:
        return rows, True
    # One event may be a candidate twice, and the second may have been cut off.
    return [row for row in rows if row[0] != rows[-1][0]] or rows, False


def _query(scope: _FailureScope, before: int | None) -> Select[Any]:
    some = shares_of_traces([*scope.traces], MOST_LISTS // len(scope.kinds))
    lists = [_list(kind, numbers, scope, before) for kind in scope.kinds for numbers in some]
    merged = union_all(*(select(each.subquery()) for each in lists)).subquery()
    return select(merged.c.id, merged.c.kind).order_by(merged.c.id.desc()).limit(TOGETHER)


def _list(
    kind: FailureKind, numbers: list[int], scope: _FailureScope, before: int | None
) -> Select[Any]:
    event_id: ColumnElement[int]
    trace_id, event_id = _PLACES.get(kind, (tables.events.c.trace_id, tables.events.c.id))
    less = event_id.__lt__
    bounds = [*filters((event_id.__ge__, scope.first), (less, scope.end), (less, before))]
    query = select(event_id.label("id"), literal_column(f"'{kind}'").label("kind"))
    order: list[ColumnElement[Any]] = [event_id.desc()]
    if kind is FailureKind.error_queue:
        bounds.append(searched_keys.c.key == FAILED)
        order = [searched_keys.c.turn, *order]
    elif kind in _PLACES:
        query = query.distinct()  # one that is overdue twice
    query = query.where(in_traces(trace_id, numbers), text(_CONDITIONS[kind]), *bounds)
    return query.order_by(*order).limit(TOGETHER)


async def _told(
    connection: AsyncConnection, scope: _FailureScope, candidates: Sequence[Candidate]
) -> list[Failure]:
    ids: defaultdict[FailureKind, list[int]] = defaultdict(list)
    for event_id, kind in candidates:
        ids[kind].append(event_id)
    known = await messages.read(connection, {event_id for event_id, _ in candidates})
    forwards = await _forwards(connection, ids[FailureKind.error_queue])
    causes = {known[each].cause for of_kind in ids.values() for each in of_kind if each in known}
    causes.update(cause.message for cause in forwards.values())
    wanted = {each for each in causes if each is not None and each not in known}
    known |= await messages.read(connection, wanted)
    drafts = [
        *await died(connection, [known[e] for e in ids[FailureKind.died] if e in known], known),
        *await _came_back(connection, ids[FailureKind.came_back], known),
        *_unroutable(ids[FailureKind.unroutable], known),
        *await _in_error_queues(connection, ids[FailureKind.error_queue], forwards, known),
        *[each for kind in _NOTED for each in await _noted(connection, kind, ids[kind], known)],
    ]
    names = await _names(connection, drafts, known)
    order = {kind: place for place, kind in enumerate(FailureKind)}
    drafts.sort(key=lambda draft: (-draft.event, order[draft.kind]))
    return [_failure(draft, scope, known, names) for draft in drafts]


async def _came_back(
    connection: AsyncConnection, ids: list[int], known: dict[int, MessageFacts]
) -> list[FailureDraft]:
    if not ids:
        return []
    rows = (await connection.execute(_CAME_BACK, {"ids": ids})).all()
    newest = {row.newest for row in rows}
    known |= await messages.read(connection, newest - known.keys())
    return [
        FailureDraft(
            event=row.id,
            message=known[row.id].cause,
            kind=FailureKind.came_back,
            queue=known[row.id].queue,
            by=known[row.newest].participant,
            handed_over=row.newest,
            times=row.times,
        )
        for row in rows
    ]


def _unroutable(ids: list[int], known: Mapping[int, MessageFacts]) -> list[FailureDraft]:
    publishes = [known[each] for each in ids if each in known]
    return [
        FailureDraft(event=each.id, message=each.id, kind=FailureKind.unroutable)
        for each in publishes
        if each.exchange or not any(key.startswith(_DIRECT_REPLY) for key in each.routing_keys)
    ]


async def _noted(
    connection: AsyncConnection,
    kind: FailureKind,
    ids: list[int],
    known: Mapping[int, MessageFacts],
) -> list[FailureDraft]:
    """The failures that rows of their own tell of: overdue events, and copies that are gone."""
    columns, drafts = _NOTED[kind], []
    query = select(*columns).where(columns[0].in_(ids), text(_CONDITIONS[kind]))
    # In the order of event and reason; PostgreSQL takes no constant, as a missing queue is, there.
    for event_id, reason, queue in await connection.execute(query.order_by(*columns[:2])):
        event = known.get(event_id)
        if event is not None:
            message = event_id if event.cause is None else event.cause
            drafts.append(FailureDraft(event_id, message, kind, queue or event.queue, reason))
    return drafts


class _Original(NamedTuple):
    """The first publish and the delivery that a message names which was published again."""

    message: int | None
    delivery: int | None
    queue: str | None


async def _forwards(connection: AsyncConnection, ids: list[int]) -> dict[int, _Original]:
    """The original of each of some messages; of several, the newest."""
    if not ids:
        return {}
    found = {}
    for effect, cause, kind, published, queue in await connection.execute(_FORWARDS, {"ids": ids}):
        is_publish = kind == EventType.published
        found[effect] = _Original(
            cause if is_publish else published, None if is_publish else cause, queue
        )
    return found


_UNKNOWN = Forward(None, None)


async def _in_error_queues(
    connection: AsyncConnection,
    ids: list[int],
    forwards: Mapping[int, _Original],
    known: Mapping[int, MessageFacts],
) -> list[FailureDraft]:
    """The publishes that say themselves that a message failed, and which one if that is known."""
    drafts = []
    for event in (known[each] for each in ids if each in known):
        failed = forwards.get(event.id, _Original(None, None, None))
        where = event.exchange, event.routing_keys
        # The body may not be stored, or the headers be too long to be read here.
        forward = forward_of(event.properties, *where, event.payload) or _UNKNOWN
        candidate = None
        if event.id not in forwards:
            candidate = await _handed_before(connection, event, forward.body)
        drafts.append(
            FailureDraft(
                event=event.id,
                message=failed.message,
                kind=FailureKind.error_queue,
                queue=forward.queue or failed.queue,
                exception=forward.exception,
                by=event.participant,
                handed_over=failed.delivery,
                candidate=candidate,
                to=next(iter(event.routed_queues), None),
                path=forward.path and (forward.path[0], (forward.path[1],)),
            )
        )
    return drafts


async def _handed_before(
    connection: AsyncConnection, event: MessageFacts, body: bytes | None
) -> int | None:
    """The newest of a participant's last deliveries before an event that has the same body.

    ``body``: the one that is looked for, where it is not the event's own.
    """
    its, said = tables.events.c, tables.events.alias().c
    last = (
        select(its.id, its.payload, its.payload_bytes, its.payload_sha256)
        .where(its.trace_id == event.trace_id, its.participant == event.participant)
        .where(its.height < select(said.height).where(said.id == event.id).scalar_subquery())
        .where(its.type == int(EventType.received))
        .order_by(its.height.desc())
        .limit(MOST_BEFORE)
        .subquery()
        .c
    )
    query = select(last.id).order_by(last.id.desc()).limit(1)
    if body is None:
        digests = last.payload_sha256, said.payload_sha256
        query = (
            query.where(said.id == event.id, last.payload_bytes == said.payload_bytes)
            .where(last.payload == said.payload)
            .where(digests[0].is_not_distinct_from(digests[1]))
        )
    else:
        query = query.where(last.payload_bytes == len(body), last.payload == body)
    found: int | None = (await connection.execute(query)).scalar()
    return found


_Names: TypeAlias = Mapping[tuple[int, int], Who]


async def _names(
    connection: AsyncConnection, drafts: Sequence[FailureDraft], known: Mapping[int, MessageFacts]
) -> _Names:
    numbers: defaultdict[int, set[int]] = defaultdict(set)
    for draft in drafts:
        event, message = known[draft.event], known.get(draft.message or 0)
        numbers[event.trace_id].update(
            each
            for each in (draft.by, None if message is None else message.participant)
            if each is not None
        )
    return {
        (trace_id, number): who
        for trace_id, of_trace in numbers.items()
        for number, who in (await names_of(connection, trace_id, of_trace)).items()
    }


def _failure(
    draft: FailureDraft, scope: _FailureScope, known: Mapping[int, MessageFacts], names: _Names
) -> Failure:
    event, message = known[draft.event], known.get(draft.message or 0)
    published = event if message is None else message
    exchange, keys = published.exchange, published.routing_keys
    if message is None and draft.path is not None:
        exchange, keys = draft.path

    def who(number: int | None) -> Who | None:
        return None if number is None else names.get((event.trace_id, number))

    known_already = draft._asdict()
    del known_already["path"]
    told = {
        "message": None if message is None else message.id,
        "vhost": scope.traces[event.trace_id],
        "type": published.type_through(exchange, keys),
        "at": Microseconds(event.recorded_at),
        "by": who(draft.by),
        "publisher": None if message is None else who(message.participant),
        "exchange": exchange,
        "routing_key": keys[0] if keys else "",
    }
    return Failure(**known_already | told)
