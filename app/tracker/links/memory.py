"""The last events with keys, by which later messages may name them.

Several events may share a key: a message's publish and its deliveries, repeated publishes, and
other messages with the same id. The `Linker` decides among them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import islice
from typing import Annotated

import msgspec

from app.tracker._steps import NamedEvents
from app.tracker.events import NamedEvent, Reference
from app.tracker.links.names import Key
from model.sound import share

# The newest events of a key that are looked through: ids repeat where messages are retried, and
# where they go to many queues.
LOOK_BACK = 32
# Events are sorted by their keys this many at a time, which takes half as long for each, or as soon
# as a message names one. That message waits for the sorting, so they are no more.
AT_ONCE = 250


class LinkCount(msgspec.Struct):
    """Counts of the causes that messages named by one rule, and whether these were found."""

    found: int = 0
    known: Annotated[
        int,
        "Of those found, those that the publisher's participant had received or published, or had "
        "heard of.",
    ] = 0
    unseen: Annotated[int, "Never seen in this virtual host while it was traced."] = 0
    forgotten: Annotated[int, "Perhaps seen, and forgotten since."] = 0
    ambiguous: Annotated[int, "Named by an id of several messages, any of which may be meant."] = 0
    early: Annotated[int, "Perhaps from before the rule held, which is not long."] = 0
    hidden: Annotated[int, "Of those found, those that came by no way through the broker."] = 0

    @property
    def missed(self) -> int:
        """The number found at another participant of the same program: any shows that participants
        are finer than programs.
        """
        return self.found - self.known - self.hidden

    @property
    def coverage(self) -> float | None:
        """`found` of all that were named, between 0 and 1; `null` without any."""
        return share(self.found, self.unseen + self.forgotten + self.ambiguous + self.early)

    @property
    def fit(self) -> float | None:
        """`known` of `known` and `missed`, between 0 and 1; `null` without any."""
        return share(self.known, self.missed)


class _Crowd:
    """The many events of a key, by participant, and the publishes among them.

    ``last_other`` is the newest event of another message than the one behind it. As the oldest are
    forgotten first, the key is several messages' for as long as that one is remembered.
    """

    __slots__ = ("by_participant", "last_other", "newest", "published")

    def __init__(self) -> None:
        self.by_participant: dict[int, deque[NamedEvent]] = {}  # each oldest first
        self.published: deque[NamedEvent] = deque()
        self.newest: NamedEvent | None = None
        self.last_other: NamedEvent | None = None

    def add(self, event: NamedEvent) -> None:
        self.by_participant.setdefault(event.participant, deque()).append(event)
        if not event.is_delivery:
            self.published.append(event)
        if self.newest is not None and not are_of_one_message(self.newest, event):
            self.last_other = self.newest
        self.newest = event

    def remove(self, event: NamedEvent) -> None:
        events = self.by_participant[event.participant]
        events.popleft()
        if not events:
            del self.by_participant[event.participant]
        if not event.is_delivery:
            self.published.popleft()
        if self.last_other is event:
            self.last_other = None


class LinkMemory(NamedEvents):
    """The last events that others may name.

    Nearly every message can be named, and few are. So events are noted in a row, and sorted by
    their keys some at a time. The events of a key are looked through where they are few, and sorted
    into a crowd where they are many: the work of a look does not grow with the memory.
    """

    def __init__(self, limit: int) -> None:
        self._limit, self._at_once, self._look_back = limit, AT_ONCE, LOOK_BACK
        self._crowds: dict[Key, _Crowd] = {}
        self._has_forgotten = False

    @property
    def has_forgotten(self) -> bool:
        """Tell whether an event that could be named had to make room."""
        return self._has_forgotten or len(self._events) + len(self._pending) > self._limit

    def restore(self, events: Iterable[NamedEvent], *, has_forgotten: bool) -> None:
        for event in events:
            self.note(event)
        self._has_forgotten |= has_forgotten

    def newest(self, key: Key) -> list[NamedEvent]:
        """Up to `LOOK_BACK` events with a key, newest first."""
        self._take_in()
        return self._events.newest(key, LOOK_BACK)

    def crowd_of(self, key: Key, number: int) -> tuple[list[NamedEvent], list[NamedEvent]] | None:
        """A crowd's events of a participant, and its publishes, newest first; None without a crowd.

        Up to `LOOK_BACK` of both, and one more of the participant's if it has more.
        """
        self._take_in()
        crowd = self._crowds.get(key)
        if crowd is None:
            return None
        events = crowd.by_participant.get(number, _NO_EVENTS)
        published = crowd.published
        return [*islice(reversed(events), LOOK_BACK + 1)], [*islice(reversed(published), LOOK_BACK)]

    def is_ambiguous(self, key: Key) -> bool:
        """Tell whether several messages are named by a key."""
        self._take_in()
        crowd = self._crowds.get(key)
        if crowd is not None:
            return crowd.last_other is not None
        events = self._events.newest(key, LOOK_BACK)  # which are all
        return any(not are_of_one_message(events[0], event) for event in events[1:])

    def forget_before(self, event_id: int) -> None:
        """Drop events with smaller ids, which retention has removed."""
        self._take_in()
        while (event := self._events.oldest()) is not None:
            if event.reference.id is None or event.reference.id >= event_id:
                return
            self._forget_oldest()

    def _crowd(self, newest: NamedEvent) -> None:
        """Add the newest event to its keys' crowds; a new crowd gets all events of its key."""
        for key in newest.keys:
            crowd = self._crowds.get(key)
            if crowd is not None:
                crowd.add(newest)
            elif self._events.count(key) > LOOK_BACK:
                crowd = self._crowds[key] = _Crowd()
                for event in reversed(self._events.newest(key, LOOK_BACK + 1)):
                    crowd.add(event)

    def _forget_oldest(self) -> None:
        event = self._events.take_oldest()
        self._has_forgotten = True
        if event is None or not self._crowds:
            return
        for key in event.keys:
            crowd = self._crowds.get(key)
            if crowd is not None:
                crowd.remove(event)
                if self._events.count(key) <= LOOK_BACK:
                    del self._crowds[key]


_NO_EVENTS: deque[NamedEvent] = deque()


def are_of_one_message(first: NamedEvent, second: NamedEvent) -> bool:
    """Tell whether two events are certainly of one message."""
    return message_identity(first) == message_identity(second)


def message_identity(event: NamedEvent) -> int:
    """The identity of an event's message; its own without its publish, which may be of the same."""
    return _identity_of(event.message or event.reference)


def first_published(candidates: list[NamedEvent], events: list[NamedEvent]) -> Reference | None:
    """The one publish that all candidates repeat, if there is one.

    ``events`` are all that have the key, newest first.
    """
    firsts: dict[int, Reference | int | None] = {}  # by event
    for event in reversed(events):
        original = event.message if event.is_delivery else event.original
        if original is not None:
            firsts[_identity_of(event.reference)] = firsts.get(
                _identity_of(original), event.message
            )
        elif not event.is_delivery:
            firsts[_identity_of(event.reference)] = event.reference
    originals = [firsts.get(_identity_of(event.reference)) for event in candidates]
    first = originals[0]
    is_one = first is not None and all(
        original is not None and _identity_of(original) == _identity_of(first)
        for original in originals
    )
    return first if is_one and isinstance(first, Reference) else None


def _identity_of(message: Reference | int) -> int:
    return message if isinstance(message, int) else message.identity
