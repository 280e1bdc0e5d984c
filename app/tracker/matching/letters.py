"""Dead letters: the copies that one may be of, held by somebody, dead, or waiting."""

from __future__ import annotations

from typing import Any

import msgspec

from app.tracker._copies import NOBODYS, Hold
from app.tracker.events import DeliveryOrigin, Influence, PendingCopy
from app.tracker.fingerprint import BYTES, brings_deaths
from app.tracker.matching.equals import candidates_of
from app.tracker.matching.holds import (
    MOST_CANDIDATES,
    DeliveryCase,
    Influences,
    Key,
    by_copy,
    holders,
    uncertain,
)
from app.tracker.matching.memories import Memories
from app.tracker.matching.origins import DeathOrigin, origins
from app.tracker.streams import is_from_stream
from model.deaths import Death
from model.words import EdgeKind, Match

# An enumeration's member takes a while to look up.
_DEAD_LETTERED, _REDELIVERED = Match.dead_lettered, Match.redelivered
_RETURNED, _REJECTED, _CANDIDATE = EdgeKind.returned, EdgeKind.rejected, EdgeKind.candidate

MAXLEN = "maxlen"  # the reason of deaths by being pushed out of a queue


class Letter(msgspec.Struct, gc=False):
    """Copies that a dead letter may be of: held by somebody, dead, or waiting under some keys."""

    origin: DeathOrigin
    holds: dict[int, list[Hold]]
    dead: list[Hold]
    copy_keys: tuple[Key, ...]
    is_more: bool

    @property
    def kind(self) -> EdgeKind:
        return _REJECTED if self.origin.is_redelivery else _RETURNED


def find_letter(memories: Memories, case: DeliveryCase, *, is_there: bool = False) -> Letter | None:
    """Find the copies that a dead letter may be of.

    Not those whose letters this queue has handed out: one more is of another death. Unless there
    is nothing else and it ``is_there``, as a redelivery may have overtaken it.
    """
    copies, handovers = memories.copies, memories.handovers
    handed: set[int] | None = None
    overtaken: Letter | None = None
    marks = [case.key[1]]  # that it has had
    for origin in origins(case.deliver):
        places = [*origin.copy_keys]
        copy_keys = tuple(place for place in places if place in copies.waiting)
        holds: list[Hold] = [] if origin.is_redelivery else handovers.siblings(marks)
        marks.append(origin.fingerprint)
        is_more = False
        for place in places:
            for memory in (handovers, copies.lost):
                if place in memory:
                    holds += memory.newest(place)
                    is_more |= memory.has_more(place)
        if not holds and not copy_keys:
            continue
        if handed is None:
            handed = {
                hold.cause.identity
                for hold in handovers.newest(case.key)
                if hold.delivery is not None and hold.candidates is None
            }
        if is_there and overtaken is None:
            delivered = by_copy(hold for hold in holds if hold.delivery is not None)
            overtaken = Letter(origin, delivered, [], (), is_more) if delivered else None
        holds = [hold for hold in holds if hold.cause.identity not in handed]
        delivered = by_copy(hold for hold in holds if hold.delivery is not None)
        dead = [
            hold
            for hold in holds
            if hold.delivery is None and _is_same(hold.death, origin.death.time)
        ]
        if origin.is_redelivery:
            dead, copy_keys = [], () if delivered else copy_keys
        if delivered or dead or copy_keys:
            return Letter(origin, delivered, dead, copy_keys, is_more)
    return overtaken


def may_be(memories: Memories, letter: Letter) -> tuple[Influences, int, bool]:
    """The influences of the copies that it may be of; how many; whether there are more."""
    influences, is_more = holders(letter.holds, letter.kind, is_one=False)
    is_more |= letter.is_more or len(letter.dead) > MOST_CANDIDATES
    count = len(letter.holds) + len(letter.dead)
    for hold in letter.dead[:MOST_CANDIDATES]:
        influences += (Influence(_CANDIDATE, hold.cause, 0, False), *uncertain(hold.influences))
    numbers: set[int] = set()
    for key in letter.copy_keys:
        copies, number, are_more = memories.copies.equals.candidates(key)
        if not numbers.issuperset(copy.number for copy in copies):
            influences += candidates_of(copies)
            count, is_more = count + number, is_more or are_more
        numbers.update(copy.number for copy in copies)
    return influences, count, is_more


