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

TOGETHER, MOST_TRACES = 4_000, 10
"""Events of a trace, and traces, that are counted in one transaction."""


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
        behind = await self.durations.behind(here)
        portions = [await self.durations.next(each, TOGETHER) for each in behind[:MOST_TRACES]]
        if portions:
            await self.durations.count(portions)
        return len(behind) > MOST_TRACES or not all(each.is_whole for each in portions)
