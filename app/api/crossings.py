"""Messages that a shovel or a federation link takes elsewhere, and their events on its other side.

That may be another virtual host, whose clocks are others. So the message itself says which event it
is there: its id and body, and what a federation link writes into its headers. Without an id it is
looked for a minute around, by its body.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Annotated, Any, NamedTuple

import msgspec

from app.api.certainty import FIRST, LAST, certainty_between, merge
from app.api.events import Related
from app.api.services import ServiceParts
from app.api.signin.auth import User
from app.errors import BadRequestError
from app.jobs.exports import Arrivals
from app.stored.causality import PathStep
from app.stored.reading import EventFilter
from itc import Relation, compare
from model.answers import Answer
from model.deaths import headers_of
from model.event import CLOCK_ALONE, Event, Large
from model.movers import BROKERS_OWN, CLIENT_NAMES, FEDERATION_QUEUE, mover_of
from model.sound import Certainty, join_names
from model.times import MINUTE, Microseconds
from model.words import EdgeKind, EventType, Via

# Crossings in one answer; events that one is looked for among, and that are named.
MOST_CROSSINGS, MOST_LOOKED_AT, MOST_NAMED = 20, 500, 5
# Virtual hosts on the way from one event to another, and causes that are walked to in each.
MOST_HOPS, MOST_WALKED = 4, 500
# Publishes of movers in a period whose other sides are looked for.
MOST_ARRIVALS = 1_000
_MESSAGE: Large = frozenset({"properties", "payload"})


class OtherSide(msgspec.Struct, frozen=True):
    """An event on the other side of a shovel or a federation link."""

    event: int
    vhost: str
    at: Annotated[Microseconds, "When its trace message came."]


class Crossing(msgspec.Struct, frozen=True):
    """A delivery to a shovel or a federation link, or what it published."""

    event: int
    mover: Annotated[str, "The shovel or federation link."]
    elsewhere: Annotated[
        list[OtherSide],
        "The event on its other side, or those that it may be, at most 5; empty where none is "
        "traced here, in a virtual host that you may read.",
    ]
    certain: Annotated[bool, "Whether it is that one, and no equal message."]
    sentence: str


class EventCrossing(msgspec.Struct, frozen=True):
    """An event's other side."""

    crossing: Annotated[
        Crossing | None,
        "What a shovel or a federation link was handed here, or published; `null` of others, and "
        "of a message that you may not read.",
    ]


class Crossings(msgspec.Struct, frozen=True):
    """The other sides of events."""

    crossings: Annotated[
        list[Crossing], "What shovels and federation links brought or took away, the first 20."
    ]


async def crossings_of(ids: Collection[int], user: User, parts: ServiceParts) -> list[Crossing]:
    """The crossings among some events whose messages the user may read."""
    events = await parts.store.events.get_existing(sorted(ids)[:MOST_CROSSINGS], _MESSAGE)
    crossings = [await find_crossing(event, user, parts) for event in events]
    return [crossing for crossing in crossings if crossing is not None]


async def arrivals_in(
    vhost: str, period: tuple[int, int], user: User, parts: ServiceParts
) -> Arrivals:
    """The deliveries elsewhere that movers' publishes of a period were, where that is clear."""
    scope = EventFilter(
        vhost=vhost,
        type=EventType.published,
        since=period[0],
        until=period[1],
        use_regex=True,
    )
    events: dict[int, Event] = {}
    arrivals: dict[str, tuple[str, int, int]] = {}
    async with parts.searches.turn(user.name):  # one for each event
        for names in ({"participant_name": CLIENT_NAMES}, {"connection": BROKERS_OWN}):
            criteria = msgspec.structs.replace(scope, **names)
            first = await parts.store.events.find(
                criteria, after=0, limit=MOST_ARRIVALS, large=_MESSAGE
            )
            events |= {event.id: event for event in first.items}
        for event in [events[event_id] for event_id in sorted(events)][:MOST_ARRIVALS]:
            crossing = await find_crossing(event, user, parts)
            if crossing is not None and crossing.certain:
                side = crossing.elsewhere[0]
                arrivals[str(event.id)] = (side.vhost, side.event, side.at)
    return arrivals


async def find_crossing(event: Event, user: User, parts: ServiceParts) -> Crossing | None:
    """The other side of an event that was read with its message; None if it has none."""
    mover = _mover(event)
    if mover is None or not user.content.cover(event.vhost):
        return None
    alike, is_all = await _alike(event, user, parts)
    others = _other_sides(event, alike)
    certain = is_all and len(others) == 1 and len(_other_sides(others[0], [event, *alike])) == 1
    sides = [OtherSide(other.id, other.vhost, other.recorded_at) for other in others[:MOST_NAMED]]
    direction = "left" if event.type is EventType.received else "came"
    sentence = f"event {event.id} {direction} by {mover}"
    if sides:
        names = [f"event {side.event} in {side.vhost!r}" for side in sides]
        verb = "is" if certain else "may be"
        sentence += f": on its other side it {verb} {join_names(names)}"
    else:
        sentence += ", whose other side is not traced here"
    return Crossing(event.id, mover, sides, certain, sentence)


