"""Parts of an event's causal past and future."""

from __future__ import annotations

from typing import Literal

import msgspec

from model.event import Event
from model.words import LinkKind


class Step(msgspec.Struct, frozen=True):
    """From an event to the next: by a message that was received, or by a link and its rule."""

    cause: int
    effect: int
    how: Literal["message", "link"]
    rule: str | None = None
    kind: LinkKind | None = None


class Path(msgspec.Struct, frozen=True):
    """A shortest way of messages and links from one event to another.

    ``steps`` is None if there is none, or none was found before the search was ``cut``.
    """

    steps: list[Step] | None
    cut: bool = False


class Link(msgspec.Struct, frozen=True):
    """From an event to a publish that names it as its cause: the rule, and its kind."""

    cause: int
    effect: int
    rule: str
    kind: LinkKind


class EventLinks(msgspec.Struct, frozen=True):
    """What an event names, and what names it: of the latter the first ones, if ``truncated``."""

    named: list[Link]
    naming: list[Link]
    truncated: bool


class Walk(msgspec.Struct, frozen=True):
    """A part of an event's past or future, nearest first; ``truncated`` where there is more.

    ``heavy`` is that of `app.stored.pages.Found`.
    """

    items: list[Event]
    truncated: bool
    heavy: dict[int, int] = {}


class Chain(msgspec.Struct, frozen=True):
    """A part of the chain between two events, by id; ``truncated`` where there is more.

    ``steps`` are the messages and links among its ``items``, ``heavy`` is that of
    `app.stored.pages.Found`. Of the whole chain ``count`` is the number of events, and
    ``participants`` of how many; both None where that would take too long. A chain that is too
    long to follow is ``truncated``, and has no items.
    """

    items: list[Event] = []
    truncated: bool = False
    heavy: dict[int, int] = {}
    steps: list[Step] = []
    count: int | None = 0
    participants: int | None = 0
