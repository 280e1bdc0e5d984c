"""Copies that wait in queues until they are handed over, die, or are lost."""

from __future__ import annotations

from collections.abc import Iterable

from app.tracker._copies import Copies, Hold
from app.tracker.events import LostCopy, PendingCopy, Reference
from app.tracker.fingerprint import BYTES, brings_deaths, fingerprint_halves
from app.tracker.matching.equals import EqualCopies
from app.tracker.matching.holds import LOOK_BACK, Holds, Key, is_before
from app.tracker.matching.queues import MOST_QUEUES, Queues
from app.tracker.records import Deliver, Publish
from app.tracker.taken import Takes

# Overaged copies that one publish drops, beside those beyond the bound.
AGED_AT_ONCE = 100

# Lost copies that are remembered, for dead letters that may be of them.
MOST_LOST = 20_000

# Channels race: a message published this much later than another (µs) comes in behind it.
CLEARLY_LATER = 1_000_000
# No message is handed over this long (µs) after its expiration, whatever delays its trace.
LONG_EXPIRED = 60_000_000

LONGEST = 12  # digits of a time in ms


class WaitingCopies(Copies):
    """The copies, by count and age (µs) within bounds; ``waiting`` by queue and fingerprint.

    None are kept of queues whose deliveries the trace does not take. ``dropped`` counts those
    that made room.
    """

    def __init__(self, most: int, age: int, queues: Queues, takes: Takes) -> None:
        self._age = age
        self.equals = EqualCopies(self.waiting)
        self.lost = Holds(MOST_LOST)
        self._dropped_until = 0  # when the newest of them was recorded
        self._drop_queues: set[str] = set()  # the queues of copies that were dropped
        self._forgot_before = False  # or in any queue

    def restore(
        self,
        next_number: int,
        copies: Iterable[PendingCopy],
        lost: Iterable[tuple[str, bytes, Reference]],
    ) -> None:
        """Fill the memories, oldest first; lost copies are by queue and mark."""
        for queue, mark, cause in lost:
            self.lost.add((queue, mark[:BYTES]), Hold(cause, has_brought=brings_deaths(mark)))
        self.number_from(next_number)
        self._forgot_before = self.dropped > 0
        for copy in copies:
            self._wait(copy)
            state = self._queues.states.get(copy.queue)
            state = state or self._queues.add(copy.queue, copy.number)
            state.push(copy.number, copy.participant)
            state.is_crowded = True
            self._dropped_until = self._dropped_until or copy.recorded_at
        self._queues.first_tracked = next_number
        if self._takes.is_all:
            return
        for copy in self.waiting.values():  # in queues that are taken no more
            if not self._takes.deliveries(copy.queue):
                oldest = self.waiting.take((copy.queue, copy.fingerprint[:BYTES]))
                if oldest is not None:
                    self._note_leaving(oldest)

    def take_oldest(self, keys: Iterable[Key], deliver: Deliver | None = None) -> PendingCopy:
        """Take the oldest copy of several keys that have some."""
        copies = [copy for key in keys if (copy := self.waiting.first(key)) is not None]
        oldest = min(copies, key=lambda copy: copy.number)
        self.take((oldest.queue, oldest.fingerprint[:BYTES]), deliver)
        return oldest

    def drop_gone(self, key: Key, deliver: Deliver, moment: int) -> None:
        """Drop the oldest equal copies that are known to be gone."""
        copies, queue = self.waiting, self._queues.states.get(key[0])
        is_in_order = "priority" not in deliver.properties
        for _ in range(LOOK_BACK):
            copy = copies.first(key) if copies.count(key) > 1 else None
            if copy is None:
                return
            is_gone = 0 < copy.expires < moment - LONG_EXPIRED
            if queue is not None:
                is_gone |= is_in_order and copy.recorded_at < queue.handed - CLEARLY_LATER
            if not is_gone:
                return
            self.lose_first(key, copy, LostCopy(copy.cause, copy.queue, 0, "left"))

    def lose_first(self, key: Key, copy: PendingCopy, loss: LostCopy) -> None:
        """Note that the oldest copy of its kind is gone."""
        self.waiting.take(key)
        self._note_leaving(copy)
        self.lost.add(key, Hold(copy.cause, has_brought=brings_deaths(copy.fingerprint)))
        self.newly_lost.append(loss)

    def forget_before(self, event_id: int) -> None:
        """Forget copies of publishes with smaller ids."""
        while (copy := self.waiting.oldest()) and is_before(copy.cause, event_id):
            self.waiting.take_oldest()
            self._note_leaving(copy)
        self.lost.forget_before(event_id)

    def has_forgotten(self, queue: str) -> bool:
        """Tell whether copies in this queue were dropped; after a restart, in any."""
        return queue in self._drop_queues or self._forgot_before

    def may_be_dropped(self, name: str) -> bool:
        """Tell whether a delivery may be of a dropped copy, equal to one that was not."""
        if not self.dropped or not self.has_forgotten(name):
            return False
        queue = self._queues.states.get(name)
        return queue is None or queue.handed - CLEARLY_LATER <= self._dropped_until

    def _wait(self, copy: PendingCopy) -> None:
        keys = tuple((copy.queue, half) for half in fingerprint_halves(copy.fingerprint))
        if self.waiting.add_under(copy.number, keys, copy) > 1:
            self.equals.note(copy)

    def _drop_excess(self, moment: int, count: int) -> int:
        """Drop copies that are too many or too old; return when others will be too old."""
        ages_at = moment
        for _ in range(count):
            copy = self.waiting.oldest()
            ages_at = self._age + (moment if copy is None else copy.recorded_at)
            if copy is None or (len(self.waiting) <= self._most and moment <= ages_at):
                break
            self.waiting.take_oldest()
            self._note_leaving(copy)
            self.dropped += 1
            self._dropped_until = copy.recorded_at
            if len(self._drop_queues) < MOST_QUEUES:
                self._drop_queues.add(copy.queue)
            else:
                self._forgot_before = True
        return ages_at

    @staticmethod
    def _expires(publish: Publish, moment: int) -> int:
        """The time at which a publish expires (µs); 0 if it says none."""
        expiration = publish.properties["expiration"]
        if (
            isinstance(expiration, str)
            and expiration.isascii()
            and expiration.isdigit()
            and len(expiration) < LONGEST
        ):
            return moment + int(expiration) * 1_000
        return 0
