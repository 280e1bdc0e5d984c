"""How many values one statement takes: both databases bound a statement's parameters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")

CHUNK = 500


def chunks(values: Sequence[T], most: int = CHUNK) -> Iterator[Sequence[T]]:
    """The values in their order, as many at a time as a statement takes; none for none."""
    for first in range(0, len(values), most):
        yield values[first : first + most]
