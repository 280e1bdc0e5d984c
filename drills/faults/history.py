"""The clients' acts, in their own words: each event with a vector clock that they kept."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from drills.clocks import Clock
from model.words import EventType


class Key(NamedTuple):
    """An event as both the clients and the firehose name it.

    A publish is known by its message alone. A delivery needs its queue, and its connection: a
    message that comes back after a connection broke is another event.
    """

    type: EventType
    message: str
    queue: str = ""
    connection: str = ""

    def __str__(self) -> str:
        return f"{self.type.name} {self.message} {self.queue}".rstrip()


class Made(NamedTuple):
    """One event of a client's.

    ``who`` is one connection of a client: a new one is a new participant. ``seq`` counts its
    events from 1, and ``clock`` is the event's clock, its own count included.
    """

    key: Key
    who: str
    seq: int
    clock: Clock


class History:
    """All events of all clients.

    ``made`` has each connection's events in its own order. ``unsure`` are publishes that the
    broker never confirmed: they may have happened or not.
    """

    def __init__(self) -> None:
        self.made: defaultdict[str, list[Made]] = defaultdict(list)
        self.unsure: set[Key] = set()

    def __len__(self) -> int:
        """Count the events."""
        return sum(map(len, self.made.values()))

    def note(self, key: Key, who: str, clock: Clock) -> None:
        """Add an event; ``clock`` counts it."""
        self.made[who].append(Made(key, who, clock[who], dict(clock)))
