"""Blocks of ids: the store notes the least and the greatest time of each 4096 consecutive ids.

Ids are only nearly in the order of their times; these notes turn "since" and "until" into bounds of
ids.
"""

from __future__ import annotations

BLOCK = 4096
MAX_ID = 2**63 - 1


def block_of(event_id: int) -> int:
    return event_id // BLOCK


def ids_of_blocks(first: int, last: int) -> tuple[int, int]:
    """The ids of the blocks from one to another: the least, and the one after the greatest."""
    return first * BLOCK, (last + 1) * BLOCK
