"""The memories of a trace that its deliveries are matched by."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence

from app.tracker._copies import NOBODYS, Hold
from app.tracker._memories import KeyedFifo
from app.tracker.events import DeliveryOrigin, PendingCopy, Reference
from app.tracker.matching.copies import WaitingCopies
from app.tracker.matching.holds import DeliveryCase, Handovers, Key, is_before
from app.tracker.matching.queues import Queues
from app.tracker.taken import Takes
from model.words import Match

UNMATCHED = DeliveryOrigin(Match.unmatched)

# Publishes that an exchange may keep, and hand out later without another publish.
MOST_PUBLISHED = 20_000


class Kept:
    """The last publishes to no queue, or to an exchange that may keep them, by fingerprint."""

    def __init__(self) -> None:
        self.publishes: KeyedFifo[bytes, Reference] = KeyedFifo()
        self.count = 0  # of these, in all
        self.knows_all = True

    def restore(self, publishes: Sequence[tuple[bytes, Reference]], count: int) -> None:
        """Go on with the last of ``count``, each with its mark, oldest first."""
        self.count = count - len(publishes)
        self.knows_all = self.count == 0
        for mark, cause in publishes:
            self.note(mark, cause)

    def note(self, mark: bytes, cause: Reference) -> None:
        self.count += 1
        self.publishes.add(self.count, mark, cause)
        if len(self.publishes) > MOST_PUBLISHED:
            self.publishes.take_oldest()
            self.knows_all = False

    def forget_before(self, event_id: int) -> None:
        while (cause := self.publishes.oldest()) and is_before(cause, event_id):
            self.publishes.take_oldest()


class Memories:
    """All of them; the sixth, of streams: messages whose publish is not clear, with what it may be.

    Streams have many readers, of whom the first takes the copies.
    """

    def __init__(self, *, copies: int, copy_age: int, handovers: int, takes: Takes) -> None:
        """Bound the memories: copies by count and age (µs), handovers by count."""
        self.takes = takes
        self.queues = Queues()
        self.copies = WaitingCopies(copies, copy_age, self.queues, takes)
        self.handovers = Handovers(handovers)
        self.kept = Kept()
        self.unclear: OrderedDict[Key, dict[int, PendingCopy]] = OrderedDict()

    def causes(self) -> Iterable[Reference]:
        """Every publish that a later delivery may come from, some repeatedly."""
        yield from (copy.cause for copy in self.copies.waiting.values())
        yield from self.kept.publishes.values()
        yield from self.handovers.causes()
        yield from self.copies.lost.causes()

    def forget_before(self, event_id: int) -> None:
        """Drop references to events with smaller ids, which retention has removed."""
        self.copies.forget_before(event_id)
        self.handovers.forget_before(event_id)
        self.kept.forget_before(event_id)
        for candidates in self.unclear.values():
            for number, copy in [*candidates.items()]:
                if is_before(copy.cause, event_id):
                    del candidates[number]

    def note_unmatched(self, case: DeliveryCase) -> DeliveryOrigin:
        """Note a delivery that nothing explains, as it may be given back."""
        self.queues.note_refill(case.deliver.queue)
        self.handovers.next = Hold(NOBODYS, candidates=0, death=case.death_time)
        return UNMATCHED
