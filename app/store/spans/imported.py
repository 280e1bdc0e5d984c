"""Imported spans, and the links that they tell of.

A publish's ``traceparent`` and the spans that lead from it to a consumer are stored by different
transactions, in any order. Whatever comes is marked new; `Spans.resolve` takes up what is new,
looks as far as it gets, and notes which span it waits for. A round reads first, and then writes
little: whoever stores events meanwhile hardly waits.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from operator import attrgetter
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from app.errors import NotFoundError
from app.store.capture.leases import lock_trace
from app.store.causality.links import late_between
from app.store.causality.ranges import oldest
from app.store.database import tables
from app.store.database.chunks import chunks, rows_with
from app.store.database.lanes import Lane
from app.store.database.subject import Subject, reading, reads, writes
from app.store.reading.events import by_ids
from app.store.spans.ancestry import has_sent
from app.store.spans.leads import (
    ROUND,
    Lead,
    Row,
    find,
    new_publishes,
    new_spans,
    read_spans,
    waiting_for,
)
from app.stored.spans import HandlingTime, Span, SpanKind
from app.tracker.links import SPANS_RULE
from itc import Relation, compare
from model.event import CLOCK_ALONE, Event
from model.words import EdgeKind, Way

# How many spans are removed in one transaction, how many of one message are shown.
PRUNED = 5_000
MOST_HANDLED = 64
# How many late links one transaction looks at again.
CHUNK = 200

_spans, _links = tables.spans.c, tables.span_links.c
_contexts, _late = tables.traceparents.c, tables.late_edges.c

_of_span = attrgetter(*(name for name in Span.__struct_fields__ if name != "links"))
_CONTEXT = "SELECT context FROM traceparents WHERE trace_id = :trace AND event_id = :message"


class Spans(Subject):
    """The imported spans of all traces."""

    @writes
    async def add(self, connection: AsyncConnection, spans: Sequence[Span]) -> int:
        """Store spans; returns how many of them are new. What is known by its ids stays."""
        rows = {span.context: (*_of_span(span), None, True) for span in reversed(spans)}
        new = rows.keys() - await self._known(connection, rows)
        links = {
            (span.context, link.context): link.is_remote
            for span in reversed(spans)
            if span.context in new
            for link in span.links
        }
        add = self.database.dialect.upsert_many
        await add(connection, tables.spans, [rows[context] for context in sorted(new)], ())
        of_links = [(*each, is_remote) for each, is_remote in sorted(links.items())]
        await add(connection, tables.span_links, of_links, ())
        return len(new)

    @reads
    async def oldest_event(self, connection: AsyncConnection) -> int | None:
        """About when the oldest stored event was recorded (µs), None if there is none."""
        its = tables.blocks.c
        query = sa.select(its.earliest).order_by(its.number).limit(1)
        found: int | None = (await connection.execute(query)).scalar_one_or_none()
        return found

    late_between = reading(late_between)

    @reads
    async def handled(self, connection: AsyncConnection, event: Event) -> list[HandlingTime]:
        """Find the times at which consumers handled a message, the earliest first.

        Of a received event only what is certain to be about this delivery: where the message was
        handed over more than once, what a link has told of.
        """
        message = event.cause or event.id
        asked = {"trace": event.trace_id, "message": message}
        [rows] = await self.database.dialect.rows_of(connection, [_CONTEXT], asked)
        if not rows:
            return []
        [[context]] = rows
        alone = True
        if event.cause is not None:
            its = tables.events.c
            others = sa.select(its.id).where(its.cause_id == message).limit(2)
            alone = len((await connection.execute(others)).all()) == 1
        consumed = (await _consumed(connection, [context])).get(context, [])
        return [*dict.fromkeys(one for one, whose in consumed if alone or whose == event.id)]

    async def resolve(self) -> bool:
        """A round: the publishes and the spans that are new, the oldest first.

        Returns whether there may be more to do at once.
        """
        rows = await self.database.read(new_publishes, Lane.bulk)
        more = len(rows) == ROUND
        await self._settle(rows)
        arrived = await self.database.read(new_spans, Lane.bulk)
        if arrived:
            rows = await self.database.read(
                lambda reading: waiting_for(reading, arrived), Lane.bulk
            )
            await self._settle(rows[:ROUND])
            if len(rows) > ROUND:
                return True
            await self._note_seen(arrived)
        return more or len(arrived) == ROUND

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
        query = sa.select(_spans.context)
        return frozenset(
            row.context for row in await rows_with(connection, query, _spans.context, contexts)
        )

    async def _settle(self, rows: Sequence[Row]) -> None:
        """Find what can be found of some publishes, and store it."""
        while rows:
            asked = rows
            found = await self.database.read(lambda reading: find(reading, asked), Lane.bulk)  # noqa: B023
            by_trace: defaultdict[int, list[Lead]] = defaultdict(list)
            for each in found:
                by_trace[each.row.trace_id].append(each)
            for trace_id, some in sorted(by_trace.items()):
                await self._store(trace_id, some)
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
    async def _store(self, connection: AsyncConnection, trace_id: int, found: list[Lead]) -> None:
        try:
            await lock_trace(connection, trace_id, None)
        except NotFoundError:
            return
        found = await _still_there(connection, trace_id, found)
        pairs = [(each.row.event_id, cause) for each in found for cause in each.causes]
        late = await _unknown_to_clocks(connection, pairs)
        await count_spanned(connection, trace_id, {effect for effect, _ in pairs})
        add = self.database.dialect.upsert_many
        rule = SPANS_RULE, int(EdgeKind.parent), int(Way.known)
        await add(connection, tables.edges, [(trace_id, *pair, *rule) for pair in pairs], ())
        await add(connection, tables.late_edges, [(trace_id, *pair) for pair in late], ())
        await _note_waiting(connection, trace_id, found)
        handled = [each.handled for each in found if each.handled is not None]
        if handled:
            await connection.execute(
                sa.update(tables.spans)
                .where(_spans.context == sa.bindparam("consumer"), _spans.delivery_id.is_(None))
                .values(delivery_id=sa.bindparam("delivery")),
                [{"consumer": span, "delivery": event} for span, event in sorted(handled)],
            )

    @writes
    async def _note_seen(self, connection: AsyncConnection, contexts: list[bytes]) -> None:
        await connection.execute(
            sa.update(tables.spans).where(_spans.context.in_(contexts)).values(is_new=False)
        )

    @writes
    async def _prune_some(
        self, connection: AsyncConnection, older_than: int | None, keep: int
    ) -> int:
        newest = sa.select(_spans.ended_at).order_by(_spans.ended_at.desc()).offset(keep).limit(1)
        excess = (await connection.execute(newest)).scalar_one_or_none()
        bounds = [each for each in (older_than, excess and excess + 1) if each is not None]
        if not bounds:
            return 0
        query = (
            sa.select(_spans.context)
            .where(_spans.ended_at < max(bounds))
            .order_by(_spans.ended_at)
            .limit(PRUNED)
        )
        going = [*(await connection.execute(query)).scalars()]
        for some in chunks(going):
            await connection.execute(sa.delete(tables.span_links).where(_links.context.in_(some)))
            await connection.execute(sa.delete(tables.spans).where(_spans.context.in_(some)))
        return len(going)

    @writes
    async def _settle_some(
        self, connection: AsyncConnection, trace_id: int, after: tuple[int, int]
    ) -> tuple[tuple[int, int] | None, int]:
        """(the last of some late links, how many of them stay); None if there were none."""
        effect, cause = after
        query = (
            sa.select(_late.effect_id, _late.cause_id)
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
                sa.delete(tables.late_edges).where(
                    _late.trace_id == trace_id,
                    _late.effect_id == sa.bindparam("effect"),
                    _late.cause_id == sa.bindparam("cause"),
                ),
                [{"effect": effect, "cause": cause} for effect, cause in known],
            )
        return pairs[-1], len(late)


async def handled_by(
    connection: AsyncConnection, trace_id: int, deliveries: Mapping[int, Sequence[int]]
) -> dict[int, list[HandlingTime]]:
    """Find the times of handling of deliveries, as `Spans.handled`; without those nothing tells of.

    ``deliveries`` are all those of each message.
    """
    messages: dict[bytes, int] = {}
    copied: set[bytes] = set()
    query = sa.select(_contexts.context, _contexts.event_id).where(_contexts.trace_id == trace_id)
    for context, event in await rows_with(connection, query, _contexts.event_id, deliveries):
        if messages.setdefault(context, event) != event:
            copied.add(context)
    for context in copied:  # nothing says which of several messages was handled
        del messages[context]
    handled: dict[int, list[HandlingTime]] = {}
    for some_contexts in chunks([*messages]):
        for context, consumed in (await _consumed(connection, some_contexts)).items():
            its_own = deliveries[messages[context]]
            for one, whose in consumed:
                delivery = its_own[0] if len(its_own) == 1 else whose
                if delivery is not None and delivery in its_own:
                    handled.setdefault(delivery, []).append(one)
    return handled


async def _consumed(
    connection: AsyncConnection, contexts: Sequence[bytes]
) -> dict[bytes, list[tuple[HandlingTime, int | None]]]:
    """The spans of consumers that handled what was sent in these contexts, the earliest first.

    Each with the delivery that it handled, where a link has told of it.
    """
    spans: dict[bytes, Span | None] = {}
    await read_spans(connection, spans, {*contexts})
    found: dict[bytes, list[tuple[HandlingTime, int | None]]] = {}
    for row in await connection.execute(_consumers_of(contexts)):
        linked, is_remote = bool(row.linked), row.link_is_remote
        if has_sent(
            spans[row.sent],
            row.service,
            is_remote=is_remote if linked else row.is_remote,
            linked=linked,
        ):
            one = HandlingTime(row.started_at, row.ended_at, row.service)
            found.setdefault(row.sent, []).append((one, row.delivery_id))
    return found


def _consumers_of(contexts: Sequence[bytes]) -> sa.Select[Any]:
    """The consumers' spans with one of these contexts as their parent, or with a link to it."""
    columns = (_spans.started_at, _spans.ended_at, _spans.service, _spans.delivery_id)
    is_consumer = _spans.kind == int(SpanKind.consumer)
    children = sa.select(
        *columns,
        _spans.is_remote,
        _spans.parent.label("sent"),
        sa.literal(0).label("linked"),
        sa.cast(sa.null(), sa.Boolean).label("link_is_remote"),
    ).where(_spans.parent.in_(contexts), is_consumer)
    linked = (
        sa.select(*columns, _spans.is_remote, _links.linked, sa.literal(1), _links.is_remote)
        .join_from(tables.span_links, tables.spans, _spans.context == _links.context)
        .where(_links.linked.in_(contexts), is_consumer)
    )
    both = sa.union_all(children, linked).subquery()
    most = MOST_HANDLED * len(contexts)
    return sa.select(both).order_by(both.c.started_at, both.c.ended_at).limit(most)


