"""Steady time: the tracker's own, which a step of the system's clock does not move.

Ages are measured by it: how long a delivery waits for its publish, a copy for its delivery. It
follows the times of arrival, in steps of bounded length: a clock that is set forward by a day would
drop every waiting copy. While the service is away it stands still, since nothing can come then.
"""

from __future__ import annotations

# The tracker is called every fifth of a second, or little later, unless the store is slow.
MOST_STEP = 500_000
# Times of arrival go back a little; further back the clock was set back.
MOST_BACK = 10_000_000


class SteadyTime:
    """A time in µs that never goes back; it starts with the clock's."""

    def __init__(self, time: int = 0, clock: int = 0) -> None:
        """Go on from ``time`` and the ``clock`` at that time; 0 if there is none yet."""
        self.time = time
        self.clock = clock

    def hear(self, clock: int) -> None:
        if not self.clock:
            self.clock, self.time = clock, self.time or clock
        elif clock > self.clock:
            step = clock - self.clock
            self.time += step if step < MOST_STEP else MOST_STEP
            self.clock = clock
        elif clock < self.clock - MOST_BACK:
            self.clock = clock
