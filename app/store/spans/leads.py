"""Leads of spans: from a publish's context to the message that its program was handling.

This only reads; `app.store.spans.imported` stores the leads.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import Select, bindparam, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.database import tables
from app.store.database.chunks import columns, rows_with
from app.store.spans.ancestry import Ancestry, Carrier, ancestry
from app.stored.spans import Span, SpanKind, SpanLink
from model.words import EventType

# Publishes, and new spans, of one round.
ROUND = 200
# More messages with one context than this are not looked through: nobody can say which is meant.
MOST_ALIKE = 64

_events = tables.events.c
_participants = tables.participants.c
_span_links = tables.span_links.c
_spans = tables.spans.c
_traceparents = tables.traceparents.c

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


class Row(NamedTuple):
    """A publish that carries a context."""

    trace_id: int
    event_id: int
    context: bytes
    waits_for: bytes | None
    participant: int
    place: str | None


class Lead(NamedTuple):
    """The finding about a publish: causes, or none, or the span that it waits for."""

    row: Row
    causes: tuple[int, ...]
    waits_for: bytes | None = None
    # The consumer's span and its delivery, if that is certain.
    handled: tuple[bytes, int] | None = None


def _publishes() -> Select[Any]:
    return (
        select(
            *columns(_traceparents, "trace_id event_id context waits_for"),
            _events.participant,
            _participants.place,
        )
        .join_from(tables.traceparents, tables.events, _events.id == _traceparents.event_id)
        .join(
            tables.participants,
            (_participants.trace_id == _traceparents.trace_id)
            & (_participants.number == _events.participant),
        )
        .limit(ROUND)
    )


async def new_publishes(connection: AsyncConnection) -> list[Row]:
    """The publishes that nobody has followed yet, the oldest, as many as a round takes up."""
    query = _publishes().where(_traceparents.is_new).order_by(_traceparents.event_id)
    return [Row(*row) for row in await connection.execute(query)]


async def new_spans(connection: AsyncConnection) -> list[bytes]:
    """The contexts of spans that nobody has looked at yet, as many as a round takes up."""
    query = select(_spans.context).where(_spans.is_new).order_by(_spans.context).limit(ROUND)
    return [*(await connection.execute(query)).scalars()]


async def waiting_publishes(connection: AsyncConnection, arrived: list[bytes]) -> list[Row]:
    """The publishes that wait for some spans, one more than a round takes up."""
    query = (
        _publishes()
        .where(_traceparents.waits_for.in_(arrived))
        .order_by(_traceparents.event_id)
        .limit(ROUND + 1)
    )
    return [Row(*row) for row in await connection.execute(query)]


async def find(connection: AsyncConnection, rows: Sequence[Row]) -> list[Lead]:
    spans: dict[bytes, Span | None] = {}
    carriers: defaultdict[int, dict[bytes, list[Carrier]]] = defaultdict(dict)
    searches = {row: ancestry(row.context, spans, carriers[row.trace_id]) for row in rows}
    ends: dict[Row, Ancestry] = {}
    while len(ends) < len(searches):
        span_contexts: set[bytes] = set()
        context_keys: set[tuple[int, bytes]] = set()
        for row in searches.keys() - ends.keys():
            try:
                of_spans, of_carriers = next(searches[row])
            except StopIteration as end:
                ends[row] = end.value
                # `_is_copied` looks whether another message had it before.
                of_spans, of_carriers = (), [row.context] if ends[row].handled else ()
            span_contexts.update(of_spans)
            context_keys.update((row.trace_id, context) for context in of_carriers)
        await read_spans(connection, spans, span_contexts)
        await _read_carriers(connection, carriers, context_keys)
    return [await _lead(connection, row, ends[row], carriers[row.trace_id]) for row in rows]


async def read_spans(
    connection: AsyncConnection, spans: dict[bytes, Span | None], contexts: set[bytes]
) -> None:
    """Add the wanted spans that are not among ``spans``: None for one that is not stored."""
    new = contexts - spans.keys()
    spans.update(dict.fromkeys(new))
    links: defaultdict[bytes, list[SpanLink]] = defaultdict(list)
    of_links = select(_span_links.context, _span_links.linked, _span_links.is_remote)
    for context, *link in await rows_with(connection, of_links, _span_links.context, new):
        links[context].append(SpanLink(*link))
    of_spans = select(*(_spans[name] for name in Span.__struct_fields__ if name != "links"))
    for row in await rows_with(connection, of_spans, _spans.context, new):
        values = {**row._mapping, "kind": SpanKind(row.kind), "links": tuple(links[row.context])}
        spans[row.context] = Span(**values)


async def _read_carriers(
    connection: AsyncConnection,
    carriers: defaultdict[int, dict[bytes, list[Carrier]]],
    keys: set[tuple[int, bytes]],
) -> None:
    """The messages with some contexts, each context's first."""
    for trace_id, context in sorted(keys):
        if context in carriers[trace_id]:
            continue
        query = (
            select(
                _traceparents.event_id,
                _events.participant,
                _events.type == int(EventType.published),
            )
            .join_from(tables.traceparents, tables.events, _events.id == _traceparents.event_id)
            .where(_traceparents.context == context, _traceparents.trace_id == trace_id)
            .order_by(_traceparents.event_id)
            .limit(MOST_ALIKE + 1)
        )
        carriers[trace_id][context] = [
            Carrier(event_id, participant, bool(is_publish))
            for event_id, participant, is_publish in await connection.execute(query)
        ]


