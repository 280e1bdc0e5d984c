"""Which event is meant by a key that a message names: the last events that carry keys, bounded.

A message may be known from its publish and from several deliveries: to several queues, again after
a crash, or because it was sent again under the same id. Whoever names it was handed one of them, or
published it: that is the newest one of the same participant, or else of the same place. If there is
neither, the id came there by a way outside the broker. Then the publish is all that certainly led
to it, and a delivery stands for it only where the publish is not known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from app.tracker.events import NamedEvent, Reference
from app.tracker.links.names import Key

# How many events with equal keys are looked at, the newest: ids repeat where messages are retried.
LOOK_BACK = 64
# What is named is named soon, as a rule; older clocks are held packed.
RECENT = 1_000


class LinkCount(msgspec.Struct):
    """How often a rule's causes were found, and how often not.

    Of the ``found``, ``known`` were in the publisher's past without the link. The others were
    never seen here (``unseen``), may have been ``forgotten``, or may be any of several messages
    (``ambiguous``).
    """

    found: int = 0
    known: int = 0
    unseen: int = 0
    forgotten: int = 0
    ambiguous: int = 0


class LinkMemory:
    """The last events that others may name."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._next = 1
        self._events: dict[int, NamedEvent] = {}  # in order of number
        self._numbers: dict[Key, list[int]] = {}
        self.has_forgotten = False

    def __len__(self) -> int:
        return len(self._events)

    def restore(self, events: Iterable[NamedEvent]) -> None:
        """Fill in what was known, oldest first."""
        for event in events:
            self.note(event)

    def note(self, event: NamedEvent) -> None:
        """Remember an event that has keys; the oldest one makes room."""
        number, self._next = self._next, self._next + 1
        self._events[number] = event
        for key in event.keys:
            self._numbers.setdefault(key, []).append(number)
        if len(self._events) > self._most:
            self._forget(next(iter(self._events)))
            self.has_forgotten = True
        aged = self._events.get(number - RECENT)
        if aged is not None and not aged.reference.waiting:
            aged.reference.rest()

    def find(
        self, key: Key, number: int, place: str | None, place_of: Callable[[int], str | None]
    ) -> tuple[NamedEvent | None, bool]:
        """The event that participant ``number`` at ``place`` means by a key, None if none is known.

        And whether it is near: of the same participant or place.
        """
        near: NamedEvent | None = None
        far: NamedEvent | None = None
        for each in reversed(self._numbers.get(key, [])[-LOOK_BACK:]):
            event = self._events[each]
            if event.participant == number:
                return event, True
            if place is not None and place_of(event.participant) == place:
                near = _better(near, event, deliveries=True)
            else:
                far = _better(far, event, deliveries=False)
        return near or far, near is not None

    def is_ambiguous(self, key: Key) -> bool:
        """Whether several messages are named by a key."""
        messages = {
            _identity(message)
            for each in self._numbers.get(key, [])[-LOOK_BACK:]
            if (message := self._events[each].message) is not None
        }
        return len(messages) > 1

    def forget_before(self, event_id: int) -> None:
        """Drop what retention has removed: events with smaller ids."""
        for number, event in list(self._events.items()):
            if event.reference.id is None or event.reference.id >= event_id:
                return
            self._forget(number)

    def _forget(self, number: int) -> None:
        for key in self._events.pop(number).keys:
            numbers = self._numbers[key]
            numbers.remove(number)
            if not numbers:
                del self._numbers[key]


def _better(known: NamedEvent | None, older: NamedEvent, *, deliveries: bool) -> NamedEvent:
    """The newer of two, unless only the older one is of the wanted kind."""
    if known is None or (older.is_delivery is deliveries and known.is_delivery is not deliveries):
        return older
    return known


def _identity(message: Reference | int) -> int:
    """What tells a message from others: one that is restored has several references, and an id."""
    return message if isinstance(message, int) else message.id or -id(message)
