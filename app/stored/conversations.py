"""Conversations as the store returns them, and filters on them."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import msgspec

from model.conversations.clauses import Clause
from model.conversations.conversation import Conversation, Counts
from model.conversations.messages import Outcome
from model.conversations.states import Position, State, is_retried
from model.described import INNER
from model.times import Microseconds
from model.who import is_called
from model.words import WalkWord

# The first roots of other ways to a conversation, which are named.
MOST_OTHER_ROOTS = 20


class FoundConversation(msgspec.Struct, frozen=True):
    """The tree of what a message led to, what became of it all, and where the time went.

    ``last`` is the last event of the page.
    """

    event: int
    root: Annotated[int, "Where it began."]
    trace_id: Annotated[int, INNER]
    vhost: str
    via: WalkWord
    conversation: Annotated[Conversation, INNER]
    other_roots: Annotated[list[int], "Those of messages outside that led here as well."]
    last: Annotated[int, INNER]
    next: Annotated[int | None, "Where it is truncated: `after` for what follows."]


class ConversationFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Conditions on a conversation; None is no condition.

    Seconds are from its first event to its last. ``participant``, ``participant_name`` and ``type``
    (of a message) are of anything in it. A name may be the service's, without user and place.
    """

    min_seconds: float | None = None
    max_seconds: float | None = None
    outcome: Outcome | None = None
    state: State | None = None
    participant: int | None = None
    participant_name: str | None = None
    type: str | None = None

    def lets_through(self, conversation: Conversation) -> bool:
        """Tell whether a conversation fits, whatever its ``state``."""
        seconds = conversation.seconds
        numbers = {participant.number for participant in conversation.participants}
        names = {participant.name for participant in conversation.participants}
        return (
            (self.min_seconds is None or seconds >= self.min_seconds)
            and (self.max_seconds is None or seconds <= self.max_seconds)
            and self.outcome in (None, conversation.outcome)
            and (self.participant is None or self.participant in numbers)
            and (self.participant_name is None or is_called(self.participant_name, names))
            and (self.type is None or any(m.type == self.type for m in conversation.messages))
        )


class FirstMessage(NamedTuple):
    """The message that a conversation began with."""

    publisher: Annotated[str | None, "`null` where its publish was not seen."]
    exchange: str
    routing_key: str
    queues: Annotated[tuple[str, ...], "Those that got a copy."]


class ListedConversation(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation in a list."""

    conversation: Annotated[Conversation, INNER]
    root: int
    vhost: str
    type: str
    first: FirstMessage
    began_at: Microseconds
    seconds: float
    outcome: Outcome
    state: State
    position: Position | None
    counts: Counts
    keys: Annotated[tuple[str, ...], "Values that its messages share, at most 5."]
    participants: list[str]
    sentence: str
    clauses: Annotated[tuple[Clause, ...], "What the sentence says, one thing each."]
    reason: Annotated[str | None, "Why it is `done`, or `unknown` where no clause says why."]
    truncated: bool
    failure: Annotated[
        Clause | None, "Of one that failed: how the first of its messages did that failed."
    ] = None

    @classmethod
    def of(cls, vhost: str, conversation: Conversation) -> ListedConversation:
        fields = {
            name: getattr(conversation, name)
            for name in cls.__struct_fields__
            if hasattr(conversation, name)
        }
        names = [*dict.fromkeys(participant.name for participant in conversation.participants)]
        message = conversation.messages[0]
        first = FirstMessage(
            None if message.unseen else message.record.name,
            message.exchange,
            message.routing_key,
            tuple(copy.queue for copy in message.copies),
        )
        is_failed = conversation.outcome is Outcome.failed
        messages = conversation.messages if is_failed else ()
        failed = (each for each in messages if each.failure and not is_retried(each, messages))
        failure = next((each.failure_clauses[0] for each in failed), None)
        more = {"vhost": vhost, "participants": names, "first": first, "failure": failure}
        return cls(**fields | more | {"conversation": conversation})


class StateCount(NamedTuple):
    """The number of conversations in a state, and the time since when the oldest waits there."""

    state: State
    number: int
    since: Microseconds | None

    def with_one(self, position: Position | None) -> StateCount:
        """The same with a conversation more."""
        times = [time for time in (self.since, position and position.since) if time is not None]
        return StateCount(self.state, self.number + 1, min(times, default=None))


class ConversationPage(msgspec.Struct, frozen=True):
    """Conversations, those with the newest roots first."""

    items: list[ListedConversation]
    truncated: bool
    next: Annotated[int | None, "`before` for older ones."]
    looked_at: Annotated[int, "How many were held to what was asked for."]
    since: Annotated[Microseconds | None, "When the oldest of these began."]
    states: Annotated[
        list[StateCount],
        "How many of those that were looked at are in each state, and fit what was asked for but a "
        "`state`: each that there is. With `state=waiting` only what waits is looked at.",
    ]
