"""Participants, matching and stamping: pure, synchronous, no I/O.

`Tracker.apply` takes a `Publish` or a `Deliver` and returns stamped events.
"""

from app.tracker.events import Checkpoint, RestorePoint, StampedEvent
from app.tracker.identity import Policy, SharedPlaces
from app.tracker.quiet import Quiet
from app.tracker.records import (
    NOWHERE,
    Channel,
    Deliver,
    Publish,
    Record,
    Settlement,
    Unreadable,
)
from app.tracker.tracker import Bounds, Counters, Totals, Tracker, UnreadableCheckpointError

__all__ = [
    "NOWHERE",
    "Bounds",
    "Channel",
    "Checkpoint",
    "Counters",
    "Deliver",
    "Policy",
    "Publish",
    "Quiet",
    "Record",
    "RestorePoint",
    "Settlement",
    "SharedPlaces",
    "StampedEvent",
    "Totals",
    "Tracker",
    "Unreadable",
    "UnreadableCheckpointError",
]