async def _alike(event: Event, user: User, parts: ServiceParts) -> tuple[list[Event], bool]:
    """The events of movers with an equal message, and whether these are all."""
    message_id = (event.properties or {}).get("message_id")
    scope = EventFilter(vhosts=user.vhosts_to_search(None))
    if isinstance(message_id, str):
        criteria = msgspec.structs.replace(scope, message_id=message_id)
    else:
        criteria = msgspec.structs.replace(
            scope,
            participant_name=CLIENT_NAMES,
            use_regex=True,
            since=event.recorded_at - MINUTE,
            until=event.recorded_at + MINUTE,
        )
    events = await parts.store.events.find(criteria, limit=MOST_LOOKED_AT, large=_MESSAGE)
    is_known = isinstance(message_id, str) or not event.payload_bytes or bool(event.payload)
    alike = [other for other in events.items if _mover(other) and _body(other) == _body(event)]
    return alike, is_known and len(events.items) < MOST_LOOKED_AT


def _other_sides(event: Event, events: Iterable[Event]) -> list[Event]:
    """The other side of an event, or those that it may be, oldest first; one of each message."""
    messages: dict[int, Event] = {}
    for other in sorted(events, key=lambda one: one.id):
        if other.type is not event.type:
            delivery, publish = sorted((event, other), key=lambda one: one.type, reverse=True)
            if _fits(delivery, publish):
                messages.setdefault(other.cause or other.id, other)
    return [*messages.values()]


def _fits(delivery: Event, publish: Event) -> bool:
    """Tell whether a mover may have published what it was handed there."""
    origins = headers_of(publish.properties).get("x-received-from")
    origin: Any = origins[0] if isinstance(origins, list) and origins else None
    queue = delivery.queue or ""
    if not isinstance(origin, dict):
        return _mover(delivery) == _mover(publish)
    if "queue" in origin:
        return bool(origin["queue"] == queue)
    if queue.startswith(FEDERATION_QUEUE) and not queue.endswith(
        f":{publish.vhost}:{publish.exchange}"
    ):
        return False
    return bool(origin.get("vhost", delivery.vhost) == delivery.vhost)


def _mover(event: Event) -> str | None:
    return mover_of(event.participant_name, event.connection, event.queue, event.properties)


def _body(event: Event) -> tuple[bytes | None, int, bytes | None]:
    return event.payload, event.payload_bytes, event.payload_sha256


class _Route(NamedTuple):
    """A way from one virtual host to another; ``steps`` are None where it is not certain."""

    steps: tuple[PathStep, ...] | None
    movers: tuple[str, ...]


async def relation_across(
    a: Event, b: Event, user: User, parts: ServiceParts
) -> tuple[Related, Certainty]:
    """The relation of two events of two virtual hosts, through shovels and federation links.

    Raises `BadRequestError` where none is known to lead from one to the other.
    """
    for via in (Via.links, Via.any):
        for cause, effect, relation in ((a, b, Relation.before), (b, a, Relation.after)):
            route = await _cross(cause, effect, via, user, parts)
            if route is not None:
                through = join_names([*dict.fromkeys(route.movers)])
                verb = "may have caused" if route.steps is None else "caused"
                sentence = f"event {cause.id} {verb} event {effect.id}, through {through}"
                answer: Answer = "may have" if route.steps is None else "caused"
                steps = None if route.steps is None else [*route.steps]
                certainty = [
                    await certainty_between(cause.trace_id, cause.id, LAST, parts),
                    await certainty_between(effect.trace_id, FIRST, effect.id, parts),
                ]
                return Related(a.vhost, relation, sentence, answer, steps), merge(certainty)
    raise BadRequestError(
        "these events are of two virtual hosts, whose clocks cannot be compared, and no shovel or"
        " federation link is known to lead from one to the other"
    )


async def _cross(
    cause: Event, effect: Event, via: Via, user: User, parts: ServiceParts
) -> _Route | None:
    """The way from an event to one in another virtual host, searched backwards."""
    frontier = [(effect, _Route((), ()))]
    for _ in range(MOST_HOPS):
        level, frontier = frontier, []
        for event, route in level:
            walk = await parts.store.causality.walk(event.id, -1, MOST_WALKED, frozenset(), via)
            # The last that a mover published, as far as that can be told without its headers.
            arrivals = sorted(
                other.id
                for other in (event, *walk.items)
                if other.queue is None and (_mover(other) or other.connection.startswith("<"))
            )[-MOST_CROSSINGS:]
            for crossing in await crossings_of(arrivals, user, parts):
                inner = await _steps(crossing.event, event.id, via, parts)
                sides = [side.event for side in crossing.elsewhere]
                for other in await parts.store.events.get_existing(sides, CLOCK_ALONE):
                    over = PathStep(
                        other.id, crossing.event, "link", crossing.mover, EdgeKind.forward
                    )
                    is_certain = crossing.certain and inner is not None and route.steps is not None
                    steps = (over, *(inner or ()), *(route.steps or ())) if is_certain else None
                    longer = _Route(steps, (crossing.mover, *route.movers))
                    if via is Via.links and steps is None:
                        continue
                    if other.trace_id != cause.trace_id:
                        frontier.append((other, longer))
                        continue
                    first = await _steps(cause.id, other.id, via, parts)
                    if first is not None and steps is not None:
                        return _Route((*first, *steps), longer.movers)
                    is_before = compare(cause.stamp, other.stamp) is Relation.before
                    if via is Via.any and (is_before or cause.id == other.id):
                        return _Route(None, longer.movers)
    return None


async def _steps(a: int, b: int, via: Via, parts: ServiceParts) -> Sequence[PathStep] | None:
    """The certain steps from one event to another of its trace; None where there are none."""
    if a == b:
        return ()
    return (await parts.store.causality.path(a, b)).steps if via is Via.links else None
