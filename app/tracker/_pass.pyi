"""The types of `_pass.pyx`."""

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any

from app.tracker.events import Reference, StampedEvent
from app.tracker.links.linker import Linker
from app.tracker.links.names import Names
from app.tracker.matching.matcher import Matcher
from app.tracker.participants import ParticipantRegistry
from app.tracker.quiet import Quiet
from app.tracker.records import Record
from app.tracker.reorder import ReorderWindow
from app.tracker.replies import Replies
from app.tracker.settlements import Settlements
from app.tracker.suspicion import Suspicion
from app.tracker.taken import Takes
from app.tracker.tracker import Counters

MOST_STEP: int
SETTLED: int

class QuietNames:
    patterns: tuple[str, ...]
    _exchanges: Mapping[str, bool]
    _queues: Mapping[str, bool]
    def covers(self, record: Record) -> bool: ...

class SteadyTime:
    time: int
    clock: int
    def __init__(self, time: int = 0, clock: int = 0) -> None: ...
    def hear(self, clock: int) -> None: ...

class QueueTally:
    matched_at: int
    settled_at: int
    matched: int
    unmatched: int
    cause: Reference
    settled: Reference | None
    def __init__(self, matched_at: int, cause: Reference, matched: int = 1) -> None: ...

class Matches:
    start: int | None
    _queues: OrderedDict[str, QueueTally]

class Stamping:
    counters: Counters
    settlements: Settlements
    participants: ParticipantRegistry
    _linker: Linker
    _matcher: Matcher
    _omissions: list[Any]
    _quiet: Quiet
    _replies: Replies
    _steps: Any
    _suspicion: Suspicion
    _takes: Takes
    _time: SteadyTime
    _unread: dict[str, int]
    _window: ReorderWindow
    def steps(self, record: Record, moment: int) -> Iterable[StampedEvent]: ...
    def _stamp(
        self, record: Record, moment: int, mark: bytes, names: Names | None
    ) -> StampedEvent: ...
