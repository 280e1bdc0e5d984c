"""Dead ends: deliveries of a kind that leads to nothing, by the newest and by those before them.

A kind is a participant, a queue and a message type. It is a dead end where three of its deliveries
at least are not young, nothing that the participant published names one of its last ones, and
nothing that names no cause has a key of one. Of a busy queue the newest are all young.

Who waits for messages of two keys, and publishes by one of them, looks like that too. So what the
participant published since, outside of the conversation, must need none of the kind: it went where
what it published here did, or the participant had published more there, since it began, than it had
been handed of the kind.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple, TypeAlias

from sqlalchemy import bindparam, text

from app.store.conversations.roots import MOST_SHARING, Roots
from model.conversations.consumers import LEAST_PATIENCE
from model.happened import ConversationEvent
from model.words import EdgeKind, EventType

# Deliveries of a kind; those of its queue, and all events of its participant, that are looked at.
LEAST_ALIKE, MOST_ALIKE, MOST_OF_QUEUE, MOST_BACK = 3, 32, 64, 1_000
# A participant's first events; by how many more publishes than deliveries of a kind it shows that
# it needs none, as it may have had some in hand before; and where it published to since.
MOST_FIRST, LEAST_BEYOND, MOST_TARGETS = 256, 3, 16

Read: TypeAlias = Callable[[Sequence[int]], Awaitable[Mapping[int, ConversationEvent]]]
Target: TypeAlias = tuple[str, tuple[str, ...]]
"""An exchange and routing keys."""

_OF_PARTICIPANT = " FROM events WHERE trace_id = :trace AND participant = :participant"
_NEWEST = text(
    "SELECT e.id FROM (SELECT id, height, type, quiet, queue"  # noqa: S608  our own words
    f"{_OF_PARTICIPANT} AND height <= coalesce("
    "(SELECT height FROM events WHERE trace_id = :trace AND id = :last), 9223372036854775807)"
    " ORDER BY height DESC LIMIT :back) AS e"
    " WHERE e.type = :received AND NOT e.quiet AND e.queue = :queue"
    " ORDER BY e.height DESC LIMIT :most"
).bindparams(back=MOST_BACK, most=MOST_OF_QUEUE, received=int(EventType.received))
_LAST_OLD = text(
    f"SELECT max(id) FROM (SELECT id, recorded_at{_OF_PARTICIPANT}"  # noqa: S608
    " ORDER BY height DESC LIMIT :back) AS e WHERE e.recorded_at <= :until"
).bindparams(back=MOST_BACK)
_FIRST = text(
    f"SELECT id, seq{_OF_PARTICIPANT} AND NOT quiet ORDER BY height LIMIT :most"
).bindparams(most=MOST_FIRST)
_TARGETS = text(
    "SELECT min(e.id) FROM (SELECT id, type, quiet, exchange, routing_keys"  # noqa: S608
    f"{_OF_PARTICIPANT} ORDER BY height DESC LIMIT :back) AS e"
    " WHERE e.id > :since AND e.type = :published AND NOT e.quiet"
    " GROUP BY e.exchange, e.routing_keys LIMIT :most"
).bindparams(back=MOST_BACK, most=MOST_TARGETS + 1, published=int(EventType.published))
_HAVE_LED = text(
    "SELECT 1 FROM events AS d WHERE d.id IN :ids AND (EXISTS ("
    "SELECT 1 FROM edges JOIN events AS e ON e.id = edges.effect_id"
    " WHERE edges.cause_id IN (d.id, d.cause_id)"
    " AND e.participant = d.participant AND e.type = :published)"
    " OR EXISTS (SELECT 1 FROM (SELECT k.event_id FROM keys AS own JOIN searched_keys AS k"
    " ON k.trace_id = :trace AND k.key = own.key AND (k.roles & 1) = 1 AND k.event_id > d.id"
    " WHERE own.trace_id = :trace AND own.event_id = d.cause_id AND (own.roles & 1) <> 0"
    " LIMIT :sharing) AS sharing JOIN events AS e ON e.id = sharing.event_id"
    " WHERE e.participant = d.participant AND e.type = :published AND NOT EXISTS ("
    "SELECT 1 FROM edges WHERE edges.effect_id = e.id AND edges.kind <> :candidate))) LIMIT 1"
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


async def dead_ends(
    trace: Roots,
    events: Collection[ConversationEvent],
    deliveries: Collection[ConversationEvent],
    read: Read,
    now: int,
) -> frozenset[int]:
    """The ids of those ``deliveries`` of a conversation's ``events`` that are dead ends."""
    kinds: dict[DeliveryKind, list[int]] = {}
    for event in sorted(deliveries):
        kinds.setdefault(DeliveryKind.of(event), []).append(event.id)
    ends: set[int] = set()
    for kind, ids in kinds.items():
        here = {
            _target(event)
            for event in events
            if event.type is EventType.published and event.participant == kind.participant
        }
        if await _leads_to_nothing(trace, kind, ids[-1], read, now - LEAST_PATIENCE):
            elsewhere = await _targets_since(trace, kind.participant, ids[0], read) - here
            if await _are_without(trace, kind, elsewhere, read):
                ends.update(ids)
    return frozenset(ends)


async def _leads_to_nothing(
    trace: Roots, kind: DeliveryKind, last: int, read: Read, old_until: int
) -> bool:
    """Tell whether enough of a kind are old, and none of its newest, nor of those, has led on."""
    binds = {"trace": trace.trace_id, "participant": kind.participant}
    last_old = (await trace.connection.execute(_LAST_OLD, binds | {"until": old_until})).scalar()
    alike: set[int] = set()
    old = 0
    for bound in (None, last_old or last):
        of_queue = binds | {"queue": kind.queue, "last": bound}
        events = await read([*(await trace.connection.execute(_NEWEST, of_queue)).scalars()])
        newest = [event for event in events.values() if DeliveryKind.of(event) == kind][
            -MOST_ALIKE:
        ]
        old = max(old, sum(event.recorded_at <= old_until for event in newest))
        alike.update(event.id for event in newest)
    if old < LEAST_ALIKE:
        return False
    of_these = {"trace": trace.trace_id, "ids": sorted(alike)}
    return (await trace.connection.execute(_HAVE_LED, of_these)).first() is None


async def _targets_since(
    trace: Roots, participant: int, since: int, read: Read
) -> frozenset[Target]:
    binds = {"trace": trace.trace_id, "participant": participant, "since": since}
    ids = [*(await trace.connection.execute(_TARGETS, binds)).scalars()]
    return frozenset(map(_target, (await read(ids)).values()))


async def _are_without(
    trace: Roots, kind: DeliveryKind, targets: Collection[Target], read: Read
) -> bool:
    """Tell whether what goes to each of these targets needs nothing of a kind."""
    if not targets:
        return True
    binds = {"trace": trace.trace_id, "participant": kind.participant}
    first = (await trace.connection.execute(_FIRST, binds)).all()
    if len(targets) > MOST_TARGETS or first[0].seq != 1:
        return False
    events = [*(await read([row.id for row in first])).values()]
    return all(_most_beyond(events, kind, target) >= LEAST_BEYOND for target in targets)


def _most_beyond(events: Sequence[ConversationEvent], kind: DeliveryKind, target: Target) -> int:
    """By how many, at most, the publishes to a target were more than the deliveries of a kind."""
    steps = (
        -(DeliveryKind.of(event) == kind)
        if event.type is EventType.received
        else int(_target(event) == target)
        for event in events
    )
    return max(accumulate(steps), default=0)


def _target(event: ConversationEvent) -> Target:
    return event.exchange, event.routing_keys
