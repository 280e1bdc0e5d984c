"""Publishes that say what a delivery said before: rows of equal values, compared as columns.

A row is one value at one place of one event. Rows of equal values come together in one partition;
there all publishes are looked up among the deliveries of their participant at once, by binary
search. Nothing here does I/O.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from spark_jobs.chains.ranges import Longs

Flags: TypeAlias = "np.ndarray[Any, np.dtype[np.bool_]]"

# How many deliveries with its value are looked at for a publish, the newest.
NEWEST = 8
# Publishes of one participant with one value so near each other (ids) are one beginning.
BURST = 64
# A value that more deliveries than this have does not tell which programs belong together.
MOST_FOR_PROGRAMS = 8


class Rows(NamedTuple):
    """Values as columns: what it is (a hash), where it stands (a number), and whose event it is.

    ``message`` is the publish behind a delivery, or the publish itself. ``spot`` is where replies
    to a delivery go, or where a publish went, as a hash; 0 for nowhere.
    """

    value: Longs
    place: Longs
    participant: Longs
    event: Longs
    message: Longs
    spot: Longs
    is_publish: Flags


@dataclass(frozen=True)
class Members:
    """Participants by number, with the ids of their first events, and how many ids each looks back.

    ``only_publish`` and ``only_receive`` say who never does the other.
    """

    numbers: Longs
    first: Longs
    window: Longs
    only_publish: Flags
    only_receive: Flags


class PlacePairs(NamedTuple):
    """Figures of pairs of places: in how many publishes ``child`` has the value of ``parent``.

    Attributes:
        parent: the place in deliveries.
        child: the place in publishes.
        hits: publishes with a delivery before, of their participant and within its window.
        unique: those of them where only one message may be meant.
        candidates: messages that may be meant, all hits together.
        measured: hits for which there was a window further back.
        chance: those of them that have a hit there as well.
        begun: how often the values had been made up anew, all hits together.
        values: distinct ones.
        replies: hits that went to where the delivery wants replies.
    """

    parent: Longs
    child: Longs
    hits: Longs
    unique: Longs
    candidates: Longs
    measured: Longs
    chance: Longs
    begun: Longs
    values: Longs
    replies: Longs


class Hits(NamedTuple):
    """Publishes with the deliveries that each may mean, by pair of places."""

    parent: Longs
    child: Longs
    event: Longs
    delivery: Longs
    message: Longs


class Programs(NamedTuple):
    """Counts of publishes by ``publisher`` of values that ``receiver`` alone was handed before.

    ``newest``: of all participants, it was the last to be handed it. ``is_long``: 1 for values
    that are not equal by accident.
    """

    receiver: Longs
    publisher: Longs
    is_long: Longs
    known: Longs
    newest: Longs


class ValueMatches(NamedTuple):
    """The matches among the rows of some values."""

    pairs: PlacePairs
    hits: Hits
    programs: Programs


def found_in(rows: Rows, members: Members, is_long: Flags, one_in: int) -> ValueMatches:
    """Compare rows; all of a value's must be there.

    ``is_long`` says of each place whether its values are not equal by accident; hits are kept of
    one in ``one_in`` publishes.
    """
    places = len(is_long)
    rows = _sorted(rows)
    own = _same(rows.value, rows.participant)
    near, older, has_older = _looked_up(rows, own, members)
    is_met = np.zeros(len(rows.event), dtype=bool)
    is_met[near[0]] = True
    begun = _beginnings(rows, is_met)
    pairs, hits = _counted(rows, near, older, has_older, begun, places)
    kept = is_kept(hits.event, one_in)
    return ValueMatches(
        pairs, Hits(*(column[kept] for column in hits)), _programs(rows, is_met, members, is_long)
    )


def is_kept(events: Longs, one_in: int) -> Flags:
    """About one in so many events, whatever pattern their ids have."""
    mixed = events.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return np.asarray((mixed >> np.uint64(40)) % np.uint64(one_in) == 0)


def _sorted(rows: Rows) -> Rows:
    order = np.lexsort((rows.event, rows.participant, rows.value))
    return Rows(**{name: column[order] for name, column in rows._asdict().items()})


def _same(*columns: Longs) -> Longs:
    """A number for each run of rows that are equal in all columns."""
    if not len(columns[0]):
        return np.empty(0, dtype=np.int64)
    new = np.ones(len(columns[0]), dtype=bool)
    new[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    return np.cumsum(new, dtype=np.int64) - 1


def _looked_up(
    rows: Rows, own: Longs, members: Members
) -> tuple[tuple[Longs, Longs], tuple[Longs, Longs], Flags]:
    """(publish, delivery) rows within each publish's window, and further back; which can be."""
    publishes = np.flatnonzero(rows.is_publish)
    deliveries = np.flatnonzero(~rows.is_publish)
    who = np.searchsorted(members.numbers, rows.participant[publishes])
    window, first = members.window[who], members.first[who]
    oldest = int(rows.event.min(initial=0))
    width = int(rows.event.max(initial=0)) - oldest + 2
    keys = own[deliveries] * width + (rows.event[deliveries] - oldest)
    base, at = own[publishes] * width, rows.event[publishes]
    end = np.searchsorted(keys, base + (at - oldest))
    begin = np.searchsorted(keys, base + np.maximum(at - window - oldest, 0))
    far = np.searchsorted(keys, base)
    has_older = np.zeros(len(rows.event), dtype=bool)
    has_older[publishes] = at - first > window + window // 4
    near = _expanded(publishes, deliveries, begin, end)
    return near, _expanded(publishes, deliveries, far, begin), has_older


