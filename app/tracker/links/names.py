"""Names: a message's own, those of its causes, and what was made of that."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

KEY_BYTES = 16
Key: TypeAlias = bytes
"""16 bytes that stand for a value under a rule; values are unbounded, and anybody chooses them."""


class Names(msgspec.Struct, frozen=True, gc=False):
    """The keys in one message.

    ``ids`` are those by which other messages may name it, ``causes`` those that it names itself,
    each with the number of the rule that says so; ``conversations`` those that it shares with
    whatever belongs together, and ``found_by`` those that people look for. ``called`` are those
    that people look for, too, of which few messages have the same: ids of messages, its own and
    those that it names. By them deliveries are found through their publish.
    """

    ids: tuple[Key, ...] = ()
    causes: tuple[tuple[int, Key], ...] = ()
    conversations: tuple[Key, ...] = ()
    found_by: tuple[Key, ...] = ()
    called: tuple[Key, ...] = ()


NO_NAMES = Names()
