"""Causes, effects and fates of events, and how two are related."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from app.api.schemas.common import Certainty, Model, names_of
from app.api.schemas.events import Event, EventColumns, LinkWord
from app.stored.deliveries import CopyState
from itc import Relation
from model.answers import Answer, Verdict
from model.words import Via

RelationWord = Annotated[str, names_of(Relation)]
ViaWord = Annotated[str, names_of(Via)]
VerdictWord = Annotated[str, names_of(Verdict)]
CopyStateWord = Annotated[str, names_of(CopyState)]


class EventWalk(Certainty):
    """Causes or effects of an event, nearest first."""

    event: int
    items: list[Event] | list[EventColumns]
    truncated: bool
    next: int | None = Field(
        description="Where it is truncated: `after` for more effects, `before` for more causes."
    )


class QueueFate(Model):
    """What became of the copy that one queue got."""

    queue: str
    state: CopyStateWord
    deliveries: list[Event] | list[EventColumns]
    dead_letters: list[Event] | list[EventColumns]
    dead_lettered_to: list[str]


class Deliveries(Model):
    """A publish's fate, queue by queue."""

    event: int
    routed_queues: int
    handed_over: int
    sentence: str
    queues: list[QueueFate]


class Step(Model):
    """From an event to one that it caused: by a message, or by a link and its rule."""

    cause: int
    effect: int
    how: Literal["message", "link"]
    rule: str | None
    kind: LinkWord | None


class Comparison(Certainty):
    """How two events are related."""

    a: int
    b: int
    vhost: str
    relation: RelationWord
    sentence: str
    answer: Answer = Field(description="Whether the earlier of the two had a part in the later.")
    path: list[Step] | None = Field(
        description="A shortest way of messages and links from the earlier to the later."
    )
