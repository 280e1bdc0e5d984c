"""Events per second over the last seconds."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

SPAN_SECONDS = 10.0


class Rate:
    """Counts things in a sliding window, in the time of the given clock (seconds)."""

    def __init__(self, clock: Callable[[], float], span: float = SPAN_SECONDS) -> None:
        self._clock = clock
        self._span = span
        self._counts: deque[tuple[float, int]] = deque()
        self._sum = 0

    def add(self, count: int) -> None:
        """Count things that happened now."""
        self._counts.append((self._clock(), count))
        self._sum += count
        self._forget()

    def per_second(self) -> float:
        """The mean rate over the span."""
        self._forget()
        return self._sum / self._span

    def _forget(self) -> None:
        horizon = self._clock() - self._span
        while self._counts and self._counts[0][0] < horizon:
            self._sum -= self._counts.popleft()[1]
