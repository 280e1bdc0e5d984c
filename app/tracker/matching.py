"""Matching: finds the publish that a delivery came from, and what else led to it.

Four memories, each bounded:

- **copies**: what a publish put into queues and nobody was handed yet. A first delivery takes the
  oldest copy of its fingerprint in its queue.
- **handovers**: the last matched deliveries. The firehose shows no acknowledgement, so any of them
  may come back, as a redelivery or as a dead letter, which its holder has led to then. Among them
  are copies that died and were handed to nobody: one death makes several dead letters.
- **queues**: the last publishers to a queue, and the last copy that it handed out.
- **lost**: copies that are gone from their queue. They may have died, and wait elsewhere as dead
  letters.

Messages with equal fingerprints in one queue cannot be told apart by anybody. Where one of several
may be meant, there is no certain cause: all are candidates, and one is the guess, that is taken
from its memory. Of copies it is the oldest, as queues are first in, first out; of redeliveries the
one handed over least often, the newest first: a consumer that dies is followed by a redelivery of
its unacknowledged deliveries, which are its newest.

Copies vanish without a sign: purged, expired, pushed out. So equal ones are candidates until they
are known to be gone: their queue has handed out a copy that came in clearly later, or was seen to
be empty or deleted, or their own time was over.

A **stream** keeps its messages, for any number of readers. The first delivery of a message takes
its copy, and the handover is remembered by the message's offset in the stream: each reader of that
offset is handed the same publish, equal messages or not, as a first delivery of their own.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import msgspec

from app.tracker._memories import KeyedFifo
from app.tracker.events import (
    DeliveryOrigin,
    Handover,
    Influence,
    LostCopy,
    PendingCopy,
    Reference,
)
from app.tracker.fingerprint import (
    BROUGHT_BYTES,
    BYTES,
    LAST_DEATH,
    DeathOrigin,
    brings_deaths,
    dead_in,
    fingerprint_halves,
    is_addressed_as,
    newest_death,
    of_stream,
    origins,
)
from app.tracker.records import Deliver, Publish
from app.tracker.reorder import WaitKey, handover_of
from app.tracker.streams import is_from_stream
from app.tracker.taken import Takes
from model.deaths import NOT_FINAL, LossWord
from model.words import EdgeKind, Match

Key: TypeAlias = tuple[str, bytes]  # queue, fingerprint

# An enumeration's member takes a while to look up.
_ROUTED, _REDELIVERED, _DEAD_LETTERED = Match.routed, Match.redelivered, Match.dead_lettered
_RETURNED, _REJECTED = EdgeKind.returned, EdgeKind.rejected
_OVERFLOW, _CANDIDATE = EdgeKind.overflow, EdgeKind.candidate
_UNMATCHED = DeliveryOrigin(Match.unmatched)
_NOBODYS = Reference(b"", 0)

# A redelivery looks back this far among equal messages: enough for any sensible prefetch.
LOOK_BACK = 64

# Overaged copies that one publish drops, beside those beyond the bound.
AGED_AT_ONCE = 100

# Queues that are remembered, and as many with dropped copies.
MOST_QUEUES = 10_000
# Publishers that are remembered of each queue.
MOST_PUSHERS = 64

# Publishes that an exchange may keep, and hand out later without another publish.
MOST_PUBLISHED = 20_000

# Lost copies that are remembered, for dead letters that may be of them.
MOST_LOST = 20_000

# Participants that may have published one of several equal messages, or held it; where there are
# more, the delivery is doubtful.
MOST_CANDIDATES = 16

# Channels race: a message published this much later than another (µs) comes in behind it.
CLEARLY_LATER = 1_000_000
# No message is handed over this long (µs) after its expiration, whatever delays its trace.
LONG_EXPIRED = 60_000_000

LONGEST = 12  # digits of a time in ms
MAXLEN = "maxlen"  # the reason of deaths by being pushed out of a queue


class _Hold(msgspec.Struct, gc=False):
    """A delivery that may come back: of a copy of ``cause``, or of another of the candidates.

    With 0 candidates no publish is known, and the delivery stands for it, as it does for several
    until it is handed over again: two such deliveries are of two messages. Without ``delivery`` it
    is a copy that died and was handed to nobody, with the ``influences`` that led to that.
    ``death`` is the time of its newest death as the broker wrote it; None where it is not known.
    """

    cause: Reference
    number: int = 0  # the copy's
    candidates: int | None = None
    delivery: Reference | None = None
    participant: int = 0
    death: Any = None
    has_brought: bool = False  # deaths, as its publish had them
    influences: tuple[Influence, ...] = ()


class _Queue(msgspec.Struct, gc=False):
    """A queue: the newest copy's number of each participant that published to it.

    ``length`` counts its copies. All that were recorded clearly before ``handed`` are gone.
    ``newest`` and ``previous`` are the last two copies, ``at_delivery`` was the newest at the last
    handover. ``is_refilled``: not only publishes come in; ``is_crowded``: not all publishers are
    known. ``letters_of`` are queues whose dead letters come here.
    """

    pushers: dict[int, int] = {}
    newest: int = 0
    previous: int = 0
    length: int = 0
    handed: int = 0
    at_delivery: int = 0
    is_refilled: bool = False
    is_crowded: bool = False
    letters_of: set[str] = set()


class _Letter(msgspec.Struct, gc=False):
    """Copies that a dead letter may be of: held by somebody, dead, or waiting under a key."""

    origin: DeathOrigin
    holds: dict[int, list[_Hold]]
    dead: list[_Hold]
    copy_keys: tuple[Key, ...]
    is_more: bool

    @property
    def kind(self) -> EdgeKind:
        return _REJECTED if self.origin.is_redelivery else _RETURNED


class _Equals(msgspec.Struct, gc=False):
    """Each publisher's newest of equal copies; ``is_more``: some publishers are left out."""

    newest: dict[int, PendingCopy]
    is_more: bool = False

    def add(self, copy: PendingCopy) -> None:
        newest = self.newest
        newest.pop(copy.participant, None)
        newest[copy.participant] = copy
        if len(newest) > MOST_CANDIDATES:
            del newest[next(iter(newest))]
            self.is_more = True


