"""Conversations as the store gives them, and which of them are asked for."""

from __future__ import annotations

import msgspec

from model.conversations import Conversation, Outcome
from model.words import Via

# Of the other ways to a conversation the first so many are named.
MOST_OTHER_ROOTS = 20


class FoundConversation(msgspec.Struct, frozen=True):
    """The conversation of an event, or a page of it.

    ``root`` is where it began, ``last`` the last event of the page. ``other_roots`` are those of
    messages outside that led here as well. ``next``: the page goes on after this event.
    """

    event: int
    root: int
    trace_id: int
    vhost: str
    via: Via
    conversation: Conversation
    other_roots: list[int]
    last: int
    next: int | None


class ConversationFilter(msgspec.Struct, frozen=True, kw_only=True):
    """What a conversation must have become; a field that is None asks for nothing.

    Seconds are from its first event to its last. ``participant``, ``participant_name`` and ``type``
    (of a message) are those of anything in it.
    """

    min_seconds: float | None = None
    max_seconds: float | None = None
    outcome: Outcome | None = None
    participant: int | None = None
    participant_name: str | None = None
    type: str | None = None

    def lets_through(self, one: Conversation) -> bool:
        """Whether a conversation is asked for."""
        seconds = one.duration / 1e6
        return (
            (self.min_seconds is None or seconds >= self.min_seconds)
            and (self.max_seconds is None or seconds <= self.max_seconds)
            and self.outcome in (None, one.outcome)
            and (self.participant is None or self.participant in dict(one.participants))
            and (self.participant_name is None or self.participant_name in self._names(one))
            and (self.type is None or any(m.it.message_type == self.type for m in one.messages))
        )

    @staticmethod
    def _names(one: Conversation) -> set[str]:
        return {name for _, name in one.participants}


class ListedConversation(msgspec.Struct, frozen=True):
    """A conversation in a list, and the virtual host that it is in."""

    vhost: str
    conversation: Conversation


class ConversationPage(msgspec.Struct, frozen=True):
    """A page of conversations, those with the newest roots first.

    ``looked_at`` is how many were held to what is asked for, ``since`` when the oldest of them
    began (µs). ``truncated``: there may be more; ``next``: before this root.
    """

    items: list[ListedConversation]
    truncated: bool
    next: int | None
    looked_at: int
    since: int | None
