"""Parts of an event's causal past and future."""

from __future__ import annotations

import msgspec

from model.event import Event


class Walk(msgspec.Struct, frozen=True):
    """A part of an event's past or future, nearest first; ``truncated`` where there is more.

    ``heavy`` is that of `app.stored.pages.Found`.
    """

    items: list[Event]
    truncated: bool
    heavy: dict[int, int] = {}
