"""The pool of intervals: ids for participants whose number is not known beforehand.

Cutting each interval from what the ones before it left would put the n-th n levels deep. Here the
participant that makes n of them alive gets an interval of depth `depth_for(n)`, cut off the
smallest free one that is large enough (a buddy allocator's best fit). So participants fill blocks
of 8, 64, 1024, 2^17, … intervals, each block half of what the ones before it left free, and the
n-th lies about log n deep, however many are to come.

An interval given back merges with its free sibling, so that large ones appear again and depth
follows the number alive, not the number ever seen. It is never more than `depth_for` of the
greatest number that were alive at once: the i-th oldest of those alive was dealt at depth_for(i)
or deeper, and blocks never fill the whole, so something is always free; and all that is cut ends
on the same grid.

Everything is deterministic, also across `dump` and `load`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from itc.errors import MalformedError, PoolError
from itc.ids import check_path
from itc.nodes import check_height
from itc.stamp import Stamp, seed
from itc.varint import append_varint, read_varint

# Depth of a block's intervals below its root: block k has 2^bits of them under a prefix of k+1.
_BLOCK_BITS = (3, 6, 10, 17, 29, 49, 83)
_DEEPEST = len(_BLOCK_BITS) + _BLOCK_BITS[-1]
_SIBLING = {"0": "1", "1": "0"}


def depth_for(alive: int) -> int:
    """The depth of the interval with which this many are alive."""
    for block, bits in enumerate(_BLOCK_BITS):
        alive -= 1 << bits
        if alive <= 0:
            return block + 1 + bits
    raise PoolError("no pool deals that many intervals")


class IdPool:
    """Deals disjoint intervals of the id space and takes them back.

    A free interval remembers the greatest height that an owner left any part of it at: whoever
    gets it starts there, or its first events would look as if others had seen them already.
    """

    def __init__(self) -> None:
        self._alive = 0
        # By depth: the free intervals of that depth with their heights, last one dealt first.
        self._free: list[dict[str, int]] = [{"": 0}]

    @property
    def alive(self) -> int:
        """The number of intervals that are dealt and not given back."""
        return self._alive

    def take(self) -> tuple[str, int]:
        """An interval that nobody owns: (path from the seed, height it starts at)."""
        depth = depth_for(self._alive + 1)
        path, height = self._pop_fitting(depth)
        while len(path) < depth:
            self._of_depth(len(path) + 1)[path + "1"] = height
            path += "0"
        self._alive += 1
        return path, height

    def give_back(self, path: str, height: int) -> None:
        """Take back an interval that was dealt, and that its owner left at ``height``.

        Raises PoolError where it, or an interval that contains it, is free; TreeError for an
        invalid interval or height.
        """
        check_path(path)
        check_height(height)
        if len(path) > _DEEPEST or any(
            path[:depth] in free for depth, free in enumerate(self._free)
        ):
            raise PoolError(f"the interval {path!r} is not dealt")
        while path and (sibling := path[:-1] + _SIBLING[path[-1]]) in self._of_depth(len(path)):
            height = max(height, self._of_depth(len(path)).pop(sibling))
            path = path[:-1]
        self._of_depth(len(path))[path] = height
        self._alive -= 1

    def ground(self) -> Stamp:
        """The heights that every clock may know without knowing any dealt interval's owner.

        An anonymous stamp: on each free interval the height its last owners left it at, elsewhere
        0. A clock joined with it is level there, however many owners' heights it held.
        """
        stamp = seed().peek()
        for free in self._free:
            for path, height in free.items():
                stamp = stamp.join(Stamp.of_interval(path, height).peek())
        return stamp

    def _pop_fitting(self, depth: int) -> tuple[str, int]:
        """Remove the smallest free interval of that depth or less, else the largest one."""
        for free in [*self._free[depth::-1], *self._free[depth + 1 :]]:
            if free:
                return free.popitem()
        raise PoolError("every interval is dealt")

    def _of_depth(self, depth: int) -> dict[str, int]:
        while len(self._free) <= depth:
            self._free.append({})
        return self._free[depth]

    def dump(self) -> bytes:
        """The pool as bytes, for `load`: the number alive, then each free interval.

        About 4 bytes a free interval; there are few of them unless very many were given back.
        """
        data = bytearray()
        append_varint(data, self._alive)
        for depth, free in enumerate(self._free):
            for path, height in free.items():
                append_varint(data, depth)
                append_varint(data, int(path or "0", 2))
                append_varint(data, height)
        return bytes(data)

    @classmethod
    def load(cls, data: bytes) -> IdPool:
        """The pool that gave the bytes; raises MalformedError for bytes that `dump` never gives."""
        pool = cls()
        pool._free = []
        pool._alive, position = read_varint(data, 0)
        while position < len(data):
            depth, position = read_varint(data, position)
            number, position = read_varint(data, position)
            height, position = read_varint(data, position)
            if depth > _DEEPEST or number >> depth:
                raise MalformedError("a free interval of a pool is none that it could deal")
            pool._of_depth(depth)[f"{number:0{depth}b}" if depth else ""] = height
        pool._check_disjoint()
        if pool.dump() != bytes(data):
            raise MalformedError("the free intervals of a pool are out of order")
        return pool

    @classmethod
    def from_dealt(cls, intervals: Sequence[str], height: int) -> IdPool:
        """A pool that has dealt these intervals, each of the others left at ``height`` or below.

        Raises TreeError for an invalid one or height, PoolError where two overlap.
        """
        pool = cls()
        pool._free = []
        pool._alive = len(intervals)
        check_height(height)
        for path, next_path in pairwise(sorted(map(check_path, intervals))):
            if next_path.startswith(path):
                raise PoolError(f"the intervals {path!r} and {next_path!r} overlap")
        inner = {path[:end] for path in intervals for end in range(len(path))}
        free = {path + half for path in inner for half in _SIBLING} - inner - set(intervals)
        for path in sorted(free) if intervals else [""]:
            pool._of_depth(len(path))[path] = height
        return pool

    def _check_disjoint(self) -> None:
        free = sorted(path for level in self._free for path in level)
        for path, next_path in pairwise(free):
            if next_path.startswith(path) or next_path == path[:-1] + "1":
                raise MalformedError("the free intervals of a pool overlap or are not merged")
