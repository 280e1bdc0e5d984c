"""A chain as height ranges, and the two ways to find those of one that clocks tell of.

A participant's events are totally ordered, so those at or after ``from`` are a suffix of them and
those at or before ``to`` a prefix: the chain is one range of heights per participant. An evident
chain, of messages and links alone, has a range for each run of a participant's events.
`model.ranges` finds the lower ends by bisection over whatever is looked up; `compare` finds the
ranges of a batch of rows by looking at their clocks. Nothing here does I/O itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from model.ranges import Dot

Longs: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]


class Range(NamedTuple):
    """Events of one participant without a hole: heights, ids and seqs are inclusive."""

    participant: int
    low: int
    high: int
    first_id: int
    last_id: int
    first_seq: int
    last_seq: int

    @property
    def events(self) -> int:
        """The number of its events: a participant's sequence has no holes."""
        return self.last_seq - self.first_seq + 1

    def hull(self, second: Range) -> Range:
        """The range from the first event of either to the last of either."""
        return Range(
            self.participant,
            min(self.low, second.low),
            max(self.high, second.high),
            min(self.first_id, second.first_id),
            max(self.last_id, second.last_id),
            min(self.first_seq, second.first_seq),
            max(self.last_seq, second.last_seq),
        )


@dataclass(frozen=True)
class Ranges:
    """Ranges of many participants as arrays, sorted; small enough to send around."""

    participants: Longs
    low: Longs
    high: Longs
    first_id: Longs
    last_id: Longs

    @classmethod
    def from_ranges(cls, ranges: Iterable[Range]) -> Ranges:
        """Arrays of the ranges, in any order."""
        rows = sorted(ranges)
        columns = np.array([r[:5] for r in rows], dtype=np.int64).reshape(-1, 5).T
        return cls(*(np.ascontiguousarray(column) for column in columns))

    def __len__(self) -> int:
        return len(self.participants)

    def hold(self, participants: Longs, heights: Longs) -> Flags:
        """Flag the events at these heights of these participants that are in a range."""
        return self.positions(participants, heights) >= 0

    def positions(self, participants: Longs, heights: Longs) -> Longs:
        """The position of the range that each of these events is in, -1 if it is in none."""
        if not len(self):
            return np.full(len(participants), -1, dtype=np.int64)
        first = np.searchsorted(self.participants, participants)
        low, high = first, np.searchsorted(self.participants, participants, "right")
        while (searched := low < high).any():  # one step if each participant has one range
            middle = (low + high) // 2
            has_begun = searched & (self.low[middle.clip(max=len(self) - 1)] <= heights)
            low = np.where(has_begun, middle + 1, low)
            high = np.where(searched & ~has_begun, middle, high)
        index = (low - 1).clip(min=0)
        return np.where((low > first) & (heights <= self.high[index]), index, -1)

    def in_span(self, first_id: int, last_id: int) -> Ranges:
        """The ranges that may have events with ids in this span."""
        mask = (self.first_id <= last_id) & (self.last_id >= first_id)
        return Ranges(*(column[mask] for column in self.columns()))

    def chunks(self, size: int) -> Iterator[Ranges]:
        """The ranges in parts of at most ``size``."""
        for start in range(0, len(self), size):
            yield Ranges(*(column[start : start + size] for column in self.columns()))

    def columns(self) -> tuple[Longs, Longs, Longs, Longs, Longs]:
        """The arrays in the order of `Range`'s fields."""
        return self.participants, self.low, self.high, self.first_id, self.last_id


def compare_rows(
    ids: Longs,
    participants: Longs,
    heights: Longs,
    seqs: Longs,
    clocks: Sequence[bytes],
    bounds: Ranges,
    start: Dot,
) -> list[Range]:
    """The ranges of a batch of rows, in any order: at most ``bounds``, at or after ``start``.

    The upper ends are compared as arrays. Of the rows that are left, those of one participant are
    ordered, so a bisection reads only a few clocks.
    """
    upper = np.flatnonzero(bounds.hold(participants, heights))
    order = upper[np.lexsort((heights[upper], participants[upper]))]
    groups = np.split(order, np.flatnonzero(np.diff(participants[order])) + 1)
    ranges = []
    for rows in groups:
        first = _first_row(rows, clocks, start)
        if first < len(rows):
            a, z = rows[first], rows[-1]
            ends = (int(column[row]) for column in (heights, ids, seqs) for row in (a, z))
            ranges.append(Range(int(participants[a]), *ends))
    return ranges


def _first_row(rows: npt.NDArray[np.intp], clocks: Sequence[bytes], start: Dot) -> int:
    """Position of the first row of one participant whose clock has reached ``start``."""
    low, high = 0, len(rows)
    while low < high:
        middle = (low + high) // 2
        if start.is_reached(clocks[int(rows[middle])]):
            high = middle
        else:
            low = middle + 1
    return low


def merge_ranges(parts: Iterable[Range]) -> list[Range]:
    """One range per participant from the ranges of several batches."""
    ranges: dict[int, Range] = {}
    for part in parts:
        earlier = ranges.get(part.participant)
        ranges[part.participant] = part if earlier is None else earlier.hull(part)
    return sorted(ranges.values())
