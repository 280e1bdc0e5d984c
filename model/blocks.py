"""Blocks of ids: the store notes the least and the greatest time of each 4096 ids in a row.

Ids are only nearly in the order of their times, so "since" and "until" become bounds of ids through
what is noted of the blocks.
"""

from __future__ import annotations

BLOCK = 4096


def block_of(event_id: int) -> int:
    """The number of the block that an id lies in."""
    return event_id // BLOCK


def ids_of(first: int, last: int) -> tuple[int, int]:
    """The ids of the blocks from one to another: the least, and the one behind the greatest."""
    return first * BLOCK, (last + 1) * BLOCK
