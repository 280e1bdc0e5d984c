"""Causes, effects and fates of events, and how two are related."""

from __future__ import annotations

from typing import Annotated

from app.api.schemas.common import Certainty, Model, names_of
from app.api.schemas.events import Event, EventColumns
from app.stored.deliveries import CopyState
from itc import Relation

RelationWord = Annotated[str, names_of(Relation)]
CopyStateWord = Annotated[str, names_of(CopyState)]


class EventWalk(Certainty):
    """Causes or effects of an event, nearest first."""

    event: int
    items: list[Event] | list[EventColumns]
    truncated: bool


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


class Comparison(Certainty):
    """How two events are related."""

    a: int
    b: int
    vhost: str
    relation: RelationWord
    sentence: str
