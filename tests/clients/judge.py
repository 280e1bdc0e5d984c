"""The judge: stored events against what the programs know themselves."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeAlias

from app.store import Store
from app.stored.likely import NO_OVERLAY, Overlay
from model.event import NOTHING_LARGE, Event
from model.words import EventType, Via
from tests.clients.truth import Truth

MOST_CAUSES = 5_000
Pair: TypeAlias = tuple[str, str]
# The name that the programs gave an event's message, or None for a message that is not theirs.
Name: TypeAlias = Callable[[Event], str | None]


class Verdict(NamedTuple):
    """What the service says, held against the truth; see `failures`."""

    direct: int
    indirect: int
    missed: list[Pair]  # true (cause, effect) pairs of publishes that are not "before"
    misattributed: list[str]  # deliveries that were not matched with their message's publish
    absent: list[str]  # messages without a stored publish, or without a delivery for each handling
    strange: list[str]  # stored messages that no program knows
    participants: dict[str, set[int]]  # program -> the participants that acted for it
    ids: dict[str, int]  # message -> the event of its publish
    true: set[Pair]  # all true pairs
    carried: set[Pair]  # those that messages alone led from one to the other of

    @property
    def recall(self) -> float:
        """The share of true pairs that are called "before"."""
        pairs = self.direct + self.indirect
        return (pairs - len(self.missed)) / pairs

    @property
    def failures(self) -> list[str]:
        """Everything that must be empty whatever the policy is."""
        return self.misattributed + self.absent + self.strange

    @property
    def confused(self) -> list[set[str]]:
        """Programs that share a participant, so that what one did is said of the other as well."""
        actors: defaultdict[int, set[str]] = defaultdict(set)
        for program, participants in self.participants.items():
            for participant in participants:
                actors[participant].add(program)
        return [programs for programs in actors.values() if len(programs) > 1]


async def causes_by(
    store: Store, verdict: Verdict, via: Via, overlay: Overlay = NO_OVERLAY
) -> set[Pair]:
    """(cause, effect) pairs of publishes along some way."""
    names = {event: message for message, event in verdict.ids.items()}
    found: set[Pair] = set()
    for event, effect in names.items():
        walk = await store.causality.walk(
            event, -1, limit=MOST_CAUSES, large=NOTHING_LARGE, via=via, overlay=overlay
        )
        assert not walk.truncated
        found |= {(names[cause.id], effect) for cause in walk.items if cause.id in names}
    return found


def judged(events: Sequence[Event], truth: Truth, name: Name) -> Verdict:
    """Judge the stored events of a pipeline."""
    publishes: dict[str, Event] = {}
    deliveries: defaultdict[str, list[Event]] = defaultdict(list)
    for event in events:
        message = name(event)
        if message is None:
            continue
        if event.type is EventType.received:
            deliveries[message].append(event)
        elif publishes.setdefault(message, event) is not event:
            raise ValueError(f"two publishes are named {message}")
    stored = publishes.keys() | deliveries.keys()
    direct, indirect = truth.direct, truth.indirect
    return Verdict(
        len(direct),
        len(indirect),
        [pair for pair in sorted(direct | indirect) if not _is_before(publishes, pair)],
        [
            each
            for each in deliveries
            if not _from_its_publish(publishes.get(each), deliveries[each])
        ],
        [each for each in truth.publisher if not _is_whole(truth, each, publishes, deliveries)],
        sorted(stored - truth.publisher.keys()),
        _participants(truth, publishes, deliveries),
        {message: event.id for message, event in publishes.items()},
        direct | indirect,
        truth.carried,
    )


def _is_before(publishes: dict[str, Event], pair: Pair) -> bool:
    cause, effect = (publishes.get(message) for message in pair)
    return cause is not None and effect is not None and _leq(cause, effect)


def _leq(a: Event, b: Event) -> bool:
    return a.id != b.id and a.stamp.leq(b.stamp)


def _from_its_publish(publish: Event | None, deliveries: Iterable[Event]) -> bool:
    return publish is not None and all(
        each.cause == publish.id and _leq(publish, each) for each in deliveries
    )


def _is_whole(
    truth: Truth,
    message: str,
    publishes: dict[str, Event],
    deliveries: dict[str, list[Event]],
) -> bool:
    """Whether its publish is stored, and at least a delivery for each time it was handled."""
    handlings = truth.handlers[message].total()
    return message in publishes and len(deliveries.get(message, [])) >= handlings


def _participants(
    truth: Truth, publishes: dict[str, Event], deliveries: dict[str, list[Event]]
) -> dict[str, set[int]]:
    acted: defaultdict[str, set[int]] = defaultdict(set)
    for message, event in publishes.items():
        if message in truth.publisher:
            acted[truth.publisher[message]].add(event.participant)
    for message, events in deliveries.items():
        handlers = truth.handlers.get(message, Counter())
        if len(handlers) == 1:  # else it is not known which of them had which delivery
            acted[next(iter(handlers))].update(event.participant for event in events)
    return dict(acted)


def message_id(event: Event) -> str | None:
    """By the property of that name, which the programs set themselves."""
    return _text((event.properties or {}).get("message_id"))


def celery_task(event: Event) -> str | None:
    """By Celery's id and the number of the attempt: a retry has the id of what is tried again."""
    headers = (event.properties or {}).get("headers") or {}
    return f"{headers['id']}/{headers['retries']}" if "task" in headers else None


def dramatiq_message(event: Event) -> str | None:
    """By Dramatiq's id, the attempt and the queue: what is delayed passes two, under one id."""
    body = json.loads(event.payload or b"null")
    if not isinstance(body, dict) or "message_id" not in body:
        return None
    attempt = body["options"].get("retries", 0)
    return f"{body['message_id']}/{attempt}@{event.queue or event.routing_keys[0]}"


def moleculer_packet(event: Event) -> str | None:
    """By what the programs pass along with a call or an event; all other packets have no name."""
    packet = json.loads(event.payload or b"null")
    passed = packet.get("params") or packet.get("data") if isinstance(packet, dict) else None
    return _text(passed.get("message")) if isinstance(passed, dict) else None


def rascal_attempt(event: Event) -> str | None:
    """By the id that the programs set, and how often rascal has published it again."""
    properties = event.properties or {}
    recovery = (properties.get("headers") or {}).get("rascal", {}).get("recovery", {})
    again = sum(each.get("republished", 0) for each in recovery.values())
    return f"{properties['message_id']}/{again}" if "message_id" in properties else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
