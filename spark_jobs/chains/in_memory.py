"""A chain found by following events one by one, from columns that are held in memory.

That is how evident chains are found, whose events are no ranges, and chains that reach into an
archive, where clocks do not help: when a participant's last event is pruned its interval goes to
another, whose events are above all of the first one's; in a store that does no harm, since events
of both are never there together, but an archive keeps the first one's. Happens-before itself is
each participant's order, messages and links. So these are followed: once forward from the first
event, once back from the last, in the order of ids, in which no effect comes before its cause.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from model.ways import effects_of, step_of_part, ways_between
from model.words import EventType, Via
from spark_jobs.events.ranges import Flags, Longs, Range


class LinkColumns(NamedTuple):
    """The steps between events: two columns of positions."""

    sources: Longs
    targets: Longs


@dataclass(frozen=True)
class SpanColumns:
    """Events of a trace from one to another, by id, as columns.

    Attributes:
        ids: of all of them; the other columns are in the same order.
        causes: the publish that was received; 0 without a joined one.
        links: (cause, effect), by position.
        candidates: the same for causes that are only possible.
        conversations: (event, conversation): a position, and a number of the conversation's own.
    """

    ids: Longs
    types: Longs
    participants: Longs
    heights: Longs
    seqs: Longs
    causes: Longs
    links: LinkColumns
    candidates: LinkColumns
    conversations: LinkColumns


def chain_of(span: SpanColumns, via: Via) -> Flags:
    """Flag the events of the chain from the span's first to its last; none without a chain.

    All events between the two are not needed, only all that lie on a way from one to the other.
    """
    size, sources, targets = _steps(span, via)
    chain = ways_between(size, 0, len(span.ids) - 1, sources.data, targets.data)
    return np.frombuffer(chain, np.bool_)[: len(span.ids)]


def leads(span: SpanColumns, via: Via) -> bool:
    """Tell whether a way leads from the span's first event to its last."""
    size, sources, targets = _steps(span, via)
    return bool(effects_of(size, 0, sources.data, targets.data)[len(span.ids) - 1])


def _steps(span: SpanColumns, via: Via) -> tuple[int, Longs, Longs]:
    """The number of positions, and the steps between them in their order."""
    size = len(span.ids)
    # Views and no lists of them, which would take four times the memory.
    pairs = [_messages(span), span.links]
    if via is Via.any:
        pairs += [span.candidates, _orders(span.participants)]
    events = [pairs.targets for pairs in pairs]
    if via is Via.conversation and len(span.conversations.sources):
        positions, keys = span.conversations
        participants = span.participants[positions]
        parts_known, parts = np.unique(
            keys * (participants.max() + 1) + participants, return_inverse=True
        )
        pairs.append(
            LinkColumns(
                *step_of_part(positions, parts + size, span.types[positions] == EventType.received)
            )
        )
        events.append(positions)
        size += len(parts_known)
    order = np.argsort(np.concatenate(events), kind="stable")
    sources, targets = (np.concatenate(column)[order] for column in zip(*pairs, strict=True))
    return size, sources, targets


def _messages(span: SpanColumns) -> LinkColumns:
    positions = positions_of(span.ids, span.causes)
    received = np.flatnonzero(positions >= 0)
    return LinkColumns(positions[received], received)


def _orders(participants: Longs) -> LinkColumns:
    """From each event to the next of its participant."""
    order = np.argsort(participants, kind="stable")
    is_same = participants[order][1:] == participants[order][:-1]
    return LinkColumns(order[:-1][is_same], order[1:][is_same])


def positions_of(ids: Longs, causes: Longs) -> Longs:
    """The position of each cause among the ids, -1 if it is not there."""
    positions = np.searchsorted(ids, causes).clip(max=len(ids) - 1)
    return np.where(ids[positions] == causes, positions, -1)


def ranges_of(span: SpanColumns, chain: Flags) -> list[Range]:
    """The chain as ranges: of each participant the runs of its events that are in it."""
    if not chain.any():
        return []
    members = np.flatnonzero(chain)
    members = members[np.argsort(span.participants[members], kind="stable")]
    participants, seqs = span.participants[members], span.seqs[members]
    begins = np.ones(len(members), dtype=np.bool_)
    begins[1:] = (participants[1:] != participants[:-1]) | (seqs[1:] != seqs[:-1] + 1)
    starts = np.flatnonzero(begins)
    firsts, lasts = members[starts], members[np.append(starts[1:], len(members)) - 1]
    columns = [
        participants[starts],
        *(
            column[index]
            for column in (span.heights, span.ids, span.seqs)
            for index in (firsts, lasts)
        ),
    ]
    return [Range(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]
