"""A chain found by following causes event by event: for spans that reach into an archive.

Clocks do not help there. When a participant's last event is pruned its interval goes to another,
whose events are above all of the first one's; in a store that does no harm, since events of both
are never there together, but an archive keeps the first one's. Happens-before itself is each
participant's order and the causes, so these are followed: once forward from the first event, once
back from the last, in the order of ids, in which no effect comes before its cause.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spark_jobs.ranges import Flags, Longs, Range


@dataclass(frozen=True)
class Span:
    """All events of a trace from one to another, by id, as columns; cause 0 if there is none."""

    ids: Longs
    participants: Longs
    heights: Longs
    seqs: Longs
    causes: Longs


def chain_of(span: Span) -> Flags:
    """Which events are in the chain from the span's first to its last; none without a chain."""
    # Views: as lists they would take four times the memory.
    previous = _previous(span.participants).data
    causes = _places(span.ids, span.causes).data
    after = _after_first(previous, causes)
    if not after[-1]:
        return np.zeros(len(span.ids), dtype=np.bool_)
    chain = np.frombuffer(after, np.uint8) & np.frombuffer(_before_last(previous, causes), np.uint8)
    return chain.astype(np.bool_)


def _after_first(previous: Sequence[int], causes: Sequence[int]) -> bytearray:
    """A 1 for each event at or after the first."""
    reached = bytearray(len(previous))
    reached[0] = 1
    for event, (before, cause) in enumerate(zip(previous, causes, strict=True)):
        if (before >= 0 and reached[before]) or (cause >= 0 and reached[cause]):
            reached[event] = 1
    return reached


def _before_last(previous: Sequence[int], causes: Sequence[int]) -> bytearray:
    """A 1 for each event at or before the last."""
    needed = bytearray(len(previous))
    needed[-1] = 1
    for event in range(len(previous) - 1, -1, -1):
        if needed[event]:
            for other in (previous[event], causes[event]):
                if other >= 0:
                    needed[other] = 1
    return needed


def _previous(participants: Longs) -> Longs:
    """The position of each event's predecessor on its participant, -1 for the first."""
    order = np.argsort(participants, kind="stable")
    previous = np.full(len(participants), -1, dtype=np.int64)
    same = participants[order][1:] == participants[order][:-1]
    previous[order[1:][same]] = order[:-1][same]
    return previous


def _places(ids: Longs, causes: Longs) -> Longs:
    """The position of each event's cause, -1 if it is not in the span."""
    at = np.searchsorted(ids, causes).clip(max=len(ids) - 1)
    return np.where(ids[at] == causes, at, -1)


def ranges_of(span: Span, chain: Flags) -> list[Range]:
    """The chain as one range per participant."""
    if not chain.any():
        return []
    members = np.flatnonzero(chain)
    members = members[np.argsort(span.participants[members], kind="stable")]
    numbers, starts = np.unique(span.participants[members], return_index=True)
    firsts, lasts = members[starts], members[np.append(starts[1:], len(members)) - 1]
    columns = [
        numbers,
        *(
            column[which]
            for column in (span.heights, span.ids, span.seqs)
            for which in (firsts, lasts)
        ),
    ]
    return [Range(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]
