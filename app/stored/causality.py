"""Parts of an event's causal past and future."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from model.described import INNER
from model.event import Event
from model.words import LinkKind


class Step(msgspec.Struct, frozen=True):
    """From an event to one that it caused: by a message, or by a link and its rule."""

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


class Named(msgspec.Struct, frozen=True):
    """What a publish names as its cause: a delivery or a publish, by which rule."""

    cause: int
    rule: str
    kind: LinkKind


class Naming(msgspec.Struct, frozen=True):
    """A publish that names an event as its cause, and by which rule."""

    effect: int
    rule: str
    kind: LinkKind


class NamedBy(msgspec.Struct, frozen=True):
    """What names an event: the first 100, if it is ``truncated``."""

    links: list[Naming]
    truncated: bool


class EventLinks(msgspec.Struct, frozen=True):
    """What an event names, and what names it."""

    links: Annotated[list[Named], "What it names as its causes."]
    named_by: Annotated[NamedBy, "What names it as its cause."]


class Walk(msgspec.Struct, frozen=True):
    """A part of an event's past or future, nearest first; ``truncated`` where there is more.

    ``heavy`` is that of `app.stored.pages.Found`.
    """

    items: list[Event]
    truncated: bool
    heavy: dict[int, int] = {}


class Chain(msgspec.Struct, frozen=True):
    """A part of the chain between two events, by id; ``truncated`` where there is more.

    ``heavy`` is that of `app.stored.pages.Found`. A chain that is too long to follow is
    ``truncated``, and has no items.
    """

    items: Annotated[list[Event], INNER] = []
    truncated: bool = False
    heavy: Annotated[dict[int, int], INNER] = {}
    steps: Annotated[list[Step], "The messages and links among the events shown."] = []
    count: Annotated[
        int | None,
        "How many events the whole chain has; `null` if that takes too long to count.",
    ] = 0
    participants: Annotated[int | None, "Of how many participants; `null` as `count`."] = 0

    @property
    def next(self) -> int | None:
        """Where it is truncated: `after` for more; `null` if it is too long to follow."""
        return self.items[-1].id if self.truncated and self.items else None
