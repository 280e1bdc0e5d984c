"""Events as conversations need them, and their causes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from model.deaths import Death, deaths_of, headers_of
from model.error_queues import Forward, forward_of
from model.event import Event
from model.message_types import CLOUDEVENTS_PREFIXES, type_of
from model.movers import mover_of
from model.texts import storable
from model.times import Microseconds
from model.words import Disposition, EventType, Match, Via

_LONGEST_KEY = 200
# Headers whose value the messages of a conversation share, and people know.
_KEY_HEADERS = (
    "NServiceBus.ConversationId",
    "ConversationId",
    "conversation-id",
    "rbs2-corr-id",
    "root_id",
    *(f"{prefix}correlationid" for prefix in CLOUDEVENTS_PREFIXES),
)


class ConversationEvent(NamedTuple):
    """An event as conversations need it; times in µs, ``message_type`` is `type_of`'s.

    ``mover`` is `mover_of`'s. Its parts are read once (27 µs), and it takes 0.3 kB: an `Event` with
    its properties 1.5 kB.
    """

    id: int
    type: EventType
    match: Match
    cause: int | None
    participant: int
    name: str
    recorded_at: Microseconds
    exchange: str
    routing_keys: tuple[str, ...]
    queue: str | None
    routed_queues: tuple[str, ...]
    redelivered: bool
    message_type: str
    deaths: tuple[Death, ...] = ()
    forward: Forward | None = None
    expiration: str | None = None
    keys: tuple[str, ...] = ()
    settlement: Disposition | None = None
    settled_at: int | None = None
    mover: str | None = None


def message_type_of(event: Event) -> str:
    """The type of its message, of an event that was read with properties and payload."""
    return type_of(event.properties, event.exchange, event.routing_keys, event.payload)


def conversation_event(event: Event) -> ConversationEvent:
    """A conversation's event, from one that was read with its properties."""
    is_publish = event.type is EventType.published
    expiration = (event.properties or {}).get("expiration")
    return ConversationEvent(
        event.id,
        event.type,
        event.match,
        event.cause,
        event.participant,
        event.participant_name,
        event.recorded_at,
        event.exchange,
        event.routing_keys,
        event.queue,
        event.routed_queues or (),
        event.redelivered,
        message_type_of(event),
        () if is_publish else deaths_of(event.properties),
        forward_of(event.properties, event.exchange, event.routing_keys, event.payload)
        if is_publish
        else None,
        expiration if isinstance(expiration, str) else None,
        tuple(keys_in(event.properties)) if is_publish else (),
        event.settlement,
        event.settled_at,
        mover_of(event.participant_name, event.connection, event.queue, event.properties),
    )


def keys_in(properties: Mapping[str, Any] | None) -> Iterable[str]:
    """The keys of a message that its conversation may share, and people know it by."""
    headers = headers_of(properties)
    values = [(properties or {}).get("correlation_id"), *map(headers.get, _KEY_HEADERS)]
    return dict.fromkeys(
        storable(value)
        for value in values
        if isinstance(value, str) and 0 < len(value) <= _LONGEST_KEY
    )


LIKELY = "in_hand"
"""The kind of a suggested cause: the only message in hand."""


class Cause(NamedTuple):
    """A cause of an event: by a rule, or for a kind of reason that has none."""

    event: int
    rule: str | None
    kind: str


def sort_causes(causes: Iterable[Cause]) -> tuple[Cause, ...]:
    """Causes in the order in which they count: links by their events' ids, then the others."""
    return tuple(
        sorted(causes, key=lambda cause: (cause.rule is None, cause.event, cause.rule or ""))
    )


def causes_of(
    events: Mapping[int, ConversationEvent],
    links: Mapping[int, Sequence[Cause]],
    via: Via,
    *,
    roots: Collection[int],
    members: Collection[int],
    shared_keys: Mapping[int, Collection[Any]],
) -> dict[int, tuple[Cause, ...]]:
    """The causes of each event: links first, those from within the conversation before others.

    A publish without any has the last event of the conversation or the participant before it.

    Args:
        events: of the conversation, by id and in their order.
        named: what publishes name as their causes, and what the broker did makes one of deliveries.
        via: what leads from one event to the next.
        roots: the publishes with which it begins: nothing in it led to them.
        members: events that are known to belong to it.
        shared: by event, the keys that its message shares; for ``conversation``.
    """
    causes: dict[int, tuple[Cause, ...]] = {}
    for effect, named_causes in links.items():
        if effect in events and effect not in roots:
            inner_events = events if via is Via.any else members
            inside = [cause for cause in named_causes if cause.event in inner_events]
            outside = [cause for cause in named_causes if cause.event not in inner_events]
            if inside or via is Via.links:
                causes[effect] = (*sort_causes(inside), *sort_causes(outside))
    if via is Via.links:
        return causes
    received: defaultdict[int, list[ConversationEvent]] = defaultdict(list)
    published: dict[int, int] = {}
    for event in events.values():
        if event.type is EventType.received:
            received[event.participant].append(event)
            continue
        if event.id not in causes and event.id not in roots:
            nearest = _last_that_led(event, received[event.participant], via, shared_keys)
            if nearest is None and via is Via.any:
                nearest = published.get(event.participant)
            if nearest is not None:
                causes[event.id] = (Cause(nearest, None, via.value),)
        published[event.participant] = event.id
    return causes


def _last_that_led(
    publish: ConversationEvent,
    received: Sequence[ConversationEvent],
    via: Via,
    shared_keys: Mapping[int, Collection[Any]],
) -> int | None:
    """The last delivery to the publisher before a publish, in the same conversation."""
    if via is Via.any:
        return received[-1].id if received else None
    keys = {*shared_keys.get(publish.id, ())}
    return next(
        (
            delivery.id
            for delivery in reversed(received)
            if not keys.isdisjoint(shared_keys.get(delivery.id, ()))
        ),
        None,
    )
