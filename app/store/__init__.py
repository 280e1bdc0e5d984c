"""The store: stamped events, checkpoints, gaps and jobs, on SQLite or PostgreSQL.

`Store` is the whole face; the other names are what goes in and comes out of it. `migrate` brings a
database's tables up to date before a store is opened.
"""

from app.job import Job, JobState, Progress
from app.store.batch import Batch
from app.store.causality import Walk
from app.store.deliveries import CopyState, Fate, QueueFate
from app.store.events import EVERYTHING, NOTHING_LARGE, EventRow, Wanted
from app.store.filters import EventFilter
from app.store.gaps import Gap
from app.store.migrate import SchemaState, migrate, schema_state
from app.store.participants import Participant, ParticipantChannel, VectorEntry
from app.store.quarantine import Quarantined
from app.store.queries import EventPage, Sort
from app.store.retention import PrunePlan
from app.store.store import Store
from app.store.traces import Trace

__all__ = [
    "EVERYTHING",
    "NOTHING_LARGE",
    "Batch",
    "CopyState",
    "EventFilter",
    "EventPage",
    "EventRow",
    "Fate",
    "Gap",
    "Job",
    "JobState",
    "Participant",
    "ParticipantChannel",
    "Progress",
    "PrunePlan",
    "Quarantined",
    "QueueFate",
    "SchemaState",
    "Sort",
    "Store",
    "Trace",
    "VectorEntry",
    "Walk",
    "Wanted",
    "migrate",
    "schema_state",
]
