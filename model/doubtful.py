"""Doubtful deliveries: their causes are not known, or not all of them.

An event behind one may be an effect of anything before it, though no clock says so: no answer about
two such events is "cannot have". Service and Spark select them with `statements.doubtful_sql`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from itc import packed_height_at
from model.gaps import Gap
from model.ranges import Dot, RangeEnd
from model.times import Microseconds
from model.wording import Sentence
from model.words import Match

MOST_DOUBTFUL = 500
"""The oldest of a span are looked at, this many: newer events may be behind further ones."""


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
        is_unseen = self.match == Match.unmatched
        sentence = Sentence.unseen_publish if is_unseen else Sentence.unseen_cause
        return sentence.format(id=self.id, queue=self.queue)


class DoubtfulSpan(NamedTuple):
    """The doubtful deliveries of a span, by id; there may be more of them after `MOST_DOUBTFUL`."""

    deliveries: Sequence[DoubtfulDelivery] = ()

    @property
    def last_id(self) -> int | None:
        """The last delivery that was looked at, if there may be more."""
        is_cut = len(self.deliveries) >= MOST_DOUBTFUL
        return self.deliveries[-1].id if is_cut else None

    def doubt(self, earlier: int, effect: int, clock: bytes) -> str | None:
        """The reason, as a clause, why one event may have led to another though no clock says so.

        ``clock`` is that of the ``effect``.
        """
        for delivery in self.deliveries:
            if (
                earlier < delivery.id
                and packed_height_at(clock, delivery.interval) >= delivery.height
            ):
                return str(delivery)
        if self.last_id is not None and effect > self.last_id:
            return str(Sentence.unseen_many)
        return None

    def gaps(self) -> list[Gap]:
        """Gaps at the doubtful deliveries, where messages and links may be missing."""
        gaps = [
            Gap(
                0,
                delivery.id - 1,
                delivery.id + 1,
                *2 * (Microseconds(delivery.recorded_at),),
                str(delivery),
            )
            for delivery in self.deliveries
        ]
        if self.last_id is not None:
            begin = Microseconds(self.deliveries[-1].recorded_at)
            gaps.append(Gap(0, self.last_id, None, begin, None, "there may be more of them"))
        return gaps

    def future(self) -> DoubtfulFuture:
        firsts: dict[int, DoubtfulDelivery] = {}
        for delivery in self.deliveries:
            firsts.setdefault(delivery.participant, delivery)
        dots = [Dot(delivery.interval, delivery.height) for delivery in firsts.values()]
        return DoubtfulFuture(dots, self.last_id)


class DoubtfulFuture(NamedTuple):
    """The events behind doubtful deliveries: from some event of each participant on, all."""

    dots: Sequence[Dot]
    last_id: int | None

    def holds(self, mark: RangeEnd) -> bool:
        """Tell whether an event is behind one, or may be behind a further one."""
        if self.last_id is not None and mark.id > self.last_id:
            return True
        return any(dot.is_reached(mark.clock) for dot in self.dots)
