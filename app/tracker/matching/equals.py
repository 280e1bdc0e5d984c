"""Equal copies in a queue: whoever is handed one may be handed any."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from app.tracker._memories import KeyedFifo
from app.tracker.events import Influence, PendingCopy
from app.tracker.fingerprint import BYTES
from app.tracker.matching.holds import MOST_CANDIDATES, Influences, Key
from model.words import EdgeKind

_CANDIDATE = EdgeKind.candidate


class _Newest(msgspec.Struct, gc=False):
    """Each publisher's newest of equal copies; ``is_more``: some publishers are left out."""

    copies: dict[int, PendingCopy]
    is_more: bool = False

    def add(self, copy: PendingCopy) -> None:
        copies = self.copies
        copies.pop(copy.participant, None)
        copies[copy.participant] = copy
        if len(copies) > MOST_CANDIDATES:
            del copies[next(iter(copies))]
            self.is_more = True


class EqualCopies:
    """The newest copies where several wait that are equal in their first half."""

    def __init__(self, waiting: KeyedFifo[Key, PendingCopy]) -> None:
        self._waiting = waiting
        self.newest: dict[Key, _Newest] = {}

    def note(self, copy: PendingCopy) -> None:
        """Note the publisher of a copy that has come to equal ones."""
        key = (copy.queue, copy.fingerprint[:BYTES])
        equals = self.newest.get(key)
        if equals is None:
            newest = self._waiting.newest(key, 2)
            if len(newest) < 2:  # it is only in another half that it is equal
                return
            equals = self.newest[key] = _Newest({})
            equals.add(newest[1])
        equals.add(copy)

    def note_leaving(self, copy: PendingCopy) -> None:
        key = (copy.queue, copy.fingerprint[:BYTES])
        if key in self.newest and self._waiting.count(key) < 2:
            del self.newest[key]

    def candidates(self, key: Key) -> tuple[list[PendingCopy], int, bool]:
        """Each publisher's newest; how many there are; whether others publish."""
        waiting, count = self._waiting, self._waiting.count(key)
        equals = self.newest.get(key)
        if equals is None:
            return waiting.newest(key, 1), count, False
        newest = [copy for copy in equals.copies.values() if waiting.get(copy.number) is copy]
        return newest, count, equals.is_more


def candidates_of(copies: Iterable[PendingCopy]) -> Influences:
    return tuple(Influence(_CANDIDATE, copy.cause, copy.participant, False) for copy in copies)
