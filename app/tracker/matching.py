"""Which publish a delivery came from: first in, first out for each queue and fingerprint.

Two memories, both bounded:

- **copies**: what a publish put into queues and nobody was handed yet. A first delivery takes the
  oldest copy of its fingerprint in its queue.
- **handovers**: the last matched deliveries. The firehose shows no acknowledgement, so any of them
  may come back, as a redelivery or as a dead letter.

Messages with equal fingerprints in one queue cannot be told apart by anybody; among them a
redelivery goes to the one handed over least often, the newest first. A consumer that dies is
followed by a redelivery of what it had not acknowledged, which are its newest: so the set of
causes is right, and only their order within equal messages is a guess.

A **stream** keeps what it hands out, for as many readers as come. The first to be handed a message
takes its copy, and the handover is remembered by the message's place in the stream: whoever reads
that place is handed the same publish, equal messages or not, as a first delivery of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from app.tracker._memories import KeyedFifo
from app.tracker.events import Handover, Matched, PendingCopy, Reference
from app.tracker.fingerprint import BYTES, halves, of_stream, origins
from app.tracker.records import Deliver
from app.tracker.reorder import Place, handover_of
from app.tracker.streams import is_from_stream
from app.tracker.taken import Takes
from model.words import Match

Key: TypeAlias = tuple[str, bytes]  # queue, fingerprint

_ROUTED = Match.routed  # an enumeration's member takes a while to look up

# How far a redelivery looks back among equal messages: enough for any sensible prefetch.
LOOK_BACK = 64

# Most of what comes back does so before this many others were handed over.
RECENT_HANDOVERS = 1_000

# How many copies that are too old make room for one publish, beside those that are too many.
AGED_AT_ONCE = 100

# This many queues are remembered by name of which copies were dropped.
MOST_QUEUES = 10_000

# A copy with this many newer ones is in a queue that nobody empties. It may still be handed over,
# so clocks are packed only from the number on at which trees would take hundreds of megabytes.
RECENT_COPIES = 20_000


class Matcher:
    """The two memories, and the rule that finds a delivery's cause in them."""

    def __init__(
        self, *, copies: int, copy_age: int, handovers: int, takes: Takes | None = None
    ) -> None:
        """Bound the memories: copies by count and age (µs), handovers by count.

        Of queues whose deliveries are not among what the trace ``takes`` no copies are kept: nobody
        would ever be seen to take them.
        """
        self._takes = takes or Takes()
        self._most_copies = copies
        self._copy_age = copy_age
        self._most_handovers = handovers
        self._copies: KeyedFifo[Key, PendingCopy] = (
            KeyedFifo()
        )  # each under its fingerprint's halves
        self._handovers: KeyedFifo[Key, Reference] = KeyedFifo()
        self._next_copy = 1
        self._next_handover = 1
        self._stored = 1  # copies from this number on are not
        self._removed: list[int] = []
        self.copies_dropped = 0
        self._forgotten: set[str] = set()  # the queues of copies that were dropped
        self._forgot_before = False  # nobody knows any more in which

    @property
    def pending_copies(self) -> int:
        """The number of copies that wait to be handed over."""
        return len(self._copies)

    @property
    def next_copy(self) -> int:
        """The number that the next copy gets."""
        return self._next_copy

    def restore(self, next_copy: int, copies: list[PendingCopy], handovers: list[Handover]) -> None:
        """Fill the memories from a checkpoint; both lists oldest first."""
        self._next_copy = self._stored = next_copy
        self._forgot_before = self.copies_dropped > 0
        for copy in copies:
            self._wait(copy)
            copy.cause.waiting += 1
        for handover in handovers:
            self.handed_over(handover.queue, handover.fingerprint, handover.cause)
        if not self._takes.is_all:
            self._leave_out()

    def published(self, queues: tuple[str, ...], mark: bytes, cause: Reference, now: int) -> None:
        """Remember one copy for each queue that a publish was routed to."""
        # This is done for every publish, and the next two for every delivery: no call too many.
        copies, number = self._copies, self._next_copy
        if not self._takes.is_all:
            queues = tuple(filter(self._takes.deliveries, queues))
        cause.waiting += len(queues)
        for queue in queues:
            copy = PendingCopy(number, queue, mark, cause, now)
            if len(mark) == BYTES:
                copies.add(number, (queue, mark), copy)
            else:
                self._wait(copy)
            number += 1
            aged = copies.get(number - RECENT_COPIES)
            if aged is not None:
                aged.cause.rest()
        self._next_copy = number
        oldest = copies.oldest()
        if oldest is not None and (
            now - oldest.recorded_at > self._copy_age or len(copies) > self._most_copies
        ):
            self._drop_excess(now, len(queues) + AGED_AT_ONCE)

    def places(self, deliver: Deliver, mark: bytes) -> list[Place]:
        """Return where something may come that makes an early delivery early no more."""
        found: list[Place] = []
        if is_from_stream(deliver):
            found.append((deliver.queue, handover_of(mark), True))
            found += ((deliver.queue, each, False) for each in of_stream(deliver, mark))
        else:
            found.append((deliver.queue, mark, deliver.redelivered))
        for origin in origins(deliver):
            found += ((*place, True) for place in origin.places)
            if origin.delivered_before:
                break
            found += ((*place, False) for place in origin.places)
        return list(dict.fromkeys(found))

    def is_early(self, deliver: Deliver, mark: bytes) -> bool:
        """Whether a delivery may have overtaken what leads to it: nothing seen so far explains it.

        A first delivery needs its copy; a redelivery, and a dead letter that was rejected, need
        the delivery before, or they would take the copy that it will look for. What is left out
        never comes, and is not waited for.
        """
        if not self._takes.is_all and not self.is_publish_taken(deliver):
            return False
        if is_from_stream(deliver):
            if any((deliver.queue, each) in self._handovers for each in halves(mark)):
                return False
            if any(
                self._copies.first((deliver.queue, each)) is not None
                for each in of_stream(deliver, mark)
            ):
                return False
        elif (deliver.queue, mark) in (self._handovers if deliver.redelivered else self._copies):
            return False
        for origin in origins(deliver):
            if any(place in self._handovers for place in origin.places):
                return False
            if origin.delivered_before and self._takes.deliveries(origin.queue):
                return True
            if any(self._copies.first(place) is not None for place in origin.places):
                return False
        return True

    def is_publish_taken(self, deliver: Deliver) -> bool:
        """Tell whether the trace takes the publish that a delivery came from, if only in the end.

        Copies that died in a queue that hands out nothing that is taken are not kept.
        """
        exchange = deliver.exchange
        for origin in origins(deliver):
            if not self._takes.deliveries(origin.queue):
                return False
            exchange = origin.exchange
        return self._takes.publishes(exchange)

    def cause_of(self, deliver: Deliver, mark: bytes) -> Matched:
        """Find what a delivery came from."""
        match, cause = self._cause_of(deliver, mark)
        return Matched(match, cause, cause)

    def _cause_of(self, deliver: Deliver, mark: bytes) -> tuple[Match, Reference | None]:
        """Find the publish behind a delivery; `Match.unmatched` with None when there is none."""
        if len(mark) != BYTES:  # from a stream
            return self._cause_of_reading(deliver, mark)
        key = (deliver.queue, mark)
        if deliver.redelivered and (cause := self._handed_over_before(key)):
            return Match.redelivered, cause
        # A first delivery; or one flagged redelivered that the firehose never showed, as after
        # a broker's restart, which flags everything that survived it.
        copy = self._copies.take(key)
        if copy is not None:
            return _ROUTED, self._left(copy)
        if cause := self._dead_lettered(deliver):
            return Match.dead_lettered, cause
        return Match.unmatched, None

    def handed_over(self, queue: str, mark: bytes, cause: Reference) -> None:
        """Remember a matched delivery; the oldest one makes room."""
        handovers, number = self._handovers, self._next_handover
        handovers.add(number, (queue, mark[-BYTES:]), cause)  # as `handover_of` has it
        self._next_handover = number + 1
        if len(handovers) > self._most_handovers:
            handovers.take_oldest()
        aged = handovers.get(number + 1 - RECENT_HANDOVERS)
        if aged is not None and not aged.waiting:
            aged.rest()

    def causes(self) -> Iterator[Reference]:
        """Every publish that a later delivery may come from, some of them several times."""
        for copy in self._copies.values():
            yield copy.cause
        yield from self._handovers.values()

    def forget_before(self, event_id: int) -> None:
        """Drop what refers to events with smaller ids, which retention has removed."""
        while (copy := self._copies.oldest()) and _is_before(copy.cause, event_id):
            self._copies.take_oldest()
            self._left(copy)
        before, self._handovers = self._handovers, KeyedFifo()
        for (queue, mark), cause in zip(before.keys(), before.values(), strict=True):
            if not _is_before(cause, event_id):
                self.handed_over(queue, mark, cause)

    def has_forgotten(self, queue: str) -> bool:
        """Tell whether copies in this queue were forgotten; after a restart, whether any were."""
        return queue in self._forgotten or self._forgot_before

    def changes(self) -> tuple[list[PendingCopy], list[int]]:
        """Return copies (added, removed) since the last call; what came and went is in neither."""
        changes = self._copies.since(self._stored), self._removed
        self._stored, self._removed = self._next_copy, []
        return changes

    def _cause_of_reading(self, deliver: Deliver, mark: bytes) -> tuple[Match, Reference | None]:
        """The cause of a delivery from a stream: of the place that was read, or of its first."""
        queue, place = deliver.queue, (deliver.queue, handover_of(mark))
        # A place that the publish had itself: the queue is another, which hands it out once.
        if not deliver.redelivered and place in self._copies:
            return Match.routed, self._take_copy(place)
        if cause := self._handed_over_before(place):
            if deliver.redelivered:  # which no stream says
                return Match.redelivered, cause
            # A stream shows deaths only of what died on the way there: it loses those that a client
            # copied (`app.tracker.streams`).
            dead = any(origins(deliver))
            return Match.dead_lettered if dead else Match.routed, cause
        keys = [(queue, each) for each in of_stream(deliver, mark)]
        # What the stream made equal comes out in the order in which it went in.
        waiting = [(number, key) for key in keys if (number := self._copies.first(key)) is not None]
        if waiting and (cause := self._take_copy(min(waiting)[1])):
            return Match.routed, cause
        # What was read by a version that did not note places.
        if cause := self._handed_over_before(keys[0]):
            return Match.routed, cause
        if cause := self._dead_lettered(deliver):
            return Match.dead_lettered, cause
        return Match.unmatched, None

    def _leave_out(self) -> None:
        """Forget what waits in queues that were taken once, and are no more."""
        for copy in [*self._copies.values()]:
            if not self._takes.deliveries(copy.queue):
                taken = self._copies.take((copy.queue, copy.fingerprint[:BYTES]))
                if taken is not None:
                    self._left(taken)

    def _take_copy(self, key: Key) -> Reference | None:
        """Take the oldest copy that is equal to the oldest one of a key, a first or second half."""
        number = self._copies.first(key)
        first = None if number is None else self._copies.get(number)
        if first is None:
            return None
        copy = self._copies.take((first.queue, first.fingerprint[:BYTES]))
        return None if copy is None else self._left(copy)

    def _wait(self, copy: PendingCopy) -> None:
        keys = tuple((copy.queue, each) for each in halves(copy.fingerprint))
        self._copies.add_under(copy.number, keys, copy)

    def _left(self, copy: PendingCopy) -> Reference:
        """Note that a copy was taken; return the publish that it is of."""
        cause = copy.cause
        cause.waiting -= 1
        if copy.number < self._stored:
            self._removed.append(copy.number)
        return cause

    def _drop_excess(self, now: int, most: int) -> None:
        for _ in range(most):
            copy = self._copies.oldest()
            if copy is None:
                return
            if len(self._copies) <= self._most_copies and now - copy.recorded_at <= self._copy_age:
                return
            self._copies.take_oldest()
            self._left(copy)
            self.copies_dropped += 1
            if len(self._forgotten) < MOST_QUEUES:
                self._forgotten.add(copy.queue)
            else:
                self._forgot_before = True

    def _handed_over_before(self, key: Key) -> Reference | None:
        times: dict[int, list[Reference]] = {}
        for cause in self._handovers.newest(key, LOOK_BACK):
            # Restored references of one event are separate objects with the same id.
            times.setdefault(cause.id or -id(cause), []).append(cause)
        # Least often first; among equals the newest, which is the first seen here.
        return min(times.values(), key=len)[0] if times else None

    def _dead_lettered(self, deliver: Deliver) -> Reference | None:
        for origin in origins(deliver):
            searches = (self._handed_over_before, self._take_copy)
            for search in searches if origin.delivered_before else reversed(searches):
                for place in origin.places:
                    if cause := search(place):
                        return cause
        return None


def _is_before(reference: Reference, event_id: int) -> bool:
    # An event without an id yet is in the batch at hand, newer than anything stored.
    return reference.id is not None and reference.id < event_id
