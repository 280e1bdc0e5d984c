"""Which event is meant by a key that a message names: the last events that carry keys, bounded.

A message may be known from its publish and from several deliveries: to several queues, again after
a crash, or because it was sent again under the same id. Whoever names it was handed one of them, or
published it: that is the newest one of the same participant, or else of the same place. If there is
neither, the id came there by a way outside the broker. Then the publish is all that certainly led
to it, and a delivery stands for it only where the publish is not known.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import TypeAlias

import msgspec

from app.tracker.events import NamedEvent, Reference
from app.tracker.links.names import Key
from model.sound import share

# How many events with equal keys are looked through for one of the same place, the newest: ids
# repeat where messages are retried, and where they go to many queues.
LOOK_BACK = 64
# A key that more events than this have is not looked through: it may be several messages'.
MOST_ALIKE = 5_000
# What is named is named soon, as a rule; older clocks are held packed.
RECENT = 1_000

# Nearly every key is one event's, or a publish's and its delivery's: the bare number until there is
# a second.
_Numbers: TypeAlias = "int | deque[int]"


class LinkCount(msgspec.Struct):
    """How often a rule's causes were found, and how often not.

    Of the ``found``, ``known`` were in the publisher's past without the link, and ``hidden`` came
    there by a way outside the broker; the rest the policy ``missed``. Those not found were never
    seen here (``unseen``), may have been ``forgotten``, may be any of several messages
    (``ambiguous``), or may have come before the rule held (``early``), when nobody looked for what
    it names them by.
    """

    found: int = 0
    known: int = 0
    unseen: int = 0
    forgotten: int = 0
    ambiguous: int = 0
    early: int = 0
    hidden: int = 0

    @property
    def missed(self) -> int:
        """Those that reached another participant of the publisher's program."""
        return self.found - self.known - self.hidden

    @property
    def coverage(self) -> float | None:
        """Which share of the causes that messages name was found; None if they name none."""
        return share(self.found, self.unseen + self.forgotten + self.ambiguous + self.early)

    @property
    def fit(self) -> float | None:
        """Which share of those found by way of the broker the policy had; None without any."""
        return share(self.known, self.missed)


class _Crowd:
    """Of a key that many events have: each participant's newest, and the newest publish."""

    __slots__ = ("own", "published")

    def __init__(self) -> None:
        self.own: dict[int, int] = {}
        self.published: int | None = None

    def add(self, number: int, event: NamedEvent) -> None:
        self.own[event.participant] = number
        if not event.is_delivery:
            self.published = number

    def remove(self, number: int, event: NamedEvent) -> None:
        if self.own[event.participant] == number:
            del self.own[event.participant]
        if self.published == number:
            self.published = None


class LinkMemory:
    """The last events that others may name.

    Nearly every message can be named, and few events have the same key. So these are looked
    through when somebody names them; only where they are many are they sorted beforehand.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._next = 1
        self._events: dict[int, NamedEvent] = {}  # in order of number, without a gap
        self._numbers: dict[Key, _Numbers] = {}
        self._crowds: dict[Key, _Crowd] = {}
        self.has_forgotten = False

    def restore(self, events: Iterable[NamedEvent]) -> None:
        """Fill in what was known, oldest first."""
        for event in events:
            self.note(event)

    def note(self, event: NamedEvent) -> None:
        """Remember an event that has keys; the oldest one makes room."""
        number = self._next
        self._next = number + 1
        events = self._events
        events[number] = event
        for key in event.keys:
            held = self._numbers.setdefault(key, number)
            if held is not number:
                self._note_another(key, held, number)
        if len(events) > self._most:
            self._forget_oldest()
        aged = events.get(number - RECENT)
        if aged is not None and not aged.reference.waiting:
            aged.reference.rest()

    def find(
        self, key: Key, number: int, place: str | None, place_of: Callable[[int], str | None]
    ) -> tuple[NamedEvent | None, bool]:
        """The event that participant ``number`` at ``place`` means by a key, None if none is known.

        And whether it is near: of the same participant or place.
        """
        numbers = self._numbers_of(key)
        if not numbers:
            return None, False
        own, published = self._newest(key, numbers, number)
        if own is not None:
            return self._events[own], True
        near: NamedEvent | None = None
        for each in islice(reversed(numbers), LOOK_BACK) if place is not None else ():
            event = self._events[each]
            if place_of(event.participant) == place:
                if event.is_delivery:
                    return event, True
                near = near or event
        if near is not None:
            return near, True
        return self._events[numbers[-1] if published is None else published], False

    def is_ambiguous(self, key: Key) -> bool:
        """Whether several messages are named by a key."""
        numbers = self._numbers_of(key)
        if len(numbers) > MOST_ALIKE:
            return True
        # Of a delivery whose publish was not seen nobody knows whether it is the same message.
        events = map(self._events.__getitem__, numbers)
        messages = {_identity(event.message or event.reference) for event in events}
        return len(messages) > 1

    def forget_before(self, event_id: int) -> None:
        """Drop what retention has removed: events with smaller ids."""
        while self._events:
            oldest = self._events[self._oldest].reference.id
            if oldest is None or oldest >= event_id:
                return
            self._forget_oldest()

    @property
    def _oldest(self) -> int:
        # Not by `next(iter(…))`: that walks over all that were deleted before it, which where the
        # oldest makes room for each new one is most of the table.
        return self._next - len(self._events)

    def _numbers_of(self, key: Key) -> Sequence[int]:
        """The numbers of the events with a key, oldest first."""
        held = self._numbers.get(key, ())
        return (held,) if isinstance(held, int) else held

    def _newest(
        self, key: Key, numbers: Sequence[int], participant: int
    ) -> tuple[int | None, int | None]:
        """The participant's newest event with a key, and the newest publish, if not its own."""
        crowd = self._crowds.get(key)
        if crowd is not None:
            return crowd.own.get(participant), crowd.published
        published: int | None = None
        for each in reversed(numbers):
            event = self._events[each]
            if event.participant == participant:
                return each, None
            if published is None and not event.is_delivery:
                published = each
        return None, published

    def _note_another(self, key: Key, held: _Numbers, number: int) -> None:
        """Remember another event with a key that is known."""
        if isinstance(held, int):
            held = self._numbers[key] = deque((held, number))
        else:
            held.append(number)
        if len(held) > LOOK_BACK:
            self._crowd(key, held)

    def _crowd(self, key: Key, numbers: Sequence[int]) -> None:
        """Take note of a key's newest event, and of all others if they were few before."""
        crowd = self._crowds.get(key)
        if crowd is None:
            crowd = self._crowds[key] = _Crowd()
            new = numbers
        else:
            new = (numbers[-1],)
        for each in new:
            crowd.add(each, self._events[each])

    def _forget_oldest(self) -> None:
        number = self._oldest
        event = self._events.pop(number)
        self.has_forgotten = True
        for key in event.keys:
            held = self._numbers[key]
            if isinstance(held, int):
                del self._numbers[key]
                continue
            held.popleft()  # as it is the oldest of all
            if len(held) == 1:
                self._numbers[key] = held[0]
            if self._crowds and (crowd := self._crowds.get(key)) is not None:
                crowd.remove(number, event)
                if len(held) <= LOOK_BACK:
                    del self._crowds[key]


def _identity(message: Reference | int) -> int:
    """What tells a message from others: one that is restored has several references, and an id."""
    return message if isinstance(message, int) else message.id or -id(message)
