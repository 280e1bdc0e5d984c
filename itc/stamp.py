"""Stamps: the pair of an id and an event tree, and the operations of Interval Tree Clocks.

The names are those of P. S. Almeida, C. Baquero, V. Fonte: "Interval Tree Clocks: A Logical Clock
for Dynamic Systems" (2008).
"""

from __future__ import annotations

import enum

from itc import events, ids
from itc.errors import AnonymousError
from itc.ids import Id, IdTree
from itc.nodes import ZERO, EventTree, check_height
from itc.trees import RelativeTree, event_from_relative, event_to_relative, text


class Relation(enum.Enum):
    """How two stamps are related in causal order."""

    before = "before"
    after = "after"
    equal = "equal"
    concurrent = "concurrent"


class Stamp:
    """A point in causal history (the event tree) with the right to go on from it (the id).

    Immutable; operations return new stamps that share what did not change. ``==`` compares both
    components, `leq` and `compare` the event component alone.
    """

    __slots__ = ("_event", "_id")

    def __init__(self, owned: Id, event: EventTree) -> None:
        # Both in normal form; from outside use `seed`, `from_trees`, `of_interval` or a decoder.
        self._id = owned
        self._event = event

    @classmethod
    def from_trees(cls, owned: object, event: object) -> Stamp:
        """The stamp of the paper's trees: id ``0 | 1 | (l, r)``, event ``n | (n, l, r)``.

        Trees that are not in normal form are normalised; anything else raises TreeError.
        """
        return cls(ids.from_normal(ids.normal(owned)), event_from_relative(event))

    @classmethod
    def of_interval(cls, path: str, height: int = 0) -> Stamp:
        """The stamp that owns one interval, with ``height`` there and 0 elsewhere.

        The path names the interval by halves from the seed on, "0" for left and "1" for right.
        """
        event = events.raised(ZERO, check_height(height), path)
        return cls(ids.check_path(path), event)

    def trees(self) -> tuple[IdTree, RelativeTree]:
        """The paper's form of both components, as nested tuples."""
        return ids.to_tree(self._id), event_to_relative(self._event)

    @property
    def is_anonymous(self) -> bool:
        """Whether the stamp owns nothing: it can be compared and joined, but has no events."""
        return self._id is None

    @property
    def interval(self) -> str | None:
        """The path of the interval that the stamp owns; None unless it owns exactly one."""
        return self._id if isinstance(self._id, str) else None

    def fork(self) -> tuple[Stamp, Stamp]:
        """Two stamps with this one's history that share its id between them."""
        left, right = ids.split(self._id)
        return Stamp(left, self._event), Stamp(right, self._event)

    def event(self) -> Stamp:
        """The stamp after one more event; raises AnonymousError where nothing is owned."""
        if isinstance(self._id, str):
            return Stamp(self._id, events.raise_interval(self._event, self._id))
        if self._id is None:
            raise AnonymousError("an anonymous stamp has no events; join it into one with an id")
        return Stamp(self._id, events.advance(self._event, self._id))

    def join(self, other: Stamp) -> Stamp:
        """The stamp that knows and owns what either does; raises OverlapError for shared ids."""
        owned = self._id if other._id is None else ids.union(self._id, other._id)
        return Stamp(owned, events.join(self._event, other._event))

    def peek(self) -> Stamp:
        """The anonymous stamp with this one's history: what a message carries."""
        return Stamp(None, self._event)

    def leq(self, other: Stamp) -> bool:
        """Whether everything in this stamp's history is in the other's."""
        return events.leq(self._event, other._event)

    def height_at(self, path: str) -> int:
        """The height at the leftmost point of the interval that the path names."""
        return events.height_at(self._event, path)

    @property
    def greatest_height(self) -> int:
        """The greatest height anywhere."""
        return self._event[1]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Stamp):
            return NotImplemented
        return ids.same(self._id, other._id) and events.same(self._event, other._event)

    def __hash__(self) -> int:
        return hash((self.interval, events.outline(self._event)))

    def __str__(self) -> str:
        owned, event = self.trees()
        return f"({text(owned)}, {text(event)})"

    def __repr__(self) -> str:
        return f"Stamp{self}"


def seed() -> Stamp:
    """The stamp that owns everything and has seen nothing: where every universe begins."""
    return Stamp(ids.EVERYTHING, ZERO)


def compare(a: Stamp, b: Stamp) -> Relation:
    """How ``a`` is related to ``b``."""
    if a.leq(b):
        return Relation.equal if b.leq(a) else Relation.before
    return Relation.after if b.leq(a) else Relation.concurrent
