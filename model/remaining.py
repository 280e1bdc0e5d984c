"""Remaining steps: what normally follows in a conversation that is under way, and is not there.

What is normal was learnt of a period, by the types of messages (`model.reports.learning`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Annotated, NamedTuple

from model.conversations.conversation import Conversation
from model.conversations.messages import Message
from model.times import Microseconds, said_time
from model.variants import messages_of_events
from model.wording import Sentence

MOST_NAMED = 3
"""Steps that the sentence names."""


class Norm(NamedTuple):
    """Messages of a type nearly always lead to one of another, before it is slow (µs).

    ``slow_from`` is None where too few tell.
    """

    type: str
    effect: str
    slow_from: int | None


class RemainingStep(NamedTuple):
    """A message that normally follows another, and is not there."""

    type: Annotated[str, "Of the message that normally follows."]
    after: Annotated[int, "The message that it follows."]
    after_type: str
    overdue_since: Annotated[
        Microseconds | None, "`null` while it may yet come, and where too few tell when it is late."
    ]


class RemainingSteps(NamedTuple):
    """The messages that normally follow in a conversation that is under way."""

    sentence: str
    steps: Annotated[list[RemainingStep], "The one that is overdue for longest first."]
    learnt_until: Annotated[Microseconds, "The end of the period of which was learnt."]


def remaining_steps(
    conversation: Conversation, norms: Iterable[Norm], moment: int, learnt_until: Microseconds
) -> RemainingSteps | None:
    """The remaining steps as of a moment (µs); None of what has ended, is cut, or lacks none."""
    if conversation.position is None or conversation.truncated:
        return None
    effects = direct_effects(conversation)
    by_type: defaultdict[str, list[Norm]] = defaultdict(list)
    for norm in norms:
        by_type[norm.type].append(norm)
    steps = [
        _step(message, norm, moment)
        for message in conversation.messages
        if message.failure is None and not message.unseen
        for norm in by_type[message.type]
        if norm.effect not in effects[message.event]
    ]
    if not steps:
        return None
    steps.sort(key=lambda step: (step.overdue_since is None, step.overdue_since, step.after))
    return RemainingSteps(_sentence(steps), steps, learnt_until)


def direct_effects(conversation: Conversation) -> defaultdict[int, dict[str, list[Message]]]:
    """By message and by type, the messages to which it led directly."""
    of_event = messages_of_events(conversation)
    effects: defaultdict[int, dict[str, list[Message]]] = defaultdict(dict)
    for message in conversation.messages:
        causes = (of_event.get(cause.event) for cause in message.led_by)
        for cause in dict.fromkeys(each.event for each in causes if each is not None):
            if cause != message.event:
                effects[cause].setdefault(message.type, []).append(message)
    return effects


def _step(message: Message, norm: Norm, moment: int) -> RemainingStep:
    due = None if norm.slow_from is None else Microseconds(message.at + norm.slow_from)
    overdue_since = due if due is not None and due < moment else None
    return RemainingStep(norm.effect, message.event, message.type, overdue_since)


def _sentence(steps: Sequence[RemainingStep]) -> str:
    clauses = []
    for step in steps[:MOST_NAMED]:
        parts = {"type": step.type, "after": step.after_type, "event": step.after}
        if step.overdue_since is None:
            clauses.append(Sentence.remaining_step.format(**parts))
        else:
            time = said_time(step.overdue_since)
            clauses.append(Sentence.overdue_step.format(**parts, time=time))
    more = len(steps) - MOST_NAMED
    rest = f"; and {more:,} more" if more > 0 else ""
    return Sentence.remaining.format(steps="; ".join(clauses) + rest)
