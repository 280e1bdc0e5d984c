"""Stamps: the pair of an id and an event component, and the operations of Interval Tree Clocks.

The names are those of P. S. Almeida, C. Baquero, V. Fonte: "Interval Tree Clocks: A Logical Clock
for Dynamic Systems" (2008).
"""

from __future__ import annotations

import enum

from itc import events, ids
from itc.core import Buffer, core
from itc.errors import AnonymousError
from itc.ids import Id, IdTree
from itc.nodes import ZERO, EventTree, check_height
from itc.packed import pack_tree, packed_height_at, unpack_tree
from itc.trees import RelativeTree, event_from_relative, event_to_relative, text


class Relation(enum.Enum):
    """The relation of two stamps in causal order."""

    before = "before"
    after = "after"
    equal = "equal"
    concurrent = "concurrent"


class Stamp:
    """A point in causal history (the event tree) with the right to go on from it (the id).

    Immutable; ``==`` compares both components, `leq` and `compare` the event component alone.

    The event component is held as a tree or packed. Compiled operations give packed ones, a tenth
    of a tree's size; those in Python give trees, which share what did not change. Either form is
    made of the other where it is wanted.
    """

    __slots__ = ("_id", "_packed", "_tree")

    def __init__(self, owned: Id, event: EventTree | bytes) -> None:
        # Both in normal form; from outside use `seed`, `from_trees`, `of_interval` or a decoder.
        self._id = owned
        self._packed: bytes | None = None
        self._tree: EventTree | None = None
        if isinstance(event, bytes):
            self._packed = event
        else:
            self._tree = event

    @property
    def packed(self) -> bytes:
        """The event component as `itc.packed` has it; kept from the first time on."""
        if self._packed is None:
            self._packed = pack_tree(self._event)
        return self._packed

    @property
    def _event(self) -> EventTree:
        return unpack_tree(self.packed) if self._tree is None else self._tree

    @property
    def _form(self) -> EventTree | bytes:
        """The event component in a form that is at hand."""
        return self.packed if self._tree is None else self._tree

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
        event = events.raise_ground(ZERO, check_height(height), path)
        return cls(ids.check_path(path), event)

    def trees(self) -> tuple[IdTree, RelativeTree]:
        """The paper's form of both components, as nested tuples."""
        return ids.to_tree(self._id), event_to_relative(self._event)

    @property
    def is_anonymous(self) -> bool:
        """Tell whether the stamp owns nothing: it can be compared and joined, but has no events."""
        return self._id is None

    @property
    def interval(self) -> str | None:
        """The path of the interval that the stamp owns; None unless it owns exactly one."""
        return self._id if isinstance(self._id, str) else None

    def fork(self) -> tuple[Stamp, Stamp]:
        """Two stamps with this one's history that share its id between them."""
        left, right = ids.split(self._id)
        return Stamp(left, self._form), Stamp(right, self._form)

    def event(self) -> Stamp:
        """The stamp after one more event; raises AnonymousError where nothing is owned."""
        if isinstance(self._id, str):
            return receive(self)[0]
        if self._id is None:
            raise AnonymousError("an anonymous stamp has no events; join it into one with an id")
        return Stamp(self._id, events.advance(self._event, self._id))

    def join(self, other: Stamp) -> Stamp:
        """The stamp that knows and owns what either does; raises OverlapError for shared ids."""
        owned = self._id if other._id is None else ids.union(self._id, other._id)
        if core is not None:
            try:
                return Stamp(owned, core.join(self.packed, other.packed))
            except OverflowError:
                pass
        return Stamp(owned, events.join(self._event, other._event))

    def peek(self) -> Stamp:
        """The anonymous stamp with this one's history: what a message carries."""
        return Stamp(None, self._form)

    def leq(self, other: Stamp) -> bool:
        """Tell whether everything in this stamp's history is in the other's."""
        if core is not None:
            try:
                return core.leq(self.packed, other.packed)
            except OverflowError:
                pass
        return events.leq(self._event, other._event)

    def height_at(self, path: str) -> int:
        """The height at the leftmost point of the interval that the path names."""
        if self._tree is None:
            return packed_height_at(self.packed, path)
        return events.height_at(self._tree, path)

    @property
    def greatest_height(self) -> int:
        """The greatest height anywhere."""
        return self._event[1]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Stamp):
            return NotImplemented
        return ids.own_same(self._id, other._id) and self.packed == other.packed

    def __hash__(self) -> int:
        return hash((self.interval, self.packed))

    def __str__(self) -> str:
        owned, event = self.trees()
        return f"({text(owned)}, {text(event)})"

    def __repr__(self) -> str:
        return f"Stamp{self}"


def seed() -> Stamp:
    """The stamp that owns everything and has seen nothing: where every universe begins."""
    return Stamp(ids.WHOLE, ZERO)


def pack(stamp: Stamp) -> bytes:
    """The event component of a stamp as bytes."""
    return stamp.packed


def unpack(data: Buffer, interval: str | None = None) -> Stamp:
    """The stamp of packed bytes: anonymous, or the owner of the interval.

    Raises MalformedError for bytes that `pack` never gives, TreeError for an invalid interval.
    """
    owned = None if interval is None else ids.check_path(interval)
    packed = bytes(data)
    if core is not None and core.is_packed(packed):
        return Stamp(owned, packed)
    return Stamp(owned, unpack_tree(packed))


def receive(stamp: Stamp, *causes: Stamp | bytes) -> tuple[Stamp, int, bytes]:
    """The stamp after an event that follows from the others, its height, and its packed form.

    What a participant does for each event, at once: the paper's receive, as `Stamp.join` with what
    `Stamp.peek` gives of each and then `Stamp.event`; with no others an event alone. Others may be
    packed. The height is that of the stamp's interval, the bytes are what `pack` gives. Raises
    AnonymousError unless the stamp owns exactly one interval.
    """
    if core is not None:
        try:
            return core.receive(stamp, *causes)
        except (OverflowError, TypeError):
            pass  # too high for it, or Python says what is wrong
    return _receive(stamp, *causes)


def _receive(stamp: Stamp, *causes: Stamp | bytes) -> tuple[Stamp, int, bytes]:
    interval = stamp.interval
    if interval is None:
        raise AnonymousError("only the owner of exactly one interval receives")
    tree = stamp._event
    for cause in causes:
        tree = events.join(tree, unpack_tree(cause) if isinstance(cause, bytes) else cause._event)
    tree = events.raise_interval(tree, interval)
    result = Stamp(interval, tree)
    return result, events.height_at(tree, interval), result.packed


def compare(a: Stamp, b: Stamp) -> Relation:
    """The relation of ``a`` to ``b``."""
    if a.leq(b):
        return Relation.equal if b.leq(a) else Relation.before
    return Relation.after if b.leq(a) else Relation.concurrent
