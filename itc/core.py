"""The compiled core (`_core.c`), where one was built.

It does the operations that every event takes on packed trees, with the same results as the Python
that it stands in for. Everything but `text`, `code` and `is_packed` raises OverflowError for bytes
that `pack` never gives, and for heights beyond 63 bits, which are Python's.
"""

from __future__ import annotations

from typing import Protocol, TypeAlias, TypeVar

from itc.compiled import load_compiled

Buffer: TypeAlias = bytes | bytearray | memoryview
S = TypeVar("S")  # a stamp, made of the types here


class Core(Protocol):
    """The compiled part."""

    def join(self, a: bytes, b: bytes, /) -> bytes:
        """As `itc.events.join`; one of both where it is the join."""

    def leq(self, a: bytes, b: bytes, /) -> bool:
        """As `itc.events.leq`."""

    def receive(self, stamp: S, /, *causes: S | bytes) -> tuple[S, int, bytes]:
        """As `itc.stamp.receive`, but raises TypeError unless one interval is owned."""

    def height_at(self, data: Buffer, path: str, /) -> int:
        """As `itc.events.height_at`."""

    def is_packed(self, data: bytes, /) -> bool:
        """Tell whether `pack` gives these bytes, of a tree without heights beyond 63 bits."""

    def text(self, data: Buffer, /) -> str | None:
        """The tree in the paper's notation; None for bytes that it leaves to Python."""

    def code(self, owned: str, data: Buffer, /) -> bytes | None:
        """The code of `itc.bitcode`, of an id's bits and a tree; None as `text`."""


core: Core | None = load_compiled("itc._core")
