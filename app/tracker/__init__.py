"""Participants, matching and stamping: pure, synchronous, no I/O.

`Tracker.apply` takes a `Publish` or a `Deliver` and returns stamped events.
"""

from app.tracker.events import (
    ChannelState,
    Checkpoint,
    Handover,
    ParticipantState,
    PendingCopy,
    Reference,
    RestorePoint,
    StampedEvent,
)
from app.tracker.identity import Identity, Policy, SharedPlaces
from app.tracker.quiet import Quiet
from app.tracker.rebuild import rebuilt
from app.tracker.records import Channel, Deliver, Publish, Record, Settlement, Unreadable
from app.tracker.tracker import Bounds, Counters, Totals, Tracker, UnreadableCheckpointError

__all__ = [
    "Bounds",
    "Channel",
    "ChannelState",
    "Checkpoint",
    "Counters",
    "Deliver",
    "Handover",
    "Identity",
    "ParticipantState",
    "PendingCopy",
    "Policy",
    "Publish",
    "Quiet",
    "Record",
    "Reference",
    "RestorePoint",
    "Settlement",
    "SharedPlaces",
    "StampedEvent",
    "Totals",
    "Tracker",
    "Unreadable",
    "UnreadableCheckpointError",
    "rebuilt",
]
