"""States: where an order stands, in one word, and where that was last seen."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, NamedTuple

from model.conversations.deliveries import Delivery
from model.conversations.messages import Message, Outcome
from model.conversations.outcomes import is_in_hand
from model.times import Microseconds
from model.words import Disposition, Match


class State(enum.StrEnum):
    """The state of a conversation, as people ask for it: its outcome, and whether it took retries.

    ``finished`` and ``retried`` are of the outcome ``done``, or would be without messages that were
    handed over again and again and then dealt with, or that died and were put back. ``in_work`` is
    ``open`` where somebody may be at it still; where all that was published since might be for it,
    or not, the state is ``unknown``.
    """

    finished = "finished"
    retried = "retried"
    in_work = "in_work"
    waiting = "waiting"
    failed = "failed"
    unknown = "unknown"


_OF_OUTCOME = {
    Outcome.done: State.finished,
    Outcome.open: State.in_work,
    Outcome.waiting: State.waiting,
    Outcome.failed: State.failed,
    Outcome.unknown: State.unknown,
}


class Position(NamedTuple):
    """The place of what a conversation waits for, or of what came last."""

    queue: Annotated[str | None, "The queue in which the oldest copy waits."]
    holder: Annotated[str | None, "Else who holds the oldest delivery, or was handed the last."]
    since: Annotated[Microseconds, "When that was published, came back, or was handed over."]
    returns: Annotated[int, "How often it came back to the queue in which it waits."] = 0
    type: Annotated[str | None, "The type of the message that waits."] = None


def conversation_state(outcome: Outcome, messages: Sequence[Message]) -> State:
    """The state by an outcome that disregards `is_retried` messages."""
    has_retries = any(delivery.match is Match.redelivered for delivery in _deliveries(messages))
    has_retries |= any(message.put_back is not None for message in messages)
    return State.retried if outcome is Outcome.done and has_retries else _OF_OUTCOME[outcome]


def is_retried(message: Message, messages: Sequence[Message]) -> bool:
    """Tell whether a message failed and was tried again.

    It died and was put back, which is another message; or it came back again and again, and its
    last consumer acknowledged it, or published since what names it.
    """
    if message.put_back is not None:
        return True
    if message.failure is None or message.failure.kind != "came_back":
        return False
    own = {message.event, *(delivery.event for delivery in _deliveries([message]))}
    effects = [each for each in messages if own & {*each.causes}]

    def is_over(last: Delivery) -> bool:
        return last.settlement is Disposition.acknowledged or any(
            each.event > last.event and each.participant == last.participant for each in effects
        )

    return all(copy.deliveries and is_over(copy.deliveries[-1]) for copy in message.copies)


def position_of(state: State, messages: Sequence[Message]) -> Position | None:
    """The position of a conversation that may go on; None of one that has ended."""
    if state not in (State.waiting, State.in_work, State.unknown):
        return None
    waiting = (
        Position(copy.queue, None, copy.waits_since, copy.returns, message.type)
        for message in messages
        for copy in message.copies
        if copy.waits_since is not None
    )
    deliveries = [*_deliveries(messages)]
    in_hand = filter(is_in_hand, deliveries)
    last = deliveries if state is not State.waiting else ()
    return (
        min(waiting, key=lambda position: position.since, default=None)
        or _holder_of(min(in_hand, key=lambda delivery: delivery.event, default=None))
        or _holder_of(max(last, key=lambda delivery: delivery.event, default=None))
    )


def _holder_of(delivery: Delivery | None) -> Position | None:
    return None if delivery is None else Position(None, delivery.record.name, delivery.at)


def _deliveries(messages: Iterable[Message]) -> Iterator[Delivery]:
    return (each for message in messages for copy in message.copies for each in copy.deliveries)
