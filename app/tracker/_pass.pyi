"""The types of `_pass.pyx`."""

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self, TypeAlias

from app.tracker._memories import KeyedFifo
from app.tracker.events import (
    Edge,
    Influence,
    LostCopy,
    NamedEvent,
    PendingCopy,
    Reference,
    StampedEvent,
)
from app.tracker.links.linker import Linker
from app.tracker.links.names import Key, Names
from app.tracker.matching.equals import EqualCopies
from app.tracker.matching.matcher import Matcher
from app.tracker.matching.queues import Queues
from app.tracker.participants import LiveParticipant, Neighbours, ParticipantRegistry
from app.tracker.quiet import Quiet
from app.tracker.records import Channel, Deliver, Publish, Record
from app.tracker.reorder import ReorderWindow
from app.tracker.replies import Replies
from app.tracker.settlements import Settlements
from app.tracker.suspicion import Suspicion
from app.tracker.taken import Takes
from app.tracker.tracker import Counters
from itc import Stamp
from model.words import Awareness

MOST_STEP: int
SETTLED: int
NOBODYS: Reference

_Place: TypeAlias = tuple[str, bytes]  # queue, fingerprint

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

class Actor:
    number: int
    seq: int
    published: int
    lamport: int
    reactions: int
    stamp: Stamp
    height: int
    last: Reference | None
    ground: Stamp | None
    neighbours: Neighbours
    may_move: bool
    @property
    def reacts(self) -> bool: ...

class Actors:
    _by_channel: dict[Channel, tuple[int, LiveParticipant]]
    _actors: dict[int, LiveParticipant]
    _ground: Stamp
    def actor(self, channel: Channel) -> tuple[int, LiveParticipant]: ...

class NamedEvents:
    _events: KeyedFifo[Key, NamedEvent]
    _pending: list[NamedEvent]
    _limit: int
    _at_once: int
    _look_back: int
    def note(self, event: NamedEvent) -> None: ...
    def _take_in(self) -> None: ...

class QueueTrail:
    pushers: dict[int, int]
    letters_of: set[str]
    newest: int
    previous: int
    length: int
    handed: int
    has_handed: bool
    is_refilled: bool
    is_crowded: bool
    def __init__(self, is_crowded: bool) -> None: ...
    def push(self, number: int, participant: int) -> None: ...

class Copies:
    waiting: KeyedFifo[_Place, PendingCopy]
    equals: EqualCopies
    newly_lost: list[LostCopy]
    next_number: int
    dropped: int
    _most: int
    _queues: Queues
    _takes: Takes
    def __init__(self, most: int, age: int, queues: Queues, takes: Takes) -> None: ...
    def number_from(self, number: int) -> None: ...
    def add(
        self, publish: Publish, mark: bytes, cause: Reference, participant: int, moment: int
    ) -> None: ...
    def take(self, key: _Place, deliver: Deliver | None = None) -> PendingCopy | None: ...
    def _note_leaving(self, copy: PendingCopy) -> QueueTrail | None: ...
    def changes(self) -> tuple[list[PendingCopy], list[int], list[LostCopy]]: ...

class Hold:
    cause: Reference
    candidates: int | None
    delivery: Reference | None
    participant: int
    death: Any
    has_brought: bool
    influences: tuple[Influence, ...]
    is_doubtful: bool
    def __init__(
        self,
        cause: Reference,
        candidates: int | None = None,
        delivery: Reference | None = None,
        participant: int = 0,
        death: Any = None,
        has_brought: bool = False,
        influences: tuple[Influence, ...] = (),
        is_doubtful: bool = False,
    ) -> None: ...

class Holds:
    most: int
    next: Hold
    _holds: KeyedFifo[_Place, Hold]
    def __new__(cls, most: int) -> Self: ...
    def __len__(self) -> int: ...
    def __contains__(self, key: _Place) -> bool: ...
    def add(self, key: _Place, hold: Hold) -> None: ...
    def note(self, queue: str, mark: bytes, delivery: Reference, participant: int) -> None: ...

class Steps:
    def __init__(self, participants: ParticipantRegistry, linker: Linker) -> None: ...
    def take(
        self,
        channel_key: int,
        participant: LiveParticipant,
        record: Record,
        names: Names,
        joins: Sequence[Reference],
        message: Reference | int | None,
        quiet: bool,
        ways: Sequence[Awareness] = (),
        influences: Sequence[Influence] = (),
    ) -> tuple[Reference, Names, tuple[Edge, ...]]: ...

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
