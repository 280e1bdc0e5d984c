"""Doubtful deliveries: what led to one is not known, or not all of it.

What lies behind one may be an effect of whatever came before it, though no clock says so: between
two such events "cannot have" is not said. Service and Spark ask for them with the same statement
(`statements.doubtful_sql`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from itc import packed_height_at
from model.gaps import Gap
from model.ranges import Dot, Mark
from model.times import Microseconds
from model.words import Match

MOST_DOUBTFUL = 500
"""So many of a span are looked at, the oldest: what is newer than all of them may be behind any."""


class DoubtfulDelivery(NamedTuple):
    """A doubtful delivery, and its place in causal order."""

    id: int
    participant: int
    interval: str
    height: int
    match: int
    queue: str
    recorded_at: int

    def __str__(self) -> str:
        if self.match == Match.unmatched:
            return f"delivery {self.id} from queue {self.queue!r} is of a publish that was not seen"
        return (
            f"what else may have led to delivery {self.id} from queue {self.queue!r} is not known"
        )


class DoubtfulSpan(NamedTuple):
    """The doubtful deliveries of a span, by id; there may be more of them after `MOST_DOUBTFUL`."""

    deliveries: Sequence[DoubtfulDelivery] = ()

    @property
    def beyond(self) -> int | None:
        """The last one that was looked at, if there may be more."""
        is_cut = len(self.deliveries) >= MOST_DOUBTFUL
        return self.deliveries[-1].id if is_cut else None

    def behind(self, earlier: int, later: int, clock: bytes) -> str | None:
        """Explain why one event may have led to a later one though their clocks do not say so.

        In a part of a sentence; None if there is no such reason. ``clock`` is that of the later.
        """
        for each in self.deliveries:
            if earlier < each.id and packed_height_at(clock, each.interval) >= each.height:
                return str(each)
        if self.beyond is not None and later > self.beyond:
            return "of too many deliveries between them the publish was not seen"
        return None

    def gaps(self) -> list[Gap]:
        """List where messages and links between them may be missing: each gap breaks one."""
        found = [
            Gap(0, each.id - 1, each.id + 1, *2 * (Microseconds(each.recorded_at),), str(each))
            for each in self.deliveries
        ]
        if self.beyond is not None:
            since = Microseconds(self.deliveries[-1].recorded_at)
            found.append(Gap(0, self.beyond, None, since, None, "there may be more of them"))
        return found

    def future(self) -> DoubtfulFuture:
        """All that lies behind any of them."""
        firsts: dict[int, DoubtfulDelivery] = {}
        for each in self.deliveries:
            firsts.setdefault(each.participant, each)
        dots = [Dot(each.interval, each.height) for each in firsts.values()]
        return DoubtfulFuture(dots, self.beyond)


class DoubtfulFuture(NamedTuple):
    """The events behind doubtful deliveries: from some event of each participant on, all."""

    dots: Sequence[Dot]
    beyond: int | None

    def holds(self, mark: Mark) -> bool:
        """Tell whether an event is behind one, or too new to be known not to be."""
        if self.beyond is not None and mark.id > self.beyond:
            return True
        return any(dot.reached_by(mark.clock) for dot in self.dots)
