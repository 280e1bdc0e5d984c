"""Imported spans, and the links that they tell of.

A publish's ``traceparent`` and the spans that lead from it to a consumer are stored by different
transactions, in any order. Both are marked new; `Spans.resolve` takes up new ones, follows them as
far as it gets, and notes which span it waits for. A round reads first, and then writes little:
capture hardly waits.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from operator import attrgetter
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from app.errors import NotFoundError
from app.store.causality.links import late_between
from app.store.causality.ranges import oldest
from app.store.database import tables
from app.store.database.chunks import chunks, rows_with
from app.store.database.lanes import Lane
from app.store.database.subject import Subject, read_method, reads, writes
from app.store.holding.leases import lock_trace
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
    waiting_publishes,
)
from app.stored.spans import HandlingTime, Span, SpanKind
from app.tracker.links import SPANS_RULE
from itc import Relation, compare
from model.event import CLOCK_ALONE, Event
from model.words import Awareness, EdgeKind

# Spans removed in one transaction, and shown of one message.
PRUNED = 5_000
MOST_HANDLED = 64
# Late links that one transaction looks at again.
CHUNK = 200

_blocks = tables.blocks.c
_events = tables.events.c
_late_edges = tables.late_edges.c
_participants = tables.participants.c
_span_links = tables.span_links.c
_spans = tables.spans.c
_traceparents = tables.traceparents.c

_span_fields = attrgetter(*(name for name in Span.__struct_fields__ if name != "links"))
_CONTEXT = "SELECT context FROM traceparents WHERE trace_id = :trace AND event_id = :message"


class Spans(Subject):
    """The imported spans of all traces."""

    @writes
    async def add(self, connection: AsyncConnection, spans: Sequence[Span]) -> int:
        """Store spans; returns how many of them are new. Spans with known ids stay as they are."""
        rows = {span.context: (*_span_fields(span), None, True) for span in reversed(spans)}
        new = rows.keys() - await self._known_contexts(connection, rows)
        links = {
            (span.context, link.context): link.is_remote
            for span in reversed(spans)
            if span.context in new
            for link in span.links
        }
        add = self.database.dialect.upsert_many
        await add(connection, tables.spans, [rows[context] for context in sorted(new)], ())
        of_links = [(*pair, is_remote) for pair, is_remote in sorted(links.items())]
        await add(connection, tables.span_links, of_links, ())
        return len(new)

    @reads
    async def oldest_event(self, connection: AsyncConnection) -> int | None:
        """About when the oldest stored event was recorded (µs), None if there is none."""
        query = sa.select(_blocks.earliest).order_by(_blocks.number).limit(1)
        earliest: int | None = (await connection.execute(query)).scalar_one_or_none()
        return earliest

    late_between = read_method(late_between)

    @reads
    async def handling_times(self, connection: AsyncConnection, event: Event) -> list[HandlingTime]:
        """The times at which consumers handled a message, the earliest first.

        Of a received event only times certain to be of this delivery: by a link, if the message
        was handed over more than once.
        """
        message = event.cause or event.id
        parameters = {"trace": event.trace_id, "message": message}
        [rows] = await self.database.dialect.rows_of(connection, [_CONTEXT], parameters)
        if not rows:
            return []
        [[context]] = rows
        is_only = True
        if event.cause is not None:
            deliveries = sa.select(_events.id).where(_events.cause_id == message).limit(2)
            is_only = len((await connection.execute(deliveries)).all()) == 1
        consumed = (await _consumer_times(connection, [context])).get(context, [])
        return [
            *dict.fromkeys(time for time, delivery in consumed if is_only or delivery == event.id)
        ]

    async def resolve(self) -> bool:
        """Take up new publishes and spans, the oldest first; True if there may be more at once."""
        rows = await self.database.read(new_publishes, Lane.bulk)
        is_full = len(rows) == ROUND
        await self._settle(rows)
        arrived = await self.database.read(new_spans, Lane.bulk)
        if arrived:
            rows = await self.database.read(
                lambda reading: waiting_publishes(reading, arrived), Lane.bulk
            )
            await self._settle(rows[:ROUND])
            if len(rows) > ROUND:
                return True
            await self._note_seen(arrived)
        return is_full or len(arrived) == ROUND

    async def prune(self, older_than: int | None, keep: int) -> int:
        """Remove spans that ended before a time (µs), and all but the newest; returns how many."""
        total = 0
        while count := await self._prune_some(older_than, keep):
            total += count
        return total

    async def settle_late(self, trace_id: int) -> int:
        """Find anew, after a restamp, the links that the clocks lack; returns how many."""
        position, total = (0, 0), 0
        while True:
            last, count = await self._settle_some(trace_id, position)
            total += count
            if last is None:
                return total
            position = last

    async def _known_contexts(
        self, connection: AsyncConnection, contexts: Collection[bytes]
    ) -> frozenset[bytes]:
        query = sa.select(_spans.context)
        return frozenset(
            row.context for row in await rows_with(connection, query, _spans.context, contexts)
        )

    async def _settle(self, rows: Sequence[Row]) -> None:
        """Find what can be found of some publishes, and store it."""
        while rows:
            portion = rows
            leads = await self.database.read(lambda reading: find(reading, portion), Lane.bulk)  # noqa: B023
            by_trace: defaultdict[int, list[Lead]] = defaultdict(list)
            for lead in leads:
                by_trace[lead.row.trace_id].append(lead)
            for trace_id, trace_leads in sorted(by_trace.items()):
                await self._store(trace_id, trace_leads)
            # A span that was stored since they were read did not find them waiting for it.
            waited = {lead.waits_for for lead in leads if lead.waits_for is not None}
            arrived = await self.database.read(
                lambda reading: self._known_contexts(reading, waited),  # noqa: B023
                Lane.bulk,
            )
            rows = [
                lead.row._replace(waits_for=lead.waits_for)
                for lead in leads
                if lead.waits_for in arrived
            ]

    @writes
    async def _store(self, connection: AsyncConnection, trace_id: int, leads: list[Lead]) -> None:
        try:
            await lock_trace(connection, trace_id, None)
        except NotFoundError:
            return
        leads = await _without_pruned(connection, trace_id, leads)
        pairs = [(lead.row.event_id, cause) for lead in leads for cause in lead.causes]
        late = await _unknown_to_clocks(connection, pairs)
        await count_spanned(connection, trace_id, {effect for effect, _ in pairs})
        add = self.database.dialect.upsert_many
        rule = SPANS_RULE, int(EdgeKind.parent), int(Awareness.known)
        await add(connection, tables.edges, [(trace_id, *pair, *rule) for pair in pairs], ())
        await add(connection, tables.late_edges, [(trace_id, *pair) for pair in late], ())
        if leads:
            of_trace = _traceparents.trace_id == trace_id
            await connection.execute(
                sa.update(tables.traceparents)
                .where(of_trace, _traceparents.event_id == sa.bindparam("of"))
                .values(is_new=False, waits_for=sa.bindparam("span")),
                [{"of": lead.row.event_id, "span": lead.waits_for} for lead in leads],
            )
        handled = [lead.handled for lead in leads if lead.handled is not None]
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
        bounds = [bound for bound in (older_than, excess and excess + 1) if bound is not None]
        if not bounds:
            return 0
        query = (
            sa.select(_spans.context)
            .where(_spans.ended_at < max(bounds))
            .order_by(_spans.ended_at)
            .limit(PRUNED)
        )
        contexts = [*(await connection.execute(query)).scalars()]
        for portion in chunks(contexts):
            await connection.execute(
                sa.delete(tables.span_links).where(_span_links.context.in_(portion))
            )
            await connection.execute(sa.delete(tables.spans).where(_spans.context.in_(portion)))
        return len(contexts)

    @writes
    async def _settle_some(
        self, connection: AsyncConnection, trace_id: int, position: tuple[int, int]
    ) -> tuple[tuple[int, int] | None, int]:
        """(the last of some late links, how many of them stay); None if there were none."""
        effect, cause = position
        query = (
            sa.select(_late_edges.effect_id, _late_edges.cause_id)
            .where(_late_edges.trace_id == trace_id, _late_edges.effect_id >= effect)
            .where((_late_edges.effect_id > effect) | (_late_edges.cause_id > cause))
            .order_by(_late_edges.effect_id, _late_edges.cause_id)
            .limit(CHUNK)
        )
        pairs = [(row[0], row[1]) for row in await connection.execute(query)]
        if not pairs:
            return None, 0
        late = {*await _unknown_to_clocks(connection, pairs)}
        settled = [pair for pair in pairs if pair not in late]
        if settled:
            await connection.execute(
                sa.delete(tables.late_edges).where(
                    _late_edges.trace_id == trace_id,
                    _late_edges.effect_id == sa.bindparam("effect"),
                    _late_edges.cause_id == sa.bindparam("cause"),
                ),
                [{"effect": effect, "cause": cause} for effect, cause in settled],
            )
        return pairs[-1], len(late)


async def handling_times(
    connection: AsyncConnection, trace_id: int, deliveries: Mapping[int, Sequence[int]]
) -> dict[int, list[HandlingTime]]:
    """The times at which deliveries were handled, as by `Spans.handled`, where spans tell.

    ``deliveries`` are each message's, all of them.
    """
    messages: dict[bytes, int] = {}
    copied: set[bytes] = set()
    query = sa.select(_traceparents.context, _traceparents.event_id).where(
        _traceparents.trace_id == trace_id
    )
    for context, event in await rows_with(connection, query, _traceparents.event_id, deliveries):
        if messages.setdefault(context, event) != event:
            copied.add(context)
    for context in copied:  # nothing says which of several messages was handled
        del messages[context]
    handled: dict[int, list[HandlingTime]] = {}
    for portion in chunks([*messages]):
        for context, times in (await _consumer_times(connection, portion)).items():
            message_deliveries = deliveries[messages[context]]
            for time, span_delivery in times:
                delivery = message_deliveries[0] if len(message_deliveries) == 1 else span_delivery
                if delivery is not None and delivery in message_deliveries:
                    handled.setdefault(delivery, []).append(time)
    return handled


async def _consumer_times(
    connection: AsyncConnection, contexts: Sequence[bytes]
) -> dict[bytes, list[tuple[HandlingTime, int | None]]]:
    """The spans of consumers that handled messages sent in these contexts, the earliest first.

    Each with the delivery that it handled, if a link has named it.
    """
    spans: dict[bytes, Span | None] = {}
    await read_spans(connection, spans, {*contexts})
    times: dict[bytes, list[tuple[HandlingTime, int | None]]] = {}
    for row in await connection.execute(_consumers_of(contexts)):
        linked, is_remote = bool(row.linked), row.link_is_remote
        if has_sent(
            spans[row.sent],
            row.service,
            is_remote=is_remote if linked else row.is_remote,
            linked=linked,
        ):
            time = HandlingTime(row.started_at, row.ended_at, row.service)
            times.setdefault(row.sent, []).append((time, row.delivery_id))
    return times


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
        sa.select(
            *columns, _spans.is_remote, _span_links.linked, sa.literal(1), _span_links.is_remote
        )
        .join_from(tables.span_links, tables.spans, _spans.context == _span_links.context)
        .where(_span_links.linked.in_(contexts), is_consumer)
    )
    consumers = sa.union_all(children, linked).subquery()
    limit = MOST_HANDLED * len(contexts)
    return sa.select(consumers).order_by(consumers.c.started_at, consumers.c.ended_at).limit(limit)


async def count_spanned(
    connection: AsyncConnection, trace_id: int, effects: Collection[int] | None = None
) -> None:
    """Count publishes for `Evidence.spanned`: new ones before their links are stored.

    Or all whose links are stored, where no participant has any yet.
    """
    edges, links = tables.edges, tables.edges.alias()
    certain = sa.exists().where(
        links.c.effect_id == _events.id,
        links.c.kind != int(EdgeKind.candidate),
        *([links.c.rule != SPANS_RULE] if effects is None else []),
    )
    query = (
        sa.select(_events.participant, sa.func.count())
        .where(~certain, ~_events.quiet)
        .group_by(_events.participant)
    )
    if effects is None:
        effects_by_span = sa.select(edges.c.effect_id).where(
            edges.c.trace_id == trace_id, edges.c.rule == SPANS_RULE
        )
        counts = [*await connection.execute(query.where(_events.id.in_(effects_by_span)))]
    else:
        counts = await rows_with(connection, query, _events.id, effects)
    for participant, count in counts:
        await connection.execute(
            sa.update(tables.participants)
            .where(_participants.trace_id == trace_id, _participants.number == participant)
            .values(spanned=_participants.spanned + count)
        )


async def _without_pruned(
    connection: AsyncConnection, trace_id: int, leads: list[Lead]
) -> list[Lead]:
    """The leads without events that retention has removed since they were read."""
    ids = [lead.row.event_id for lead in leads]
    query = sa.select(_traceparents.event_id).where(
        _traceparents.trace_id == trace_id, _traceparents.event_id.in_(ids)
    )
    stored = {*(await connection.execute(query)).scalars()}
    oldest_id = await oldest(connection, trace_id) or 0
    remaining = []
    for lead in leads:
        if lead.row.event_id not in stored:
            continue
        causes = tuple(cause for cause in lead.causes if cause >= oldest_id)
        if lead.causes and not causes:
            lead = lead._replace(handled=None)
        remaining.append(lead._replace(causes=causes))
    return remaining


async def _unknown_to_clocks(
    connection: AsyncConnection, pairs: Sequence[tuple[int, int]]
) -> list[tuple[int, int]]:
    """The pairs (effect, cause) whose effect's clock lacks the cause.

    A pruned cause counts as lacking: chains go on in its archive.
    """
    ids = sorted({event_id for pair in pairs for event_id in pair})
    clocks = await by_ids(connection, ids, CLOCK_ALONE)
    events = {event.id: event for event in clocks}
    late = []
    for effect, cause in pairs:
        cause_event, effect_event = events.get(cause), events.get(effect)
        if effect_event is None or effect_event.quiet:
            continue
        is_known = cause_event is not None and (
            cause_event.participant == effect_event.participant
            or compare(cause_event.stamp, effect_event.stamp) is Relation.before
        )
        if not is_known:
            late.append((effect, cause))
    return late
