"""The reorder window: on a cluster a deliver can overtake its publish.

A delivery whose publish has not come yet is held, and with it everything later of the same
participant, whose own order is certain. It is released by the publish, or when it has waited for
the window's span, and is then unmatched. Held records are part of the checkpoint, so that their
trace messages can be acknowledged with the rest of their batch.

A publish that is held itself is not missing: a delivery whose publish waits behind another delivery
waits as long as that one, whatever its own age. So the first to go is always one whose publish has
not come, unless more than `MOST_STEPS` wait for each other in a row. Only records that wait for
each other in a circle go by age alone; a broker's history has no circles, but equal messages can
make them.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from heapq import heapify, heappop, heappush, heapreplace
from itertools import islice
from typing import TypeAlias

import msgspec

from app.tracker.fingerprint import fingerprint_halves
from app.tracker.links.names import NO_NAMES, Key, Names
from app.tracker.records import Deliver, Publish, Settlement, Unreadable

# Heads that are woken, the oldest first, when a record has come that they all wait for. The others
# go when more comes, or when they are overdue.
WOKEN = 8
# Heads that are followed from one to the next before one must go.
MOST_STEPS = 32

# A queue, a fingerprint there, and whether it is of a handover, not of a copy. Or no queue, and a
# key by which a delivery can be named.
WaitKey: TypeAlias = tuple[str, bytes, bool]


class WaitingRecord(msgspec.Struct, frozen=True):
    """A record that waits, with the time it reached us (µs).

    ``since`` is the same in the tracker's own time, by which it waits.
    """

    record: Publish | Deliver | Settlement | Unreadable
    at: int
    fingerprint: bytes
    since: int = 0
    names: Names = NO_NAMES

    def brings(self) -> list[WaitKey]:
        """The places by which it will end another record's wait."""
        record = self.record
        return wait_keys_of(record, self.fingerprint, self.names) if record.is_event else []


def wait_keys_of(record: Publish | Deliver, mark: bytes, names: Names) -> list[WaitKey]:
    """The places of a record's copies, or of its handover if it is matched, and of its names."""
    name_places = map(wait_key_of_name, names.ids)
    if isinstance(record, Publish):
        marks = fingerprint_halves(mark)
        return [
            *((queue, half, False) for queue in record.routed_queues for half in marks),
            *name_places,
        ]
    return [(record.queue, handover_of(mark), True), *name_places]


def handover_of(mark: bytes) -> bytes:
    """The mark that a delivery is remembered by: its offset in a stream, else the message."""
    return fingerprint_halves(mark)[-1]


def wait_key_of_name(key: Key) -> WaitKey:
    """The place of an event that a publish names by a key."""
    return _BY_NAME, key, True


_BY_NAME = ""  # no queue is called so


