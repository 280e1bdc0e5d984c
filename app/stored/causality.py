"""Parts of an event's causal past and future."""

from __future__ import annotations

import enum
from typing import Literal

import msgspec

from model.event import Event
from model.words import LinkKind


class Via(enum.StrEnum):
    """What leads from one event to the next.

    ``links``: messages, and links from a publish to what it names as its cause. ``conversation``:
    these, and within a participant what was received in a conversation leads to what is published
    in it later. ``any``: messages, and whatever a participant did before.
    """

    any = "any"
    links = "links"
    conversation = "conversation"


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


class Walk(msgspec.Struct, frozen=True):
    """A part of an event's past or future, nearest first; ``truncated`` where there is more.

    ``heavy`` is that of `app.stored.pages.Found`.
    """

    items: list[Event]
    truncated: bool
    heavy: dict[int, int] = {}
