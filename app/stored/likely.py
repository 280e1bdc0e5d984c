"""Links and keys of some events by rules that are not adopted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from app.stored.restamps import NewStamp, StoredEvent
from model.happened import LIKELY, Cause
from model.ways import Direction
from model.words import LINKED

# The newest deliveries of a participant that may have led to a publish with their key.
NEWEST = 8
# The rule's name for a message that was the only one in hand.
IN_HAND = "in hand"


@dataclass(eq=False)
class Overlay:
    """Likely links and keys beside the stored ones, of the events ``first`` to ``last``.

    ``causes`` are those by links. A step leads from a participant's delivery with a key to its
    later publishes with it.
    """

    first: int
    last: int
    causes: dict[int, list[Cause]] = field(default_factory=dict)
    keys: dict[int, set[bytes]] = field(default_factory=dict)
    _publishes: defaultdict[bytes, list[int]] = field(default_factory=lambda: defaultdict(list))
    _handed: defaultdict[tuple[int, bytes], list[int]] = field(
        default_factory=lambda: defaultdict(list)
    )
    _steps: Mapping[Direction, defaultdict[int, list[int]]] = field(
        default_factory=lambda: {1: defaultdict(list), -1: defaultdict(list)}
    )

    def suggest(self, publish: int, delivery: int) -> None:
        """Add a step from a delivery to a publish that has no other cause."""
        if publish not in self._steps[-1]:
            self._lead(delivery, publish)
            self.causes[publish] = [Cause(delivery, IN_HAND, LIKELY)]

    def __bool__(self) -> bool:
        """Tell whether it may have any."""
        return self.last > 0

    def add(self, event: StoredEvent, stamp: NewStamp) -> None:
        """Add the next event, by id, with its likely stamp."""
        keys, is_publish = set(stamp.names.conversations), event.queue is None
        causes = [
            Cause(edge.cause.id, edge.rule, edge.kind.name)
            for edge in stamp.edges
            if edge.kind in LINKED and edge.cause.id is not None
        ]
        if keys:
            self.keys[event.id] = keys
        if causes:
            self.causes[event.id] = causes
        sources = [cause.event for cause in causes]
        for key in keys:
            handed = self._handed[stamp.participant, key]
            sources += handed[-NEWEST:] if is_publish else ()
            (self._publishes[key] if is_publish else handed).append(event.id)
        for cause in dict.fromkeys(sources):
            self._lead(cause, event.id)

    def _lead(self, cause: int, effect: int) -> None:
        self._steps[1][cause].append(effect)
        self._steps[-1][effect].append(cause)

    def neighbours(self, event: int, direction: Direction) -> list[int]:
        """An event's likely effects (1) or causes (-1)."""
        return [*self._steps[direction].get(event, ())]

    def publishes_with(self, keys: Iterable[bytes], first: int) -> list[int]:
        """The publishes from an event on with some of these keys."""
        publishes = {publish for key in keys for publish in self._publishes.get(key, ())}
        return sorted(publish for publish in publishes if publish >= first)


NO_OVERLAY = Overlay(0, 0)
