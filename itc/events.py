"""Event trees: how high the clock stands at every point of the unit interval.

A tree is a height (an int: as high everywhere) or a node ``(lowest, highest, left, right)`` over
its two halves. Heights are absolute: the paper's form, relative to the parent, is made at the
edges only. So lowest and highest are at hand without a walk, `join` takes a whole subtree where
it stands above the other, and no operation lifts or sinks anything. Trees are in normal form (a
node is never the same height everywhere) and shared between stamps; where an operation changes
nothing it returns the very object it was given, which keeps the sharing alive.
"""

from __future__ import annotations

from typing import TypeAlias

from itc.ids import IdTree
from itc.walk import Walk, finish

EventTree: TypeAlias = "int | tuple[int, int, EventTree, EventTree]"
EventNode: TypeAlias = tuple[int, int, EventTree, EventTree]

# What growing a leaf into a node costs, against one level of depth: more than any depth.
EXPANSION = 1 << 32


def lowest(tree: EventTree) -> int:
    """The least height anywhere."""
    return tree if isinstance(tree, int) else tree[0]


def highest(tree: EventTree) -> int:
    """The greatest height anywhere."""
    return tree if isinstance(tree, int) else tree[1]


def node(left: EventTree, right: EventTree) -> EventTree:
    """The tree over two halves, in normal form."""
    if isinstance(left, int) and left == right:
        return left
    low, high = lowest(left), highest(left)
    other_low, other_high = lowest(right), highest(right)
    return (
        low if low < other_low else other_low,
        high if high > other_high else other_high,
        left,
        right,
    )


def height_at(tree: EventTree, path: str) -> int:
    """The height at the leftmost point of the interval that the path names."""
    for side in path:
        if isinstance(tree, int):
            return tree
        tree = tree[2] if side == "0" else tree[3]
    while not isinstance(tree, int):
        tree = tree[2]
    return tree


def on_interval(path: str, height: int) -> EventTree:
    """The tree that stands at ``height`` on the interval and at 0 elsewhere."""
    if height == 0:
        return 0
    return _above(0, height, path)


def _above(ground: int, height: int, path: str) -> EventTree:
    tree: EventTree = height
    for side in reversed(path):
        tree = (ground, height, tree, ground) if side == "0" else (ground, height, ground, tree)
    return tree


def leq(a: EventTree, b: EventTree) -> bool:
    """Whether ``a`` is nowhere higher than ``b``."""
    pending = [(a, b)]
    while pending:
        a, b = pending.pop()
        if a is b:
            continue
        if isinstance(a, int):
            if a > lowest(b):
                return False
        elif isinstance(b, int):
            if a[1] > b:
                return False
        elif a[1] > b[0]:
            if a[0] > b[0] or a[1] > b[1]:
                return False
            pending += ((a[3], b[3]), (a[2], b[2]))
    return True


def same(a: EventTree, b: EventTree) -> bool:
    """Whether two trees stand at the same height everywhere."""
    pending = [(a, b)]
    while pending:
        a, b = pending.pop()
        if a is b:
            continue
        if isinstance(a, int) or isinstance(b, int):
            if a != b:
                return False
        elif a[0] != b[0] or a[1] != b[1]:
            return False
        else:
            pending += ((a[2], b[2]), (a[3], b[3]))
    return True


def join(a: EventTree, b: EventTree) -> EventTree:
    """The higher of the two at every point."""
    try:
        return _join(a, b)
    except RecursionError:
        return finish(_join_deep(a, b))


def _join(a: EventTree, b: EventTree) -> EventTree:
    if a is b:
        return a
    if isinstance(a, int):
        if isinstance(b, int):
            return a if a >= b else b
        if a <= b[0]:
            return b
        if a >= b[1]:
            return a
        left, right = _join(a, b[2]), _join(a, b[3])
        return b if left is b[2] and right is b[3] else node(left, right)
    if isinstance(b, int):
        return _join(b, a)
    if a[0] >= b[1]:
        return a
    if b[0] >= a[1]:
        return b
    left, right = _join(a[2], b[2]), _join(a[3], b[3])
    if left is a[2] and right is a[3]:
        return a
    if left is b[2] and right is b[3]:
        return b
    return node(left, right)