def _expanded(publishes: Longs, deliveries: Longs, begin: Longs, end: Longs) -> tuple[Longs, Longs]:
    """Each publish with the last few deliveries of its span."""
    counts = np.minimum(end - begin, NEWEST)
    which = np.repeat(np.arange(len(publishes)), counts)
    back = np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts)
    return publishes[which], deliveries[end[which] - 1 - back]


def _beginnings(rows: Rows, is_met: Flags) -> Longs:
    """For each row, how often its value was made up anew at its place.

    That is: published by somebody who was not handed it.
    """
    order = np.lexsort((rows.event, rows.participant, rows.place, rows.value))
    number = _same(rows.value[order], rows.place[order])
    starts = np.flatnonzero((rows.is_publish & ~is_met)[order])
    where, who, event = number[starts], rows.participant[order][starts], rows.event[order][starts]
    new = np.ones(len(starts), dtype=bool)
    same = (where[1:] == where[:-1]) & (who[1:] == who[:-1])
    new[1:] = ~same | (event[1:] - event[:-1] > BURST)
    counts = np.bincount(where[new], minlength=int(number.max(initial=-1)) + 1)
    begun = np.empty(len(order), dtype=np.int64)
    begun[order] = counts[number]
    return begun


def _counted(
    rows: Rows,
    near: tuple[Longs, Longs],
    older: tuple[Longs, Longs],
    has_older: Flags,
    begun: Longs,
    places: int,
) -> tuple[PlacePairs, Hits]:
    publish, delivery = near
    pair = rows.place[delivery] * places + rows.place[publish]
    order = np.lexsort((rows.message[delivery], rows.event[publish], pair))
    pair, publish, delivery = pair[order], publish[order], delivery[order]
    event, message = rows.event[publish], rows.message[delivery]
    hit = _same(pair, event)
    starts = np.flatnonzero(np.diff(hit, prepend=-1))
    is_new = np.diff(_same(pair, event, message), prepend=-1) > 0
    messages = np.bincount(hit[is_new], minlength=len(starts)).astype(np.int64)
    spots = (rows.spot[publish] != 0) & (rows.spot[publish] == rows.spot[delivery])
    replies = np.bincount(hit, weights=spots, minlength=len(starts)) > 0
    code, which = np.unique(pair[starts], return_inverse=True)
    first = publish[starts]

    def summed(weights: Any) -> Longs:
        return np.bincount(which, weights=weights, minlength=len(code)).astype(np.int64)

    is_measured = has_older[first]
    by_chance = _among(pair[starts], event[starts], rows, older, places) & is_measured
    values = np.unique(np.stack([which, rows.value[first]]), axis=1)[0]
    pairs = PlacePairs(
        code // places,
        code % places,
        np.bincount(which, minlength=len(code)).astype(np.int64),
        summed(messages == 1),
        summed(messages),
        summed(is_measured),
        summed(by_chance),
        summed(np.maximum(begun[first], begun[delivery[starts]])),
        np.bincount(values, minlength=len(code)).astype(np.int64),
        summed(replies),
    )
    pair, kept = pair[is_new], is_new
    hits = Hits(
        pair // places, pair % places, event[kept], rows.event[delivery[kept]], message[kept]
    )
    return pairs, hits


