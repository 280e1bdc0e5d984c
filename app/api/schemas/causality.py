"""Causes, effects and fates of events, and how two stand to each other."""

from __future__ import annotations

from typing import Literal

from app.api.schemas.common import Gap, Model
from app.api.schemas.events import Event, EventColumns


class EventWalk(Model):
    """Causes or effects of an event, nearest first."""

    event: int
    items: list[Event] | list[EventColumns]
    truncated: bool


class QueueFate(Model):
    """What became of the copy that one queue got."""

    queue: str
    state: Literal["handed_over", "waiting", "dead_lettered"]
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


RelationWord = Literal["before", "after", "equal", "concurrent"]


class Comparison(Model):
    """How two events stand to each other."""

    a: int
    b: int
    vhost: str
    relation: RelationWord
    sentence: str
    complete: bool
    gaps: list[Gap]
