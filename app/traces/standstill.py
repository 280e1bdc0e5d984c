"""Suspects a loss wherever this process stood still.

Marks show what the trace queue lost as long as somebody publishes them. While the process is
stopped, swapped out or starved, nobody does: a purge in that time, or messages that expired, would
leave no trace of themselves until the audit has a quiet moment.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from app.errors import OutageError
from app.traces.gapwatch import GapWatch
from app.traces.recorder import Recorder

if TYPE_CHECKING:
    from app.broker.source import Stream

TICK_SECONDS = 0.5
# A loop under load may be late by less.
STILL_SECONDS = 2.0
# Traffic this long before makes it likely that there was some meanwhile. Where there was none, the
# audit knows both sides, and proves any loss.
TRAFFIC_SECONDS = 5.0
STOOD_STILL = (
    "the service stood still for some seconds: what the trace queue may have lost meanwhile, "
    "purged or expired, cannot be told"
)


def _elapsed() -> float:
    """Seconds, with those in which the machine was suspended."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


async def suspect_standstills(
    gaps: GapWatch, recorder: Recorder, stream: Stream, clock: Callable[[], float] = _elapsed
) -> None:
    """Notice that the event loop stood still, during one run; ends only by a failure."""
    seen, traffic_at = recorder.traffic, -TRAFFIC_SECONDS
    while True:
        here, began = gaps.here, clock()
        if recorder.traffic != seen:
            seen, traffic_at = recorder.traffic, began
        await asyncio.sleep(TICK_SECONDS)
        is_late = clock() - began > TICK_SECONDS + STILL_SECONDS
        if is_late and began - traffic_at < TRAFFIC_SECONDS:
            with contextlib.suppress(OutageError):  # then the next run sees what is gone
                queued = await stream.queued()
                gaps.suspect(STOOD_STILL, queued, here.event_id)
                await gaps.write()