async def _lead(
    connection: AsyncConnection, row: Row, end: Ancestry, carriers: dict[bytes, list[Carrier]]
) -> Lead:
    if not end.handled:
        return Lead(row, (), end.waits_for)
    if await _is_copied(connection, row, carriers[row.context]):
        return Lead(row, ())
    causes: dict[int, bool] = {}
    for context in end.handled:
        cause, is_own = await _cause(connection, row, context, carriers[context])
        if cause is not None:
            causes[cause] = is_own
    handled = None
    if end.consumer is not None and len(causes) == len(end.handled) == 1:
        [(cause, is_own)] = causes.items()
        handled = (end.consumer, cause) if is_own else None
    return Lead(row, tuple(sorted(causes)), None, handled)


async def _is_copied(connection: AsyncConnection, row: Row, carriers: Sequence[Carrier]) -> bool:
    """Tell whether a publish's ``traceparent`` was copied from another message.

    One span may send several messages. But a participant that was handed a message with it, or is
    not its first publisher, has passed it on.
    """
    earlier = [carrier for carrier in carriers if carrier.event_id < row.event_id]
    if len(earlier) > MOST_ALIKE or any(
        carrier.participant != row.participant for carrier in earlier
    ):
        return True
    publishes = [carrier.event_id for carrier in earlier if carrier.is_publish]
    return bool(publishes and await _handed_messages(connection, row, publishes))


async def _handed_messages(connection: AsyncConnection, row: Row, messages: list[int]) -> list[int]:
    parameters = {"messages": messages, "participant": row.participant, "before": row.event_id}
    return [*(await connection.execute(_HANDED, parameters)).scalars()]


async def _cause(
    connection: AsyncConnection, row: Row, context: bytes, carriers: Sequence[Carrier]
) -> tuple[int | None, bool]:
    """(the event that is meant, whether it is the participant's own delivery); None for none.

    As `app.tracker.links.memory`: the newest delivery to the publisher itself, or to its place, or
    else the publish. Where another virtual host has the message too, as where a shovel copied it,
    only the publisher's own delivery tells that it was handled here.
    """
    earlier = [carrier for carrier in carriers if carrier.event_id < row.event_id]
    if not 0 < len(earlier) <= MOST_ALIKE:
        return None, False
    messages = [carrier.event_id for carrier in earlier if carrier.is_publish]
    if not messages:  # deliveries of messages that were published before the trace
        own_deliveries = [
            carrier.event_id for carrier in earlier if carrier.participant == row.participant
        ]
        if own_deliveries:
            return own_deliveries[-1], True
        if len(earlier) == 1 and not await _is_elsewhere(connection, row.trace_id, context):
            return earlier[0].event_id, False
        return None, False
    if len(messages) > 1:
        messages = await _handed_messages(connection, row, messages)
    if len(messages) != 1:
        return None, False
    parameters = {
        "participant": row.participant,
        "place": row.place,
        "message": messages[0],
        "before": row.event_id,
    }
    own_delivery, neighbour = (await connection.execute(_NEAREST, parameters)).one()
    if own_delivery is None and await _is_elsewhere(connection, row.trace_id, context):
        return None, False
    return own_delivery or neighbour or messages[0], own_delivery is not None


async def _is_elsewhere(connection: AsyncConnection, trace_id: int, context: bytes) -> bool:
    query = (
        select(_traceparents.event_id)
        .where(_traceparents.context == context, _traceparents.trace_id != trace_id)
        .limit(1)
    )
    return (await connection.execute(query)).first() is not None
