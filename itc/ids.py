"""Ids: which part of the unit interval a stamp owns.

An id that is one interval, which is what forking alone ever gives, is held as its path from the
seed: a string of "0" (left half) and "1" (right half), "" for the whole. Only ids put together
from parts that are not siblings are trees, ``(left, right)`` with leaves 0 and 1, in normal form.
None is the anonymous id. Each id has exactly one of these forms.
"""

from __future__ import annotations

from typing import TypeAlias, cast

from itc.errors import OverlapError, TreeError
from itc.walk import Walk, finish

IdTree: TypeAlias = "int | tuple[IdTree, IdTree]"
IdNode: TypeAlias = tuple[IdTree, IdTree]
Id: TypeAlias = "str | IdNode | None"

WHOLE = ""


def check_path(path: str) -> str:
    """The path itself; raises TreeError unless it is a string of "0" and "1"."""
    if not isinstance(path, str) or path.strip("01"):
        raise TreeError(f"an interval is named by a string of 0 and 1, not by {path!r}")
    return path


def nest(path: str, tree: IdTree) -> IdTree:
    """The tree that is ``tree`` at the end of the path and 0 elsewhere."""
    for side in reversed(path):
        tree = (tree, 0) if side == "0" else (0, tree)
    return tree


def to_tree(owned: Id) -> IdTree:
    """The id in the paper's form."""
    if owned is None:
        return 0
    return nest(owned, 1) if isinstance(owned, str) else owned


def descend(tree: IdTree) -> tuple[str, IdTree]:
    """Follow the tree while one side owns nothing: (path, the part where it ends)."""
    sides = []
    while not isinstance(tree, int):
        left, right = tree
        if right == 0:
            sides.append("0")
            tree = left
        elif left == 0:
            sides.append("1")
            tree = right
        else:
            break
    return "".join(sides), tree


def from_normal(tree: IdTree) -> Id:
    """The id of a tree in normal form."""
    if tree == 0:
        return None
    path, end = descend(tree)
    return path if end == 1 else cast("IdNode", tree)


def pair(left: IdTree, right: IdTree) -> IdTree:
    """The node over two halves, in normal form."""
    if isinstance(left, int) and left == right:
        return left
    return (left, right)


def normal(tree: object) -> IdTree:
    """The normal form of any id tree, tuples or lists; raises TreeError for anything else."""
    return finish(_normal(tree))


def _normal(tree: object) -> Walk[IdTree]:
    if type(tree) is int and tree in (0, 1):
        return tree
    if not isinstance(tree, tuple | list) or len(tree) != 2:
        raise TreeError("an id is 0, 1 or a pair of ids")
    left = yield _normal(tree[0])
    right = yield _normal(tree[1])
    return pair(left, right)


def split(owned: Id) -> tuple[Id, Id]:
    """Two disjoint ids that together own what the id owns."""
    if owned is None:
        return None, None
    if isinstance(owned, str):
        return owned + "0", owned + "1"
    path, end = descend(owned)
    left, right = cast("IdNode", end)
    return from_normal(nest(path, (left, 0))), from_normal(nest(path, (0, right)))


def union(a: Id, b: Id) -> Id:
    """The id that owns what either owns; raises OverlapError where both own something."""
    if a is None or b is None:
        return b if a is None else a
    if isinstance(a, str) and isinstance(b, str):
        if a.startswith(b) or b.startswith(a):
            raise OverlapError(f"intervals {a!r} and {b!r} overlap")
        if a[:-1] == b[:-1]:
            return a[:-1]
    return from_normal(finish(_union(to_tree(a), to_tree(b))))


def _union(a: IdTree, b: IdTree) -> Walk[IdTree]:
    if a == 0:
        return b
    if b == 0:
        return a
    if isinstance(a, int) or isinstance(b, int):
        raise OverlapError("the ids overlap")
    left = yield _union(a[0], b[0])
    right = yield _union(a[1], b[1])
    return pair(left, right)


def own_same(a: Id, b: Id) -> bool:
    """Tell whether two ids own the same."""
    if not (isinstance(a, tuple) and isinstance(b, tuple)):
        return a == b
    pending: list[tuple[IdTree, IdTree]] = [(a, b)]
    while pending:
        x, y = pending.pop()
        if isinstance(x, int) or isinstance(y, int):
            if x != y:
                return False
        elif x is not y:
            pending += ((x[1], y[1]), (x[0], y[0]))
    return True
