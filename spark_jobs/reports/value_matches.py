"""Publishes that repeat a value of an earlier delivery: rows of equal values, compared as columns.

A row is one value at one path of one event. All rows of a value are in one partition, where all its
publishes are looked up at once, by binary search, among their participant's deliveries. Nothing
here does I/O.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from spark_jobs.events.ranges import Longs

Flags: TypeAlias = "np.ndarray[Any, np.dtype[np.bool_]]"

# The newest deliveries with its value that are looked at for a publish.
NEWEST = 8
# Publishes of one participant with one value this near each other (ids) are one origin.
BURST = 64
# A value in more deliveries than this does not tell which programs belong together.
MOST_FOR_PROGRAMS = 8


class Rows(NamedTuple):
    """Values (hashes) as columns, with the numbers of their paths and the participant and event.

    ``message`` is the publish behind a delivery, or the publish itself. ``spot`` is a hash of where
    replies to a delivery go, or where a publish went; 0 for nowhere.
    """

    value: Longs
    path: Longs
    participant: Longs
    event: Longs
    message: Longs
    spot: Longs
    is_publish: Flags


@dataclass(frozen=True)
class MatchParticipants:
    """Participants by number, with their first events' ids and how many ids each looks back.

    ``only_publish`` and ``only_receive`` flag those that never do the other.
    """

    numbers: Longs
    first: Longs
    window: Longs
    only_publish: Flags
    only_receive: Flags


class PairFigures(NamedTuple):
    """Figures of pairs of paths: ``parent`` in deliveries, ``child`` in publishes.

    Attributes:
        hits: publishes whose participant was handed the value before, within its window.
        unique: hits that may mean only one message.
        candidates: messages that may be meant, over all hits.
        measured: hits for which there was a window further back.
        chance: measured hits that have a hit further back, too.
        origins: how often the values were made up anew, over all hits.
        values: distinct ones.
        replies: hits that went to where the delivery wants replies.
        rivals: publishes of values at ``child`` that others made up, too.
    """

    parent: Longs
    child: Longs
    hits: Longs
    unique: Longs
    candidates: Longs
    measured: Longs
    chance: Longs
    origins: Longs
    values: Longs
    replies: Longs
    rivals: Longs


class Hits(NamedTuple):
    """Publishes with the deliveries that each may mean, by pair of paths."""

    parent: Longs
    child: Longs
    event: Longs
    delivery: Longs
    message: Longs


class Programs(NamedTuple):
    """Publishes by ``publisher`` of values that ``receiver`` alone was handed before, counted.

    ``newest`` counts those where the receiver was the last to be handed the value. ``is_long`` is 1
    for values that are not equal by accident.
    """

    receiver: Longs
    publisher: Longs
    is_long: Longs
    publishes: Longs
    newest: Longs


class ValueMatches(NamedTuple):
    """The matches among the rows of some values."""

    pairs: PairFigures
    hits: Hits
    programs: Programs


def match_values(
    rows: Rows, members: MatchParticipants, is_long: Flags, one_in: int
) -> ValueMatches:
    """The matches among rows, of which each value's must be complete.

    ``is_long`` flags paths whose values are not equal by accident; hits are kept of one in
    ``one_in`` publishes.
    """
    paths = len(is_long)
    rows = _sort(rows)
    groups = _runs(rows.value, rows.participant)
    recent, older, has_older = _look_up(rows, groups, members)
    is_met = np.zeros(len(rows.event), dtype=bool)
    is_met[recent[0]] = True
    origins = _beginnings(rows, is_met)
    pairs, hits = _count(rows, recent, older, has_older, origins, paths)
    is_rival = rows.is_publish & ~is_met & (origins > 1)
    rivals = np.bincount(rows.path[is_rival], minlength=paths)[pairs.child]
    is_sampled = is_kept(hits.event, one_in)
    return ValueMatches(
        pairs._replace(rivals=rivals),
        Hits(*(column[is_sampled] for column in hits)),
        _programs(rows, is_met, members, is_long),
    )


def is_kept(events: Longs, one_in: int) -> Flags:
    """Flag about one in ``one_in`` events, whatever pattern their ids have."""
    mixed = events.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return np.asarray((mixed >> np.uint64(40)) % np.uint64(one_in) == 0)


def _sort(rows: Rows) -> Rows:
    order = np.lexsort((rows.event, rows.participant, rows.value))
    return Rows(**{name: column[order] for name, column in rows._asdict().items()})


def _runs(*columns: Longs) -> Longs:
    """A number for each run of rows that are equal in all columns."""
    if not len(columns[0]):
        return np.empty(0, dtype=np.int64)
    new = np.ones(len(columns[0]), dtype=bool)
    new[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    return np.cumsum(new, dtype=np.int64) - 1


def _look_up(
    rows: Rows, groups: Longs, members: MatchParticipants
) -> tuple[tuple[Longs, Longs], tuple[Longs, Longs], Flags]:
    """(publish, delivery) rows within the windows, and further back; flags rows with a past."""
    publishes = np.flatnonzero(rows.is_publish)
    deliveries = np.flatnonzero(~rows.is_publish)
    index = np.searchsorted(members.numbers, rows.participant[publishes])
    window, first = members.window[index], members.first[index]
    oldest = int(rows.event.min(initial=0))
    width = int(rows.event.max(initial=0)) - oldest + 2
    keys = groups[deliveries] * width + (rows.event[deliveries] - oldest)
    base, events = groups[publishes] * width, rows.event[publishes]
    end = np.searchsorted(keys, base + (events - oldest))
    begin = np.searchsorted(keys, base + np.maximum(events - window - oldest, 0))
    far = np.searchsorted(keys, base)
    has_older = np.zeros(len(rows.event), dtype=bool)
    has_older[publishes] = events - first > window + window // 4
    recent = _expand(publishes, deliveries, begin, end)
    return recent, _expand(publishes, deliveries, far, begin), has_older


def _expand(publishes: Longs, deliveries: Longs, begin: Longs, end: Longs) -> tuple[Longs, Longs]:
    """Each publish with the last few deliveries of its span."""
    counts = np.minimum(end - begin, NEWEST)
    index = np.repeat(np.arange(len(publishes)), counts)
    back = np.arange(len(index)) - np.repeat(np.cumsum(counts) - counts, counts)
    return publishes[index], deliveries[end[index] - 1 - back]


def _beginnings(rows: Rows, is_met: Flags) -> Longs:
    """The times that each row's value was made up anew at its path: published, not handed on."""
    order = np.lexsort((rows.event, rows.participant, rows.path, rows.value))
    number = _runs(rows.value[order], rows.path[order])
    starts = np.flatnonzero((rows.is_publish & ~is_met)[order])
    keys, participants, event = (
        number[starts],
        rows.participant[order][starts],
        rows.event[order][starts],
    )
    new = np.ones(len(starts), dtype=bool)
    is_repeat = (keys[1:] == keys[:-1]) & (participants[1:] == participants[:-1])
    new[1:] = ~is_repeat | (event[1:] - event[:-1] > BURST)
    counts = np.bincount(keys[new], minlength=int(number.max(initial=-1)) + 1)
    origins = np.empty(len(order), dtype=np.int64)
    origins[order] = counts[number]
    return origins


