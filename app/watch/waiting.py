"""Events that wait to be judged, and their turn: pure, and always in order of ids.

An assertion reads a trace's events from the one up to which all are judged, picks those that it
applies to, and judges each when its time is over and everything that was traced until then is
stored. The order makes one number the progress: it is stored with the outcomes, so that a restart
loses nothing and does nothing twice. If very many wait, reading waits too: memory has a bound, and
nothing is skipped.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from model.assertions.judging import WatchedEvent

MOST_WAITING = 20_000
"""Events of an assertion kept in memory; the others are read once these are judged."""

MOST_TOGETHER = 50
"""Events of an assertion that are judged together."""


class SettledPoint(NamedTuple):
    """A point: everything traced before ``at`` (µs) is stored, up to the event ``event_id``."""

    at: int
    event_id: int


class Wait(NamedTuple):
    """An event that is to be judged at a time (µs)."""

    id: int
    recorded_at: int
    due: int


@dataclass(eq=False)
class Line:
    """The events of one assertion that wait, oldest first.

    ``picks`` says which events it applies to, ``within`` how long (µs) after each it is judged.
    Everything up to ``judged_id`` is judged, and everything up to ``read_id`` is read.
    """

    picks: Callable[[WatchedEvent], bool]
    within: int
    judged_id: int
    most: int = MOST_WAITING
    read_id: int = field(init=False)
    _waiting: deque[Wait] = field(default_factory=deque, init=False)

    def __post_init__(self) -> None:
        self.read_id = self.judged_id

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def has_room(self) -> bool:
        return len(self._waiting) < self.most

    @property
    def next_due(self) -> int | None:
        """The time at which the oldest is to be judged (µs); None if none waits."""
        return self._waiting[0].due if self._waiting else None

    def see(self, start: int, events: Sequence[WatchedEvent], through: int) -> None:
        """Take up the events of a trace after an id and through another, as far as there is room.

        Skips events that it has read already, and any behind an unread one.
        """
        if start > self.read_id:
            return
        for event in events:
            if event.id <= self.read_id:
                continue
            if self.picks(event):
                if not self.has_room:
                    return
                due = event.recorded_at + self.within
                self._waiting.append(Wait(event.id, event.recorded_at, due))
            self.read_id = event.id
        self.read_id = max(self.read_id, through)

    def due(self, settled: SettledPoint) -> list[Wait]:
        """The oldest events whose time is certainly over; some at a time."""
        waits: list[Wait] = []
        for wait in self._waiting:
            is_due = wait.id <= settled.event_id and wait.due <= settled.at
            if len(waits) == MOST_TOGETHER or not is_due:
                break
            waits.append(wait)
        return waits

    def judgement_bound(self, count: int) -> int:
        """The id up to which everything is judged once the ``count`` oldest are."""
        if len(self._waiting) > count:
            return max(self.judged_id, self._waiting[count].id - 1)
        return self.read_id

    def judge(self, count: int) -> None:
        """Drop the ``count`` oldest, which are judged and their outcomes stored."""
        self.judged_id = self.judgement_bound(count)
        for _ in range(count):
            self._waiting.popleft()
