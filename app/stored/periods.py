"""Periods of time: how many events each part of one had, and what is known of a whole one."""

from __future__ import annotations

from typing import Annotated

import msgspec

from model.gaps import Gap
from model.times import LATEST, Duration, Microseconds


class Bucket(msgspec.Struct, frozen=True):
    """One part of a period."""

    at: Annotated[Microseconds, "When it begins."]
    events: Annotated[int | None, "`null`: they were not counted."] = None
    published: Annotated[int | None, "`null` where `events` is an estimate, as the next."] = None
    received: int | None = None
    unmatched: int | None = None


class Histogram(msgspec.Struct, frozen=True):
    """Events over time."""

    since: Annotated[Microseconds | None, "When the first bucket begins; `null` without events."]
    width: Annotated[Duration, "How long each bucket is."] = msgspec.field(name="seconds")
    buckets: list[Bucket]
    counted_since: Annotated[
        Microseconds | None,
        "Events before were not looked at one by one: what is said of them is an estimate, or "
        "`null`. `null` if all were.",
    ] = None

    @property
    def until(self) -> Microseconds | None:
        """When the last one ends."""
        if self.since is None:
            return None
        return min(Microseconds(self.since + len(self.buckets) * self.width), LATEST)

    @property
    def events(self) -> int:
        """Those of all buckets."""
        return sum(each.events or 0 for each in self.buckets)


NO_EVENTS = Histogram(None, Duration(0), [])


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
    oldest_at: Microseconds | None
