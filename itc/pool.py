"""The pool of intervals: ids for a number of participants that nobody knows beforehand.

Half of what is left, again and again, would put the n-th participant n levels deep. Here the
participant that makes n of them alive gets an interval of depth `depth_for(n)`, cut off the
smallest free interval that is large enough (a buddy allocator's best fit). So participants fill
blocks of 8, 64, 1024, 2^17, … intervals, each block half of what the ones before left free, and
the n-th lies about log n deep, however many come later. An interval given back is merged with its
free sibling, so where few are left alive the next ones lie near the root again: depth follows the
number alive, not the number ever seen.

Everything is deterministic, also over `dump` and `load`.
"""

from __future__ import annotations

from itc.errors import MalformedError, PoolError
from itc.ids import check_path

# Depth of the intervals of each block: block k has 2^bits of them below a prefix of k+1.
_BLOCK_BITS = (3, 6, 10, 17, 29, 49, 83)
_OTHER = {"0": "1", "1": "0"}


def depth_for(alive: int) -> int:
    """How deep the interval lies that makes so many of them alive."""
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
        # By depth: the free intervals of that depth with their heights, oldest first.
        self._free: list[dict[str, int]] = [{"": 0}]

    @property
    def alive(self) -> int:
        """How many intervals are dealt and not given back."""
        return self._alive

    def take(self) -> tuple[str, int]:
        """An interval that nobody owns: (path from the seed, height it starts at)."""
        depth = depth_for(self._alive + 1)
        path, height = self._fitting(depth)
        for _ in range(len(path), depth):
            self._put(path + "1", height)
            path += "0"
        self._alive += 1
        return path, height

    def give_back(self, path: str, height: int) -> None:
        """Take back an interval that its owner left at ``height``.

        Raises PoolError where it is free already.
        """
        check_path(path)
        if self._alive == 0 or any(
            path[:depth] in free for depth, free in enumerate(self._free) if depth <= len(path)
        ):
            raise PoolError(f"the interval {path!r} is free already")
        while path and (sibling := path[:-1] + _OTHER[path[-1]]) in self._at(len(path)):
            height = max(height, self._at(len(path)).pop(sibling))
            path = path[:-1]
        self._put(path, height)
        self._alive -= 1

    def _fitting(self, depth: int) -> tuple[str, int]:
        """Remove the smallest free interval of that depth or less, else the largest there is."""
        at_most = self._free[depth::-1] if depth < len(self._free) else self._free[::-1]
        for free in [*at_most, *self._free[depth + 1 :]]:
            if free:
                return free.popitem()
        raise PoolError("every interval is dealt")

    def _put(self, path: str, height: int) -> None:
        self._at(len(path))[path] = height

    def _at(self, depth: int) -> dict[str, int]:
        while len(self._free) <= depth:
            self._free.append({})
        return self._free[depth]

    def dump(self) -> bytes:
        """The pool as bytes, for `load`: about 5 bytes for each free interval."""
        out = bytearray()
        _append(out, self._alive)
        for free in self._free:
            for path, height in free.items():
                _append(out, len(path))
                out += int(path or "0", 2).to_bytes(len(path) + 7 >> 3, "big")
                _append(out, height)
        return bytes(out)

    @classmethod
    def load(cls, data: bytes) -> IdPool:
        """The pool that gave the bytes; raises MalformedError where none did."""
        pool = cls()
        pool._free = [{}]
        pool._alive, at = _read(data, 0)
        while at < len(data):
            depth, at = _read(data, at)
            size = depth + 7 >> 3
            number = int.from_bytes(data[at : at + size], "big")
            height, at = _read(data, at + size)
            if number >> depth:
                raise MalformedError("not the bytes of a pool")
            pool._put(format(number, f"0{depth}b") if depth else "", height)
        if pool.dump() != bytes(data):
            raise MalformedError("not the bytes of a pool")
        return pool


def _append(out: bytearray, value: int) -> None:
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)


def _read(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    for place in range(at, len(data)):
        value |= (data[place] & 127) << shift
        if data[place] < 128:
            return value, place + 1
        shift += 7
    raise MalformedError("the bytes of a pool are cut off")
