"""Counts how long messages wait and are handled, from what is stored, beside capture.

Several services on one database count those traces that they run, and those that none does.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from app.background import Lookout
from app.watch.looking import MOST_LAG

if TYPE_CHECKING:
    from app.store.watch.durations import Durations
    from app.traces.here import TracesHere

TOGETHER = 4_000
"""Events of a trace that are counted in one transaction."""

FORGETTING_SECONDS = 3_600.0


@dataclass(eq=False)
class DurationWatch(Lookout):
    """The task that counts; what is new when it ends is counted when it starts again."""

    task_name = "counting durations"
    look_seconds = 5.0
    pause_seconds = 10.0

    durations: Durations
    traces: TracesHere
    timer: Callable[[], float] = time.monotonic
    _next_forgetting: float = field(default=0.0, init=False)

    async def look(self) -> bool:
        """Count the next events of each trace; whether one of them has more.

        While capture lags it counts none.
        """
        now, goes_on = self.timer(), False
        if now >= self._next_forgetting:
            await self.durations.forget()
            self._next_forgetting = now + FORGETTING_SECONDS
        for place in await self.durations.behind(self.traces.snapshots()):
            if any((each.lag or 0) > MOST_LAG for each in self.traces.snapshots().values()):
                return False
            portion = await self.durations.next(place, TOGETHER)
            await self.durations.count(portion)
            goes_on |= not portion.is_whole
        return goes_on