def _count(
    rows: Rows,
    recent: tuple[Longs, Longs],
    older: tuple[Longs, Longs],
    has_older: Flags,
    origins: Longs,
    paths: int,
) -> tuple[PairFigures, Hits]:
    publish, delivery = recent
    pair = rows.path[delivery] * paths + rows.path[publish]
    order = np.lexsort((rows.message[delivery], rows.event[publish], pair))
    pair, publish, delivery = pair[order], publish[order], delivery[order]
    event, message = rows.event[publish], rows.message[delivery]
    hit = _runs(pair, event)
    starts = np.flatnonzero(np.diff(hit, prepend=-1))
    is_new = np.diff(_runs(pair, event, message), prepend=-1) > 0
    messages = np.bincount(hit[is_new], minlength=len(starts)).astype(np.int64)
    spots = (rows.spot[publish] != 0) & (rows.spot[publish] == rows.spot[delivery])
    replies = np.bincount(hit, weights=spots, minlength=len(starts)) > 0
    code, inverse = np.unique(pair[starts], return_inverse=True)
    first = publish[starts]

    def sum_weights(weights: Any) -> Longs:
        return np.bincount(inverse, weights=weights, minlength=len(code)).astype(np.int64)

    is_measured = has_older[first]
    by_chance = _has_older_hit(pair[starts], event[starts], rows, older, paths) & is_measured
    values = np.unique(np.stack([inverse, rows.value[first]]), axis=1)[0]
    pairs = PairFigures(
        code // paths,
        code % paths,
        np.bincount(inverse, minlength=len(code)).astype(np.int64),
        sum_weights(messages == 1),
        sum_weights(messages),
        sum_weights(is_measured),
        sum_weights(by_chance),
        sum_weights(np.maximum(origins[first], origins[delivery[starts]])),
        np.bincount(values, minlength=len(code)).astype(np.int64),
        sum_weights(replies),
        np.zeros(len(code), dtype=np.int64),
    )
    pair, delivery = pair[is_new], delivery[is_new]
    hits = Hits(pair // paths, pair % paths, event[is_new], rows.event[delivery], message[is_new])
    return pairs, hits


def _has_older_hit(
    pair: Longs, event: Longs, rows: Rows, older: tuple[Longs, Longs], paths: int
) -> Flags:
    publish, delivery = older
    keys = np.stack([rows.path[delivery] * paths + rows.path[publish], rows.event[publish]])
    width = int(rows.event.max(initial=0)) + 1
    return np.isin(pair * width + event, keys[0] * width + keys[1])


def _programs(rows: Rows, is_met: Flags, members: MatchParticipants, is_long: Flags) -> Programs:
    """Participants that only publish values that others, who only receive, were handed."""
    order = np.lexsort((rows.event, rows.value))
    value, is_publish = rows.value[order], rows.is_publish[order]
    index = np.searchsorted(members.numbers, rows.participant[order])
    asks = is_publish & ~is_met[order] & members.only_publish[index]
    tells = ~is_publish & members.only_receive[index]
    number = _runs(value)
    holders = np.bincount(number[tells], minlength=int(number.max(initial=-1)) + 1)
    rare = holders[number] <= MOST_FOR_PROGRAMS
    publishes, deliveries = np.flatnonzero(asks & rare), np.flatnonzero(tells & rare)
    begin = np.searchsorted(deliveries, np.searchsorted(value, value[publishes]))
    end = np.searchsorted(deliveries, publishes)
    publish, delivery = _expand(publishes, deliveries, begin, np.maximum(begin, end))
    publishers, receivers = rows.participant[order][publish], rows.participant[order][delivery]
    event, long = rows.event[order][publish], is_long[rows.path[order][publish]].astype(np.int64)
    is_last = np.diff(publish, prepend=-1) != 0  # the newest comes first
    distinct = np.unique(np.stack([receivers, publishers, long, event]), axis=1)
    last = np.unique(np.stack([receivers, publishers, long, event])[:, is_last], axis=1)
    all_three, inverse = np.unique(distinct[:3], axis=1, return_inverse=True)
    totals = np.bincount(inverse.ravel(), minlength=all_three.shape[1]).astype(np.int64)
    paths = {tuple(three): k for k, three in enumerate(all_three.T.tolist())}
    newest = np.zeros(all_three.shape[1], dtype=np.int64)
    for three in last[:3].T.tolist():
        newest[paths[tuple(three)]] += 1
    receivers, publishers, long = all_three
    return Programs(receivers, publishers, long, totals, newest)


def members_of(roll: Mapping[str, Longs], spans: int, minimum: int = 64) -> MatchParticipants:
    """Participants, from the columns ``id``, ``is_publish`` and ``participant`` of all events.

    Each looks back over half of its time in one of the ``spans``, but at least over ``minimum`` of
    its events.
    """
    numbers, inverse = np.unique(roll["participant"], return_inverse=True)
    count = np.bincount(inverse, minlength=len(numbers))
    first = np.full(len(numbers), np.iinfo(np.int64).max)
    last = np.zeros(len(numbers), dtype=np.int64)
    np.minimum.at(first, inverse, roll["id"])
    np.maximum.at(last, inverse, roll["id"])
    published = np.bincount(inverse, weights=roll["is_publish"], minlength=len(numbers))
    time = (last - first) // max(spans, 1)
    floor = minimum * time // np.maximum(count // max(spans, 1), 1)
    return MatchParticipants(
        numbers.astype(np.int64),
        first,
        np.maximum(time // 2, np.maximum(floor, minimum)),
        published == count,
        published == 0,
    )
