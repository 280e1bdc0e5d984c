"""Cutting a chain into slices: spans of ids, each small enough for one task's memory.

Slices are in the order of ids and do not overlap, so an export that writes them one after the
other is in the order of ids with no sorting anywhere. A slice's events are read in one of two
ways: by its height ranges through the index, which costs nothing for events outside the chain, or
by its span of ids, dropping what is outside, which costs less per event.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from spark_jobs.events.archive import Archive
from spark_jobs.events.history import History, members_sql
from spark_jobs.events.ranges import Longs, Range, Ranges

# Rows of one task: about 16 MB, so that several tasks, the copies on their way through the JVM and
# the driver's all fit on a small machine.
SLICE_BYTES = 16 << 20
LEAST_ROWS, MOST_ROWS = 500, 20_000
# A chain that makes up at least this fraction of its span is read by spans of ids.
DENSE = 0.3
# More events than this are never listed in the driver (24 bytes each).
LISTED = 4_000_000


@dataclass(frozen=True)
class Slice:
    """A partition: one trace's events with ids in a span, and only those in ``ranges`` if given.

    ``by_ranges`` says how they are read; ``archive`` holds them if the store does not.
    """

    trace: int
    first_id: int
    last_id: int
    ranges: Ranges | None = None
    by_ranges: bool = False
    archive: Archive | None = None

    def condition(self) -> str:
        """The statement's WHERE clause; spans of ids still hold events outside the ranges."""
        if self.by_ranges and self.ranges is not None:
            return f"WHERE e.id IN ({members_sql(self.trace, self.ranges)})"
        return (
            f"WHERE e.trace_id = {self.trace} AND e.id BETWEEN {self.first_id} AND {self.last_id}"
        )


def rows_per_slice(row_bytes: int, rows: int, tasks: int) -> int:
    """The number of rows that a slice should have if ``tasks`` can run at a time."""
    fitting = min(max(SLICE_BYTES // max(row_bytes, 1), LEAST_ROWS), MOST_ROWS)
    return max(min(fitting, -(-rows // tasks)), LEAST_ROWS)


def id_spans(trace: int, first_id: int, last_id: int, count: int) -> list[Slice]:
    """Equal spans of ids, about ``count`` of them."""
    step = max(1, -(-(last_id - first_id + 1) // count))
    return [
        Slice(trace, start, min(start + step - 1, last_id))
        for start in range(first_id, last_id + 1, step)
    ]


def spans_that_fit(
    history: History, trace: int, first_id: int, last_id: int, tasks: int
) -> list[Slice]:
    """Equal spans of ids, each with as many rows as `rows_per_slice`."""
    ids = last_id - first_id + 1
    rows = rows_per_slice(history.row_bytes(trace, first_id, last_id), ids, tasks)
    return id_spans(trace, first_id, last_id, -(-ids // rows))


def cut(history: History, trace: int, chain: Sequence[Range], tasks: int) -> list[Slice]:
    """The chain's slices.

    Args:
        history: looks up members where the chain is thin, and how big rows are.
        trace: whose events they are.
        chain: its ranges, at least one.
        tasks: how many slices can be read at a time.
    """
    ranges, total = Ranges.from_ranges(chain), sum(run.events for run in chain)
    first_id, last_id = int(ranges.first_id.min()), int(ranges.last_id.max())
    rows = rows_per_slice(history.row_bytes(trace, first_id, last_id), total, tasks)
    if total <= rows:
        return [Slice(trace, first_id, last_id, ranges, by_ranges=True)]
    if total > LISTED or total >= DENSE * (last_id - first_id + 1):
        return [
            Slice(trace, part.first_id, part.last_id, ranges.in_span(part.first_id, part.last_id))
            for part in id_spans(trace, first_id, last_id, -(-total // rows))
        ]
    ids, participants, heights = history.members(trace, ranges)
    return list(_slices_of(trace, ranges, ids, participants, heights, rows))


def _slices_of(
    trace: int, ranges: Ranges, ids: Longs, participants: Longs, heights: Longs, rows: int
) -> Iterator[Slice]:
    """Slices of ``rows`` listed events each, as the ranges that hold exactly those."""
    for start in range(0, len(ids), rows):
        part = slice(start, start + rows)
        yield Slice(
            trace,
            int(ids[part][0]),
            int(ids[part][-1]),
            parts_of_ranges(ranges, ids[part], participants[part], heights[part]),
            by_ranges=True,
        )


def parts_of_ranges(ranges: Ranges, ids: Longs, participants: Longs, heights: Longs) -> Ranges:
    """The parts of ranges that hold listed events: from the first of each to its last."""
    index = ranges.positions(participants, heights)
    order = np.lexsort((heights, index))
    firsts = np.unique(index[order], return_index=True)[1]
    a, z = order[firsts], order[np.append(firsts[1:], len(order)) - 1]
    return Ranges(participants[a], heights[a], heights[z], ids[a], ids[z])
