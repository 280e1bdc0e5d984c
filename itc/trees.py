"""The paper's form of a stamp: nested tuples with relative heights, and its notation as text.

An id tree is ``0 | 1 | (left, right)``, an event tree ``n | (n, left, right)`` where n is added to
everything below it. Reading one checks and normalises it.
"""

from __future__ import annotations

from typing import TypeAlias

from itc.errors import TreeError
from itc.ids import IdTree
from itc.nodes import EventTree, check_height, leaf, node
from itc.walk import Walk, finish

RelativeTree: TypeAlias = "int | tuple[int, RelativeTree, RelativeTree]"


def event_from_relative(tree: object) -> EventTree:
    """The event tree of its relative form (tuples or lists); raises TreeError for anything else."""
    return finish(_absolute(tree, 0))


def _absolute(tree: object, base: int) -> Walk[EventTree]:
    if type(tree) is int:
        return leaf(base + check_height(tree))
    if not isinstance(tree, tuple | list) or len(tree) != 3:
        raise TreeError("an event tree is a number or (number, left, right)")
    base += check_height(tree[0])
    left = yield _absolute(tree[1], base)
    right = yield _absolute(tree[2], base)
    return node(left, right)


def event_to_relative(tree: EventTree) -> RelativeTree:
    """The relative form of an event tree."""
    return finish(_relative(tree, 0))


def _relative(tree: EventTree, base: int) -> Walk[RelativeTree]:
    low, high, left, right = tree
    if low == high:
        return low - base
    relative_left = yield _relative(left, low)
    relative_right = yield _relative(right, low)
    return (low - base, relative_left, relative_right)


def text(tree: IdTree | RelativeTree) -> str:
    """A tree as the paper writes it: ``(1, 0)``, ``(0, 1, 0)``."""
    pieces: list[str] = []
    pending: list[IdTree | RelativeTree | str] = [tree]
    while pending:
        piece = pending.pop()
        if isinstance(piece, tuple):
            pending.append(")")
            for index in range(len(piece) - 1, -1, -1):
                pending.append(piece[index])
                pending.append(", " if index else "(")
        else:
            pieces.append(str(piece))
    return "".join(pieces)
