"""Variants: conversations in which the same types of messages led to the same.

Two conversations are of one variant if their messages have the same types and failures, and each
was led to by the same. In which order concurrent ones came makes no difference; how many there are
of the same does. A message hangs below the first of its causes; of the others the types count.
Nothing here does I/O.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeAlias

from model.conversations import Conversation, Message

Json: TypeAlias = dict[str, Any]

MOST_SHOWN = 200
"""So many different steps of a variant are described; its digest is of all of them."""
_DIGEST = 16  # characters; 64 bits


@dataclass(frozen=True, slots=True)
class Label:
    """The part of a message that counts by itself.

    ``failures`` are in words. ``waits``: a copy was not handed over. ``also_after`` are the types
    of its further causes, sorted.
    """

    type: str
    failures: tuple[str, ...] = ()
    waits: bool = False
    also_after: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Step:
    """A message with what it led to: each different step, and how many there are of it.

    ``size`` is the number of messages, itself included.
    """

    digest: str
    label: Label
    leads_to: tuple[tuple[Step, int], ...]
    size: int


@dataclass(frozen=True, slots=True)
class Variant:
    """The variant that conversations of one shape are of; they are told apart by ``digest``."""

    digest: str
    roots: tuple[tuple[Step, int], ...] = field(compare=False)

    @property
    def messages(self) -> int:
        """The number of messages."""
        return sum(step.size * count for step, count in self.roots)

    def flow(self) -> Flow:
        """A tree that a page can draw; ``truncated`` says whether some steps are left out."""
        left = [MOST_SHOWN]
        steps = _described(self.roots, left)
        return Flow(self.messages, steps, left[0] < 0)


@dataclass(frozen=True, slots=True)
class FlowStep:
    """Messages of a type, and what each led to."""

    type: str
    count: int
    failures: list[str]
    waits: Annotated[bool, "A copy was not handed over."]
    also_after: Annotated[list[str], "Types of its further causes."]
    steps: list[FlowStep]

    @classmethod
    def of(cls, value: Json) -> FlowStep:
        """The step that was shown so."""
        return cls(**value | {"steps": list(map(cls.of, value["steps"]))})


@dataclass(frozen=True, slots=True)
class Flow:
    """The flow that describes a variant: a tree of what led to what."""

    messages: int
    steps: list[FlowStep]
    truncated: bool

    @classmethod
    def of(cls, value: Json) -> Flow:
        """The flow that was shown so."""
        return cls(**value | {"steps": list(map(FlowStep.of, value["steps"]))})


def variant_of(conversation: Conversation) -> Variant:
    """The variant that a conversation is of."""
    of_event = messages_of_events(conversation)
    parents = parents_of(conversation, of_event)
    below: defaultdict[int | None, list[Step]] = defaultdict(list)
    # A cause has a lesser id than its effect: the last are nobody's causes.
    for message in sorted(conversation.messages, key=lambda each: -each.it.id):
        label = _label(message, parents[message.it.id], of_event)
        step = _step(label, _counted(below.pop(message.it.id, [])))
        below[parents[message.it.id]].append(step)
    roots = _counted(below[None])
    return Variant(_digest(repr([(step.digest, count) for step, count in roots])), roots)


def messages_of_events(conversation: Conversation) -> dict[int, Message]:
    """The message that each event of a conversation is of: publishes, and deliveries of copies."""
    found = {}
    for message in conversation.messages:
        found[message.it.id] = message
        for copy in message.copies:
            for delivery in copy.deliveries:
                found[delivery.it.id] = message
    return found


def parents_of(
    conversation: Conversation, of_event: Mapping[int, Message]
) -> dict[int, int | None]:
    """Of each message the one that led to it, the first that counts; None if none did here."""
    return {
        message.it.id: next(
            (
                parent.it.id
                for cause in message.led_by
                if (parent := of_event.get(cause.event)) is not None
                and parent.it.id < message.it.id
            ),
            None,
        )
        for message in conversation.messages
    }


def _label(message: Message, parent: int | None, of_event: Mapping[int, Message]) -> Label:
    causes = (of_event.get(cause.event) for cause in message.led_by)
    known = (None, parent, message.it.id)
    also = {cause.it.message_type for cause in causes if cause and cause.it.id not in known}
    name = message.it.message_type
    return Label(name, failures_of(message), waits(message), tuple(sorted(also)))


def failures_of(message: Message) -> tuple[str, ...]:
    """The failures of a message, in words."""
    failure = message.failure
    if failure is None:
        return ()
    return (" ".join(word for word in (failure.kind, failure.queue, failure.reason) if word),)


def waits(message: Message) -> bool:
    """Tell whether a copy was not handed over, as far as is known."""
    return any(copy.state == "waiting" for copy in message.copies)


def _counted(steps: list[Step]) -> tuple[tuple[Step, int], ...]:
    """Each different step with how many there are, in an order of their own."""
    by_digest = {step.digest: step for step in steps}
    counts = Counter(step.digest for step in steps)
    return tuple(
        (step, counts[digest])
        for digest, step in sorted(by_digest.items(), key=lambda one: (one[1].label.type, one[0]))
    )


def _step(label: Label, leads_to: tuple[tuple[Step, int], ...]) -> Step:
    said = (
        label.type,
        label.failures,
        label.waits,
        label.also_after,
        [(step.digest, count) for step, count in leads_to],
    )
    size = 1 + sum(step.size * count for step, count in leads_to)
    return Step(_digest(repr(said)), label, leads_to, size)


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode()).hexdigest()[:_DIGEST]


def _described(roots: tuple[tuple[Step, int], ...], left: list[int]) -> list[FlowStep]:
    """The steps, level by level, so that a bound leaves out the last ones."""
    found: list[FlowStep] = []
    waiting: list[tuple[list[FlowStep], tuple[tuple[Step, int], ...]]] = [(found, roots)]
    for into, steps in _drained(waiting):
        for step, count in steps:
            left[0] -= 1
            if left[0] < 0:
                return found
            described = _flow_step(step.label, count)
            into.append(described)
            waiting.append((described.steps, step.leads_to))
    return found


def _drained(waiting: list[Any]) -> Iterator[Any]:
    """The items of a list, also those that are put there meanwhile."""
    at = 0
    while at < len(waiting):
        yield waiting[at]
        at += 1


def _flow_step(label: Label, count: int) -> FlowStep:
    return FlowStep(label.type, count, [*label.failures], label.waits, [*label.also_after], [])
