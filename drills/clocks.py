"""Vector clocks that clients keep of their own: the truth about what came before what."""

from __future__ import annotations

from typing import TypeAlias

Clock: TypeAlias = dict[str, int]


def relation(a: Clock, b: Clock) -> str:
    """Name the relation between two events by the clients' clocks."""
    behind = all(count <= b.get(who, 0) for who, count in a.items())
    ahead = all(count <= a.get(who, 0) for who, count in b.items())
    if behind and ahead:
        return "equal"
    return "before" if behind else "after" if ahead else "concurrent"
