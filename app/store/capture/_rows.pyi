"""The types of `_rows.pyx`."""

from collections.abc import Iterable

from app.store.capture.rows import Row
from app.store.capture.settlements import Settled
from app.store.database.engine import Dialect
from app.tracker.events import StampedEvent

def event_rows(
    dialect: Dialect,
    trace_id: int,
    events: Iterable[StampedEvent],
    body_bytes: int,
    settled: Settled,
) -> list[Row]: ...
def key_rows(trace_id: int, events: Iterable[StampedEvent]) -> list[Row]: ...
