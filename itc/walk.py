"""Recursion without a bound: a walk is a generator that yields the walks it needs.

Trees may be thousands deep (ids forked one from another in a line), and Python's own stack is not.
A recursive function written as a generator keeps the shape that the paper gives it, while the
stack of calls lies in a list. It costs about three times a plain call, so the three operations
that every event needs (join, leq, event on an interval) do not use it as long as the tree is of
ordinary depth.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")
Walk: TypeAlias = Generator[Any, Any, T]


def finish(walk: Walk[T]) -> T:
    """Run the walk, and the walks it yields, to its end; give what it returns."""
    pending: list[Walk[Any]] = [walk]
    value: Any = None
    while True:
        try:
            pending.append(pending[-1].send(value))
            value = None
        except StopIteration as end:
            pending.pop()
            value = end.value
            if not pending:
                result: T = value
                return result