def _among(pair: Longs, event: Longs, rows: Rows, older: tuple[Longs, Longs], places: int) -> Flags:
    """Flag those of these (pair, event) that have a hit further back, too."""
    publish, delivery = older
    others = np.stack([rows.place[delivery] * places + rows.place[publish], rows.event[publish]])
    width = int(rows.event.max(initial=0)) + 1
    return np.isin(pair * width + event, others[0] * width + others[1])


def _programs(rows: Rows, is_met: Flags, members: Members, is_long: Flags) -> Programs:
    """Find who publishes what another was handed, where neither does both."""
    order = np.lexsort((rows.event, rows.value))
    value, is_publish = rows.value[order], rows.is_publish[order]
    who = np.searchsorted(members.numbers, rows.participant[order])
    asks = is_publish & ~is_met[order] & members.only_publish[who]
    tells = ~is_publish & members.only_receive[who]
    number = _same(value)
    told = np.bincount(number[tells], minlength=int(number.max(initial=-1)) + 1)
    rare = told[number] <= MOST_FOR_PROGRAMS
    publishes, deliveries = np.flatnonzero(asks & rare), np.flatnonzero(tells & rare)
    begin = np.searchsorted(deliveries, np.searchsorted(value, value[publishes]))
    end = np.searchsorted(deliveries, publishes)
    publish, delivery = _expanded(publishes, deliveries, begin, np.maximum(begin, end))
    by, to = rows.participant[order][publish], rows.participant[order][delivery]
    event, long = rows.event[order][publish], is_long[rows.place[order][publish]].astype(np.int64)
    is_last = np.diff(publish, prepend=-1) != 0  # the newest comes first
    seen = np.unique(np.stack([to, by, long, event]), axis=1)
    last = np.unique(np.stack([to, by, long, event])[:, is_last], axis=1)
    all_three, which = np.unique(seen[:3], axis=1, return_inverse=True)
    known = np.bincount(which.ravel(), minlength=all_three.shape[1]).astype(np.int64)
    places = {tuple(three): k for k, three in enumerate(all_three.T.tolist())}
    newest = np.zeros(all_three.shape[1], dtype=np.int64)
    for three in last[:3].T.tolist():
        newest[places[tuple(three)]] += 1
    to, by, long = all_three
    return Programs(to, by, long, known, newest)


def members_of(roll: Mapping[str, Longs], spans: int, least: int = 64) -> Members:
    """Participants, from the columns ``id``, ``is_publish`` and ``participant`` of all events.

    Each looks back half of its time in one of so many ``spans`` of events, and at least as far as
    its ``least`` events before go.
    """
    numbers, which = np.unique(roll["participant"], return_inverse=True)
    count = np.bincount(which, minlength=len(numbers))
    first = np.full(len(numbers), np.iinfo(np.int64).max)
    last = np.zeros(len(numbers), dtype=np.int64)
    np.minimum.at(first, which, roll["id"])
    np.maximum.at(last, which, roll["id"])
    published = np.bincount(which, weights=roll["is_publish"], minlength=len(numbers))
    time = (last - first) // max(spans, 1)
    floor = least * time // np.maximum(count // max(spans, 1), 1)
    return Members(
        numbers.astype(np.int64),
        first,
        np.maximum(time // 2, np.maximum(floor, least)),
        published == count,
        published == 0,
    )
