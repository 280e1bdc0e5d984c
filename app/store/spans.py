"""Imported spans, and the links that they tell of.

A publish's ``traceparent`` and the spans that lead from it to a consumer are stored by different
transactions, in any order. Whatever comes is marked new; `Spans.resolve` takes up what is new,
looks as far as it gets, and notes which span it waits for. A round reads first, and then writes
little: whoever stores events meanwhile hardly waits.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

from sqlalchemy import (
    Boolean,
    Select,
    bindparam,
    cast,
    delete,
    func,
    literal,
    null,
    select,
    text,
    union_all,
    update,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from app.errors import NotFoundError
from app.store import tables
from app.store.ancestry import Carrier, Walk, has_sent
from app.store.events import by_ids
from app.store.leases import lock_trace
from app.store.subject import Subject, reads, writes
from app.stored.lanes import Lane
from app.stored.spans import Handled, Link, Outcome, Resolved, Span, SpanKind
from app.tracker.links import SPANS_RULE
from itc import Relation, compare
from model.sound import late_sql
from model.words import EventType, LinkKind

# How many publishes, and how many new spans, a round takes up.
ROUND = 200
# More messages with one context than this are not looked through: nobody can say which is meant.
MOST_ALIKE = 64
# How many spans are removed in one transaction, how many of one message are shown.
PRUNED = 5_000
MOST_HANDLED = 64
# How many late links one transaction looks at again.
CHUNK = 200

_spans, _links = tables.spans.c, tables.span_links.c
_contexts, _late = tables.traceparents.c, tables.late_edges.c

# The deliveries of a message before an event: the newest to its participant, and to its place.
_NEAREST = text(
    "SELECT max(CASE WHEN e.participant = :participant THEN e.id END),"
    " max(CASE WHEN p.place = :place THEN e.id END)"
    " FROM events AS e JOIN participants AS p"
    " ON p.trace_id = e.trace_id AND p.number = e.participant"
    " WHERE e.cause_id = :message AND e.id < :before AND NOT e.quiet"
)
_HANDED = text(
    "SELECT DISTINCT cause_id FROM events"
    " WHERE cause_id IN :messages AND participant = :participant AND id < :before AND NOT quiet"
).bindparams(bindparam("messages", expanding=True))


class _Row(NamedTuple):
    """A publish that carries a context."""

    trace_id: int
    event_id: int
    context: bytes
    waits_for: bytes | None
    participant: int
    place: str | None


class _Found(NamedTuple):
    """What was found of a publish: causes, or why there is none, or what it waits for."""

    row: _Row
    causes: tuple[int, ...]
    outcome: Outcome | None
    waits_for: bytes | None
    # The consumer's span and what it was handed, where that is certain.
    handled: tuple[bytes, int] | None = None


class Spans(Subject):
    """The imported spans of all traces."""

    @writes
    async def add(self, connection: AsyncConnection, spans: Sequence[Span]) -> int:
        """Store spans; returns how many of them are new. What is known by its ids stays."""
        rows = {
            span.context: {
                "context": span.context,
                "parent": span.parent,
                "is_remote": span.is_remote,
                "kind": int(span.kind),
                "started_at": span.started_at,
                "ended_at": span.ended_at,
                "service": span.service,
                "delivery_id": None,
                "is_new": True,
            }
            for span in reversed(spans)
        }
        known = await self._known(connection, rows)
        new = [row for context, row in sorted(rows.items()) if context not in known]
        if not new:
            return 0
        ignoring = self.database.dialect.upsert
        await connection.execute(ignoring(tables.spans).on_conflict_do_nothing(), new)
        wanted = {row["context"] for row in new}
        links = {
            (span.context, link.context): link.is_remote
            for span in reversed(spans)
            if span.context in wanted
            for link in span.links
        }
        if links:
            await connection.execute(
                ignoring(tables.span_links).on_conflict_do_nothing(),
                [
                    {"context": context, "linked": linked, "is_remote": is_remote}
                    for (context, linked), is_remote in sorted(links.items())
                ],
            )
        return len(new)

    @reads
    async def oldest_event(self, connection: AsyncConnection) -> int | None:
        """About when the oldest stored event was recorded (µs), None if there is none."""
        its = tables.blocks.c
        query = select(its.earliest).order_by(its.number).limit(1)
        found: int | None = (await connection.execute(query)).scalar_one_or_none()
        return found

    @reads
    async def late_between(self, connection: AsyncConnection, trace_id: int, a: int, b: int) -> int:
        """How many links lie between two events, in either order, that clocks do not have."""
        found = (await connection.execute(text(late_sql(trace_id, a, b)))).one_or_none()
        return 0 if found is None else int(found.links)

    @reads
    async def handled(self, connection: AsyncConnection, event_id: int) -> list[Handled]:
        """When consumers handled a message, the earliest first.

        Of a received event only what is certain to be about this delivery: where the message was
        handed over more than once, what a link has told of.
        """
        its = tables.events.c
        query = select(its.cause_id, its.trace_id).where(its.id == event_id)
        found = (await connection.execute(query)).one_or_none()
        if found is None:
            return []
        message = found.cause_id or event_id
        of_message = select(_contexts.context).where(
            _contexts.trace_id == found.trace_id, _contexts.event_id == message
        )
        context = (await connection.execute(of_message)).scalar_one_or_none()
        if context is None:
            return []
        alone = True
        if found.cause_id is not None:
            others = select(its.id).where(its.cause_id == message).limit(2)
            alone = len((await connection.execute(others)).all()) == 1
        spans: dict[bytes, Span | None] = {}
        await _read_spans(connection, spans, {context})
        handled = []
        for row in await connection.execute(_consumers_of(context)):
            if alone or row.delivery_id == event_id:
                linked, is_remote = bool(row.linked), row.link_is_remote
                if has_sent(
                    spans[context],
                    row.service,
                    is_remote=is_remote if linked else row.is_remote,
                    linked=linked,
                ):
                    handled.append(Handled(row.started_at, row.ended_at, row.service))
        return [*dict.fromkeys(handled)]

    async def resolve(self) -> Resolved:
        """A round: the publishes and the spans that are new, the oldest first."""
        done = Resolved()
        rows = await self.database.read(_new_publishes, Lane.bulk)
        done.more = len(rows) == ROUND
        await self._settle(rows, done)
        arrived = await self.database.read(_new_spans, Lane.bulk)
        if arrived:
            rows = await self.database.read(lambda reading: _waiting(reading, arrived), Lane.bulk)
            await self._settle(rows[:ROUND], done)
            if len(rows) > ROUND:
                done.more = True
            else:
                await self._note_seen(arrived)
                done.more |= len(arrived) == ROUND
        return done

    async def prune(self, older_than: int | None, keep: int) -> int:
        """Remove spans that ended before a time (µs), and all but the newest ``keep``.

        Returns how many.
        """
        removed = 0
        while count := await self._prune_some(older_than, keep):
            removed += count
        return removed

    async def settle_late(self, trace_id: int) -> int:
        """Look again which links the clocks do not have, after new stamps; returns how many."""
        after, left = (0, 0), 0
        while True:
            last, kept = await self._settle_some(trace_id, after)
            left += kept
            if last is None:
                return left
            after = last

    async def _known(
        self, connection: AsyncConnection, contexts: Collection[bytes]
    ) -> frozenset[bytes]:
        found: set[bytes] = set()
        for some in _chunks([*contexts]):
            query = select(_spans.context).where(_spans.context.in_(some))
            found |= {*(await connection.execute(query)).scalars()}
        return frozenset(found)

    async def _settle(self, rows: Sequence[_Row], done: Resolved) -> None:
        """Find what can be found of some publishes, and store it."""
        while rows:
            asked = rows
            found = await self.database.read(lambda reading: _find(reading, asked), Lane.bulk)  # noqa: B023
            by_trace: defaultdict[int, list[_Found]] = defaultdict(list)
            for each in found:
                by_trace[each.row.trace_id].append(each)
            for trace_id, some in sorted(by_trace.items()):
                await self._store(trace_id, some, done)
            # A span that was stored since they were read did not find them waiting for it.
            waiting = {each.waits_for for each in found if each.waits_for is not None}
            here = await self.database.read(
                lambda reading: self._known(reading, waiting),  # noqa: B023
                Lane.bulk,
            )
            rows = [
                each.row._replace(waits_for=each.waits_for)
                for each in found
                if each.waits_for in here
            ]

    @writes
    async def _store(
        self,
        connection: AsyncConnection,
        trace_id: int,
        found: list[_Found],
        done: Resolved,
    ) -> None:
        try:
            await lock_trace(connection, trace_id, None)
        except NotFoundError:
            return
        found = await _still_there(connection, trace_id, found)
        outcomes = [each.outcome for each in found if each.outcome is not None]
        pairs = [(each.row.event_id, cause) for each in found for cause in each.causes]
        late = await _unknown_to_clocks(connection, pairs)
        upsert = self.database.dialect.upsert
        if pairs:
            await connection.execute(
                upsert(tables.edges).on_conflict_do_nothing(),
                [
                    {
                        "trace_id": trace_id,
                        "effect_id": effect,
                        "cause_id": cause,
                        "rule": SPANS_RULE,
                        "kind": int(LinkKind.parent),
                    }
                    for effect, cause in pairs
                ],
            )
        if late:
            await connection.execute(
                upsert(tables.late_edges).on_conflict_do_nothing(),
                [
                    {"trace_id": trace_id, "effect_id": effect, "cause_id": cause}
                    for effect, cause in late
                ],
            )
        await _note_waiting(connection, trace_id, found)
        handled = [each.handled for each in found if each.handled is not None]
        if handled:
            await connection.execute(
                update(tables.spans)
                .where(_spans.context == bindparam("consumer"), _spans.delivery_id.is_(None))
                .values(delivery_id=bindparam("delivery")),
                [{"consumer": span, "delivery": event} for span, event in sorted(handled)],
            )
        done.add(outcomes)
        done.links += len(pairs)
        done.known += len(pairs) - len(late)

    @writes
    async def _note_seen(self, connection: AsyncConnection, contexts: list[bytes]) -> None:
        await connection.execute(
            update(tables.spans).where(_spans.context.in_(contexts)).values(is_new=False)
        )

    @writes
    async def _prune_some(
        self, connection: AsyncConnection, older_than: int | None, keep: int
    ) -> int:
        newest = select(_spans.ended_at).order_by(_spans.ended_at.desc()).offset(keep).limit(1)
        excess = (await connection.execute(newest)).scalar_one_or_none()
        bounds = [each for each in (older_than, excess and excess + 1) if each is not None]
        if not bounds:
            return 0
        query = (
            select(_spans.context)
            .where(_spans.ended_at < max(bounds))
            .order_by(_spans.ended_at)
            .limit(PRUNED)
        )
        going = [*(await connection.execute(query)).scalars()]
        for some in _chunks(going):
            await connection.execute(delete(tables.span_links).where(_links.context.in_(some)))
            await connection.execute(delete(tables.spans).where(_spans.context.in_(some)))
        return len(going)

    @writes
    async def _settle_some(
        self, connection: AsyncConnection, trace_id: int, after: tuple[int, int]
    ) -> tuple[tuple[int, int] | None, int]:
        """(the last of some late links, how many of them stay); None if there were none."""
        effect, cause = after
        query = (
            select(_late.effect_id, _late.cause_id)
            .where(_late.trace_id == trace_id, _late.effect_id >= effect)
            .where((_late.effect_id > effect) | (_late.cause_id > cause))
            .order_by(_late.effect_id, _late.cause_id)
            .limit(CHUNK)
        )
        pairs = [(row[0], row[1]) for row in await connection.execute(query)]
        if not pairs:
            return None, 0
        late = {*await _unknown_to_clocks(connection, pairs)}
        known = [pair for pair in pairs if pair not in late]
        if known:
            await connection.execute(
                delete(tables.late_edges).where(
                    _late.trace_id == trace_id,
                    _late.effect_id == bindparam("effect"),
                    _late.cause_id == bindparam("cause"),
                ),
                [{"effect": effect, "cause": cause} for effect, cause in known],
            )
        return pairs[-1], len(late)


def _consumers_of(context: bytes) -> Select[Any]:
    """The consumers' spans with a context as their parent, or with a link to it."""
    columns = (_spans.started_at, _spans.ended_at, _spans.service, _spans.delivery_id)
    is_consumer = _spans.kind == int(SpanKind.consumer)
    children = select(
        *columns,
        _spans.is_remote,
        literal(0).label("linked"),
        cast(null(), Boolean).label("link_is_remote"),
    ).where(_spans.parent == context, is_consumer)
    linked = (
        select(*columns, _spans.is_remote, literal(1), _links.is_remote)
        .join_from(tables.span_links, tables.spans, _spans.context == _links.context)
        .where(_links.linked == context, is_consumer)
    )
    both = union_all(children, linked).subquery()
    return select(both).order_by(both.c.started_at, both.c.ended_at).limit(MOST_HANDLED)


