"""The searches for what a delivery is of, in order: the first that finds something counts.

Where one finds an origin, it makes ``handovers.next`` the delivery's hold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from app.tracker._copies import NOBODYS, Hold
from app.tracker.events import DeliveryOrigin, Influence, LostCopy, PendingCopy, Reference
from app.tracker.fingerprint import BYTES, brings_deaths, is_addressed_as
from app.tracker.matching import readings
from app.tracker.matching.equals import candidates_of
from app.tracker.matching.holds import LOOK_BACK, MOST_CANDIDATES, DeliveryCase, by_copy, uncertain
from app.tracker.matching.letters import find_letter, match_held, match_letter, may_be, overflow
from app.tracker.matching.memories import Memories
from app.tracker.matching.origins import LAST_DEATH
from model.words import EdgeKind, Match

Search: TypeAlias = Callable[[Memories, DeliveryCase], DeliveryOrigin | None]

# An enumeration's member takes a while to look up.
_ROUTED, _REDELIVERED, _DEAD_LETTERED = Match.routed, Match.redelivered, Match.dead_lettered
_RETURNED, _CANDIDATE = EdgeKind.returned, EdgeKind.candidate


def find_redelivery(memories: Memories, case: DeliveryCase) -> DeliveryOrigin | None:
    """One flagged as redelivered, if its handover was seen."""
    deliver = case.deliver
    if not deliver.redelivered:
        return None
    key, death = case.key, case.death_time
    holds = [
        hold
        for hold in memories.handovers.newest(key)
        if hold.delivery is not None and (death is None or hold.death in (None, death))
    ]
    if not holds:
        return None
    memories.queues.note_refill(deliver.queue)
    # Some brokers keep the flag from before the death: this may be another letter.
    is_flag_older = death is not None and LAST_DEATH in deliver.properties["headers"]
    letter = find_letter(memories, case) if is_flag_older else None
    origin = match_held(memories, key, by_copy(holds), _REDELIVERED, _RETURNED)
    hold = memories.handovers.next
    hold.death = death
    if letter is None:
        return origin
    influences, candidates, is_more = may_be(memories, letter)
    pushed, are_more = overflow(memories, letter.origin.death)
    hold.candidates = candidates = candidates + (origin.candidates or 1)
    influences = (*uncertain(origin.influences), *influences, *pushed)
    is_more |= are_more or origin.is_doubtful
    return DeliveryOrigin(_REDELIVERED, None, origin.guess, influences, candidates, is_more)


def find_letter_from_elsewhere(memories: Memories, case: DeliveryCase) -> DeliveryOrigin | None:
    """A dead letter, where no publish brought the same deaths by its exchange and key."""
    if not case.deliver.deaths:
        return None
    copies = memories.copies.waiting.newest(case.key, LOOK_BACK)
    if any(is_addressed_as(case.deliver, copy.fingerprint) for copy in copies):
        return None
    return match_letter(memories, case)


def find_copy(memories: Memories, case: DeliveryCase) -> DeliveryOrigin | None:
    """A first delivery; or one flagged redelivered that the firehose never showed.

    A broker that restarts flags all messages.
    """
    copies, deliver = memories.copies, case.deliver
    key, equals = (deliver.queue, case.mark), copies.equals.newest
    if equals and key in equals:
        copies.drop_gone(key, deliver, case.moment)
        if key in equals:
            return _match_equal(memories, case)
    copy = copies.take(key, deliver)
    if copy is None:
        return None
    cause = copy.cause
    memories.handovers.next = Hold(cause)
    if deliver.redelivered or copies.dropped or len(copy.fingerprint) != BYTES:
        return _match_only_copy(memories, case, copy)
    return DeliveryOrigin(_ROUTED, cause, cause)


def _match_equal(memories: Memories, case: DeliveryCase) -> DeliveryOrigin:
    """Match a first delivery where several equal copies wait."""
    copies, deliver = memories.copies, case.deliver
    candidates, count, is_more = copies.equals.candidates(case.key)
    oldest = copies.take_oldest([case.key], deliver)
    copies.newly_lost.append(LostCopy(oldest.cause, oldest.queue, 0, "equal"))
    has_brought = brings_deaths(oldest.fingerprint)
    memories.handovers.next = Hold(NOBODYS, count, has_brought=has_brought)
    is_more |= deliver.redelivered or copies.may_be_dropped(deliver.queue)
    influences = candidates_of(candidates)
    return DeliveryOrigin(_ROUTED, None, oldest.cause, influences, count, is_more)


def _match_only_copy(memories: Memories, case: DeliveryCase, copy: PendingCopy) -> DeliveryOrigin:
    """Match a first delivery to the only copy of its kind, and to a dead letter like it."""
    deliver = case.deliver
    # Flagged, it was held by somebody who is not known.
    is_doubtful = deliver.redelivered or memories.copies.may_be_dropped(deliver.queue)
    cause, has_brought = copy.cause, brings_deaths(copy.fingerprint)
    memories.handovers.next.has_brought = has_brought
    is_letter_likely = has_brought and memories.queues.gets_letters(case)
    letter = find_letter(memories, case) if is_letter_likely else None
    if letter is None:
        return DeliveryOrigin(_ROUTED, cause, cause, is_doubtful=is_doubtful)
    influences, count, is_more = may_be(memories, letter)
    memories.handovers.next = Hold(NOBODYS, count + 1, has_brought=has_brought)
    influences = (*candidates_of([copy]), *influences)
    return DeliveryOrigin(_ROUTED, None, cause, influences, count + 1, is_doubtful or is_more)


def find_dead_letter(memories: Memories, case: DeliveryCase) -> DeliveryOrigin | None:
    """A dead letter's first handover."""
    return match_letter(memories, case)


