"""The words of an event. The numbers are what the store keeps."""

from __future__ import annotations

import enum
from typing import Literal, TypeAlias, cast


class EventType(enum.IntEnum):
    """The plugin's and ``rabbitmq_tracing``'s words."""

    published = 0
    received = 1


class Match(enum.IntEnum):
    """The way in which a received event found its cause. A published event has `none`."""

    none = 0
    routed = 1  # first delivery of a copy that the publish was routed to
    redelivered = 2  # the same copy handed over again
    dead_lettered = 3  # followed through x-death to the publish it came from
    unmatched = 4  # its publish was not observed
    untraced = 5  # a direct reply, whose delivery the broker does not trace: known from `reply_to`


class Disposition(enum.IntEnum):
    """A consumer's settlement of a delivery, as the broker plugin reports it."""

    in_hand = 1
    acknowledged = 2
    rejected = 3
    returned = 4  # its consumer gave it back to its queue
    auto = 5  # settled when it was handed over, as the consumer had asked for
    channel_closed = 6  # and so it went back to its queue: its consumer may have died


BACK = (Disposition.returned, Disposition.channel_closed)
"""Settlements by which a copy is in its queue again."""


class LinkKind(enum.IntEnum):
    """The way in which a rule has a message refer to its cause."""

    parent = 0  # it names the one message that caused it
    reply = 1  # it answers a request
    forward = 2  # it is the same message, published again
    conversation = 3  # it shares a key, and names no parent


class EdgeKind(enum.IntEnum):
    """The way in which one event led to another, beside the message that was received.

    The first three are those of `LinkKind`, the last three acts of the broker. Of several
    `candidate` edges at least one led there: clocks join them all, and no path follows any.
    """

    parent = 0
    reply = 1
    forward = 2
    candidate = 3
    returned = 4  # from a delivery whose copy was back in its queue to the next one of that copy
    rejected = 5  # from the delivery that was rejected to the dead letter
    overflow = 6  # from the publish that made a queue too long to the dead letter of its head


ACTS = {
    EdgeKind.candidate: "equal",
    EdgeKind.returned: "returned",
    EdgeKind.rejected: "rejected",
    EdgeKind.overflow: "overflow",
}
"""Words in place of a rule's name: for equal messages, and for acts of the broker."""
LAST_BEFORE_RETURN = "meanwhile"
"""The same for the last event of a consumer before a copy that it gave back or rejected was handed
over again: until then it may have done so. It depends on the policy, and is found anew.
"""

WITHOUT_RULE = (*ACTS.values(), LAST_BEFORE_RETURN)
"""All words in place of a rule's name."""
LINKED = (EdgeKind.parent, EdgeKind.reply, EdgeKind.forward)
"""Edges that messages name."""
BY_BROKER = frozenset(ACTS) - {EdgeKind.candidate}
"""Edges of the broker's acts."""

StepWord: TypeAlias = Literal["message", "link", "returned", "rejected", "overflow"]
"""A step from one event to the next: a message, a link, or an act of the broker."""


def how_of(kind: EdgeKind | None) -> StepWord:
    """The word for an edge of some kind; None is a message."""
    if kind is None:
        return "message"
    return cast("StepWord", kind.name) if kind in BY_BROKER else "link"


class Awareness(enum.IntEnum):
    """Knowledge of a cause that a publisher has which names it."""

    known = 0  # by the trace's policy: its participant had it in its past, link or no link
    missed = 1  # by another participant of its program, which the policy takes apart
    hidden = 2  # not through the broker: by an outbox, an HTTP call, a shared database


class Via(enum.StrEnum):
    """The steps that lead from one event to the next.

    ``links``: messages, links from a publish to the cause it names, and acts of the broker.
    ``conversation``: these, and within a participant from a delivery of a conversation to its later
    publishes there. ``any``: messages, and all that a participant did before.
    """

    any = "any"
    links = "links"
    conversation = "conversation"


WalkWord: TypeAlias = Literal["any", "links", "conversation", "likely"]
"""The words of `Via` in answers, and ``likely``: along a rule that is only proposed, too."""


class Until(enum.StrEnum):
    """The end of followed effects: now, after a minute, or where a gap begins."""

    now = "now"
    minute = "minute"
    gap = "gap"


BondWord: TypeAlias = Literal["links", "conversation"]
"""The steps of `Via` that hold conversations together: messages and links, or shared keys too."""

# Bits of a key's use. Plain numbers: an enumeration's arithmetic is slow.
IS_CONVERSATION = 1  # a conversation's messages share it
IS_FOUND_BY = 2  # people look for the event by it


def number_of(count: int, noun: str) -> str:
    """A number of things: "1 event", "1,200 events"."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def verb(count: int, singular: str, plural: str) -> str:
    """The form of a verb for a number of things."""
    return singular if count == 1 else plural
