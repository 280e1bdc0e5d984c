"""Counts how long messages wait and are handled, from what is stored, beside capture.

Several services on one database count those traces that they run, and those that none does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.background import Lookout
from app.watch.looking import MOST_LAG

if TYPE_CHECKING:
    from app.store.watch.durations import Durations
    from app.traces.here import TracesHere

TOGETHER = 2_000
"""Events that are counted in one transaction."""


@dataclass(eq=False)
class DurationWatch(Lookout):
    """The task that counts; what is new when it ends is counted when it starts again."""

    task_name = "counting durations"
    look_seconds = 5.0
    pause_seconds = 10.0

    durations: Durations
    traces: TracesHere

    async def look(self) -> bool:
        """Count the next events of the traces that are furthest behind; whether there may be more.

        None while capture lags.
        """
        here = self.traces.snapshots()
        if any((each.lag or 0) > MOST_LAG for each in here.values()):
            return False
        portions, left = [], TOGETHER
        for place in await self.durations.behind(here):
            portions.append(await self.durations.next(place, left))
            left -= portions[-1].events
            if left <= 0:
                break
        if portions:
            await self.durations.count(portions)
        return left <= 0
