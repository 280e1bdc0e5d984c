"""Dead ends: deliveries of a kind that leads to nothing, by the newest and by those before them.

A kind is a participant, a queue and a message type. It is a dead end where three of its deliveries
at least are so old that the first of a kind would have led on, nothing that the participant
published names one of its last ones, and nothing that names no cause has a key of one. Of a busy
queue the newest are all young; where they are of other kinds, those around the delivery itself are
looked at.

Who waits for two messages, or gathers many, and names one of them or goes on by its key, looks like
that too. So what the participant publishes must need none of the kind: it is a message that it
publishes again; or it names several messages, so that it would name this one; or its like is in the
conversation; or the participant had published more of its like, since it began, than it had been
handed of the kind.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple, TypeAlias

from sqlalchemy import Row, TextClause, bindparam, text

from app.store.conversations.roots import MOST_SHARING, Roots
from model.conversations.consumers import NEW_PATIENCE
from model.happened import ConversationEvent
from model.words import EdgeKind, EventType

# Deliveries of a kind; those of its queue, and all events of its participant, that are looked at.
LEAST_ALIKE, MOST_ALIKE, MOST_OF_QUEUE, MOST_NEXT, MOST_BACK = 3, 32, 64, 256, 1_000
# A participant's first events; by how many more publishes than deliveries of a kind it shows that
# it needs none, as it may have had some in hand before; its last publishes by each way; and in all.
MOST_FIRST, LEAST_BEYOND, MOST_OF_WAY, MOST_PUBLISHES = 256, 3, 16, 256

Read: TypeAlias = Callable[[Sequence[int]], Awaitable[Mapping[int, ConversationEvent]]]
PublishKind: TypeAlias = tuple[str, tuple[str, ...], str]
"""An exchange, routing keys, and a message type."""

_OF_PARTICIPANT = " FROM events WHERE trace_id = :trace AND participant = :participant"
_BOUND = "(SELECT height FROM events WHERE trace_id = :trace AND id = :bound)"


def _of_queue(condition: str, order: str, most: int) -> TextClause:
    return text(
        "SELECT e.id FROM (SELECT id, height, type, quiet, queue"  # noqa: S608  our own words
        f"{_OF_PARTICIPANT} AND height {condition} ORDER BY height {order} LIMIT :back) AS e"
        " WHERE e.type = :received AND NOT e.quiet AND e.queue = :queue"
        f" ORDER BY e.height {order} LIMIT :most"
    ).bindparams(back=MOST_BACK, most=most, received=int(EventType.received))


_NEWEST = _of_queue(f"<= coalesce({_BOUND}, 9223372036854775807)", "DESC", MOST_OF_QUEUE)
_OLDEST = _of_queue(">= coalesce(:bound, 0)", "ASC", MOST_ALIKE)
_NEXT = _of_queue(f">= {_BOUND}", "ASC", MOST_NEXT)
_LAST_OLD = text(
    f"SELECT max(id) AS id FROM (SELECT id, recorded_at{_OF_PARTICIPANT}"  # noqa: S608
    " ORDER BY height DESC LIMIT :back) AS e WHERE e.recorded_at <= :until"
).bindparams(back=MOST_BACK)
_FIRST = text(  # nothing where the first of all is gone
    f"SELECT id FROM (SELECT id, quiet{_OF_PARTICIPANT} ORDER BY height LIMIT :back) AS e"  # noqa: S608
    f" WHERE NOT quiet AND (SELECT seq{_OF_PARTICIPANT} ORDER BY height LIMIT 1) = 1"
    " ORDER BY id LIMIT :most"
).bindparams(back=MOST_BACK, most=MOST_FIRST)
_PUBLISHES = text(
    "SELECT id FROM (SELECT e.id, row_number() OVER"  # noqa: S608
    " (PARTITION BY e.exchange, e.routing_keys ORDER BY e.id DESC) AS place"
    f" FROM (SELECT id, type, quiet, exchange, routing_keys{_OF_PARTICIPANT}"
    " ORDER BY height DESC LIMIT :back) AS e WHERE e.type = :published AND NOT e.quiet"
    " AND (SELECT coalesce(sum(CASE kind WHEN :candidate THEN 0 WHEN :forward THEN 2 ELSE 1 END),"
    " 0) FROM edges WHERE effect_id = e.id) < 2"
    ") AS ways WHERE place <= :of_way ORDER BY id DESC LIMIT :most"
).bindparams(
    back=MOST_BACK,
    of_way=MOST_OF_WAY,
    most=MOST_PUBLISHES + 1,
    published=int(EventType.published),
    candidate=int(EdgeKind.candidate),
    forward=int(EdgeKind.forward),
)
_HAVE_LED = text(  # SQLite keeps the order of a CROSS JOIN, and might go through all events else
    "SELECT 1 FROM events AS d WHERE d.id IN :ids AND (EXISTS ("
    "SELECT 1 FROM edges CROSS JOIN events AS effect WHERE effect.id = edges.effect_id"
    " AND edges.trace_id = :trace AND edges.cause_id IN (d.id, d.cause_id)"
    " AND effect.participant = d.participant AND effect.type = :published)"
    " OR EXISTS (SELECT 1 FROM (SELECT k.event_id FROM keys AS own JOIN searched_keys AS k"
    " ON k.trace_id = :trace AND k.key = own.key AND (k.roles & 1) = 1 AND k.event_id > d.id"
    " WHERE own.trace_id = :trace AND own.event_id = d.cause_id AND (own.roles & 1) <> 0"
    " LIMIT :sharing) AS sharing JOIN events AS effect ON effect.id = sharing.event_id"
    " WHERE effect.participant = d.participant AND effect.type = :published AND NOT EXISTS ("
    "SELECT 1 FROM edges WHERE edges.effect_id = effect.id AND edges.kind <> :candidate))) LIMIT 1"
).bindparams(
    bindparam("ids", expanding=True),
    published=int(EventType.published),
    candidate=int(EdgeKind.candidate),
    sharing=MOST_SHARING,
)


class DeliveryKind(NamedTuple):
    """A kind of deliveries."""

    participant: int
    queue: str | None
    message_type: str

    @classmethod
    def of(cls, event: ConversationEvent) -> DeliveryKind:
        return cls(event.participant, event.queue, event.message_type)


class DeadEnds:
    """The dead ends of a trace, as of ``now``. A kind, and a participant, is looked at once."""

    def __init__(self, trace: Roots, read: Read, now: int) -> None:
        self._trace, self._read = trace, read
        self._old_until = now - NEW_PATIENCE
        self._kinds: dict[DeliveryKind, bool] = {}
        self._last: dict[int, Sequence[ConversationEvent]] = {}
        self._first: dict[int, Sequence[ConversationEvent]] = {}

    async def among(
        self, deliveries: Iterable[ConversationEvent], events: Collection[ConversationEvent]
    ) -> frozenset[int]:
        """The ids of those ``deliveries`` of a conversation's ``events`` that are dead ends."""
        ids_by_kind: dict[DeliveryKind, list[int]] = {}
        for event in sorted(deliveries):
            ids_by_kind.setdefault(DeliveryKind.of(event), []).append(event.id)
        ends: set[int] = set()
        for kind, ids in ids_by_kind.items():
            here = {
                _publish_kind(event)
                for event in events
                if event.type is EventType.published and event.participant == kind.participant
            }
            if kind not in self._kinds:
                self._kinds[kind] = await self._leads_to_nothing(kind, ids[-1])
            if self._kinds[kind] and await self._is_needless(kind, here):
                ends.update(ids)
        return frozenset(ends)

    async def _leads_to_nothing(self, kind: DeliveryKind, last: int) -> bool:
        """Tell whether enough of a kind are old, and none of its newest, nor of those, led on."""
        old_until = {"until": self._old_until}
        last_old = (await self._select(_LAST_OLD, kind.participant, **old_until))[0].id
        alike: set[int] = set()
        old = 0
        # In a burst those around it are of its kind where none of the newest of its queue is.
        around = ((_NEXT, last), (_NEWEST, last))
        of_queue = (_OLDEST, None), (_NEWEST, None), (_NEWEST, last_old or last)
        for query, bound in (*of_queue, *around):
            if (query, bound) in around and old >= LEAST_ALIKE:
                break
            rows = await self._select(query, kind.participant, queue=kind.queue, bound=bound)
            events = await self._read([row.id for row in rows])
            newest = [event for event in events.values() if DeliveryKind.of(event) == kind][
                -MOST_ALIKE:
            ]
            old = max(old, sum(event.recorded_at <= self._old_until for event in newest))
            alike.update(event.id for event in newest if query is not _OLDEST)
        if old < LEAST_ALIKE:
            return False
        return not await self._select(_HAVE_LED, ids=sorted(alike))

    async def _is_needless(self, kind: DeliveryKind, here: Collection[PublishKind]) -> bool:
        """Tell whether nothing else that the participant publishes needs any of a kind."""
        participant = kind.participant
        if participant not in self._last:
            self._last[participant] = await self._events(_PUBLISHES, participant)
            self._first[participant] = await self._events(_FIRST, participant)
        last, first = self._last[participant], self._first[participant]
        elsewhere = {_publish_kind(event) for event in last} - {*here}
        return len(last) <= MOST_PUBLISHES and all(
            _most_beyond(first, kind, publish) >= LEAST_BEYOND for publish in elsewhere
        )

    async def _events(self, query: TextClause, participant: int) -> Sequence[ConversationEvent]:
        rows = await self._select(query, participant)
        return [*(await self._read([row.id for row in rows])).values()]

    async def _select(
        self, query: TextClause, participant: int | None = None, **binds: object
    ) -> Sequence[Row[Any]]:
        if participant is not None:
            binds["participant"] = participant
        return (
            await self._trace.connection.execute(query, {"trace": self._trace.trace_id} | binds)
        ).all()


def _most_beyond(
    events: Sequence[ConversationEvent], kind: DeliveryKind, publish: PublishKind
) -> int:
    """By how many, at most, the publishes of a kind were more than the deliveries of another."""
    steps = (
        -(DeliveryKind.of(event) == kind)
        if event.type is EventType.received
        else int(_publish_kind(event) == publish)
        for event in events
    )
    return max(accumulate(steps), default=0)


def _publish_kind(event: ConversationEvent) -> PublishKind:
    return event.exchange, event.routing_keys, event.message_type