def _publishes() -> Select[Any]:
    events, participants = tables.events.c, tables.participants.c
    return (
        select(
            _contexts.trace_id,
            _contexts.event_id,
            _contexts.context,
            _contexts.waits_for,
            events.participant,
            participants.place,
        )
        .join_from(tables.traceparents, tables.events, events.id == _contexts.event_id)
        .join(
            tables.participants,
            (participants.trace_id == _contexts.trace_id)
            & (participants.number == events.participant),
        )
        .limit(ROUND)
    )


async def _new_publishes(connection: AsyncConnection) -> list[_Row]:
    query = _publishes().where(_contexts.is_new).order_by(_contexts.event_id)
    return [_Row(*row) for row in await connection.execute(query)]


async def _new_spans(connection: AsyncConnection) -> list[bytes]:
    query = select(_spans.context).where(_spans.is_new).order_by(_spans.context).limit(ROUND)
    return [*(await connection.execute(query)).scalars()]


async def _waiting(connection: AsyncConnection, arrived: list[bytes]) -> list[_Row]:
    """The publishes that wait for some spans, one more than a round takes up."""
    query = (
        _publishes()
        .where(_contexts.waits_for.in_(arrived))
        .order_by(_contexts.event_id)
        .limit(ROUND + 1)
    )
    return [_Row(*row) for row in await connection.execute(query)]


