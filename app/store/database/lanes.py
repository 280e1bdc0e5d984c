"""Lanes of queries, none of which waits for another: each has its own database connections."""

from __future__ import annotations

import enum

POOL_SECONDS = 60  # a transaction waits this long for a connection


class Lane(enum.StrEnum):
    """The purpose of a read-only transaction.

    ``quick`` is a few look-ups by an index; ``search`` looks through events for a filter;
    ``follow`` does so for a reader who follows the store; ``bulk`` reads new events for everybody,
    and large fields; ``probe`` asks whether the database answers.
    """

    quick = "quick"
    search = "search"
    follow = "follow"
    bulk = "bulk"
    probe = "probe"
