"""What retention would remove."""

from __future__ import annotations

import msgspec

from app.tracker.events import ParticipantState


class PrunePlan(msgspec.Struct, frozen=True):
    """What would go: the events of a trace before ``before_id``, recorded up to ``until`` (µs).

    ``participants`` are those all of whose events go, and who give their interval back.
    """

    trace_id: int
    before_id: int
    until: int
    events: int
    participants: list[ParticipantState]