class Matcher:
    """The memories, and the rules that find a delivery's causes in them."""

    def __init__(
        self, *, copies: int, copy_age: int, handovers: int, takes: Takes | None = None
    ) -> None:
        """Bound the memories: copies by count and age (µs), handovers by count.

        No copies are kept of queues whose deliveries the trace does not take.
        """
        self._takes = takes or Takes()
        self._most_copies = copies
        self._copy_age = copy_age
        self._most_handovers = handovers
        # Each under its fingerprint's halves.
        self._copies: KeyedFifo[Key, PendingCopy] = KeyedFifo()
        self._equals: dict[Key, _Equals] = {}  # only for several of a first half
        self._handovers: KeyedFifo[Key, _Hold] = KeyedFifo()
        self._queues: dict[str, _Queue] = {}
        self._restored_letters: KeyedFifo[bytes, _Hold] = KeyedFifo()  # and other deliveries
        self._lost_copies: KeyedFifo[Key, _Hold] = KeyedFifo()
        self._next_lost = 1
        self._newly_lost: list[LostCopy] = []
        # The last publishes to no queue, or to an exchange that may keep them, by fingerprint.
        self._published: KeyedFifo[bytes, Reference] = KeyedFifo()
        self.publish_count = 0  # of these, in all
        self._knows_published = True  # and has forgotten none
        self._first_tracked = 1  # the first copy whose queue knows all that came since
        self._next_copy = 1
        self._next_handover = 1
        self._stored = 1  # copies from this number on are not
        self._removals: list[int] = []
        self.copies_dropped = 0
        self._dropped_until = 0  # when the newest of them was recorded
        self._ages_at = 0  # until then no copy is too old
        self._drop_queues: set[str] = set()  # the queues of copies that were dropped
        self._forgot_before = False  # or in any queue
        # Streams' messages with several possible publishes, for each of their many readers.
        self._unclear: OrderedDict[Key, dict[int, PendingCopy]] = OrderedDict()
        self._next_hold = _Hold(_NOBODYS)  # of the next handover

    @property
    def pending_copies(self) -> int:
        return len(self._copies)

    @property
    def next_copy(self) -> int:
        return self._next_copy

    def restore(
        self,
        next_copy: int,
        copies: list[PendingCopy],
        handovers: list[Handover],
        publishes: Sequence[tuple[bytes, Reference]] = (),
        publish_count: int = 0,
        lost_copies: Iterable[tuple[str, bytes, Reference]] = (),
    ) -> None:
        """Fill the memories from a checkpoint; all lists oldest first.

        ``publishes`` are the last publishes that an exchange may have kept, each with its mark, of
        ``publish_count`` in all; ``lost_copies`` are copies by queue and mark.
        """
        for queue, mark, cause in lost_copies:
            hold = _Hold(cause, has_brought=brings_deaths(mark))
            self._remember_lost((queue, mark[:BYTES]), hold)
        self._next_copy = self._stored = next_copy
        self._forgot_before = self.copies_dropped > 0
        for copy in copies:
            self._wait(copy)
            state = self._queues.get(copy.queue) or self._queue(copy.queue, copy.number)
            state.previous, state.newest = state.newest, copy.number
            state.length += 1
            state.pushers[copy.participant] = copy.number
            self._dropped_until = self._dropped_until or copy.recorded_at
        self._first_tracked = next_copy
        self.publish_count = publish_count - len(publishes)
        self._knows_published = self.publish_count == 0
        for mark, cause in publishes:
            self._note_kept(mark, cause)
        for handover in handovers:
            hold = _Hold(
                handover.cause, 0, handover.candidates, handover.delivery, handover.participant
            )
            # Nobody knows it of one among several equal messages.
            hold.has_brought = handover.has_brought or handover.candidates is not None
            mark = handover_of(handover.fingerprint)
            self._remember((handover.queue, mark), hold)
            if handover.candidates != 0:
                sibling = _Hold(handover.cause, 0, handover.candidates)
                self._restored_letters.add(len(self._restored_letters) + 1, mark, sibling)
        if not self._takes.is_all:
            self._leave_out()

    def add_copies(
        self, publish: Publish, mark: bytes, cause: Reference, participant: int, moment: int
    ) -> None:
        """Remember one copy for each queue that a publish was routed to."""
        # Runs for every publish, the next ones for every delivery: each call counts.
        copies, number, states = self._copies, self._next_copy, self._queues
        queues = publish.routed_queues
        if not self._takes.is_all:
            queues = tuple(filter(self._takes.deliveries, queues))
        if publish.exchange or not publish.routed_queues:
            self._note_kept(mark[:BYTES], cause)
        expires = 0 if "expiration" not in publish.properties else _expires(publish, moment)
        for queue in queues:
            copy = PendingCopy(number, queue, mark, cause, moment, participant, expires)
            if len(mark) == BYTES:
                if copies.add(number, (queue, mark), copy) > 1:
                    self._note_equal(copy)
            else:
                self._wait(copy)
            state = states.get(queue)
            if state is None:
                state = self._queue(queue, number)
            state.previous, state.newest = state.newest, number
            state.length += 1
            pushers = state.pushers
            pushers[participant] = number
            if len(pushers) > MOST_PUSHERS:
                del pushers[next(iter(pushers))]
                state.is_crowded = True
            number += 1
        self._next_copy = number
        if moment > self._ages_at or len(copies) > self._most_copies:
            self._drop_excess(moment, len(queues) + AGED_AT_ONCE)

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
        if not self._takes.is_all and not self.is_publish_taken(deliver):
            return False
        if is_from_stream(deliver):
            if any((deliver.queue, half) in self._handovers for half in fingerprint_halves(mark)):
                return False
            if any(
                (deliver.queue, candidate) in self._copies for candidate in of_stream(deliver, mark)
            ):
                return False
        elif (deliver.queue, mark) in (self._handovers if deliver.redelivered else self._copies):
            return False
        for origin in origins(deliver):
            if any(
                place in self._handovers or place in self._lost_copies for place in origin.copy_keys
            ):
                return False
            if origin.is_redelivery and self._takes.deliveries(origin.queue):
                return True
            if any(place in self._copies for place in origin.copy_keys):
                return False
        return True

    def is_publish_taken(self, deliver: Deliver) -> bool:
        """Tell whether the trace takes a delivery's publish, and all queues on its way.

        Copies that died in a queue whose deliveries are not taken are not kept.
        """
        queues, exchange = dead_in(deliver)
        return all(map(self._takes.deliveries, queues)) and self._takes.publishes(exchange)

    def cause_of(self, deliver: Deliver, mark: bytes, moment: int) -> DeliveryOrigin:
        """Find the origin of a delivery, which is then to be `handed_over`."""
        if len(mark) != BYTES:
            return self._match_reading(deliver, mark)
        key = (deliver.queue, mark)
        if deliver.redelivered:
            origin = self._match_redelivery(key, deliver)
            if origin is not None:
                return origin
        if self._is_elsewhere(key, deliver):
            origin = self._dead_letter(deliver, key)
            if origin is not None:
                return origin
        # A first delivery; or one flagged redelivered that the firehose never showed: a broker that
        # restarts flags all messages.
        if self._equals and key in self._equals:
            return self._one_of_equals(key, deliver, moment)
        copy = self._take(key, deliver)
        if copy is None:
            return (
                self._dead_letter(deliver, key)
                or self._match_kept(deliver, mark)
                or self._note_unmatched(deliver)
            )
        if deliver.redelivered or self.copies_dropped or len(copy.fingerprint) != BYTES:
            return self._match_only_copy(key, deliver, copy)
        return DeliveryOrigin(_ROUTED, copy.cause, copy.cause)

    def note_handover(self, queue: str, mark: bytes, delivery: Reference, participant: int) -> None:
        """Remember the last delivery that `cause_of` was given; the oldest one makes room."""
        hold = self._next_hold
        hold.delivery, hold.participant = delivery, participant
        if hold.cause is _NOBODYS:
            hold.cause = delivery
        self._remember((queue, mark[-BYTES:]), hold)  # as `handover_of` has it

    def causes(self) -> Iterator[Reference]:
        """Every publish that a later delivery may come from, some repeatedly."""
        for copy in self._copies.values():
            yield copy.cause
        yield from self._published.values()
        for hold in (*self._handovers.values(), *self._lost_copies.values()):
            if hold.candidates != 0:
                yield hold.cause

    def forget_before(self, event_id: int) -> None:
        """Drop references to events with smaller ids, which retention has removed."""
        while (copy := self._copies.oldest()) and _is_before(copy.cause, event_id):
            self._copies.take_oldest()
            self._note_leaving(copy)
        if any(_is_before(hold.cause, event_id) for hold in self._handovers.values()):
            handovers, self._handovers = self._handovers, KeyedFifo()
            for key, hold in zip(handovers.keys(), handovers.values(), strict=True):
                if _is_before(hold.cause, event_id):
                    if hold.delivery is None or _is_before(hold.delivery, event_id):
                        continue
                    hold.cause, hold.candidates = hold.delivery, 0
                self._remember(key, hold)
        lost_copies, self._lost_copies = self._lost_copies, KeyedFifo()
        for key, hold in zip(lost_copies.keys(), lost_copies.values(), strict=True):
            if not _is_before(hold.cause, event_id):
                self._remember_lost(key, hold)
        while (cause := self._published.oldest()) and _is_before(cause, event_id):
            self._published.take_oldest()
        for candidates in self._unclear.values():
            for number, copy in [*candidates.items()]:
                if _is_before(copy.cause, event_id):
                    del candidates[number]

    def pending(self) -> list[PendingCopy]:
        """The copies that wait to be handed over, oldest first."""
        return self._copies.values()

    def lose(self, copy: PendingCopy, moment: int, reason: LossWord) -> None:
        """Note that a copy is gone (`LostCopy`), if it is the oldest of its kind that waits.

        A delivery since its publish that was of one of several equal copies may have been of this
        one: then nothing final is known.
        """
        key = (copy.queue, copy.fingerprint[:BYTES])
        oldest = self._copies.first(key)
        if oldest is not None and oldest.number == copy.number:
            if reason not in NOT_FINAL and any(
                (hold.candidates or 0) > 1
                and hold.delivery is not None
                and not _is_before(hold.delivery, copy.cause.id or 0)
                for hold in self._handovers.newest(key, LOOK_BACK)
            ):
                reason = "equal"
            self._lose_first(key, copy, LostCopy(copy.cause, copy.queue, moment, reason))

    def _lose_first(self, key: Key, copy: PendingCopy, loss: LostCopy) -> None:
        self._copies.take(key)
        self._note_leaving(copy)
        hold = _Hold(copy.cause, copy.number, has_brought=brings_deaths(copy.fingerprint))
        self._remember_lost((copy.queue, copy.fingerprint[:BYTES]), hold)
        self._newly_lost.append(loss)

    def _remember_lost(self, key: Key, hold: _Hold) -> None:
        keys = _brought_keys(key) if hold.has_brought else (key,)
        self._lost_copies.add_under(self._next_lost, keys, hold)
        self._next_lost += 1
        if len(self._lost_copies) > MOST_LOST:
            self._lost_copies.take_oldest()

    def has_forgotten(self, queue: str) -> bool:
        """Tell whether copies in this queue were dropped; after a restart, in any."""
        return queue in self._drop_queues or self._forgot_before

    def changes(self) -> tuple[list[PendingCopy], list[int], list[LostCopy]]:
        """Copies (added, removed, lost) since the last call; short-lived ones only in the last."""
        changes = self._copies.since(self._stored), self._removals, self._newly_lost
        self._stored, self._removals, self._newly_lost = self._next_copy, [], []
        return changes

    def _match_kept(self, deliver: Deliver, mark: bytes) -> DeliveryOrigin | None:
        """Match a delivery that no publish has put into its queue: an exchange has kept it.

        An exchange may hand out later what went nowhere, or elsewhere (`x-recent-history`, delays).
        Or its copy was wrongly taken for lost.
        """
        published = self._published.newest(mark, MOST_CANDIDATES) or [
            hold.cause for hold in self._lost_copies.newest((deliver.queue, mark), MOST_CANDIDATES)
        ]
        if published:
            return self.match_moved(deliver, mark, published)
        if self._knows_published or not deliver.exchange or newest_death(deliver) is not None:
            return None
        unmatched = self._note_unmatched(deliver)
        return DeliveryOrigin(unmatched.match, is_doubtful=True)

    def match_moved(
        self, deliver: Deliver, mark: bytes, published: Sequence[Reference]
    ) -> DeliveryOrigin:
        """Match a delivery that the broker moved unseen to ``published``, the newest first.

        Of a message with an id the only publish is certain, unless the queue has handed that out
        already: then a publish may have been missed.
        """
        self._note_refill(deliver.queue)
        is_one = len(published) == 1 and "message_id" in deliver.properties
        is_one &= deliver.redelivered or (deliver.queue, handover_of(mark)) not in self._handovers
        cause, death = published[0], newest_death(deliver)
        candidates = None if is_one else len(published) + 1
        # If there are several, the delivery stands for itself, as it does after a restart.
        self._next_hold = _Hold(cause if is_one else _NOBODYS, 0, candidates, death=death)
        match = _ROUTED if death is None else _DEAD_LETTERED
        if is_one:  # though nobody knows who was handed it before
            is_doubtful = deliver.redelivered or death is not None
            return DeliveryOrigin(match, cause, cause, is_doubtful=is_doubtful)
        newest = published[:MOST_CANDIDATES]
        influences = tuple(Influence(_CANDIDATE, publish, 0, False) for publish in newest[::-1])
        return DeliveryOrigin(match, None, cause, influences, candidates, is_doubtful=True)

    def _note_unmatched(self, deliver: Deliver) -> DeliveryOrigin:
        """Note a delivery that nothing explains, as it may be given back."""
        self._note_refill(deliver.queue)
        self._next_hold = _Hold(_NOBODYS, candidates=0, death=newest_death(deliver))
        return _UNMATCHED

    def _match_only_copy(self, key: Key, deliver: Deliver, copy: PendingCopy) -> DeliveryOrigin:
        """Match a first delivery to the only copy of its kind, and to a dead letter like it."""
        is_doubtful = deliver.redelivered  # it was held by somebody who is not known
        if self.copies_dropped and self._may_be_forgotten(deliver.queue):
            is_doubtful = True
        cause, has_brought = copy.cause, brings_deaths(copy.fingerprint)
        self._next_hold.has_brought = has_brought
        letter = self._letter(deliver, key) if has_brought and self._gets_letters(deliver) else None
        if letter is None:
            return DeliveryOrigin(_ROUTED, cause, cause, is_doubtful=is_doubtful)
        influences, count, is_more = self._may_be(letter)
        self._next_hold = _Hold(_NOBODYS, 0, count + 1, has_brought=has_brought)
        influences = (*_candidates_of([copy]), *influences)
        return DeliveryOrigin(_ROUTED, None, cause, influences, count + 1, is_doubtful or is_more)

    def _one_of_equals(self, key: Key, deliver: Deliver, moment: int) -> DeliveryOrigin:
        """Match a first delivery where several equal copies wait."""
        self._drop_gone(key, deliver, moment)
        candidates, count, is_more = self._candidates(key)
        copy = self._take(key, deliver)
        assert copy is not None  # noqa: S101
        if count == 1:
            return self._match_only_copy(key, deliver, copy)
        self._newly_lost.append(LostCopy(copy.cause, copy.queue, 0, "equal"))
        self._next_hold = _Hold(_NOBODYS, 0, count)
        self._next_hold.has_brought = brings_deaths(copy.fingerprint)
        is_more |= deliver.redelivered
        if self.copies_dropped and self._may_be_forgotten(deliver.queue):
            is_more = True
        return DeliveryOrigin(_ROUTED, None, copy.cause, _candidates_of(candidates), count, is_more)

    def _take(self, key: Key, deliver: Deliver | None = None) -> PendingCopy | None:
        """Take the oldest copy, if there is one, which is handed over or has died."""
        copy = self._copies.take(key)
        if copy is None:
            return None
        queue = self._note_leaving(copy)
        if queue is not None and deliver is not None:
            queue.at_delivery = queue.newest
            if copy.recorded_at > queue.handed and "priority" not in deliver.properties:
                queue.handed = copy.recorded_at
        self._next_hold = _Hold(copy.cause, copy.number)
        return copy

    def _drop_gone(self, key: Key, deliver: Deliver, moment: int) -> None:
        """Drop the oldest equal copies that are known to be gone."""
        copies, queue = self._copies, self._queues.get(key[0])
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
            self._lose_first(key, copy, LostCopy(copy.cause, copy.queue, 0, "left"))

    def _candidates(self, key: Key) -> tuple[list[PendingCopy], int, bool]:
        """Equal copies that wait: each publisher's newest; how many; whether others publish."""
        copies, count = self._copies, self._copies.count(key)
        equals = self._equals.get(key)
        if equals is None:
            return copies.newest(key, 1), count, False
        newest = [copy for copy in equals.newest.values() if copies.get(copy.number) is copy]
        return newest, count, equals.is_more

    def _match_redelivery(self, key: Key, deliver: Deliver) -> DeliveryOrigin | None:
        """Match a delivery flagged as redelivered, if the handover was seen."""
        death = newest_death(deliver)
        holds = [
            hold
            for hold in self._handovers.newest(key, LOOK_BACK)
            if hold.delivery is not None and (death is None or hold.death in (None, death))
        ]
        if not holds:
            return None
        self._note_refill(deliver.queue)
        # Some brokers keep the flag from before the death: this may be another letter.
        is_flag_older = death is not None and LAST_DEATH in deliver.properties["headers"]
        letter = self._letter(deliver, key) if is_flag_older else None
        origin = self._of_held(key, _by_copy(holds), _REDELIVERED, _RETURNED)
        self._next_hold.death = death
        if letter is None:
            return origin
        influences, candidates, is_more = self._may_be(letter)
        self._next_hold.candidates = candidates = candidates + (origin.candidates or 1)
        influences = (*_uncertain(origin.influences), *influences)
        if letter.origin.death.reason == MAXLEN:
            pushed, are_more = self._find_overflow(letter.origin.queue, None, is_one=False)
            influences, is_more = (*influences, *pushed), is_more or are_more
        is_more |= origin.is_doubtful
        return DeliveryOrigin(_REDELIVERED, None, origin.guess, influences, candidates, is_more)

    def _of_held(
        self, key: Key, copies: dict[int, list[_Hold]], match: Match, kind: EdgeKind
    ) -> DeliveryOrigin:
        """Match a delivery to one of some copies that somebody held."""
        is_one = len(copies) == 1
        # The least often handed over; among equals the newest, which is the first here.
        guess = min(copies.values(), key=len)[0]
        candidates = guess.candidates if is_one else len(copies)
        self._next_hold = _Hold(guess.cause, guess.number if is_one else 0, candidates)
        self._next_hold.has_brought = guess.has_brought and match is _REDELIVERED
        influences, is_more = _holders(copies, kind)
        is_more |= self._handovers.count(key) > LOOK_BACK
        if candidates == 0:
            return DeliveryOrigin(Match.unmatched, None, None, influences, None, is_more)
        cause = None if candidates else guess.cause
        return DeliveryOrigin(match, cause, guess.cause, influences, candidates, is_more)

    def _dead_letter(self, deliver: Deliver, key: Key) -> DeliveryOrigin | None:
        """Match the first handover of a dead letter, if its origin was seen."""
        letter = self._letter(deliver, key, is_there=True)
        if letter is None:
            return None
        self._note_refill(deliver.queue)
        origin = letter.origin
        queue = self._queues.get(deliver.queue)
        if queue is not None and len(queue.letters_of) < MOST_PUSHERS:
            queue.letters_of.update(dead_in(deliver)[0][:1])
        influences, candidates, is_doubtful = self._may_be(letter)
        copy = None
        # No copy is taken if others may have died: the rest would seem certain.
        is_held = bool(letter.holds)
        if letter.copy_keys and not letter.dead and not is_held:
            copy = self._take(self._oldest(letter.copy_keys))
        if copy is not None:
            result = DeliveryOrigin(_DEAD_LETTERED, copy.cause, copy.cause)
        elif letter.dead and not is_held:
            first = letter.dead[0]
            if candidates == 1:
                first.death = origin.death.time  # unknown of a lost one
            self._next_hold = _Hold(first.cause, first.number, first.candidates)
            cause = None if first.candidates else first.cause
            result = DeliveryOrigin(
                _DEAD_LETTERED, cause, first.cause, first.influences, first.candidates
            )
        else:
            place = (origin.queue, origin.fingerprint)
            result = self._of_held(place, letter.holds, _DEAD_LETTERED, letter.kind)
        if candidates > 1:
            self._next_hold.candidates = candidates
            result = DeliveryOrigin(_DEAD_LETTERED, None, result.guess, influences, candidates)
        influences, is_doubtful = result.influences, is_doubtful or result.is_doubtful
        # Another of several equal messages may have died, for which others are to blame.
        all_known = result.cause is not None and any(hold.influences for hold in letter.dead)
        if origin.is_redelivery:
            is_doubtful |= not letter.holds
        elif origin.death.reason == MAXLEN and not all_known:
            pushed, is_more = self._find_overflow(origin.queue, copy, is_one=candidates == 1)
            influences, is_doubtful = (*influences, *pushed), is_doubtful or is_more
        next_hold = self._next_hold
        if copy is not None:
            self._remember(
                (origin.queue, copy.fingerprint[:BYTES]),
                _Hold(
                    copy.cause,
                    copy.number,
                    next_hold.candidates,
                    death=origin.death.time,
                    has_brought=brings_deaths(copy.fingerprint),
                    influences=influences,
                ),
            )
        for death in origin.newer_deaths:  # in queues where no delivery was seen
            is_doubtful |= death.is_delivered_before
            if death.reason == MAXLEN and isinstance(death.queue, str):
                pushed, is_more = self._find_overflow(death.queue, None, is_one=False)
                influences, is_doubtful = (*influences, *pushed), is_doubtful or is_more
        next_hold.death = newest_death(deliver)
        if next_hold.candidates:
            next_hold.cause = _NOBODYS
        if is_from_stream(deliver):
            next_hold.influences = influences
        return DeliveryOrigin(
            result.match, result.cause, result.guess, influences, result.candidates, is_doubtful
        )

    def _letter(self, deliver: Deliver, key: Key, *, is_there: bool = False) -> _Letter | None:
        """Find the copies that a dead letter may be of.

        Not those whose letters this queue has handed out: one more is of another death. Unless
        there is nothing else and it ``is_there``, as a redelivery may have overtaken it.
        """
        handed: set[int] | None = None
        overtaken: _Letter | None = None
        marks = [key[1]]  # that it has had
        for origin in origins(deliver):
            places = [*origin.copy_keys]
            copy_keys = tuple(place for place in places if place in self._copies)
            holds: list[_Hold] = [] if origin.is_redelivery else self._siblings(marks)
            marks.append(origin.fingerprint)
            is_more = False
            for place in places:
                for memory in (self._handovers, self._lost_copies):
                    if place in memory:
                        holds += memory.newest(place, LOOK_BACK)
                        is_more |= memory.count(place) > LOOK_BACK
            if not holds and not copy_keys:
                continue
            if handed is None:
                handed = {
                    hold.cause.identity
                    for hold in self._handovers.newest(key, LOOK_BACK)
                    if hold.delivery is not None and hold.candidates is None
                }
            if is_there and overtaken is None:
                delivered = _by_copy(hold for hold in holds if hold.delivery is not None)
                overtaken = _Letter(origin, delivered, [], (), is_more) if delivered else None
            holds = [hold for hold in holds if hold.cause.identity not in handed]
            delivered = _by_copy(hold for hold in holds if hold.delivery is not None)
            dead = [
                hold
                for hold in holds
                if hold.delivery is None and _is_same(hold.death, origin.death.time)
            ]
            if origin.is_redelivery:
                dead, copy_keys = [], () if delivered else copy_keys
            if delivered or dead or copy_keys:
                return _Letter(origin, delivered, dead, copy_keys, is_more)
        return overtaken

    def _siblings(self, marks: list[bytes]) -> list[_Hold]:
        """The copies of which dead letters were handed over before a restart, by these marks.

        One death may have made several: the others wait without the copy that died.
        """
        if not self._restored_letters:
            return []
        handed = [hold for mark in marks for hold in self._restored_letters.newest(mark, LOOK_BACK)]
        return [*{hold.cause.identity: hold for hold in handed}.values()]

    def _oldest(self, keys: Iterable[Key]) -> Key:
        return min(keys, key=lambda key: copy.number if (copy := self._copies.first(key)) else 0)

    def _may_be(self, letter: _Letter) -> tuple[tuple[Influence, ...], int, bool]:
        """The influences of the copies that it may be of; how many; whether there are more."""
        influences, is_more = _holders(letter.holds, letter.kind, is_one=False)
        is_more |= letter.is_more
        count = len(letter.holds) + len(letter.dead)
        for hold in letter.dead[:MOST_CANDIDATES]:
            influences += (
                Influence(_CANDIDATE, hold.cause, 0, False),
                *_uncertain(hold.influences),
            )
        is_more |= len(letter.dead) > MOST_CANDIDATES
        numbers: set[int] = set()
        for key in letter.copy_keys:
            copies, number, are_more = self._candidates(key)
            if not numbers.issuperset(copy.number for copy in copies):
                influences += _candidates_of(copies)
                count, is_more = count + number, is_more or are_more
            numbers.update(copy.number for copy in copies)
        return influences, count, is_more

    def _find_overflow(
        self, name: str, copy: PendingCopy | None, *, is_one: bool
    ) -> tuple[tuple[Influence, ...], bool]:
        """Find the publishes that pushed a copy out of a full queue; and whether others may have.

        A copy that was alone in its queue was pushed out by the next one. A full queue may also
        refuse new copies: then earlier ones filled it.
        """
        queue = self._queues.get(name)
        if queue is None:
            return (), True
        own_number = 0 if copy is None else copy.number
        is_known = own_number >= self._first_tracked
        is_alone = (
            is_one
            and is_known
            and queue.previous == own_number
            and queue.length == 1
            and queue.at_delivery < own_number
            and not queue.is_refilled
        )
        pushed = self._copies.get(queue.newest) if is_alone else None
        if pushed is not None:
            return (Influence(_OVERFLOW, pushed.cause, pushed.participant, True),), False
        influences = []
        for participant, number in queue.pushers.items():
            if number != own_number:
                pusher = self._copies.get(number)
                cause = None if pusher is None else pusher.cause
                influences.append(Influence(_OVERFLOW, cause, participant, False))
        is_more = queue.is_refilled or queue.is_crowded or not is_known
        return tuple(influences), is_more

    def _match_reading(self, deliver: Deliver, mark: bytes) -> DeliveryOrigin:
        """Match a reading of a stream, at an offset read before or at the next one."""
        place = (deliver.queue, handover_of(mark))
        # The publish had copied the offset: its queue is no stream, and hands it out once.
        if not deliver.redelivered and place in self._copies:
            return self._read([place], deliver)
        holds = self._handovers.newest(place, LOOK_BACK)
        if holds and deliver.redelivered:  # which no stream says
            return self._of_held(place, _by_copy(holds), _REDELIVERED, _RETURNED)
        if holds:
            return self._read_again(holds, deliver, mark)
        # It has lost the deaths that a client brought: these were on the way there.
        if dead_in(deliver)[0] and (letter := self._dead_letter(deliver, place)):
            return letter
        keys = [(deliver.queue, candidate) for candidate in of_stream(deliver, mark)]
        # Messages that the stream made equal come out in order.
        if any(key in self._copies for key in keys):
            return self._read(keys, deliver)
        return self._match_kept(deliver, mark) or self._note_unmatched(deliver)

    def _read(self, keys: list[Key], deliver: Deliver) -> DeliveryOrigin:
        """Match the first reading of an offset to one of the copies with these keys."""
        copies = {
            copy.number: copy
            for key in keys
            for copy in (*self._copies.newest(key, MOST_CANDIDATES), self._copies.first(key))
            if copy is not None
        }
        unclear = self._unclear.pop(keys[0], None)
        oldest = copies[min(copies)]
        self._take((oldest.queue, oldest.fingerprint[:BYTES]), deliver)
        if len(copies) == 1 and unclear is None:
            return DeliveryOrigin(_ROUTED, oldest.cause, oldest.cause)
        candidates = (unclear or {}) | {
            copies[number].participant: copies[number] for number in sorted(copies)
        }
        if len(self._unclear) >= MOST_QUEUES:
            self._unclear.popitem(last=False)
        self._unclear[keys[0]] = candidates
        is_more = len(candidates) > MOST_CANDIDATES or len(copies) > MOST_CANDIDATES
        count = self._next_hold.candidates = max(2, len(copies))
        influences = _candidates_of([*candidates.values()][-MOST_CANDIDATES:])
        return DeliveryOrigin(_ROUTED, None, oldest.cause, influences, count, is_more)

    def _read_again(self, holds: list[_Hold], deliver: Deliver, mark: bytes) -> DeliveryOrigin:
        """Match a later reading of the same offset, which nobody has to give back."""
        copies = _by_copy(holds)
        guess = min(copies.values(), key=len)[0]
        candidates = guess.candidates if len(copies) == 1 else len(copies)
        # Deaths that a stream shows happened on the way there: it loses those that a client copied.
        match = _DEAD_LETTERED if any(origins(deliver)) else _ROUTED
        self._next_hold = _Hold(guess.cause, guess.number, candidates, influences=guess.influences)
        # After a restart it is not known what the first reader was told of the deaths.
        is_doubtful = not guess.influences and any(
            origin.is_redelivery or origin.death.reason == MAXLEN for origin in origins(deliver)
        )
        if candidates == 0:
            return _UNMATCHED
        if candidates is None:
            influences, cause = guess.influences, guess.cause
            return DeliveryOrigin(match, cause, cause, influences, is_doubtful=is_doubtful)
        unclear = self._unclear.get((deliver.queue, mark[:BYTES]))
        if unclear:
            influences = _candidates_of(unclear.values())
        else:
            influences, _ = _holders(copies, _CANDIDATE, is_one=False)
        influences = (*guess.influences, *influences)
        return DeliveryOrigin(match, None, guess.cause, influences, candidates, is_doubtful)

    def _leave_out(self) -> None:
        """Forget copies in queues that are taken no more."""
        for copy in [*self._copies.values()]:
            if not self._takes.deliveries(copy.queue):
                oldest = self._copies.take((copy.queue, copy.fingerprint[:BYTES]))
                if oldest is not None:
                    self._note_leaving(oldest)

    def _wait(self, copy: PendingCopy) -> None:
        keys = tuple((copy.queue, half) for half in fingerprint_halves(copy.fingerprint))
        if self._copies.add_under(copy.number, keys, copy) > 1:
            self._note_equal(copy)

    def _note_equal(self, copy: PendingCopy) -> None:
        """Note the publisher of a copy that has come to equal ones."""
        key = (copy.queue, copy.fingerprint[:BYTES])
        equals = self._equals.get(key)
        if equals is None:
            newest = self._copies.newest(key, 2)
            if len(newest) < 2:  # it is only in another half that it is equal
                return
            equals = self._equals[key] = _Equals({})
            equals.add(newest[1])
        equals.add(copy)

    def _note_kept(self, mark: bytes, cause: Reference) -> None:
        """Note a publish that an exchange may hand out at any time."""
        self.publish_count += 1
        self._published.add(self.publish_count, mark, cause)
        if len(self._published) > MOST_PUBLISHED:
            self._published.take_oldest()
            self._knows_published = False

    def _queue(self, name: str, number: int) -> _Queue:
        """A new queue, known from a copy's number on."""
        if len(self._queues) >= MOST_QUEUES:
            self._queues.clear()
            self._first_tracked = number
        queue = self._queues[name] = _Queue(is_crowded=self._first_tracked > 1)
        return queue

    def _note_refill(self, name: str) -> None:
        """Note that a queue gets more than its publishes."""
        queue = self._queues.get(name)
        if queue is not None:
            queue.is_refilled = True

    def _gets_letters(self, deliver: Deliver) -> bool:
        """Tell whether a queue has handed out dead letters of the same queue."""
        queue = self._queues.get(deliver.queue)
        return queue is not None and not queue.letters_of.isdisjoint(dead_in(deliver)[0][:1])

    def _is_elsewhere(self, key: Key, deliver: Deliver) -> bool:
        """Tell whether a message with deaths is none of the copies that brought the same ones."""
        if not dead_in(deliver)[0]:
            return False
        copies = self._copies.newest(key, LOOK_BACK)
        return not any(is_addressed_as(deliver, copy.fingerprint) for copy in copies)

    def _may_be_forgotten(self, name: str) -> bool:
        """Tell whether a delivery may be of a dropped copy, equal to one that was not."""
        if not self.has_forgotten(name):
            return False
        queue = self._queues.get(name)
        return queue is None or queue.handed - CLEARLY_LATER <= self._dropped_until

    def _remember(self, key: Key, hold: _Hold) -> None:
        """Remember a hold; the oldest makes room."""
        handovers, number = self._handovers, self._next_handover
        if hold.has_brought:
            handovers.add_under(number, _brought_keys(key), hold)
        else:
            handovers.add(number, key, hold)
        self._next_handover = number + 1
        if len(handovers) > self._most_handovers:
            handovers.take_oldest()

    def _note_leaving(self, copy: PendingCopy) -> _Queue | None:
        """Note that a copy has left its queue; returns that, if it is remembered."""
        number = copy.number
        if number < self._stored:
            self._removals.append(number)
        queue = self._queues.get(copy.queue)
        if queue is not None:
            queue.length -= 1
        if self._equals:
            key = (copy.queue, copy.fingerprint[:BYTES])
            if key in self._equals and self._copies.count(key) < 2:
                del self._equals[key]
        return queue

    def _drop_excess(self, moment: int, count: int) -> None:
        for _ in range(count):
            copy = self._copies.oldest()
            self._ages_at = self._copy_age + (moment if copy is None else copy.recorded_at)
            if copy is None or (len(self._copies) <= self._most_copies and moment <= self._ages_at):
                return
            self._copies.take_oldest()
            self._note_leaving(copy)
            self.copies_dropped += 1
            self._dropped_until = copy.recorded_at
            if len(self._drop_queues) < MOST_QUEUES:
                self._drop_queues.add(copy.queue)
            else:
                self._forgot_before = True


