"""What retention is to remove."""

from __future__ import annotations

import msgspec

from app.tracker.events import ParticipantState


class PrunePlan(msgspec.Struct, frozen=True):
    """What to remove: the events of a trace before ``before_id``, recorded up to ``until`` (µs).

    ``participants`` are those that lose all their events and give back their interval.
    """

    trace_id: int
    before_id: int
    until: int
    events: int
    participants: list[ParticipantState]
