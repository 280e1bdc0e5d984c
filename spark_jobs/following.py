"""A chain found by following events one by one, from columns that are held in memory.

That is how evident chains are found, whose events are no ranges, and chains that reach into an
archive, where clocks do not help: when a participant's last event is pruned its interval goes to
another, whose events are above all of the first one's; in a store that does no harm, since events
of both are never there together, but an archive keeps the first one's. Happens-before itself is
each participant's order, messages and links. So these are followed: once forward from the first
event, once back from the last, in the order of ids, in which no effect comes before its cause.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from model.words import EventType, Via
from spark_jobs.ranges import Flags, Longs, Range


class Pairs(NamedTuple):
    """What leads to what: two columns of positions."""

    sources: Longs
    targets: Longs


@dataclass(frozen=True)
class Span:
    """Events of a trace from one to another, by id, as columns.

    Attributes:
        ids: of all of them; the other columns are in the same order.
        causes: the publish that was received, 0 if there is none that joined.
        links: (cause, effect), by position.
        shared: (event, conversation): the first by position, the second is any number of its own.
    """

    ids: Longs
    types: Longs
    participants: Longs
    heights: Longs
    seqs: Longs
    causes: Longs
    links: Pairs
    shared: Pairs


def chain_of(span: Span, via: Via) -> Flags:
    """Which events are in the chain from the span's first to its last; none without a chain.

    All events between the two are not needed, only all that lie on a way from one to the other.
    """
    size, steps, places = _steps(span, via)
    last = int(places[-1])
    after = _after(size, steps, places)
    if not after[last]:
        return np.zeros(len(span.ids), dtype=np.bool_)
    back = zip(steps.targets[::-1].data, steps.sources[::-1].data, strict=True)
    before = _spread(size, last, back)
    chain = np.frombuffer(after, np.uint8) & np.frombuffer(before, np.uint8)
    return chain.astype(np.bool_)[places]


def leads(span: Span, via: Via) -> bool:
    """Whether a way leads from the span's first event to its last."""
    size, steps, places = _steps(span, via)
    return bool(_after(size, steps, places)[int(places[-1])])


def _after(size: int, steps: Pairs, places: Longs) -> bytearray:
    """A 1 for each place at or after that of the first event."""
    forth = zip(steps.sources.data, steps.targets.data, strict=True)
    return _spread(size, int(places[0]), forth)


def _spread(size: int, start: int, steps: Iterable[tuple[int, int]]) -> bytearray:
    """A 1 for the start and what steps lead to; no step comes before one that leads to its own."""
    reached = bytearray(size)
    reached[start] = 1
    for source, target in steps:
        if reached[source]:
            reached[target] = 1
    return reached


def _steps(span: Span, via: Via) -> tuple[int, Pairs, Longs]:
    """How many places there are, the steps between them by target, and the place of each event."""
    size = len(span.ids)
    # Views and no lists of them, which would take four times the memory.
    found = [_messages(span), span.links]
    if via is Via.any:
        found.append(_orders(span.participants))
    places = np.arange(size)
    if via is Via.conversation:
        waypoints, ranks = _conversations(span)
        ranks = np.concatenate([places * 3 + 1, ranks])
        size = len(ranks)
        order = np.empty(size, dtype=np.int64)
        order[np.argsort(ranks, kind="stable")] = np.arange(size)
        found = [Pairs(*(order[column] for column in pairs)) for pairs in (*found, waypoints)]
        places = order[places]
    sources = np.concatenate([pairs.sources for pairs in found])
    targets = np.concatenate([pairs.targets for pairs in found])
    by_target = np.argsort(targets, kind="stable")
    return size, Pairs(sources[by_target], targets[by_target]), places


def _messages(span: Span) -> Pairs:
    at = places_of(span.ids, span.causes)
    received = np.flatnonzero(at >= 0)
    return Pairs(at[received], received)


def _orders(participants: Longs) -> Pairs:
    """From each event to the next of its participant."""
    order = np.argsort(participants, kind="stable")
    same = participants[order][1:] == participants[order][:-1]
    return Pairs(order[:-1][same], order[1:][same])


def _conversations(span: Span) -> tuple[Pairs, Longs]:
    """Steps within conversations, by way of places of their own, and the ranks of these.

    What a participant was handed in one leads to all that it publishes in it later: a step for each
    pair would be too many. So each event of a part gets a place, from which one step goes to that
    of the next event; deliveries lead to theirs, publishes are led to from it. Events have the
    ranks 1, 4, 7 …; a place lies right after its delivery, or right before its publish.
    """
    order = np.lexsort(
        (span.shared.sources, span.shared.targets, span.participants[span.shared.sources])
    )
    at, shared = span.shared.sources[order], span.shared.targets[order]
    own = np.arange(len(at)) + len(span.ids)
    who = span.participants[at]
    same = (shared[1:] == shared[:-1]) & (who[1:] == who[:-1])
    handed = span.types[at] == EventType.received
    steps = Pairs(
        np.concatenate([own[:-1][same], at[handed], own[~handed]]),
        np.concatenate([own[1:][same], own[handed], at[~handed]]),
    )
    return steps, at * 3 + np.where(handed, 2, 0)


def places_of(ids: Longs, causes: Longs) -> Longs:
    """The position of each cause among the ids, -1 if it is not there."""
    at = np.searchsorted(ids, causes).clip(max=len(ids) - 1)
    return np.where(ids[at] == causes, at, -1)


def ranges_of(span: Span, chain: Flags) -> list[Range]:
    """The chain as ranges: of each participant the runs of its events that are in it."""
    if not chain.any():
        return []
    members = np.flatnonzero(chain)
    members = members[np.argsort(span.participants[members], kind="stable")]
    who, seqs = span.participants[members], span.seqs[members]
    begins = np.ones(len(members), dtype=np.bool_)
    begins[1:] = (who[1:] != who[:-1]) | (seqs[1:] != seqs[:-1] + 1)
    starts = np.flatnonzero(begins)
    firsts, lasts = members[starts], members[np.append(starts[1:], len(members)) - 1]
    columns = [
        who[starts],
        *(
            column[which]
            for column in (span.heights, span.ids, span.seqs)
            for which in (firsts, lasts)
        ),
    ]
    return [Range(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]
