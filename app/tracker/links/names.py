"""Names in a message: its own, and those of its causes."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

KEY_BYTES = 16
Key: TypeAlias = bytes
"""16 bytes for a value under a rule; values are unbounded, and anybody chooses them."""


class Names(msgspec.Struct, frozen=True, gc=False):
    """The keys in one message.

    ``ids`` are those by which other messages may name it, ``causes`` those that it names itself,
    each with its rule's number, ``conversations`` those that its conversation shares. People search
    by ``found_by``, and by ``called``: ids of messages, its own and those that it names, which few
    messages share, so that deliveries are found through their publish.
    """

    ids: tuple[Key, ...] = ()
    causes: tuple[tuple[int, Key], ...] = ()
    conversations: tuple[Key, ...] = ()
    found_by: tuple[Key, ...] = ()
    called: tuple[Key, ...] = ()


NO_NAMES = Names()
