"""The reorder window: on a cluster a deliver can overtake its publish.

A delivery whose publish has not come yet is held, and with it everything later of the same
participant, whose own order is certain. It is released by the publish, or when it has waited for
the window's span, and is then unmatched. Held records are part of the checkpoint, so that their
trace messages can be acknowledged with the rest of their batch.
"""

from __future__ import annotations

from collections import deque

import msgspec

from app.tracker.records import Deliver, Publish


class Held(msgspec.Struct, frozen=True):
    """A record that waits, with the time it reached us (µs)."""

    record: Publish | Deliver
    at: int
    fingerprint: bytes


class ReorderWindow:
    """Waiting records by participant, bounded in time and in number."""

    def __init__(self, *, span: int, most: int) -> None:
        """Hold a record for ``span`` µs at most (0: never), and ``most`` records in all."""
        self.span = span
        self._most = most
        # In order of the heads' arrival, as a participant enters when its head does.
        self._queues: dict[str, deque[Held]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def blocks(self, name: str) -> bool:
        """Whether this participant waits, so that its next record must wait behind."""
        return name in self._queues

    def waiting(self) -> list[str]:
        """Return the participants that wait."""
        return list(self._queues)

    def hold(self, name: str, held: Held) -> None:
        """Let a record wait behind what its participant has waiting."""
        self._queues.setdefault(name, deque()).append(held)
        self._count += 1

    def head(self, name: str) -> Held | None:
        """Return the record that a participant waits with."""
        queue = self._queues.get(name)
        return queue[0] if queue else None

    def release(self, name: str) -> Held:
        """Take a participant's head out; its next record now waits as head, at the end."""
        queue = self._queues.pop(name)
        held = queue.popleft()
        self._count -= 1
        if queue:
            self._queues[name] = queue
        return held

    def overdue(self, now: int) -> str | None:
        """Return a participant whose head must go: it has waited too long, or too many are held."""
        for name, queue in self._queues.items():
            if now - queue[0].at >= self.span or self._count > self._most:
                return name
        return None

    def records(self) -> list[Held]:
        """Return all that waits, each participant's in order."""
        return [held for queue in self._queues.values() for held in queue]
