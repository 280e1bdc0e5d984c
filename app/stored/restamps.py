"""What a trace is restamped by, and how far it is when that ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import msgspec

from app.tracker.links import TraceRule


class Rules(msgspec.Struct, frozen=True):
    """Who counts as a participant (`app.tracker.Policy`), and which traffic is quiet.

    By ``links`` all messages are read again; None keeps the links that are stored.
    """

    policy: str
    quiet: tuple[str, ...]
    links: tuple[TraceRule, ...] | None = None


class Standing(msgspec.Struct, frozen=True):
    """A trace's first and last event (0: none), how many it has, and its checkpoint's state."""

    first_id: int
    last_id: int
    events: int
    state: bytes | None


# Told how many events are done.
Progress: TypeAlias = Callable[[int], None]