async def _find(connection: AsyncConnection, rows: Sequence[_Row]) -> list[_Found]:
    """Where the spans that are stored lead to."""
    spans: dict[bytes, Span | None] = {}
    carriers: defaultdict[int, dict[bytes, list[Carrier]]] = defaultdict(dict)
    walks = [(row, Walk(row.event_id, row.participant, row.context)) for row in rows]
    under_way = walks
    while under_way:
        for row, walk in under_way:
            walk.advance(spans, carriers[row.trace_id])
        await _read_spans(connection, spans, {s for _, walk in under_way for s in walk.wants_spans})
        await _read_carriers(
            connection,
            carriers,
            {(row.trace_id, s) for row, walk in under_way for s in walk.wants_carriers},
        )
        under_way = [(row, walk) for row, walk in under_way if not walk.is_over]
    await _read_carriers(
        connection, carriers, {(row.trace_id, row.context) for row, walk in walks if walk.handled}
    )
    return [await _outcome(connection, row, walk, carriers[row.trace_id]) for row, walk in walks]


async def _read_spans(
    connection: AsyncConnection, spans: dict[bytes, Span | None], wanted: set[bytes]
) -> None:
    for some in _chunks(sorted(wanted - spans.keys())):
        spans.update(dict.fromkeys(some))
        links: defaultdict[bytes, list[Link]] = defaultdict(list)
        query = select(_links.context, _links.linked, _links.is_remote).where(
            _links.context.in_(some)
        )
        for context, linked, is_remote in await connection.execute(query):
            links[context].append(Link(linked, is_remote))
        of_spans = select(
            _spans.context,
            _spans.parent,
            _spans.is_remote,
            _spans.kind,
            _spans.started_at,
            _spans.ended_at,
            _spans.service,
        ).where(_spans.context.in_(some))
        for row in await connection.execute(of_spans):
            spans[row.context] = Span(
                row.context,
                row.parent,
                row.is_remote,
                SpanKind(row.kind),
                row.started_at,
                row.ended_at,
                row.service,
                tuple(links[row.context]),
            )


