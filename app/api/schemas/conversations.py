"""Conversations: what happened because of a message, and where the time went."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from app.api.schemas.causality import CopyStateWord, ViaWord
from app.api.schemas.common import Certainty, Model, Time, names_of
from app.api.schemas.events import MatchWord
from model.conversations import FailureWord, Outcome

OutcomeWord = Annotated[str, names_of(Outcome)]
HowWord = Literal["parent", "reply", "forward", "conversation", "any"]


class Counts(Model):
    """How many there are."""

    messages: int
    deliveries: int
    redeliveries: int
    deaths: int = Field(description="Deliveries of messages that had died.")
    waiting: int = Field(description="Copies in queues that were not handed over.")
    participants: int


class ConversationParticipant(Model):
    """Who took part."""

    number: int
    name: str


class How(Model):
    """By which rule a message names its cause, or what else led to it."""

    rule: str | None
    kind: HowWord


class MessageFailure(Model):
    """How a message failed."""

    kind: FailureWord
    queue: str | None
    reason: str | None
    exception: str | None


class CopyDelivery(Model):
    """A copy that was handed over."""

    event: int
    participant: int
    at: Time
    offset: float = Field(description="Seconds since the conversation began.")
    match: MatchWord
    redelivered: bool
    queue: str | None
    queued: float = Field(
        description="Seconds since its publish; of one that was handed over again or had died, "
        "since the same copy's delivery before it."
    )
    handled: float | None = Field(
        description="Seconds until the last publish that it led to, or as a span says."
    )
    handled_until: Literal["published", "span"] | None
    slack: float
    critical: bool
    leads_to: list[int] = Field(description="The publishes that it led to.")


class MessageCopy(Model):
    """What became of the copy that a queue got."""

    queue: str
    state: CopyStateWord
    dead_lettered_to: list[str]
    remark: str | None = Field(description="What may have become of it, where nobody knows.")
    deliveries: list[CopyDelivery]


class Message(Model):
    """A publish, and what became of it."""

    event: int = Field(description="Its publish.")
    unseen: bool = Field(
        description="Whether its publish is not stored: then `event` is its delivery's."
    )
    type: str = Field(description="The message's type, by name.")
    exchange: str
    routing_key: str
    participant: int | None = Field(description="Who published it; `null` where that is unseen.")
    at: Time
    cause: int | None = Field(description="The event that led to it.")
    how: How | None
    causes: list[int] = Field(description="All that it names, or what else led to it.")
    offset: float = Field(description="Seconds since the conversation began.")
    outcome: OutcomeWord
    failure: MessageFailure | None
    slack: float = Field(description="By how many seconds it could have come later.")
    critical: bool = Field(description="Whether it is on the critical path.")
    copies: list[MessageCopy]


class Amplification(Model):
    """The most messages that one led to directly, and which one."""

    most: int
    event: int | None


class Loop(Model):
    """A message type in its own past: the messages of that type."""

    type: str
    events: list[int]


class Conversation(Certainty):
    """What a message led to, what became of it all, and where the time went."""

    event: int
    root: int
    other_roots: list[int]
    vhost: str
    via: ViaWord
    type: str
    outcome: OutcomeWord
    sentence: str
    began_at: Time
    ended_at: Time
    seconds: float
    counts: Counts
    keys: list[str] = Field(description="Values that its messages share, at most 5.")
    participants: list[ConversationParticipant]
    messages: list[Message]
    critical_path: list[int]
    amplification: Amplification
    loops: list[Loop]
    truncated: bool
    next: int | None = Field(description="Where it is truncated: `after` for what follows.")


class ListedConversation(Model):
    """A conversation in a list."""

    root: int
    vhost: str
    type: str
    began_at: Time
    seconds: float
    outcome: OutcomeWord
    counts: Counts
    keys: list[str] = Field(description="Values that its messages share, at most 5.")
    participants: list[str]
    sentence: str
    truncated: bool


class Conversations(Model):
    """Conversations, those with the newest roots first."""

    items: list[ListedConversation]
    truncated: bool
    next: int | None = Field(description="`before` for older ones.")
    looked_at: int = Field(description="How many were held to what was asked for.")
    since: Time | None = Field(description="When the oldest of these began.")
