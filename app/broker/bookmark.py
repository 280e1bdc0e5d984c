"""The bookmark: how far the store was, kept by the broker with the trace queue.

It is a binding of the queue whose key no trace message has: the trace's epoch, which changes with
each run, and its last stored event. Both only grow. A store that is behind it was restored from a
backup, and what was acknowledged since that was made is in no queue any more.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

PREFIX = "itc.stored."


class Bookmark(NamedTuple):
    """The epoch of a run, and the last event that was stored."""

    epoch: int
    event_id: int

    @property
    def key(self) -> str:
        return f"{PREFIX}{self.epoch}.{self.event_id}"


def bookmarks(keys: Iterable[str]) -> list[Bookmark]:
    """The bookmarks among binding keys; what anybody else has bound like one is left out."""
    parted = [key.removeprefix(PREFIX).split(".") for key in keys if key.startswith(PREFIX)]
    numbers = [[int(each) for each in parts if each.isdecimal()] for parts in parted]
    return [Bookmark(*each) for each in numbers if len(each) == len(Bookmark._fields)]
