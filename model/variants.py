"""Variants: conversations in which the same types of messages led to the same.

Conversations of one variant have messages of the same types and failures with the same causes.
The order of concurrent messages makes no difference, the number of equal ones does. A message hangs
below the first of its causes; of the others the types count. Nothing here does I/O.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeAlias

from model.conversations.conversation import Conversation
from model.conversations.messages import Message

Json: TypeAlias = dict[str, Any]

MOST_SHOWN = 200
"""The most steps of a variant that are described; its digest covers all."""
_DIGEST = 16  # characters; 64 bits


@dataclass(frozen=True, slots=True)
class Label:
    """A message's own part in a variant.

    ``failures`` are in words. ``waits``: a copy was not handed over. ``also_after`` are the sorted
    types of its further causes.
    """

    type: str
    failures: tuple[str, ...] = ()
    waits: bool = False
    also_after: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Step:
    """A message with the different steps that it led to, and the number of each.

    ``size`` is the number of messages, itself included.
    """

    digest: str
    label: Label
    leads_to: tuple[tuple[Step, int], ...]
    size: int


@dataclass(frozen=True, slots=True)
class Variant:
    """The variant of conversations of one shape; ``digest`` identifies it."""

    digest: str
    roots: tuple[tuple[Step, int], ...] = field(compare=False)

    @property
    def messages(self) -> int:
        """The number of messages."""
        return sum(step.size * count for step, count in self.roots)

    def flow(self) -> Flow:
        """The variant as a tree that a page can draw."""
        budget = [MOST_SHOWN]
        steps = _flow_steps(self.roots, budget)
        return Flow(self.messages, steps, budget[0] < 0)


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
    def from_json(cls, value: Json) -> FlowStep:
        return cls(**value | {"steps": list(map(cls.from_json, value["steps"]))})


@dataclass(frozen=True, slots=True)
class Flow:
    """The flow that describes a variant: a tree of causes and effects."""

    messages: int
    steps: list[FlowStep]
    truncated: bool

    @classmethod
    def from_json(cls, value: Json) -> Flow:
        return cls(**value | {"steps": list(map(FlowStep.from_json, value["steps"]))})


def variant_of(conversation: Conversation) -> Variant:
    """The variant of a conversation."""
    of_event = messages_of_events(conversation)
    parents = parents_of(conversation, of_event)
    children: defaultdict[int | None, list[Step]] = defaultdict(list)
    # A cause has a lesser id than its effect: effects come first here.
    for message in sorted(conversation.messages, key=lambda message: -message.record.id):
        label = _label(message, parents[message.record.id], of_event)
        step = _step(label, _count_steps(children.pop(message.record.id, [])))
        children[parents[message.record.id]].append(step)
    roots = _count_steps(children[None])
    return Variant(_digest(repr([(step.digest, count) for step, count in roots])), roots)


def messages_of_events(conversation: Conversation) -> dict[int, Message]:
    """The message of each event of a conversation: of publishes, and of deliveries of copies."""
    by_event = {}
    for message in conversation.messages:
        by_event[message.record.id] = message
        for copy in message.copies:
            for delivery in copy.deliveries:
                by_event[delivery.record.id] = message
    return by_event


def parents_of(
    conversation: Conversation, of_event: Mapping[int, Message]
) -> dict[int, int | None]:
    """By message, its first cause in the conversation; None without one."""
    return {
        message.record.id: next(
            (
                parent.record.id
                for cause in message.led_by
                if (parent := of_event.get(cause.event)) is not None
                and parent.record.id < message.record.id
            ),
            None,
        )
        for message in conversation.messages
    }


def _label(message: Message, parent: int | None, of_event: Mapping[int, Message]) -> Label:
    causes = (of_event.get(cause.event) for cause in message.led_by)
    shown_types = (None, parent, message.record.id)
    other_types = {
        cause.record.message_type
        for cause in causes
        if cause and cause.record.id not in shown_types
    }
    name = message.record.message_type
    return Label(name, failures_of(message), waits(message), tuple(sorted(other_types)))


def failures_of(message: Message) -> tuple[str, ...]:
    failure = message.failure
    if failure is None:
        return ()
    return (" ".join(word for word in (failure.kind, failure.queue, failure.reason) if word),)


def waits(message: Message) -> bool:
    """Tell whether a copy was not handed over, as far as is known."""
    return any(copy.state == "waiting" for copy in message.copies)


def _count_steps(steps: list[Step]) -> tuple[tuple[Step, int], ...]:
    """The different steps with their numbers, in an order that depends on nothing else."""
    by_digest = {step.digest: step for step in steps}
    counts = Counter(step.digest for step in steps)
    return tuple(
        (step, counts[digest])
        for digest, step in sorted(
            by_digest.items(), key=lambda pair: (pair[1].label.type, pair[0])
        )
    )


def _step(label: Label, leads_to: tuple[tuple[Step, int], ...]) -> Step:
    content = (
        label.type,
        label.failures,
        label.waits,
        label.also_after,
        [(step.digest, count) for step, count in leads_to],
    )
    size = 1 + sum(step.size * count for step, count in leads_to)
    return Step(_digest(repr(content)), label, leads_to, size)


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode()).hexdigest()[:_DIGEST]


def _flow_steps(roots: tuple[tuple[Step, int], ...], budget: list[int]) -> list[FlowStep]:
    """The steps as a tree, made level by level, so that the bound leaves out the deepest."""
    flow: list[FlowStep] = []
    queue: list[tuple[list[FlowStep], tuple[tuple[Step, int], ...]]] = [(flow, roots)]
    for siblings, steps in queue:  # those added meanwhile included
        for step, count in steps:
            budget[0] -= 1
            if budget[0] < 0:
                return flow
            label = step.label
            described = FlowStep(
                label.type, count, [*label.failures], label.waits, [*label.also_after], []
            )
            siblings.append(described)
            queue.append((described.steps, step.leads_to))
    return flow