def find_kept(memories: Memories, case: DeliveryCase) -> DeliveryOrigin | None:
    """One that no publish has put into its queue: an exchange has kept it.

    An exchange may hand out later what went nowhere, or elsewhere (`x-recent-history`, delays). Or
    its copy was wrongly taken for lost.
    """
    kept, key = memories.kept, (case.deliver.queue, case.mark)
    publishes: Sequence[Reference] = kept.publishes.newest(case.mark, MOST_CANDIDATES)
    publishes = publishes or [
        hold.cause for hold in memories.copies.lost.newest(key, MOST_CANDIDATES)
    ]
    if publishes:
        return match_moved(memories, case, publishes)
    if kept.knows_all or not case.deliver.exchange or case.death_time is not None:
        return None
    unmatched = memories.note_unmatched(case)
    return DeliveryOrigin(unmatched.match, is_doubtful=True)


def match_moved(
    memories: Memories, case: DeliveryCase, publishes: Sequence[Reference]
) -> DeliveryOrigin:
    """Match a delivery that the broker moved unseen to ``publishes``, the newest first.

    Of a message with an id the only publish is certain, unless the queue has handed that out
    already: then a publish may have been missed.
    """
    deliver, death = case.deliver, case.death_time
    memories.queues.note_refill(deliver.queue)
    is_one = len(publishes) == 1 and "message_id" in deliver.properties
    is_one &= deliver.redelivered or case.key not in memories.handovers
    cause = publishes[0]
    candidates = None if is_one else len(publishes) + 1
    # If there are several, the delivery stands for itself, as it does after a restart.
    memories.handovers.next = Hold(cause if is_one else NOBODYS, candidates, death=death)
    match = _ROUTED if death is None else _DEAD_LETTERED
    if is_one:  # though nobody knows who was handed it before
        is_doubtful = deliver.redelivered or death is not None
        return DeliveryOrigin(match, cause, cause, is_doubtful=is_doubtful)
    newest = publishes[:MOST_CANDIDATES]
    influences = tuple(Influence(_CANDIDATE, publish, 0, False) for publish in newest[::-1])
    return DeliveryOrigin(match, None, cause, influences, candidates, is_doubtful=True)


FROM_QUEUES: tuple[Search, ...] = (
    find_redelivery,
    find_letter_from_elsewhere,
    find_copy,
    find_dead_letter,
    find_kept,
)
FROM_STREAMS: tuple[Search, ...] = (
    readings.find_copied_offset,
    readings.find_reading,
    readings.find_read_letter,
    readings.find_next,
    find_kept,
)
