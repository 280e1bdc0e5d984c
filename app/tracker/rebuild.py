"""A tracker's checkpoint made anew, where the stored one cannot be read.

The state holds little that is not stored elsewhere: participants and their intervals, channels and
copies are rows. So the trace goes on where it was, its participants keep their clocks, and no new
one gets an interval that an old one has. What stood in the state alone is `LOST`.
"""

from __future__ import annotations

from collections.abc import Iterable

from app.tracker.events import RestorePoint
from app.tracker.tracker import Counters, Totals, TrackerState, encode_state
from itc import IdPool

# How far the numbers of new participants are from those that are known: others, whose events are
# archived and gone from here, may have had the next ones.
NUMBERS_APART = 1_000_000
LOST = "deliveries that waited for their publish, and all counters"


def rebuilt(restored: RestorePoint) -> bytes:
    """A state that a tracker can go on from."""
    participants = [state for state, _, _ in restored.participants]
    # No stored clock is above the join of all last ones, so nothing is higher than this anywhere.
    height = max((stamp.greatest_height for _, stamp, _ in restored.participants), default=0)
    state = TrackerState(
        pool=IdPool.around([each.interval for each in participants], height).dump(),
        next_participant=_apart(each.number for each in participants),
        next_channel_key=_apart(channel.key for channel in restored.channels),
        next_copy=_apart(copy.number for copy in restored.copies),
        totals=Totals(Counters(), len(participants), len(restored.copies)),
        held=[],
        # The tracker's time is that of what it holds last.
        time=max((copy.recorded_at for copy in restored.copies), default=0),
        heard=0,
    )
    return encode_state(state)


def _apart(numbers: Iterable[int]) -> int:
    greatest = max(numbers, default=0)
    return greatest + NUMBERS_APART if greatest else 1
