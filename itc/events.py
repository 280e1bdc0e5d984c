"""The operations on event trees: join, comparison, and the event itself.

Knowing the least and greatest height of every subtree, `join` takes a whole subtree where it is
above the other one, `leq` decides most pairs at a glance, and nothing is ever lifted or sunk as in
the paper's relative form. Trees share subtrees, and an operation that changes nothing returns the
very object that it was given, which keeps the sharing alive.

Where the core is compiled, stamps are packed, and these are used only for what it does not do.
"""

from __future__ import annotations

from itc.ids import IdTree
from itc.nodes import EventTree, halves, leaf, node
from itc.walk import Walk, finish

# The cost of growing a leaf into a node, against one level of depth: more than any depth.
EXPANSION = 1 << 32


def height_at(tree: EventTree, path: str) -> int:
    """The height at the leftmost point of the interval that the path names."""
    for side in path:
        if tree[0] == tree[1]:
            break
        tree = tree[2] if side == "0" else tree[3]
    while tree[0] != tree[1]:
        tree = tree[2]
    return tree[0]


def raise_ground(ground: EventTree, height: int, path: str) -> EventTree:
    """The level tree ``ground``, raised to ``height`` on the interval."""
    low = ground[0]
    tree = leaf(height)
    if low == height:
        return ground
    for side in reversed(path):
        tree = (low, height, tree, ground) if side == "0" else (low, height, ground, tree)
    return tree


def leq(a: EventTree, b: EventTree) -> bool:
    """Tell whether ``a`` is nowhere higher than ``b``."""
    pending = [(a, b)]
    while pending:
        a, b = pending.pop()
        if a is b or a[1] <= b[0]:
            continue
        if a[0] > b[0] or a[1] > b[1]:
            return False
        # Neither is level: that would have been decided above.
        pending.append((a[3], b[3]))
        pending.append((a[2], b[2]))
    return True


def join(a: EventTree, b: EventTree) -> EventTree:
    """The higher of the two at every point."""
    try:
        return _join(a, b)
    except RecursionError:
        return finish(_join_deep(a, b))


def _join(a: EventTree, b: EventTree) -> EventTree:
    # The hot spot of the package where it is not compiled. It repeats its first lines for both
    # halves, because most calls would return at once, and inlines `halves` and `node`: that makes
    # it 2.5 times faster.
    a_low, a_high, a_left, a_right = a
    b_low, b_high, b_left, b_right = b
    if a_low >= b_high or a is b:
        return a
    if b_low >= a_high:
        return b
    if a_low == a_high:
        a_left = a_right = a
    elif b_low == b_high:
        b_left = b_right = b
    if a_left is b_left or a_left[0] >= b_left[1]:
        left = a_left
    elif b_left[0] >= a_left[1]:
        left = b_left
    else:
        left = _join(a_left, b_left)
    if a_right is b_right or a_right[0] >= b_right[1]:
        right = a_right
    elif b_right[0] >= a_right[1]:
        right = b_right
    else:
        right = _join(a_right, b_right)
    if left is a_left and right is a_right:
        return a
    if left is b_left and right is b_right:
        return b
    low = left[0] if left[0] < right[0] else right[0]
    high = a_high if a_high > b_high else b_high
    return left if low == high else (low, high, left, right)


def _join_deep(a: EventTree, b: EventTree) -> Walk[EventTree]:
    """`_join` for trees deeper than Python's stack; about ten times slower."""
    if a[0] >= b[1] or a is b:
        return a
    if b[0] >= a[1]:
        return b
    a_left, a_right = halves(a)
    b_left, b_right = halves(b)
    left = yield _join_deep(a_left, b_left)
    right = yield _join_deep(a_right, b_right)
    if left is a_left and right is a_right:
        return a
    if left is b_left and right is b_right:
        return b
    return node(left, right)


def raise_interval(tree: EventTree, path: str) -> EventTree:
    """The event operation of an owner of exactly the interval, which ends up level.

    Equal to the paper's fill and grow for such an id, in one walk down the path and back. Fill
    levels the interval at its own greatest height or its sibling's least one, whichever is higher;
    only where that changes nothing does it grow by one.
    """
    parents: list[EventTree] = []
    subtree = tree
    for side in path:
        if subtree[0] == subtree[1]:
            return _replace(
                parents, path, raise_ground(subtree, subtree[0] + 1, path[len(parents) :])
            )
        parents.append(subtree)
        subtree = subtree[2] if side == "0" else subtree[3]
    height = subtree[1]
    if parents:
        sibling = parents[-1][3] if path[-1] == "0" else parents[-1][2]
        height = max(height, sibling[0])
    if height == subtree[0]:
        height += 1
    return _replace(parents, path, leaf(height))


def _replace(parents: list[EventTree], path: str, tree: EventTree) -> EventTree:
    """Put the tree, which is higher, in place of the one below the nodes along the path."""
    depth = len(parents)
    while depth:
        depth -= 1
        low, high, left, right = parents[depth]
        if path[depth] == "0":
            left = tree
        else:
            right = tree
        low = left[0] if left[0] < right[0] else right[0]
        if high < tree[1]:
            high = tree[1]
        tree = left if low == high else (low, high, left, right)
    return tree


def advance(tree: EventTree, owned: IdTree) -> EventTree:
    """The event operation for any id: fill, and grow where fill changes nothing."""
    filled = fill(owned, tree)
    return filled if filled is not tree else grow(owned, tree)[0]


def fill(owned: IdTree, tree: EventTree) -> EventTree:
    """Level the owned parts as far as that simplifies the tree; the same object if it does not."""
    return finish(_fill(owned, tree))


def _fill(owned: IdTree, tree: EventTree) -> Walk[EventTree]:
    low, high, left, right = tree
    if owned == 0 or low == high:
        return tree
    if isinstance(owned, int):
        return leaf(high)
    if owned[0] != 1:
        left = yield _fill(owned[0], left)
    if owned[1] != 1:
        right = yield _fill(owned[1], right)
    if owned[0] == 1:
        left = _level(left, right[0])
    if owned[1] == 1:
        right = _level(right, left[0])
    return tree if left is tree[2] and right is tree[3] else node(left, right)


def _level(tree: EventTree, floor: int) -> EventTree:
    height = max(tree[1], floor)
    return tree if height == tree[0] else leaf(height)


def grow(owned: IdTree, tree: EventTree) -> tuple[EventTree, int]:
    """Raise one owned place by one, where it costs least: (tree, cost).

    The cost counts `EXPANSION` for each leaf that becomes a node and 1 for each level of depth.
    """
    return finish(_grow(owned, tree))


def _grow(owned: IdTree, tree: EventTree) -> Walk[tuple[EventTree, int]]:
    if isinstance(owned, int):
        return leaf(tree[1] + 1), 0
    left, right = halves(tree)
    cost = 1 + (EXPANSION if left is tree else 0)
    if owned[0] != 0:
        grown_left, left_cost = yield _grow(owned[0], left)
    if owned[1] != 0:
        grown_right, right_cost = yield _grow(owned[1], right)
    if owned[1] == 0 or (owned[0] != 0 and left_cost < right_cost):
        return node(grown_left, right), left_cost + cost
    return node(left, grown_right), right_cost + cost
