"""A new checkpoint for a tracker whose stored one cannot be read, or led to failures.

The state holds little that is not stored elsewhere: participants and their intervals, channels and
copies are rows. So the trace goes on where it was, its participants keep their clocks, and no new
one gets an interval that an old one has. Only what the state alone held is lost.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from app.tracker.events import RestorePoint
from app.tracker.tracker import Counters, Totals, TrackerState, encode_state
from itc import IdPool
from itc.errors import ClockError

# Distance between the numbers of new participants and the known ones: others, whose events are
# archived and gone from here, may have had the next ones.
NUMBER_DISTANCE = 1_000_000


class _Readable(msgspec.Struct):
    """The part of a state that is readable, or made of rows, though waiting records are not."""

    pool: bytes
    next_participant: int
    next_channel_key: int
    next_copy: int
    totals: Totals


def rebuilt(restored: RestorePoint, *, without_copies: bool = False) -> tuple[bytes, str]:
    """A state that a tracker can go on from, and the losses in words.

    ``without_copies`` drops the copies that wait or are in consumers' hands.
    """
    try:
        readable, losses = msgspec.msgpack.decode(restored.state, type=_Readable), ""
        IdPool.load(readable.pool)
    except (msgspec.MsgspecError, ClockError):
        readable, losses = _from_rows(restored), ", and all counters"
    if without_copies:
        readable.totals.counters.copies_dropped += len(restored.copies)
        losses = f", copies that wait in queues or that consumers hold{losses}"
    # The tracker's time is that of its newest copy.
    time = max((copy.recorded_at for copy in restored.copies), default=0)
    state = TrackerState(
        **msgspec.structs.asdict(readable),
        held=[],
        time=time,
        heard=0,
        kept=len(restored.publishes) + 1,  # others may have been kept, and are not known
    )
    return encode_state(state), f"deliveries that waited for their publish{losses}"


def _from_rows(restored: RestorePoint) -> _Readable:
    participants = [state for state, _, _ in restored.participants]
    # No stored clock is above the join of all last ones, so nothing is higher than this anywhere.
    height = max((stamp.greatest_height for _, stamp, _ in restored.participants), default=0)
    pool = IdPool.from_dealt([state.interval for state in participants], height)
    return _Readable(
        pool=pool.dump(),
        next_participant=_distant(state.number for state in participants),
        next_channel_key=_distant(channel.key for channel in restored.channels),
        next_copy=_distant(copy.number for copy in restored.copies),
        totals=Totals(Counters(), len(participants), len(restored.copies)),
    )


def _distant(numbers: Iterable[int]) -> int:
    greatest = max(numbers, default=0)
    return greatest + NUMBER_DISTANCE if greatest else 1
