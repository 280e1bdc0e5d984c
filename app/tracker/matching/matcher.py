"""The matcher: takes in publishes, and finds what deliveries are of."""

from __future__ import annotations

from collections.abc import Sequence

from app.tracker.events import (
    DeliveryOrigin,
    LostCopy,
    PendingCopy,
    Reference,
    RestorePoint,
)
from app.tracker.fingerprint import BYTES, fingerprint_halves, of_stream
from app.tracker.matching.holds import DeliveryCase, is_before
from app.tracker.matching.memories import Memories
from app.tracker.matching.origins import dead_in, origins
from app.tracker.matching.searches import FROM_QUEUES, FROM_STREAMS, match_moved
from app.tracker.records import Deliver
from app.tracker.reorder import WaitKey, handover_of
from app.tracker.streams import is_from_stream
from model.deaths import NOT_FINAL, LossWord


class Matcher(Memories):
    """The memories, and what is done with each record."""

    def restore(self, next_copy: int, kept: int, point: RestorePoint) -> None:
        """Fill the memories from a checkpoint; ``kept`` publishes an exchange may keep, in all."""
        self.copies.restore(next_copy, point.copies, point.lost_copies)
        self.kept.restore(point.publishes, kept)
        self.handovers.restore(point.handovers)

    def cause_of(self, deliver: Deliver, mark: bytes, moment: int) -> DeliveryOrigin:
        """Find the origin of a delivery, whose handover is then to be noted."""
        case = DeliveryCase(deliver, mark, moment)
        for search in FROM_QUEUES if len(mark) == BYTES else FROM_STREAMS:
            origin = search(self, case)
            if origin is not None:
                return origin
        return self.note_unmatched(case)

    def match_moved(
        self, deliver: Deliver, mark: bytes, publishes: Sequence[Reference]
    ) -> DeliveryOrigin:
        """Match a delivery that the broker moved unseen to ``publishes``, the newest first."""
        return match_moved(self, DeliveryCase(deliver, mark, 0), publishes)

    def wait_keys(self, deliver: Deliver, mark: bytes) -> list[WaitKey]:
        """The places where an arrival may end the wait of an early delivery."""
        places: list[WaitKey] = []
        if is_from_stream(deliver):
            places.append((deliver.queue, handover_of(mark), True))
            places += ((deliver.queue, candidate, False) for candidate in of_stream(deliver, mark))
        else:
            places.append((deliver.queue, mark, deliver.redelivered))
        for origin in origins(deliver):
            places += ((*place, True) for place in origin.copy_keys)
            if origin.is_redelivery:
                break
            places += ((*place, False) for place in origin.copy_keys)
        return list(dict.fromkeys(places))

    def is_early(self, deliver: Deliver, mark: bytes) -> bool:
        """Tell whether a delivery may have overtaken its causes: nothing seen so far explains it.

        A first delivery needs its copy; a redelivery, and a dead letter that was rejected, need
        the delivery before, or they would take that one's copy. Publishes that are not taken never
        come.
        """
        if not self.takes.is_all and not self.is_publish_taken(deliver):
            return False
        queue, waiting, handovers = deliver.queue, self.copies.waiting, self.handovers
        if is_from_stream(deliver):
            if any((queue, half) in handovers for half in fingerprint_halves(mark)):
                return False
            if any((queue, candidate) in waiting for candidate in of_stream(deliver, mark)):
                return False
        elif (queue, mark) in (handovers if deliver.redelivered else waiting):
            return False
        for origin in origins(deliver):
            if any(place in handovers or place in self.copies.lost for place in origin.copy_keys):
                return False
            if origin.is_redelivery and self.takes.deliveries(origin.queue):
                return True
            if any(place in waiting for place in origin.copy_keys):
                return False
        return True

    def is_publish_taken(self, deliver: Deliver) -> bool:
        """Tell whether the trace takes a delivery's publish, and all queues on its way.

        Copies that died in a queue whose deliveries are not taken are not kept.
        """
        queues, exchange = dead_in(deliver)
        return all(map(self.takes.deliveries, queues)) and self.takes.publishes(exchange)

    def lose(self, copy: PendingCopy, moment: int, reason: LossWord) -> None:
        """Note that a copy is gone (`LostCopy`), if it is the oldest of its kind that waits.

        A delivery since its publish that was of one of several equal copies may have been of this
        one: then nothing final is known.
        """
        key = (copy.queue, copy.fingerprint[:BYTES])
        oldest = self.copies.waiting.first(key)
        if oldest is None or oldest.number != copy.number:
            return
        if reason not in NOT_FINAL and any(
            (hold.candidates or 0) > 1
            and hold.delivery is not None
            and not is_before(hold.delivery, copy.cause.id or 0)
            for hold in self.handovers.newest(key)
        ):
            reason = "equal"
        self.copies.lose_first(key, copy, LostCopy(copy.cause, copy.queue, moment, reason))
