"""Who waits for whom at the database: each lane has connections of its own."""

from __future__ import annotations

import enum


class Lane(enum.StrEnum):
    """What a transaction that only reads is for.

    ``quick`` is a few look-ups by an index; ``search`` looks through events for those that pass a
    filter; ``follow`` does so for somebody who follows the store; ``bulk`` is what is new for
    everybody, and large fields; ``probe`` asks whether the database answers.
    """

    quick = "quick"
    search = "search"
    follow = "follow"
    bulk = "bulk"
    probe = "probe"