def _join_deep(a: EventTree, b: EventTree) -> Walk[EventTree]:
    if lowest(a) >= highest(b):
        return a
    if lowest(b) >= highest(a):
        return b
    a_left, a_right = (a, a) if isinstance(a, int) else a[2:]
    b_left, b_right = (b, b) if isinstance(b, int) else b[2:]
    left = yield _join_deep(a_left, b_left)
    right = yield _join_deep(a_right, b_right)
    if left is a_left and right is a_right:
        return a
    if left is b_left and right is b_right:
        return b
    return node(left, right)


def raise_interval(tree: EventTree, path: str) -> EventTree:
    """The event operation of whoever owns exactly the interval: its whole interval ends up level.

    Equal to the paper's fill and grow for such an id, in one walk down the path and back. Fill
    levels the interval at its own greatest height or its sibling's least one, whichever is higher;
    only where that changes nothing does it grow by one.
    """
    above: list[EventNode] = []
    here = tree
    for side in path:
        if isinstance(here, int):
            return _rebuilt(above, path, _above(here, here + 1, path[len(above) :]))
        above.append(here)
        here = here[2] if side == "0" else here[3]
    level = highest(here)
    if above:
        sibling = above[-1][3] if path[-1] == "0" else above[-1][2]
        level = max(level, lowest(sibling))
    return _rebuilt(above, path, level + 1 if level == here else level)


def _rebuilt(above: list[EventNode], path: str, tree: EventTree) -> EventTree:
    """Put the tree in place of what stood under the last of the nodes along the path."""
    for depth in range(len(above) - 1, -1, -1):
        parent = above[depth]
        tree = node(tree, parent[3]) if path[depth] == "0" else node(parent[2], tree)
    return tree


def advance(tree: EventTree, owned: IdTree) -> EventTree:
    """The event operation for any id: fill, and grow where fill changes nothing."""
    filled = fill(owned, tree)
    return filled if filled is not tree else grow(owned, tree)[0]


def fill(owned: IdTree, tree: EventTree) -> EventTree:
    """Level what is owned as far as that simplifies the tree; the same object if it does not."""
    return finish(_fill(owned, tree))


def _fill(owned: IdTree, tree: EventTree) -> Walk[EventTree]:
    if owned == 0 or isinstance(tree, int):
        return tree
    if isinstance(owned, int):
        return tree[1]
    old_left, old_right = left, right = tree[2:]
    if owned[0] != 1:
        left = yield _fill(owned[0], left)
    if owned[1] != 1:
        right = yield _fill(owned[1], right)
    if owned[0] == 1:
        left = _levelled(left, lowest(right))
    if owned[1] == 1:
        right = _levelled(right, lowest(left))
    return tree if left is old_left and right is old_right else node(left, right)


def _levelled(tree: EventTree, least: int) -> EventTree:
    if isinstance(tree, int) and tree >= least:
        return tree
    return max(highest(tree), least)


def grow(owned: IdTree, tree: EventTree) -> tuple[EventTree, int]:
    """Raise one owned place by one, where it costs least: (tree, cost).

    The cost counts `EXPANSION` for each leaf that becomes a node and 1 for each level of depth.
    """
    return finish(_grow(owned, tree))


def _grow(owned: IdTree, tree: EventTree) -> Walk[tuple[EventTree, int]]:
    if isinstance(owned, int):
        return highest(tree) + 1, 0
    left, right = (tree, tree) if isinstance(tree, int) else tree[2:]
    expansion = EXPANSION if isinstance(tree, int) else 0
    if owned[0] != 0:
        grown_left, left_cost = yield _grow(owned[0], left)
    if owned[1] != 0:
        grown_right, right_cost = yield _grow(owned[1], right)
    if owned[1] == 0 or (owned[0] != 0 and left_cost < right_cost):
        return node(grown_left, right), left_cost + 1 + expansion
    return node(left, grown_right), right_cost + 1 + expansion