def match_letter(memories: Memories, case: DeliveryCase) -> DeliveryOrigin | None:
    """Match the first handover of a dead letter, if its origin was seen."""
    letter = find_letter(memories, case, is_there=True)
    if letter is None:
        return None
    memories.queues.note_letter(case)
    origin = letter.origin
    influences, candidates, is_doubtful = may_be(memories, letter)
    is_doubtful |= any(hold.is_doubtful for hold in letter.dead)
    copy: PendingCopy | None = None
    if letter.holds:
        place = (origin.queue, origin.fingerprint)
        result = match_held(memories, place, letter.holds, _DEAD_LETTERED, letter.kind)
    elif letter.dead:
        first = letter.dead[0]
        if candidates == 1:
            first.death = origin.death.time  # unknown of a lost one
        memories.handovers.next = Hold(first.cause, first.candidates)
        cause = None if first.candidates else first.cause
        result = DeliveryOrigin(
            _DEAD_LETTERED, cause, first.cause, first.influences, first.candidates
        )
    else:  # if others may have died, none is taken: the rest would seem certain
        copy = memories.copies.take_oldest(letter.copy_keys)
        memories.handovers.next = Hold(copy.cause)
        result = DeliveryOrigin(_DEAD_LETTERED, copy.cause, copy.cause)
    hold = memories.handovers.next
    # The consumer of one of several may have been handed another than died in silence.
    if candidates > 1 or (result.candidates and not origin.is_redelivery):
        hold.candidates = candidates = max(candidates, result.candidates or 0)
        result = DeliveryOrigin(_DEAD_LETTERED, None, result.guess, influences, candidates)
    influences, is_doubtful = result.influences, is_doubtful or result.is_doubtful
    # Another of several equal ones may have died, for which others are to blame.
    are_known = result.cause is not None and any(hold.influences for hold in letter.dead)
    if origin.is_redelivery:
        is_doubtful |= not letter.holds
    elif not are_known:
        pushed, is_more = overflow(memories, origin.death, copy, is_one=candidates == 1)
        influences, is_doubtful = (*influences, *pushed), is_doubtful or is_more
    if copy is not None:
        has_brought = brings_deaths(copy.fingerprint)
        died = Hold(copy.cause, hold.candidates, death=origin.death.time, influences=influences)
        died.has_brought, died.is_doubtful = has_brought, is_doubtful
        memories.handovers.add((origin.queue, copy.fingerprint[:BYTES]), died)
    for death in origin.newer_deaths:  # in queues where no delivery was seen
        is_doubtful |= death.is_delivered_before
        pushed, is_more = overflow(memories, death)
        influences, is_doubtful = (*influences, *pushed), is_doubtful or is_more
    hold.death = case.death_time
    if hold.candidates:
        hold.cause = NOBODYS
    if is_from_stream(case.deliver):
        hold.influences, hold.is_doubtful = influences, is_doubtful
    return DeliveryOrigin(
        result.match, result.cause, result.guess, influences, result.candidates, is_doubtful
    )


def match_held(
    memories: Memories, key: Key, copies: dict[int, list[Hold]], match: Match, kind: EdgeKind
) -> DeliveryOrigin:
    """Match a delivery to one of some copies that somebody held."""
    is_one = len(copies) == 1
    # The least often handed over; among equals the newest, which is the first here.
    guess = min(copies.values(), key=len)[0]
    candidates = guess.candidates if is_one else len(copies)
    has_brought = guess.has_brought and match is _REDELIVERED
    memories.handovers.next = Hold(guess.cause, candidates, has_brought=has_brought)
    influences, is_more = holders(copies, kind)
    is_more |= memories.handovers.has_more(key)
    if candidates == 0:
        return DeliveryOrigin(Match.unmatched, None, None, influences, None, is_more)
    cause = None if candidates else guess.cause
    return DeliveryOrigin(match, cause, guess.cause, influences, candidates, is_more)


def overflow(
    memories: Memories, death: Death, copy: PendingCopy | None = None, *, is_one: bool = False
) -> tuple[Influences, bool]:
    """The publisher that pushed a copy out of its queue, if any, and whether others may have."""
    if death.reason != MAXLEN:
        return (), False
    waiting = memories.copies.waiting
    return memories.queues.find_overflow(death.queue, waiting, copy, is_one=is_one)


def _is_same(time: Any, other_time: Any) -> bool:
    """Tell whether the times of two deaths in a queue may be of one."""
    return time is None or other_time is None or bool(time == other_time)
