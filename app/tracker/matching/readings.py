"""Readings of streams: at an offset that was read before, or at the next one."""

from __future__ import annotations

from app.tracker._copies import Hold
from app.tracker.events import DeliveryOrigin
from app.tracker.fingerprint import BYTES, of_stream
from app.tracker.matching.equals import candidates_of
from app.tracker.matching.holds import MOST_CANDIDATES, DeliveryCase, Key, by_copy, holders
from app.tracker.matching.letters import MAXLEN, match_held, match_letter
from app.tracker.matching.memories import UNMATCHED, Memories
from app.tracker.matching.origins import origins
from app.tracker.matching.queues import MOST_QUEUES
from app.tracker.records import Deliver
from model.words import EdgeKind, Match

_ROUTED, _DEAD_LETTERED = Match.routed, Match.dead_lettered


def find_copied_offset(memories: Memories, case: DeliveryCase) -> DeliveryOrigin | None:
    """One whose publish had copied the offset: its queue is no stream, and hands it out once."""
    if case.deliver.redelivered or case.key not in memories.copies.waiting:
        return None
    return _read(memories, case.deliver, [case.key])


def find_reading(memories: Memories, case: DeliveryCase) -> DeliveryOrigin | None:
    """A later reading of the same offset, which nobody has to give back."""
    deliver = case.deliver
    holds = memories.handovers.newest(case.key)
    if not holds:
        return None
    copies = by_copy(holds)
    if deliver.redelivered:  # which no stream says
        return match_held(memories, case.key, copies, Match.redelivered, EdgeKind.returned)
    guess = min(copies.values(), key=len)[0]
    candidates = guess.candidates if len(copies) == 1 else len(copies)
    # Deaths that a stream shows happened on the way there: it loses those that a client copied.
    match = _DEAD_LETTERED if any(origins(deliver)) else _ROUTED
    influences = guess.influences
    memories.handovers.next = hold = Hold(guess.cause, candidates, influences=influences)
    # After a restart it is not known what the first reader was told of the deaths.
    hold.is_doubtful = is_doubtful = guess.is_doubtful or (
        not influences
        and any(death.is_delivered_before or death.reason == MAXLEN for death in deliver.deaths)
    )
    if candidates == 0:
        return UNMATCHED
    if candidates is None:
        cause = guess.cause
        return DeliveryOrigin(match, cause, cause, influences, is_doubtful=is_doubtful)
    unclear = memories.unclear.get((deliver.queue, case.mark[:BYTES]))
    if unclear:
        equals = candidates_of(unclear.values())
    else:
        equals, _ = holders(copies, EdgeKind.candidate, is_one=False)
    influences = (*influences, *equals)
    return DeliveryOrigin(match, None, guess.cause, influences, candidates, is_doubtful)


def find_read_letter(memories: Memories, case: DeliveryCase) -> DeliveryOrigin | None:
    """The first reading of a dead letter; the stream has lost deaths that a client brought."""
    return match_letter(memories, case) if case.deliver.deaths else None


def find_next(memories: Memories, case: DeliveryCase) -> DeliveryOrigin | None:
    """The first reading of a message; those that the stream made equal come out in order."""
    deliver = case.deliver
    keys = [(deliver.queue, candidate) for candidate in of_stream(deliver, case.mark)]
    if any(key in memories.copies.waiting for key in keys):
        return _read(memories, deliver, keys)
    return None


def _read(memories: Memories, deliver: Deliver, keys: list[Key]) -> DeliveryOrigin:
    """Match the first reading of an offset to one of the copies with these keys."""
    waiting, unclear = memories.copies.waiting, memories.unclear
    copies = {
        copy.number: copy
        for key in keys
        for copy in (*waiting.newest(key, MOST_CANDIDATES), waiting.first(key))
        if copy is not None
    }
    earlier = unclear.pop(keys[0], None)
    oldest = memories.copies.take_oldest(keys, deliver)
    memories.handovers.next = hold = Hold(oldest.cause)
    if len(copies) == 1 and earlier is None:
        return DeliveryOrigin(_ROUTED, oldest.cause, oldest.cause)
    candidates = (earlier or {}) | {
        copies[number].participant: copies[number] for number in sorted(copies)
    }
    if len(unclear) >= MOST_QUEUES:
        unclear.popitem(last=False)
    unclear[keys[0]] = candidates
    is_more = len(candidates) > MOST_CANDIDATES or len(copies) > MOST_CANDIDATES
    hold.candidates = count = max(2, len(copies))
    influences = candidates_of([*candidates.values()][-MOST_CANDIDATES:])
    return DeliveryOrigin(_ROUTED, None, oldest.cause, influences, count, is_more)