async def _read_carriers(
    connection: AsyncConnection,
    carriers: defaultdict[int, dict[bytes, list[Carrier]]],
    wanted: set[tuple[int, bytes]],
) -> None:
    """The messages with some contexts, each context's first."""
    its = tables.events.c
    for trace_id, context in sorted(wanted):
        if context in carriers[trace_id]:
            continue
        query = (
            select(_contexts.event_id, its.participant, its.type == int(EventType.published))
            .join_from(tables.traceparents, tables.events, its.id == _contexts.event_id)
            .where(_contexts.context == context, _contexts.trace_id == trace_id)
            .order_by(_contexts.event_id)
            .limit(MOST_ALIKE + 1)
        )
        carriers[trace_id][context] = [
            Carrier(event_id, participant, bool(is_publish))
            for event_id, participant, is_publish in await connection.execute(query)
        ]


async def _outcome(
    connection: AsyncConnection, row: _Row, walk: Walk, carriers: dict[bytes, list[Carrier]]
) -> _Found:
    if not walk.handled:
        return _Found(row, (), walk.outcome, walk.waits_for)
    if await _is_copied(connection, row, carriers[row.context]):
        return _Found(row, (), Outcome.copied, None)
    causes: dict[int, bool] = {}
    outcome = None
    for context in walk.handled:
        cause, is_own, why = await _cause(connection, row, context, carriers[context])
        outcome = outcome or why
        if cause is not None:
            causes[cause] = is_own
    if not causes:
        return _Found(row, (), outcome, None)
    handled = None
    if walk.consumer is not None and len(causes) == len(walk.handled) == 1:
        [(cause, is_own)] = causes.items()
        handled = (walk.consumer, cause) if is_own else None
    return _Found(row, tuple(sorted(causes)), Outcome.linked, None, handled)


