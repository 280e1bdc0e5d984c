"""The whereabouts of a message: one word for what became of its copies; nothing here is I/O.

The record says what was handed over and settled. Of a copy that was not, the broker's word on its
queue tells whether it still waits: limits, times to live and purges leave no trace message.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from model.conversations import Copy, Message
from model.words import Disposition

STATISTICS_AGE = 10_000_000
"""The broker's numbers of a queue are up to this old (µs; quorum queues of 3.10.8)."""


class WhereWord(enum.StrEnum):
    """The state of a message, or of all messages that an id stands for.

    ``settled``: acknowledged, or taken without acknowledgement, from every queue. ``handed_over``:
    from every queue, and no record says how it was settled. ``waiting``: in a queue, or in a
    consumer's hands. ``died``: rejected, expired, pushed out, purged, or routed to no queue.
    ``never_published``: not while the record was complete. Of several the first in this order
    stands for all: ``died``, ``waiting``, ``unknown``, ``handed_over``, ``settled``.
    """

    settled = "settled"
    handed_over = "handed_over"
    waiting = "waiting"
    died = "died"
    never_published = "never_published"
    unknown = "unknown"


_FIRST = (
    WhereWord.died,
    WhereWord.waiting,
    WhereWord.unknown,
    WhereWord.handed_over,
    WhereWord.settled,
)


class QueueView(NamedTuple):
    """A queue as the broker describes it; ``expires_after`` in µs, None without a limit.

    ``messages`` are those ready in it. ``expected`` is how many copies wait there by the record,
    of those older than `STATISTICS_AGE`; None where that is not known.
    """

    messages: int | None
    expected: int | None = None
    keeps: bool = True
    has_dead_letters: bool = False
    is_limited: bool = False
    expires_after: int | None = None


class Fact(NamedTuple):
    """A word, and its evidence beside the record, if any."""

    word: WhereWord
    reason: str | None = None


_NOWHERE: Mapping[int, Fact] = MappingProxyType({})
_NOT_KNOWN = Fact(WhereWord.unknown, "what became of it then is not traced here")


def strongest(words: Iterable[WhereWord]) -> WhereWord:
    """The word that stands for all of some, of which there is at least one."""
    return min(words, key=_FIRST.index)


def whereabouts(
    message: Message,
    queues: Mapping[str, QueueView | None],
    *,
    wait: int,
    is_whole: bool,
    onward: Mapping[int, Fact] = _NOWHERE,
) -> Fact:
    """The word for a message, and its reason.

    ``queues`` are those that the broker was asked about, None where it has none of that name.
    ``wait`` is the time since the publish (µs). ``is_whole``: no gap since the publish, and all
    is stored that was traced before the broker was asked. ``onward`` has what became of copies that
    a shovel or a federation link took elsewhere, by their deliveries.
    """
    expiration = message.record.expiration
    is_number = expiration is not None and expiration.isdecimal()
    expires_after = int(expiration or 0) * 1_000 if is_number else None
    failure = message.failure
    if failure is not None and failure.kind == "unroutable":
        return Fact(WhereWord.died, "it was routed to no queue")
    if failure is not None and failure.kind != "came_back":
        where = f" in {failure.queue}" if failure.queue else ""
        reason = ", ".join(filter(None, (failure.kind.replace("_", " "), failure.reason)))
        return Fact(WhereWord.died, f"{reason}{where}")
    if not message.copies:
        return Fact(WhereWord.unknown)
    facts = [
        _of_copy(copy, queues, wait, expires_after, onward, is_whole=is_whole)
        for copy in message.copies
    ]
    word = strongest(fact.word for fact in facts)
    return Fact(word, next((fact.reason for fact in facts if fact.word is word), None))


def queue_to_ask(copy: Copy) -> str | None:
    """The queue on which the word for a copy depends; None if the record says enough."""
    if not copy.deliveries:
        return copy.queue if copy.state == "waiting" else None
    last = copy.deliveries[-1]
    if last.settlement in (Disposition.rejected, Disposition.returned):
        return last.queue or copy.queue
    return None


