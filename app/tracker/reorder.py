"""The reorder window: on a cluster a deliver can overtake its publish.

A delivery whose publish has not come yet is held, and with it everything later of the same
participant, whose own order is certain. It is released by the publish, or when it has waited for
the window's span, and is then unmatched. Held records are part of the checkpoint, so that their
trace messages can be acknowledged with the rest of their batch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from heapq import heapify, heappop, heappush
from typing import TypeAlias

import msgspec

from app.tracker.records import Deliver, Publish

Place: TypeAlias = tuple[str, bytes]  # a queue, and a fingerprint there


class Held(msgspec.Struct, frozen=True):
    """A record that waits, with the time it reached us (µs)."""

    record: Publish | Deliver
    at: int
    fingerprint: bytes


class ReorderWindow:
    """Waiting records by participant, bounded in time and in number.

    What an arrival takes does not grow with the number of those that wait: heads are found by what
    they wait for, and by their age.
    """

    def __init__(self, *, span: int, most: int) -> None:
        """Hold a record for ``span`` µs at most (0: never), and ``most`` records in all."""
        self.span = span
        self._most = most
        self._queues: dict[str, deque[Held]] = {}
        self._count = 0
        self._entries = 0
        # Of each head: when it arrived, the how manieth head it is, and its participant. Those of
        # heads that are gone are dropped when they come up.
        self._ages: list[tuple[int, int, str]] = []
        self._heads: dict[str, int] = {}
        # Which heads a place may release, in the order in which they began to wait.
        self._awaiting: dict[Place, dict[str, None]] = {}
        self._awaited: dict[str, Sequence[Place]] = {}

    def __len__(self) -> int:
        return self._count

    def blocks(self, name: str) -> bool:
        """Whether this participant waits, so that its next record must wait behind."""
        return name in self._queues

    def waiting(self) -> list[str]:
        """Return the participants that wait."""
        return list(self._queues)

    def awaiting(self, places: Iterable[Place]) -> list[str]:
        """Return the participants whose heads may go on now that something came to these places."""
        return [name for place in places for name in self._awaiting.get(place, ())]

    def hold(self, name: str, held: Held) -> None:
        """Let a record wait behind what its participant has waiting."""
        queue = self._queues.setdefault(name, deque())
        queue.append(held)
        self._count += 1
        if len(queue) == 1:
            self._enter(name, held)

    def await_places(self, name: str, places: Callable[[], Sequence[Place]]) -> None:
        """Note where something has to come before a participant's head can go on; once a head."""
        if name in self._awaited:
            return
        self._awaited[name] = places()
        for place in self._awaited[name]:
            self._awaiting.setdefault(place, {})[name] = None

    def head(self, name: str) -> Held | None:
        """Return the record that a participant waits with."""
        queue = self._queues.get(name)
        return queue[0] if queue else None

    def release(self, name: str) -> Held:
        """Take a participant's head out; its next record now waits as head, at the end."""
        queue = self._queues.pop(name)
        held = queue.popleft()
        self._count -= 1
        del self._heads[name]
        for place in self._awaited.pop(name, ()):
            names = self._awaiting[place]
            names.pop(name, None)
            if not names:
                del self._awaiting[place]
        if queue:
            self._queues[name] = queue
            self._enter(name, queue[0])
        return held

    def overdue(self, now: int) -> str | None:
        """Return a participant whose head must go: it has waited too long, or too many are held."""
        while self._ages:
            at, entry, name = self._ages[0]
            if self._heads.get(name) != entry:
                heappop(self._ages)
            elif now - at >= self.span or self._count > self._most:
                return name
            else:
                return None
        return None

    def records(self) -> list[Held]:
        """Return all that waits, each participant's in order."""
        return [held for queue in self._queues.values() for held in queue]

    def _enter(self, name: str, head: Held) -> None:
        self._entries += 1
        self._heads[name] = self._entries
        heappush(self._ages, (head.at, self._entries, name))
        if len(self._ages) > 2 * len(self._heads) + 100:  # mostly of heads that are gone
            self._ages = [age for age in self._ages if self._heads.get(age[2]) == age[1]]
            heapify(self._ages)
