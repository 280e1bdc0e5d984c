"""The compiled core (`_core.c`), where one was built.

It does the three operations that every event takes, with the same results as the Python that it
stands in for.
"""

from __future__ import annotations

from typing import Protocol

from itc.compiled import compiled
from itc.nodes import EventTree


class Core(Protocol):
    """What is compiled. Raises OverflowError for heights beyond 63 bits, which are Python's."""

    def join(self, a: EventTree, b: EventTree, /) -> EventTree:
        """As `itc.events.join`, but raises RecursionError for trees deeper than the stack."""

    def raise_interval(self, tree: EventTree, path: str, /) -> EventTree:
        """As `itc.events.raise_interval`."""

    def pack(self, tree: EventTree, /) -> bytes:
        """As `itc.packed.pack` of a stamp with that tree."""


core: Core | None = compiled("itc._core")
