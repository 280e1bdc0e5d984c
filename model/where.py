"""The whereabouts of a message: one word for what became of its copies; nothing here is I/O.

The record says what was handed over and settled. Of a copy that was not, the broker's word on its
queue tells whether it still waits: limits, times to live and purges leave no trace message.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from model.conversations.messages import Copy, Message
from model.wording import Sentence
from model.words import BACK, Disposition

ENQUEUED_WITHIN = 10_000_000
"""A publish is traced before its queues have it, which then takes less than this (µs)."""


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

    ``messages`` are those ready in it as the answer began; None where it does not say. By the
    record ``expected`` of its copies that were there before still are. ``is_still``: the record has
    exactly these messages, and none came or went meanwhile.
    """

    messages: int | None
    expected: int = 0
    is_still: bool = False
    keeps: bool = True
    has_dead_letters: bool = False
    is_limited: bool = False
    expires_after: int | None = None


class Fact(NamedTuple):
    """A word, and its evidence beside the record, if any."""

    word: WhereWord
    reason: str | None = None


_NOWHERE: Mapping[int, Fact] = MappingProxyType({})
_NOT_KNOWN = Fact(WhereWord.unknown, Sentence.fate_elsewhere)


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
        return Fact(WhereWord.died, Sentence.nowhere)
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
    if last.settlement in (Disposition.rejected, *BACK):
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
            fate = Sentence.copy_fate.format(queue=copy.queue, remark=copy.remark)
            return Fact(WhereWord.unknown, fate)
        return _of_wait(copy.queue, queues, wait, expires_after, is_whole=is_whole)
    last = copy.deliveries[-1]
    queue = last.queue or copy.queue
    if last.mover is not None and last.settlement is not Disposition.in_hand:
        fact = onward.get(last.event, _NOT_KNOWN)
        left = Sentence.copy_left.format(queue=queue, mover=last.mover, reason=fact.reason)
        return fact._replace(reason=left)
    parts = {"name": last.record.name, "queue": queue}
    match last.settlement:
        case Disposition.acknowledged | Disposition.auto:
            return Fact(WhereWord.settled)
        case Disposition.in_hand:
            if is_whole:
                return Fact(WhereWord.waiting, Sentence.holds_copy.format(**parts))
            return Fact(WhereWord.unknown, Sentence.held_copy.format(**parts))
        case Disposition.rejected:
            view = queues.get(queue)
            if view is not None and not view.has_dead_letters and is_whole:
                return Fact(WhereWord.died, Sentence.rejected_for_good.format(**parts))
            return Fact(WhereWord.unknown, Sentence.rejected_copy.format(**parts))
        case Disposition.returned | Disposition.channel_closed:
            view = queues.get(queue)
            if view is not None:  # the record counts it as handed over
                queues = {queue: view._replace(expected=view.expected + 1, is_still=False)}
            back = _of_wait(queue, queues, wait, expires_after, is_whole=is_whole)
            how = Sentence.gave_back
            if last.settlement is Disposition.channel_closed:
                how = Sentence.lost_channel
            return back._replace(reason=how.format(name=last.record.name, reason=back.reason))
        case _:
            return Fact(WhereWord.handed_over, Sentence.unsettled)


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
        return Fact(WhereWord.unknown, Sentence.waits_in_gap.format(queue=queue))
    if queue not in queues:
        return Fact(WhereWord.unknown, Sentence.broker_silent.format(queue=queue))
    view = queues[queue]
    if view is None:
        return Fact(WhereWord.died, Sentence.queue_gone.format(queue=queue))
    if view.messages is None or not view.keeps:
        return Fact(WhereWord.unknown, Sentence.broker_silent.format(queue=queue))
    limits = [limit for limit in (expires_after, view.expires_after) if limit is not None]
    if view.messages == 0:
        if wait < ENQUEUED_WITHIN:
            return Fact(WhereWord.unknown, Sentence.just_arrived.format(queue=queue))
        if view.has_dead_letters:
            return Fact(WhereWord.unknown, Sentence.left_or_dead.format(queue=queue))
        removal = (
            "expired, purged or pushed out" if limits or view.is_limited else "purged or refused"
        )
        reason = Sentence.queue_empty.format(queue=queue, removal=removal)
        return Fact(WhereWord.died, reason)
    if limits and wait > min(limits):
        return Fact(WhereWord.unknown, Sentence.may_have_expired.format(queue=queue))
    if view.messages < view.expected:
        counts = {"ready": view.messages, "expected": view.expected}
        return Fact(WhereWord.unknown, Sentence.queue_shrunk.format(queue=queue, **counts))
    if (view.is_limited or limits) and not view.is_still:
        return Fact(WhereWord.unknown, Sentence.unless_lost.format(queue=queue))
    return Fact(WhereWord.waiting, Sentence.waits.format(queue=queue))
