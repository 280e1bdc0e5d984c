"""Periods of time: how many events each part of one had, and what is known of a whole one."""

from __future__ import annotations

import msgspec

from model.gaps import Gap


class Bucket(msgspec.Struct, frozen=True):
    """The events of one part of a period.

    ``events`` is None where they were not counted. ``published``, ``received`` and ``unmatched``
    are None, too, where ``events`` is an estimate from the times of blocks of ids.
    """

    events: int | None
    published: int | None = None
    received: int | None = None
    unmatched: int | None = None


UNCOUNTED = Bucket(None)


class Histogram(msgspec.Struct, frozen=True):
    """Events over time. Times in µs.

    Bucket n begins at ``since`` + n * ``width``. ``counted_since``: from when on each event was
    looked at; None if all were.
    """

    since: int
    width: int
    buckets: list[Bucket]
    counted_since: int | None = None


class Period(msgspec.Struct, frozen=True):
    """What a trace has of a period.

    ``first`` and ``last`` are the ids of its first and last event, None without any; ``gaps`` the
    newest ones in it, oldest first, of ``gap_count``. ``oldest_at`` is when the oldest event that
    is still kept was recorded, in the period or not; None if there is none. Times in µs.
    """

    first: int | None
    last: int | None
    gaps: list[Gap]
    gap_count: int
    oldest_at: int | None