async def count_spanned(
    connection: AsyncConnection, trace_id: int, effects: Collection[int] | None = None
) -> None:
    """Count publishes for `Evidence.spanned`: new ones before their links are stored.

    Or all whose links are stored, where no participant has any yet.
    """
    its, edges, other = tables.events.c, tables.edges, tables.edges.alias()
    certain = sa.exists().where(
        other.c.effect_id == its.id,
        other.c.kind != int(EdgeKind.candidate),
        *([other.c.rule != SPANS_RULE] if effects is None else []),
    )
    query = (
        sa.select(its.participant, sa.func.count())
        .where(~certain, ~its.quiet)
        .group_by(its.participant)
    )
    if effects is None:
        told = sa.select(edges.c.effect_id).where(
            edges.c.trace_id == trace_id, edges.c.rule == SPANS_RULE
        )
        counted = [*await connection.execute(query.where(its.id.in_(told)))]
    else:
        counted = await rows_with(connection, query, its.id, effects)
    whose = tables.participants.c
    for participant, count in counted:
        await connection.execute(
            sa.update(tables.participants)
            .where(whose.trace_id == trace_id, whose.number == participant)
            .values(spanned=whose.spanned + count)
        )


async def _still_there(connection: AsyncConnection, trace_id: int, found: list[Lead]) -> list[Lead]:
    """Without what retention has removed since it was read; its row is locked now."""
    ids = [each.row.event_id for each in found]
    here = sa.select(_contexts.event_id).where(
        _contexts.trace_id == trace_id, _contexts.event_id.in_(ids)
    )
    left = {*(await connection.execute(here)).scalars()}
    least = await oldest(connection, trace_id) or 0
    kept = []
    for each in found:
        if each.row.event_id not in left:
            continue
        causes = tuple(cause for cause in each.causes if cause >= least)
        if each.causes and not causes:
            each = each._replace(handled=None)
        kept.append(each._replace(causes=causes))
    return kept


async def _note_waiting(connection: AsyncConnection, trace_id: int, found: list[Lead]) -> None:
    if found:
        await connection.execute(
            sa.update(tables.traceparents)
            .where(_contexts.trace_id == trace_id, _contexts.event_id == sa.bindparam("of"))
            .values(is_new=False, waits_for=sa.bindparam("span")),
            [{"of": each.row.event_id, "span": each.waits_for} for each in found],
        )


async def _unknown_to_clocks(
    connection: AsyncConnection, pairs: Sequence[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Those (effect, cause) of which the effect's clock does not have the cause, and should.

    Of a cause that has been pruned nobody can tell, and chains go on in its archive.
    """
    ids = sorted({event_id for pair in pairs for event_id in pair})
    found = await by_ids(connection, ids, CLOCK_ALONE)
    events = {event.id: event for event in found}
    late = []
    for effect, cause in pairs:
        one, other = events.get(cause), events.get(effect)
        if other is None or other.quiet:
            continue
        known = one is not None and (
            one.participant == other.participant
            or compare(one.stamp, other.stamp) is Relation.before
        )
        if not known:
            late.append((effect, cause))
    return late
