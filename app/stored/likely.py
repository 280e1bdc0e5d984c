"""Links and keys that some events would have by rules that are not adopted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from app.stored.restamps import NewStamp, StoredEvent
from model.happened import LIKELY, Cause
from model.ways import Direction
from model.words import LINKED

# Deliveries of a participant that a publish with their key may come of, the newest.
NEWEST = 8
# What stands for a rule's name where a message was the only one in hand.
IN_HAND = "in hand"


@dataclass(eq=False)
class Overlay:
    """What would be stored beside what is, of the events ``first`` to ``last``.

    ``named`` are causes by links, ``keys`` what events share with their conversations. From what a
    participant received under a key a step leads to what it published under it later.
    """

    first: int
    last: int
    named: dict[int, list[Cause]] = field(default_factory=dict)
    keys: dict[int, set[bytes]] = field(default_factory=dict)
    _publishes: defaultdict[bytes, list[int]] = field(default_factory=lambda: defaultdict(list))
    _handed: defaultdict[tuple[int, bytes], list[int]] = field(
        default_factory=lambda: defaultdict(list)
    )
    _steps: Mapping[Direction, defaultdict[int, list[int]]] = field(
        default_factory=lambda: {1: defaultdict(list), -1: defaultdict(list)}
    )

    def suggest(self, publish: int, delivery: int) -> None:
        """Have a delivery likely lead to a publish of which nothing else is known."""
        if publish not in self._steps[-1]:
            self._lead(delivery, publish)
            self.named[publish] = [Cause(delivery, IN_HAND, LIKELY)]

    def __bool__(self) -> bool:
        """Tell whether it may hold anything."""
        return self.last > 0

    def add(self, event: StoredEvent, stamp: NewStamp) -> None:
        """Take in the next event, by id, as it would be."""
        keys, is_publish = set(stamp.names.conversations), event.queue is None
        named = [
            Cause(edge.cause.id, edge.rule, edge.kind.name)
            for edge in stamp.edges
            if edge.kind in LINKED and edge.cause.id is not None
        ]
        if keys:
            self.keys[event.id] = keys
        if named:
            self.named[event.id] = named
        led = [each.event for each in named]
        for key in keys:
            handed = self._handed[stamp.participant, key]
            led += handed[-NEWEST:] if is_publish else ()
            (self._publishes[key] if is_publish else handed).append(event.id)
        for cause in dict.fromkeys(led):
            self._lead(cause, event.id)

    def _lead(self, cause: int, effect: int) -> None:
        self._steps[1][cause].append(effect)
        self._steps[-1][effect].append(cause)

    def neighbours(self, event: int, towards: Direction) -> list[int]:
        """The events that one likely leads to (1), or that likely lead to it (-1)."""
        return [*self._steps[towards].get(event, ())]

    def sharing(self, keys: Iterable[bytes], first: int) -> list[int]:
        """The publishes from an event on that have some of these keys."""
        found = {each for key in keys for each in self._publishes.get(key, ())}
        return sorted(each for each in found if each >= first)


NO_OVERLAY = Overlay(0, 0)
