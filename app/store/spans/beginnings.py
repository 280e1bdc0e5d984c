"""The conversation and the trace of each message, by the ways back along their first causes.

A way is walked once: its messages are remembered, so that what follows costs one look-up.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.causality import links
from app.store.database import tables
from app.store.database.chunks import rows_with
from app.store.reading import messages
from app.stored.causality import Named
from model.happened import Cause, sort_causes
from model.spans import Context, context_in, span_context, trace_of
from model.words import EventType

# Messages that are remembered, and steps of a way back.
MOST_REMEMBERED, MOST_STEPS = 50_000, 10_000

_events = tables.events.c
_ROWS = select(
    _events.id, _events.type, _events.cause_id, _events.recorded_at, _events.quiet, _events.trace_id
)


class Beginning(NamedTuple):
    """The first message of a conversation, and the trace of one of its messages."""

    root: int
    trace: bytes


class KnownEvent(NamedTuple):
    """An event that may lead to others: its type, its message and its time (µs)."""

    id: int
    type: EventType
    message: int
    recorded_at: int


class _Descent(NamedTuple):
    """A message's own trace, by its headers, or else as it would begin one, and its cause's."""

    named: bytes | None
    own: bytes
    earlier: int | None


class Beginnings:
    """The beginnings of a virtual host's messages."""

    def __init__(self, vhost: str) -> None:
        self._vhost = vhost
        self._known: dict[int, Beginning] = {}

    async def of(
        self,
        connection: AsyncConnection,
        heads: Mapping[int, KnownEvent],
        causes: Mapping[int, Collection[KnownEvent]],
        contexts: Mapping[int, Context | None],
    ) -> dict[int, Beginning]:
        """The beginnings of messages, and of those of their ``causes``, the first first.

        ``contexts`` are those that the messages of ``heads`` name.
        """
        others = [event.message for events in causes.values() for event in events]
        ways: dict[int, _Descent] = {}
        for head in heads.values():
            if head.id not in self._known:
                first = next(iter(causes.get(head.id, ())), None)
                ways[head.id] = self._descent(head, contexts[head.id], first)
        level = self._unknown([*others, *_earlier(ways.values())], ways)
        for _ in range(MOST_STEPS):
            if not level:
                break
            earlier_ways = await self._descents(connection, level)
            ways |= earlier_ways
            level = self._unknown(_earlier(earlier_ways.values()), ways)
        for message in sorted(ways):
            way = ways[message]
            earlier = None if way.earlier is None else self._known.get(way.earlier)
            trace = way.named or (way.own if earlier is None else earlier.trace)
            self._known[message] = Beginning(message if earlier is None else earlier.root, trace)
        beginnings = {message: self._known[message] for message in {*heads, *others}}
        for message in [*self._known][: max(0, len(self._known) - MOST_REMEMBERED)]:
            del self._known[message]
        return beginnings

    def _unknown(self, ids: Iterable[int], ways: Mapping[int, _Descent]) -> list[int]:
        return sorted({*ids} - self._known.keys() - ways.keys())

    def _descent(
        self, event: KnownEvent, context: Context | None, first: KnownEvent | None
    ) -> _Descent:
        own = trace_of(self._vhost, event.id, event.recorded_at)
        named = None if context is None else context.trace_id
        return _Descent(named, own, None if first is None else first.message)

    async def _descents(self, connection: AsyncConnection, ids: list[int]) -> dict[int, _Descent]:
        rows = await rows_with(connection, messages.WITHOUT_BODY, _events.id, ids)
        causes = await known_causes(connection, await links.edge_causes(connection, ids))
        ways = {}
        for event in map(messages.event_of, rows):
            known = KnownEvent(event.id, EventType.published, event.id, event.recorded_at)
            first = next(iter(causes.get(event.id, ())), None)
            ways[event.id] = self._descent(known, context_in(event.properties or {}), first)
        return ways


def _earlier(ways: Iterable[_Descent]) -> Iterable[int]:
    return (way.earlier for way in ways if way.earlier is not None)


async def known_causes(
    connection: AsyncConnection, named: Mapping[int, Collection[Named]]
) -> dict[int, list[KnownEvent]]:
    """The stored causes of events beside their messages, those first that count first."""
    causes = {
        effect: sort_causes(Cause(cause.cause, cause.rule, cause.kind.name) for cause in effects)
        for effect, effects in named.items()
    }
    ids = {cause.event for of_effect in causes.values() for cause in of_effect}
    known = await known_events(connection, ids)
    of_effect: defaultdict[int, list[KnownEvent]] = defaultdict(list)
    for effect, sorted_causes in causes.items():
        for event in dict.fromkeys(cause.event for cause in sorted_causes):
            if event in known:
                of_effect[effect].append(known[event])
    return of_effect


async def known_events(connection: AsyncConnection, ids: Collection[int]) -> dict[int, KnownEvent]:
    """Stored events that are no quiet traffic, each with its message if that is stored."""
    rows = {row.id: row for row in await rows_with(connection, _ROWS, _events.id, ids)}
    publishes = {row.cause_id for row in rows.values() if row.cause_id is not None} - rows.keys()
    stored = {row.id for row in await rows_with(connection, _ROWS, _events.id, publishes)}
    return {
        row.id: KnownEvent(
            row.id,
            EventType(row.type),
            row.cause_id if row.cause_id in stored or row.cause_id in rows else row.id,
            row.recorded_at,
        )
        for row in rows.values()
        if not row.quiet
    }


def contexts_of(
    vhost: str, causes: Iterable[KnownEvent], beginnings: Mapping[int, Beginning]
) -> dict[int, Context]:
    """The contexts of events that led to others."""
    return {
        event.id: span_context(
            vhost, beginnings[event.message].trace, event.type, event.id, event.recorded_at
        )
        for event in causes
    }
