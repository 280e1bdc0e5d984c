"""What a trace is restamped by, and how far it is when that ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, TypeAlias

import msgspec

from app.tracker import Policy
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


class RestampedTrace(msgspec.Struct, frozen=True):
    """A restamped trace: its rules, and how many of its participants are assumed."""

    vhost: str
    participant: Policy
    quiet: tuple[str, ...]


class RestampOutcome(msgspec.Struct, frozen=True):
    """What a restamped trace has."""

    events: int
    participants: int
    assumed: int
    edges: Annotated[int | None, "Links there are now; `null` where they were kept."] = None
    cut: Annotated[
        int | None,
        "Messages of whose bodies only a part is stored, so that what looks into bodies did not "
        "read them; `null` where none was read again.",
    ] = None


# Told how many events are done.
Progress: TypeAlias = Callable[[int], None]
