"""The compiled core (`_core.c`), where one was built.

It does the three operations that every event takes, to the same results; the Python it stands for
is the reference, and does them where there is no compiler. ``PURE_PYTHON=1`` leaves it out.
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from itc.events import EventTree


class Core(Protocol):
    """What is compiled. Raises OverflowError for heights beyond 63 bits, which are Python's."""

    def join(self, a: EventTree, b: EventTree, /) -> EventTree:
        """As `itc.events.join`, but raises RecursionError for trees deeper than the stack."""

    def raise_interval(self, tree: EventTree, path: str, /) -> EventTree:
        """As `itc.events.raise_interval`."""

    def pack(self, tree: EventTree, /) -> bytes:
        """As `itc.packed.pack` of a stamp with that tree."""


def built(module: str) -> Any:
    """A compiled module; None where it was not built, or is to be left out."""
    if os.environ.get("PURE_PYTHON", "0") not in ("", "0"):
        return None
    try:
        return importlib.import_module(module)
    except ImportError:
        return None


core: Core | None = built("itc._core")
