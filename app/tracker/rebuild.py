"""A tracker's checkpoint made anew, where the stored one cannot be read, or led to failures.

The state holds little that is not stored elsewhere: participants and their intervals, channels and
copies are rows. So the trace goes on where it was, its participants keep their clocks, and no new
one gets an interval that an old one has. What is lost is what stood in the state alone.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from app.tracker.events import RestorePoint
from app.tracker.tracker import Counters, Totals, TrackerState, encode_state
from itc import IdPool
from itc.errors import ClockError

# How far the numbers of new participants are from those that are known: others, whose events are
# archived and gone from here, may have had the next ones.
NUMBERS_APART = 1_000_000


class _Readable(msgspec.Struct):
    """The part of a state that can be read, or made of rows, though waiting records cannot."""

    pool: bytes
    next_participant: int
    next_channel_key: int
    next_copy: int
    totals: Totals


def rebuilt(restored: RestorePoint, *, without_copies: bool = False) -> tuple[bytes, str]:
    """A state that a tracker can go on from, and in words what is lost.

    ``without_copies``: those that wait, and what consumers hold, are lost too.
    """
    try:
        known, also = msgspec.msgpack.decode(restored.state, type=_Readable), ""
        IdPool.load(known.pool)
    except (msgspec.MsgspecError, ClockError):
        known, also = _from_rows(restored), ", and all counters"
    if without_copies:
        known.totals.counters.copies_dropped += len(restored.copies)
        also = f", what waits in queues, what consumers hold{also}"
    # The tracker's time is that of what it holds last.
    time = max((copy.recorded_at for copy in restored.copies), default=0)
    state = TrackerState(
        **msgspec.structs.asdict(known),
        held=[],
        time=time,
        heard=0,
        kept=len(restored.kept) + 1,  # others may have been kept, and are not known
    )
    return encode_state(state), f"deliveries that waited for their publish{also}"


def _from_rows(restored: RestorePoint) -> _Readable:
    participants = [state for state, _, _ in restored.participants]
    # No stored clock is above the join of all last ones, so nothing is higher than this anywhere.
    height = max((stamp.greatest_height for _, stamp, _ in restored.participants), default=0)
    pool = IdPool.around([state.interval for state in participants], height)
    return _Readable(
        pool=pool.dump(),
        next_participant=_apart(state.number for state in participants),
        next_channel_key=_apart(channel.key for channel in restored.channels),
        next_copy=_apart(copy.number for copy in restored.copies),
        totals=Totals(Counters(), len(participants), len(restored.copies)),
    )


def _apart(numbers: Iterable[int]) -> int:
    greatest = max(numbers, default=0)
    return greatest + NUMBERS_APART if greatest else 1
