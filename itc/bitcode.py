"""The paper's bit code (section 6), zero padded to whole bytes: how stamps are shown and exchanged.

Each stamp has exactly one code: equal stamps give equal bytes, and `decode` takes no others.
"""

from __future__ import annotations

from itc.core import core
from itc.errors import MalformedError
from itc.ids import IdTree, from_normal, pair, to_tree
from itc.nodes import EventTree, leaf, node
from itc.stamp import Stamp
from itc.walk import Walk, finish


def encode(stamp: Stamp) -> bytes:
    """The code of a stamp; time and length grow with the number of its nodes."""
    owned = "".join(_id_bits(to_tree(stamp._id)))
    code = None if core is None else core.code(owned, stamp.packed)
    return _code(owned, stamp._event) if code is None else code


def decode(code: bytes) -> Stamp:
    """The stamp of a code; raises MalformedError for anything that `encode` never gives."""
    reader = _Reader(code)
    owned = finish(reader.id())
    event = finish(reader.event())
    stamp = Stamp(from_normal(owned), event)
    if encode(stamp) != bytes(code):
        raise MalformedError("not the code of a stamp: padding or trees are not in normal form")
    return stamp


def _code(owned: str, event: EventTree) -> bytes:
    """The bits of an id, and those of an event tree."""
    text = owned + "".join(_event_bits(event))
    text += "0" * (-len(text) % 8)
    return int(text, 2).to_bytes(len(text) // 8, "big")


def _id_bits(tree: IdTree) -> list[str]:
    bits = []
    pending = [tree]
    while pending:
        tree = pending.pop()
        if isinstance(tree, int):
            bits.append("001" if tree else "000")
            continue
        left, right = tree
        if left == 0:
            bits.append("01")
            pending.append(right)
        elif right == 0:
            bits.append("10")
            pending.append(left)
        else:
            bits.append("11")
            pending += (right, left)
    return bits


def _event_bits(tree: EventTree) -> list[str]:
    bits = []
    pending = [(tree, 0)]
    while pending:
        (low, high, left, right), base = pending.pop()
        lift = low - base
        if low == high:
            bits.append(_number(lift))
            continue
        if left[1] == low:
            sides = "0"
        elif right[1] == low:
            sides = "1"
        else:
            sides = "both"
        bits.append(_LIFTED[sides] + _number(lift) if lift else _PLAIN[sides])
        if sides != "1":
            pending.append((right, low))
        if sides != "0":
            pending.append((left, low))
    return bits


# The sides that follow: only the right one ("0": the left is 0), only the left one, or both.
_PLAIN = {"0": "000", "1": "001", "both": "010"}
_LIFTED = {"0": "01100", "1": "01101", "both": "0111"}


def _number(value: int) -> str:
    """A height: as many ones as its size class has (1 or more), a zero, its place in the class."""
    width = (value + 4).bit_length() - 1
    return "1" * (width - 1) + "0" + format(value + 4 - (1 << width), f"0{width}b")


class _Reader:
    """Reads trees from the bits of a code, first to last."""

    def __init__(self, code: bytes) -> None:
        self._bits = "".join(format(byte, "08b") for byte in bytes(code))
        self._position = 0

    def take(self, count: int) -> str:
        """The next bits; raises MalformedError where there are fewer."""
        bits = self._bits[self._position : self._position + count]
        if len(bits) < count:
            raise MalformedError("the code of the stamp is cut off")
        self._position += count
        return bits

    def id(self) -> Walk[IdTree]:
        """The id tree that begins here."""
        sides = self.take(2)
        if sides == "00":
            return int(self.take(1))
        left: IdTree = 0
        right: IdTree = 0
        if sides != "01":
            left = yield self.id()
        if sides != "10":
            right = yield self.id()
        return pair(left, right)

    def event(self, base: int = 0) -> Walk[EventTree]:
        """The event tree that begins here, with heights relative to ``base``."""
        if self.take(1) == "1":
            return leaf(base + self.number())
        sides = self.take(2)
        if sides == "11":
            sides = "10" if self.take(1) == "1" else "0" + self.take(1)
            if self.take(1) == "0":
                raise MalformedError("a lift in the code of the stamp is no number")
            base += self.number()
        left = right = leaf(base)
        if sides != "00":
            left = yield self.event(base)
        if sides != "01":
            right = yield self.event(base)
        return node(left, right)

    def number(self) -> int:
        """The number whose first bit, always 1, was read."""
        end = self._bits.find("0", self._position)
        if end < 0:
            raise MalformedError("the code of the stamp is cut off")
        width = 2 + end - self._position
        self._position = end + 1
        return int(self.take(width), 2) + (1 << width) - 4
