"""The types of `_copies.pyx`."""

from typing import Any, Self, TypeAlias

from app.tracker._memories import KeyedFifo
from app.tracker.events import Influence, LostCopy, PendingCopy, Reference
from app.tracker.matching.equals import EqualCopies
from app.tracker.matching.queues import Queues
from app.tracker.records import Deliver, Publish
from app.tracker.taken import Takes

NOBODYS: Reference

_Place: TypeAlias = tuple[str, bytes]  # queue, fingerprint

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