async def _is_copied(connection: AsyncConnection, row: _Row, alike: Sequence[Carrier]) -> bool:
    """Whether a publish's ``traceparent`` was another message's before.

    One span may send several messages. But whoever was handed a message with it, or is another
    than who published it first, has passed it on.
    """
    before = [each for each in alike if each.event_id < row.event_id]
    if len(before) > MOST_ALIKE or any(each.participant != row.participant for each in before):
        return True
    mine = [each.event_id for each in before if each.is_publish]
    return bool(mine and await _handed(connection, row, mine))


async def _handed(connection: AsyncConnection, row: _Row, messages: list[int]) -> list[int]:
    """Those of some messages that the participant of a publish had been handed before it."""
    asked = {"messages": messages, "participant": row.participant, "before": row.event_id}
    return [*(await connection.execute(_HANDED, asked)).scalars()]


async def _cause(
    connection: AsyncConnection, row: _Row, context: bytes, carriers: Sequence[Carrier]
) -> tuple[int | None, bool, Outcome | None]:
    """(the event that is meant, whether it is the participant's own delivery, why there is none).

    As `app.tracker.links.memory`: the newest delivery to the publisher itself, or to its place, or
    else the publish. Where another virtual host has the message too, as where a shovel copied it,
    only the publisher's own delivery tells that it was handled here.
    """
    before = [each for each in carriers if each.event_id < row.event_id]
    if not before:
        return None, False, Outcome.future
    if len(before) > MOST_ALIKE:
        return None, False, Outcome.ambiguous
    messages = [each.event_id for each in before if each.is_publish]
    if not messages:  # deliveries of messages that were published before the trace
        own = [each.event_id for each in before if each.participant == row.participant]
        if own:
            return own[-1], True, None
        if len(before) == 1 and not await _is_elsewhere(connection, row.trace_id, context):
            return before[0].event_id, False, None
        return None, False, Outcome.ambiguous
    if len(messages) > 1:
        messages = await _handed(connection, row, messages)
    if len(messages) != 1:
        return None, False, Outcome.ambiguous
    asked = {
        "participant": row.participant,
        "place": row.place,
        "message": messages[0],
        "before": row.event_id,
    }
    own_delivery, near = (await connection.execute(_NEAREST, asked)).one()
    if own_delivery is None and await _is_elsewhere(connection, row.trace_id, context):
        return None, False, Outcome.ambiguous
    return own_delivery or near or messages[0], own_delivery is not None, None


