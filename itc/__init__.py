"""Interval Tree Clocks: causality among participants that come and go.

    >>> from itc import seed, compare
    >>> a, b = seed().fork()
    >>> a = a.event()
    >>> b = b.join(a.peek()).event()
    >>> compare(a, b).value
    'before'

`Stamp` is the clock, `encode` and `decode` the paper's bit code, `pack` and its companions the
form for storing many event components, `IdPool` the dealer of ids. Standard library only.
"""

from itc.bitcode import decode, encode
from itc.errors import (
    AnonymousError,
    ClockError,
    MalformedError,
    OverlapError,
    PoolError,
    TreeError,
)
from itc.packed import packed_height_at, packed_text, packed_texts
from itc.pool import IdPool
from itc.stamp import Relation, Stamp, compare, pack, receive, seed, unpack

__all__ = [
    "AnonymousError",
    "ClockError",
    "IdPool",
    "MalformedError",
    "OverlapError",
    "PoolError",
    "Relation",
    "Stamp",
    "TreeError",
    "compare",
    "decode",
    "encode",
    "pack",
    "packed_height_at",
    "packed_text",
    "packed_texts",
    "receive",
    "seed",
    "unpack",
]