class ReorderWindow:
    """Waiting records by participant, bounded in time and in number.

    An arrival's work does not grow with their number: heads are found by the places that they wait
    for, and by their age, and a few of them are woken.
    """

    def __init__(self, *, span: int, limit: int) -> None:
        """Hold a record for ``span`` µs at most (0: never), and ``limit`` records in all."""
        self.span = span
        self._limit = limit
        self._queues: dict[str, deque[WaitingRecord]] = {}
        self.count = 0  # asked for each record, so no call
        self.connections: Counter[str] = Counter()  # of waiting records
        self._entries = 0
        # Each head's start of its wait, or of its holder's; its number; its participant. Entries of
        # heads that are gone are dropped when they come up.
        self._ages: list[tuple[int, int, str]] = []
        self._heads: dict[str, int] = {}
        # Heads that a place may release, the oldest first.
        self._awaiting: dict[WaitKey, dict[str, None]] = {}
        self._awaited: dict[str, Sequence[WaitKey]] = {}
        # Numbers of waiting records by place and participant.
        self._suppliers: dict[WaitKey, dict[str, int]] = {}

    def __len__(self) -> int:
        return self.count

    def blocks(self, name: str) -> bool:
        """Tell whether a participant waits, so that its next record must wait behind."""
        return name in self._queues

    def names(self) -> list[str]:
        return list(self._queues)

    def participants_waiting(self, places: Iterable[WaitKey]) -> list[str]:
        """The participants whose heads wait for one of these places, a few of each."""
        awaiting = self._awaiting
        names_by_place = (islice(awaiting[place], WOKEN) for place in places if place in awaiting)
        return [*dict.fromkeys(name for names in names_by_place for name in names)]

    def hold(self, name: str, record: WaitingRecord) -> None:
        """Let a record wait behind its participant's others."""
        queue = self._queues.setdefault(name, deque())
        queue.append(record)
        self.count += 1
        self.connections[record.record.channel.connection] += 1
        for place in record.brings():
            names = self._suppliers.setdefault(place, {})
            names[name] = names.get(name, 0) + 1
        if len(queue) == 1:
            self._enter(name, record)

    def await_keys(self, name: str, places: Callable[[], Sequence[WaitKey]]) -> None:
        """Note the places that a participant's head waits for; once a head."""
        if name in self._awaited:
            return
        self._awaited[name] = places()
        for place in self._awaited[name]:
            self._awaiting.setdefault(place, {})[name] = None

    def head(self, name: str) -> WaitingRecord | None:
        queue = self._queues.get(name)
        return queue[0] if queue else None

    def release(self, name: str) -> WaitingRecord:
        """Take a participant's head out; its next record now waits as head."""
        queue = self._queues.pop(name)
        record = queue.popleft()
        self.count -= 1
        connection = record.record.channel.connection
        self.connections[connection] -= 1
        if not self.connections[connection]:
            del self.connections[connection]
        self._withdraw(name, record)
        del self._heads[name]
        for place in self._awaited.pop(name, ()):
            names = self._awaiting[place]
            names.pop(name, None)
            if not names:
                del self._awaiting[place]
        if queue:
            self._queues[name] = queue
            self._enter(name, queue[0])
        return record

    def overdue(self, moment: int) -> str | None:
        """A participant whose head must go: it is overdue, or too many are held."""
        while self._ages:
            start, entry, name = self._ages[0]
            is_due = moment - start >= self.span
            if self._heads.get(name) != entry:
                heappop(self._ages)
            elif not is_due and self.count <= self._limit:
                return None
            else:
                first = self._last_holder(name)
                holder_start = self._queues[first][0].since
                if moment - holder_start >= self.span or not is_due:
                    return first
                heapreplace(self._ages, (holder_start, entry, name))
        return None

    @property
    def oldest(self) -> int | None:
        """The arrival of the oldest waiting record (µs)."""
        return min((queue[0].at for queue in self._queues.values()), default=None)

    def records(self) -> list[WaitingRecord]:
        """All waiting records, each participant's in order."""
        return [record for queue in self._queues.values() for record in queue]

    def _last_holder(self, name: str) -> str:
        """Follow holders from a head to one without a holder, perhaps itself."""
        path = {name: 0}
        while len(path) <= MOST_STEPS and (holder := self._holder(name)) is not None:
            if holder in path:
                circle = list(path)[path[holder] :]
                return min(circle, key=lambda member: (self._queues[member][0].since, member))
            path[holder] = len(path)
            name = holder
        return name

    def _holder(self, name: str) -> str | None:
        """Another participant, whose waiting record a participant's head waits for."""
        for place in self._awaited.get(name, ()):
            if place[0] == _BY_NAME:  # another's event of that name may not be meant
                continue
            for holder in self._suppliers.get(place, ()):
                if holder != name:
                    return holder
        return None

    def _withdraw(self, name: str, record: WaitingRecord) -> None:
        for place in record.brings():
            names = self._suppliers[place]
            names[name] -= 1
            if not names[name]:
                del names[name]
            if not names:
                del self._suppliers[place]

    def _enter(self, name: str, head: WaitingRecord) -> None:
        self._entries += 1
        self._heads[name] = self._entries
        heappush(self._ages, (head.since, self._entries, name))
        if len(self._ages) > 2 * len(self._heads) + 100:  # mostly of heads that are gone
            self._ages = [age for age in self._ages if self._heads.get(age[2]) == age[1]]
            heapify(self._ages)
