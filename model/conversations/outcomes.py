"""Outcomes: what became of a message, and of a conversation."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import chain

from model.conversations.deliveries import Delivery
from model.conversations.members import Members
from model.conversations.messages import Copy, Message, MessageFailure, Outcome
from model.deaths import Death, Loss, is_put_off
from model.happened import ConversationEvent
from model.texts import is_reply
from model.words import BACK, Disposition, EventType, Match

MANY_REDELIVERIES = 3
"""Redeliveries from which on a copy "came back again and again"."""


def failure_of(
    head: ConversationEvent, members: Members, losses: Mapping[str, Loss]
) -> MessageFailure | None:
    """The way in which a message failed, if it did; ``losses`` are by its queues."""
    copies = members.copies[head.id]
    forwarded = members.put_aside.get(head.id)
    if (
        forwarded is not None
        and forwarded.forward is not None
        and not _came_back(forwarded, head, members)
    ):
        # If a forward names no message, the queue that it failed in is unknown.
        first_queue = next(iter(copies), None) if forwarded is not head else None
        failed_in = forwarded.forward.queue or first_queue
        return MessageFailure("error_queue", failed_in, None, forwarded.forward.exception)
    if not copies and head.type is EventType.published and not is_direct_reply(head):
        return MessageFailure("unroutable")
    for deliveries in copies.values():
        if (death := _final_death(head, deliveries)) is not None:
            return MessageFailure("died", death.queue, death.reason)
    for queue, deliveries in copies.items():
        returns = sum(delivery.match is Match.redelivered for delivery in deliveries)
        if returns >= MANY_REDELIVERIES:
            return MessageFailure("came_back", queue)
    for queue, loss in losses.items():
        is_unseen = queue in copies and not copies[queue] and not members.unrouted_queues(head)
        if loss.is_final and is_unseen:
            return MessageFailure("gone", queue, loss.reason)
    return None


def _came_back(forwarded: ConversationEvent, head: ConversationEvent, members: Members) -> bool:
    """Tell whether a forwarded message was handed over again from where it was first routed."""
    deliveries = chain.from_iterable(members.copies[forwarded.id].values())
    return forwarded is not head and any(
        delivery.queue in head.routed_queues for delivery in deliveries
    )


def _final_death(head: ConversationEvent, deliveries: Sequence[ConversationEvent]) -> Death | None:
    """The death of a copy that died for good, as far as is known.

    A copy that came back to a queue of its publish was tried again.
    """
    if not deliveries or deliveries[-1].match is not Match.dead_lettered:
        return None
    last = deliveries[-1]
    if last.queue in head.routed_queues or not last.deaths:
        return None
    handed_from = {delivery.queue for delivery in deliveries[:-1] if delivery.queue}
    return next((death for death in last.deaths if not is_put_off(death, handed_from)), None)


def is_direct_reply(event: ConversationEvent) -> bool:
    """Tell whether a publish goes to a channel that waits for a reply, and not to a queue."""
    return not event.exchange and any(map(is_reply, event.routing_keys[:1]))


def message_outcome(
    copies: Sequence[Copy], failure: MessageFailure | None, returning: Collection[int] = ()
) -> Outcome:
    """A message's outcome, from its copies, its failure, and deliveries that may come back."""
    if failure:
        return Outcome.failed
    if any(copy.state == "waiting" for copy in copies):
        return Outcome.waiting
    if any(is_in_hand(delivery) for copy in copies for delivery in copy.deliveries):
        return Outcome.open
    # Without a copy it is a direct reply.
    is_vague = not copies or any(_is_vague(copy, returning) for copy in copies)
    return Outcome.unknown if is_vague else Outcome.done


def is_in_hand(delivery: Delivery) -> bool:
    """Tell whether its consumer has not settled it yet."""
    return delivery.settlement is Disposition.in_hand


def _is_vague(copy: Copy, returning: Collection[int]) -> bool:
    """Tell whether a copy's consumer is unknown, or its fate elsewhere, or after a rejection."""
    last = copy.deliveries[-1] if copy.deliveries else None
    if last is None or last.mover is not None:
        return True
    return last.settlement in (Disposition.rejected, *BACK) or last.event in returning


def outcome_of(messages: Sequence[Message], is_open: bool, *, is_known: bool) -> Outcome:
    """A conversation's outcome; ``is_open`` says that it may go on."""
    outcomes = {message.outcome for message in messages}
    for outcome in (Outcome.failed, Outcome.waiting):
        if outcome in outcomes:
            return outcome
    if is_open or Outcome.open in outcomes:
        return Outcome.open
    return Outcome.done if is_known and Outcome.unknown not in outcomes else Outcome.unknown