def _brought_keys(key: Key) -> tuple[Key, Key]:
    """The keys of a message that brought deaths: as it is, and whatever these are."""
    return key, (key[0], key[1][:BROUGHT_BYTES])


def _is_before(reference: Reference, event_id: int) -> bool:
    # An event without an id yet is in the batch at hand, newer than anything stored.
    return reference.id is not None and reference.id < event_id


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


def _is_same(time: Any, other_time: Any) -> bool:
    """Tell whether the times of two deaths in a queue may be of one."""
    return time is None or other_time is None or bool(time == other_time)


def _by_copy(holds: Iterable[_Hold]) -> dict[int, list[_Hold]]:
    copies: dict[int, list[_Hold]] = {}
    for hold in holds:
        copies.setdefault(hold.cause.identity, []).append(hold)
    return copies


def _holders(
    copies: dict[int, list[_Hold]], kind: EdgeKind, *, is_one: bool | None = None
) -> tuple[tuple[Influence, ...], bool]:
    """Influences of the last holders of some copies; and whether others may have held one.

    Of each copy: its last certain delivery, and the uncertain ones since then.
    """
    if is_one is None:
        is_one = len(copies) == 1
    last: list[_Hold] = []
    for deliveries in copies.values():
        for hold in deliveries:
            last.append(hold)
            if is_one or hold.candidates is None:
                break
    influences = tuple(
        Influence(kind, hold.delivery, hold.participant, is_one)
        for hold in last[:MOST_CANDIDATES]
        if hold.delivery is not None
    )
    return influences, len(last) > MOST_CANDIDATES


def _candidates_of(copies: Iterable[PendingCopy]) -> tuple[Influence, ...]:
    return tuple(Influence(_CANDIDATE, copy.cause, copy.participant, False) for copy in copies)


def _uncertain(influences: Iterable[Influence]) -> tuple[Influence, ...]:
    return tuple(msgspec.structs.replace(influence, certain=False) for influence in influences)
