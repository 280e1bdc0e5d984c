"""A trace queue in a few lines: prefetch, acknowledgements that are late, a limit, and cuts."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field


@dataclass
class TraceQueue:
    """Messages are numbers, in the order in which they were published.

    ``most`` bounds what is ready; the head makes room, as `drop-head` has it. What was put back
    goes over that bound until the next publish.
    """

    prefetch: int
    most: int
    ready: deque[tuple[int, bool]] = field(default_factory=deque)
    unacknowledged: deque[tuple[int, int]] = field(default_factory=deque)  # tag, message
    acks: deque[int] = field(default_factory=deque)  # on their way
    dropped: list[int] = field(default_factory=list)
    published: int = 0
    taken: int = 0  # the last acknowledgement that has arrived
    _tag: int = 0

    def publish(self, count: int) -> None:
        for _ in range(count):
            self.ready.append((self.published, False))
            self.published += 1
            while len(self.ready) > self.most:
                self.dropped.append(self.ready.popleft()[0])

    def deliver(self, most: int) -> list[tuple[int, int, bool]]:
        """Hand over up to this many, as (tag, message, redelivered)."""
        handed = []
        while self.ready and len(self.unacknowledged) < self.prefetch and len(handed) < most:
            message, redelivered = self.ready.popleft()
            self._tag += 1
            self.unacknowledged.append((self._tag, message))
            handed.append((self._tag, message, redelivered))
        return handed

    def arrive(self, count: int) -> None:
        """Let this many acknowledgements arrive."""
        for _ in range(min(count, len(self.acks))):
            self.taken = self.acks.popleft()
            while self.unacknowledged and self.unacknowledged[0][0] <= self.taken:
                self.unacknowledged.popleft()

    def cut(self) -> None:
        """End the connection: what is on its way is lost, what is unacknowledged is put back."""
        self.acks.clear()
        self.ready.extendleft((message, True) for _, message in reversed(self.unacknowledged))
        self.unacknowledged.clear()
        self._tag = self.taken = 0