async def _is_elsewhere(connection: AsyncConnection, trace_id: int, context: bytes) -> bool:
    """Whether messages of other traces have a context."""
    query = (
        select(_contexts.event_id)
        .where(_contexts.context == context, _contexts.trace_id != trace_id)
        .limit(1)
    )
    return (await connection.execute(query)).first() is not None


async def _still_there(
    connection: AsyncConnection, trace_id: int, found: list[_Found]
) -> list[_Found]:
    """Without what retention has removed since it was read; its row is locked now."""
    ids = [each.row.event_id for each in found]
    here = select(_contexts.event_id).where(
        _contexts.trace_id == trace_id, _contexts.event_id.in_(ids)
    )
    left = {*(await connection.execute(here)).scalars()}
    first = select(func.min(tables.events.c.id)).where(tables.events.c.trace_id == trace_id)
    least = (await connection.execute(first)).scalar_one() or 0
    kept = []
    for each in found:
        if each.row.event_id not in left:
            continue
        causes = tuple(cause for cause in each.causes if cause >= least)
        if each.causes and not causes:
            each = each._replace(causes=(), outcome=Outcome.unseen, handled=None)
        kept.append(each._replace(causes=causes))
    return kept


async def _note_waiting(
    connection: AsyncConnection, trace_id: int, found: Iterable[_Found]
) -> None:
    """Note what publishes wait for now."""
    same: list[_Found] = []
    other: list[_Found] = []
    for each in found:
        (same if each.waits_for == each.row.waits_for else other).append(each)
    its = update(tables.traceparents).where(_contexts.trace_id == trace_id)
    if same:
        await connection.execute(
            its.where(_contexts.event_id.in_([each.row.event_id for each in same])).values(
                is_new=False
            )
        )
    if other:
        await connection.execute(
            its.where(_contexts.event_id == bindparam("of")).values(
                is_new=False, waits_for=bindparam("span")
            ),
            [{"of": each.row.event_id, "span": each.waits_for} for each in other],
        )


async def _unknown_to_clocks(
    connection: AsyncConnection, pairs: Sequence[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Those (effect, cause) of which the effect's clock does not have the cause, and should."""
    ids = sorted({event_id for pair in pairs for event_id in pair})
    found = await by_ids(connection, ids, frozenset({"clock"}))
    events = {event.id: event for event in found}
    late = []
    for effect, cause in pairs:
        if effect in events and cause in events:
            one, other = events[cause], events[effect]
            known = other.quiet or one.participant == other.participant
            if not known and compare(one.stamp, other.stamp) is not Relation.before:
                late.append((effect, cause))
    return late


def _chunks(values: Sequence[bytes]) -> Iterable[Sequence[bytes]]:
    return (values[first : first + 500] for first in range(0, len(values), 500))
