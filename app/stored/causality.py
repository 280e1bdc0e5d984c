"""Parts of an event's causal past and future."""

from __future__ import annotations

import msgspec

from app.stored.events import EventRow


class Walk(msgspec.Struct, frozen=True):
    """A part of an event's past or future, nearest first; ``truncated`` where there is more."""

    items: list[EventRow]
    truncated: bool
