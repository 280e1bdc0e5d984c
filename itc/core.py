"""The compiled core (`_core.c`), where one was built.

It does the operations that every event takes, with the same results as the Python that it
stands in for.
"""

from __future__ import annotations

from typing import Protocol, TypeVar

from itc.compiled import compiled
from itc.nodes import EventTree

S = TypeVar("S")  # a stamp, which is made of what is here


class Core(Protocol):
    """What is compiled.

    Raises OverflowError for heights beyond 63 bits and RecursionError for trees of more than 500
    levels, which are Python's.
    """

    def join(self, a: EventTree, b: EventTree, /) -> EventTree:
        """As `itc.events.join`."""

    def raise_interval(self, tree: EventTree, path: str, /) -> EventTree:
        """As `itc.events.raise_interval`."""

    def receive(self, stamp: S, /, *others: S) -> tuple[S, int, bytes]:
        """As `itc.messages.receive`, but raises TypeError unless one interval is owned."""

    def pack(self, tree: EventTree, /) -> bytes:
        """As `itc.packed.pack` of a stamp with that tree."""


core: Core | None = compiled("itc._core")