def _of_copy(
    copy: Copy,
    queues: Mapping[str, QueueView | None],
    wait: int,
    expires_after: int | None,
    onward: Mapping[int, Fact],
    *,
    is_whole: bool,
) -> Fact:
    if not copy.deliveries:
        if copy.state != "waiting":
            return Fact(WhereWord.unknown, f"its copy in {copy.queue} {copy.remark}")
        return _of_wait(copy.queue, queues, wait, expires_after, is_whole=is_whole)
    last = copy.deliveries[-1]
    queue = last.queue or copy.queue
    if last.mover is not None and last.settlement is not Disposition.in_hand:
        fact = onward.get(last.event, _NOT_KNOWN)
        return fact._replace(reason=f"left {queue} by {last.mover}: {fact.reason}")
    match last.settlement:
        case Disposition.acknowledged | Disposition.auto:
            return Fact(WhereWord.settled)
        case Disposition.in_hand:
            if is_whole:
                return Fact(WhereWord.waiting, f"{last.record.name} holds the copy from {queue}")
            return Fact(
                WhereWord.unknown, f"{last.record.name} held the copy from {queue} when last traced"
            )
        case Disposition.rejected:
            view = queues.get(queue)
            if view is not None and not view.has_dead_letters and is_whole:
                reason = f"{last.record.name} rejected it, and {queue} has no dead letter exchange"
                return Fact(WhereWord.died, reason)
            return Fact(
                WhereWord.unknown,
                f"{last.record.name} rejected it from {queue}: dropped, or a dead letter that"
                " waits",
            )
        case Disposition.returned:
            back = _of_wait(queue, queues, wait, expires_after, is_whole=is_whole)
            return back._replace(reason=f"{last.record.name} gave it back; {back.reason}")
        case _:
            return Fact(WhereWord.handed_over, "no record says how its consumer settled it")


def _of_wait(
    queue: str,
    queues: Mapping[str, QueueView | None],
    wait: int,
    expires_after: int | None,
    *,
    is_whole: bool,
) -> Fact:
    """The word for a copy that nobody was handed since it came, or came back, into a queue."""
    if not is_whole:
        return Fact(
            WhereWord.unknown,
            f"it waits in {queue}, or was handed over in a gap or a moment ago",
        )
    if queue not in queues:
        return Fact(WhereWord.unknown, f"the broker does not say whether it still waits in {queue}")
    view = queues[queue]
    if view is None:
        return Fact(WhereWord.died, f"{queue} is not there any more, and its messages with it")
    if view.messages is None or not view.keeps:
        return Fact(WhereWord.unknown, f"the broker does not say whether it still waits in {queue}")
    limits = [limit for limit in (expires_after, view.expires_after) if limit is not None]
    if view.messages == 0:
        if wait < STATISTICS_AGE:
            return Fact(WhereWord.unknown, f"it went into {queue} a moment ago")
        if view.has_dead_letters:
            return Fact(WhereWord.unknown, f"it left {queue}: purged, or a dead letter that waits")
        removed = (
            "expired, purged or pushed out" if limits or view.is_limited else "purged or refused"
        )
        return Fact(WhereWord.died, f"{queue} is empty, and nobody was handed it then: {removed}")
    if limits and wait > min(limits):
        return Fact(WhereWord.unknown, f"its time to live in {queue} is over: it may have expired")
    if view.expected is not None and view.messages < view.expected:
        shrunk = f"{queue} has {view.messages} messages, and {view.expected} went in and not out"
        return Fact(WhereWord.unknown, f"it waits there, or was purged or pushed out: {shrunk}")
    if view.is_limited and (view.expected is None or wait < STATISTICS_AGE):
        return Fact(WhereWord.unknown, f"it waits in {queue}, unless that was full")
    return Fact(WhereWord.waiting, f"it waits in {queue}")
