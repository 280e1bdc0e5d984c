"""The tracker's own time, which a step of the system's clock does not move.

Ages are told by it: how long a delivery waits for its publish, how long a copy waits to be handed
over. It follows the times at which we are called, but for what nobody can have waited: a clock that
is set forward by a day would have forgotten every waiting copy. While the service is away it
stands still, since nothing can come then either.
"""

from __future__ import annotations

# The tracker is called every fifth of a second, or little later, unless the store is slow.
MOST_STEP = 500_000
# Times of arrival go back a little behind the last call; further back the clock was set back.
MOST_BACK = 10_000_000


class SteadyTime:
    """A time in µs that never goes back; it starts with the clock's."""

    def __init__(self, time: int = 0, clock: int = 0) -> None:
        """Go on from ``time``, when the clock was last heard of; 0 if there is no such time yet."""
        self.time = time
        self.clock = clock

    def hear(self, clock: int) -> None:
        """Take note of the system's clock."""
        if not self.clock:
            self.clock, self.time = clock, self.time or clock
        elif clock > self.clock:
            step = clock - self.clock
            self.time += step if step < MOST_STEP else MOST_STEP
            self.clock = clock
        elif clock < self.clock - MOST_BACK:
            self.clock = clock
