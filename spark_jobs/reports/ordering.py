"""Races and inversions among the messages of one queue, or of one key there: does order matter?

Counting pairs one by one is quadratic. But an event knows of each participant's a prefix, up to a
height, and so one look at its clock for each participant tells about all of that participant's
messages at once: a binary search by height for those before it, one by id for those that cannot be
after it. Both orders agree, since ids extend happens-before. Nothing here does I/O.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from itc import packed_height_at
from spark_jobs.ranges import Flags, Longs

# How many looks at clocks one queue, or one key in it, may take: some seconds. The newest messages
# are looked at first.
MOST_LOOKS = 1_000_000
# How many pairs are shown of one queue, or of one key in it.
MOST_SHOWN = 50


@dataclass(frozen=True)
class Messages:
    """Messages of one queue by the ids of their publishes, as columns.

    Attributes:
        ids: of the publishes; the other columns are in their order.
        participants: who published them.
        heights: of the publishes.
        clocks: packed, of the publishes.
        intervals: each participant's.
        handed: the first delivery from the queue, 0 if there is none.
    """

    ids: Longs
    participants: Longs
    heights: Longs
    clocks: Sequence[bytes]
    intervals: dict[int, str]
    handed: Longs


class MessagePair(NamedTuple):
    """Two messages by their places; the first has the lesser id."""

    a: int
    b: int


@dataclass(frozen=True)
class MessagePairs:
    """The number of pairs, some of them, the newest first, and whether all were counted."""

    count: int
    shown: list[MessagePair]
    counted_all: bool


def races(messages: Messages) -> MessagePairs:
    """Pairs of concurrent publishes."""
    count, shown, looks = 0, list[MessagePair](), _Looks(messages)
    for own, places in looks.parts():
        later, before = looks.asked(own, places)
        if later is None or before is None:
            continue
        # Of the participant's messages with lesser ids, those that are not before are concurrent.
        first = np.searchsorted(messages.ids[places], messages.ids[later])
        pairs = (first - before).clip(min=0)
        count += int(pairs.sum())
        some = np.flatnonzero(pairs)[-MOST_SHOWN:]
        shown += [MessagePair(int(places[first[each] - 1]), int(later[each])) for each in some]
    return MessagePairs(count, _newest(shown), looks.is_all)


def inversions(messages: Messages) -> MessagePairs:
    """Pairs of which the one was published before the other and handed over after it."""
    count, shown, looks = 0, list[MessagePair](), _Looks(messages)
    for own, places in looks.parts(alone=True):
        later, before = looks.asked(own, places)
        if later is None or before is None:
            continue
        handed = messages.handed[places]
        latest = np.maximum.accumulate(handed)
        known = np.flatnonzero((before > 0) & (messages.handed[later] > 0))
        # The latest hand-over of all that were before: in a queue that keeps order it is earlier.
        late = known[latest[before[known] - 1] > messages.handed[later[known]]]
        for each in late[::-1]:
            if not looks.take(int(before[each]) // 64):
                break
            after = np.flatnonzero(handed[: before[each]] > messages.handed[later[each]])
            count += len(after)
            if len(shown) < MOST_SHOWN:
                shown.append(MessagePair(int(places[after[-1]]), int(later[each])))
    return MessagePairs(count, _newest(shown), looks.is_all)


def _newest(pairs: list[MessagePair]) -> list[MessagePair]:
    return sorted(pairs, key=lambda pair: (-pair.b, -pair.a))[:MOST_SHOWN]


class _Looks:
    """Looks at clocks, as many as there may be."""

    def __init__(self, messages: Messages) -> None:
        self._messages = messages
        self._left = MOST_LOOKS
        self.is_all = True

    def parts(self, *, alone: bool = False) -> Iterator[tuple[int, Longs]]:
        """Each participant with its messages' places; none where it is alone, unless asked for."""
        who = self._messages.participants
        numbers = np.unique(who)
        if len(numbers) < 2 and not alone:
            return
        for number in numbers.tolist():
            yield number, np.flatnonzero(who == number)

    def take(self, looks: int) -> bool:
        """Tell whether so many more may be made."""
        self._left -= looks
        self.is_all = self.is_all and self._left >= 0
        return self._left >= 0

    def asked(self, own: int, places: Longs) -> tuple[Longs | None, Longs | None]:
        """The messages that may be after some of a participant's, and how many of these are before.

        Its own come after one another. Of the others each clock says up to which height.
        """
        messages = self._messages
        later = np.flatnonzero(messages.ids > messages.ids[places[0]])
        is_own: Flags = messages.participants[later] == own
        asked = later[~is_own]
        if len(asked) > max(self._left, 0):
            self.is_all = False
            asked = asked[len(asked) - max(self._left, 0) :]
        self._left -= len(asked)
        later = np.sort(np.concatenate([asked, later[is_own]]))
        if not len(later):
            return None, None
        interval, clocks = messages.intervals[own], messages.clocks
        heights = messages.heights[later] - 1
        for at in np.flatnonzero(messages.participants[later] != own).tolist():
            heights[at] = packed_height_at(clocks[later[at]], interval)
        return later, np.searchsorted(messages.heights[places], heights, "right")
