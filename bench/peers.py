"""A peer of the clock, to measure it against: the paper's form as it is.

`PlainStamp` is what one gets by writing down the paper's definitions: nested tuples, heights
relative to the parent, `lift` and `sink` on the way, fill and grow for every event. It has the
operations of `itc.Stamp` that the benchmark needs, and nothing more.
"""

from __future__ import annotations

from typing import TypeAlias

from itc import Stamp

Id: TypeAlias = "int | tuple[Id, Id]"
Event: TypeAlias = "int | tuple[int, Event, Event]"

EXPANSION = 1000


class PlainStamp:
    """An Interval Tree Clock in the paper's own form."""

    __slots__ = ("_event", "_id")

    def __init__(self, owned: Id, event: Event) -> None:
        self._id = owned
        self._event = event

    @classmethod
    def of_interval(cls, path: str, height: int = 0) -> PlainStamp:
        """The same stamp as `itc.Stamp.of_interval` returns."""
        owned, event = Stamp.of_interval(path, height).trees()
        return cls(owned, event)

    def peek(self) -> PlainStamp:
        """The anonymous stamp with this history."""
        return PlainStamp(0, self._event)

    def event(self) -> PlainStamp:
        """The stamp after one more event."""
        filled = fill(self._id, self._event)
        if filled == self._event:
            filled = grow(self._id, self._event)[0]
        return PlainStamp(self._id, filled)

    def height_at(self, path: str) -> int:
        """The height at the leftmost point of an interval."""
        height, tree = 0, self._event
        for side in path:
            if isinstance(tree, int):
                break
            height += tree[0]
            tree = tree[1] if side == "0" else tree[2]
        while not isinstance(tree, int):
            height += tree[0]
            tree = tree[1]
        return height + tree

    def receive(self, message: PlainStamp) -> PlainStamp:
        """The stamp after the event of receiving an anonymous stamp."""
        return PlainStamp(self._id, join(self._event, message._event)).event()


def base(tree: Event) -> int:
    """The least height: in a normal tree one half is at the base."""
    return tree if isinstance(tree, int) else tree[0]


def greatest(tree: Event) -> int:
    """The greatest height."""
    return tree if isinstance(tree, int) else tree[0] + max(greatest(tree[1]), greatest(tree[2]))


def lift(tree: Event, by: int) -> Event:
    """The tree with all heights raised."""
    return tree + by if isinstance(tree, int) else (tree[0] + by, tree[1], tree[2])


def normal(height: int, left: Event, right: Event) -> Event:
    """The normal form of a node over two normal trees."""
    if isinstance(left, int) and left == right:
        return height + left
    common = min(base(left), base(right))
    return (height + common, lift(left, -common), lift(right, -common))


def join(a: Event, b: Event) -> Event:
    """The higher of the two at every point."""
    if isinstance(a, int):
        if isinstance(b, int):
            return max(a, b)
        a = (a, 0, 0)
    elif isinstance(b, int):
        b = (b, 0, 0)
    if a[0] > b[0]:
        a, b = b, a
    above = b[0] - a[0]
    return normal(a[0], join(a[1], lift(b[1], above)), join(a[2], lift(b[2], above)))


def fill(owned: Id, tree: Event) -> Event:
    """Level what is owned, as far as that simplifies the tree."""
    if owned == 0 or isinstance(tree, int):
        return tree
    if owned == 1 or isinstance(owned, int):
        return greatest(tree)
    height, left, right = tree
    if owned[0] == 1:
        right = fill(owned[1], right)
        return normal(height, max(greatest(left), base(right)), right)
    if owned[1] == 1:
        left = fill(owned[0], left)
        return normal(height, left, max(greatest(right), base(left)))
    return normal(height, fill(owned[0], left), fill(owned[1], right))


def grow(owned: Id, tree: Event) -> tuple[Event, int]:
    """Raise one owned place by one, where it costs least: (tree, cost)."""
    if isinstance(tree, int):
        if isinstance(owned, int):
            return tree + 1, 0
        grown, cost = grow(owned, (tree, 0, 0))
        return grown, cost + EXPANSION
    assert not isinstance(owned, int)  # fill has levelled what is wholly owned
    height, left, right = tree
    if owned[0] == 0:
        right, cost = grow(owned[1], right)
        return (height, left, right), cost + 1
    if owned[1] == 0:
        left, cost = grow(owned[0], left)
        return (height, left, right), cost + 1
    grown_left, left_cost = grow(owned[0], left)
    grown_right, right_cost = grow(owned[1], right)
    if left_cost < right_cost:
        return (height, grown_left, right), left_cost + 1
    return (height, left, grown_right), right_cost + 1
