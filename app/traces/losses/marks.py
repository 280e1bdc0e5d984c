"""The marks of one trace: which were published, which have come, and what is missing.

Marks of a series are published one after the other over one connection, so their trace messages
come in the order of their numbers. If one is missing, everything traced between the marks around it
may be missing too: the loss lies between two known events. A series ends at a mark of which it is
unknown whether the broker took it.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from app.background import end
from app.errors import OutageError
from model.times import now

if TYPE_CHECKING:
    from app.broker.marks import MarkPublisher

Mark: TypeAlias = tuple[str, int]  # series, and number from 1

# A node that takes no marks holds up the marks of the others for this long, and is tried again
# after growing pauses.
PATIENCE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 60.0
# Marks on their way of a series, whose times are remembered at most.
MOST_ON_THEIR_WAY = 1_000


class Point(msgspec.Struct, frozen=True, order=True):
    """A point of a trace: the last event before it, and its time (µs)."""

    event_id: int
    moment: int


class _Series(msgspec.Struct):
    """One publisher's marks.

    ``published`` and ``stored`` are their last numbers; all before ``well`` is stored.
    ``overdue_from`` is when a mark that has not come was published (µs), None if all have.
    ``refusals`` counts refused marks in a row, ``trouble`` is the reason, and the next is published
    at ``next_at`` (s, monotonic). ``sent`` are numbers and times (µs) of marks on their way;
    ``settled`` is when the last one that has come was sent.
    """

    publisher: MarkPublisher
    name: str
    well: Point
    published: int = 0
    stored: int = 0
    overdue_from: int | None = None
    refusals: int = 0
    trouble: str | None = None
    next_at: float = 0.0
    publishing: asyncio.Task[None] | None = None
    sent: deque[tuple[int, int]] = msgspec.field(
        default_factory=lambda: deque(maxlen=MOST_ON_THEIR_WAY)
    )
    settled: int | None = None


class Marks:
    """Publishes and follows the marks of one run of a trace."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._series: list[_Series] = []
        self.is_asked = False
        self._due: dict[str, int] = {}  # the last mark of each series when some were overdue

    def ask(self) -> None:
        """Ask for a mark even without traffic: somebody waits until a time is settled."""
        self.is_asked = True

    @property
    def settled(self) -> int | None:
        """The time (µs) before which everything traced is stored; None while no mark has come."""
        times = [series.settled for series in self._series]
        return None if not times or None in times else min(filter(None, times))

    @property
    def trouble(self) -> str | None:
        """The reason why some marks cannot be published, in a sentence; None if all can."""
        return next((series.trouble for series in self._series if series.trouble), None)

    async def publish(self, publishers: Sequence[MarkPublisher], point: Point) -> None:
        """Publish the next mark with each publisher, where the broker takes it.

        ``point`` is where the trace stands: a new series can tell of no loss before it.
        """
        present = {id(series.publisher): series for series in self._series}
        self._series = [
            present.get(id(publisher)) or _Series(publisher, _new_name(), point)
            for publisher in publishers
        ]
        self.is_asked = False
        moment = self._clock()
        for series in self._series:
            if series.next_at <= moment and (series.publishing is None or series.publishing.done()):
                series.publishing = asyncio.create_task(self._publish(series, point))
        tasks = {series.publishing for series in self._series if series.publishing is not None}
        if tasks:
            await asyncio.wait(tasks, timeout=PATIENCE_SECONDS)

    async def close(self) -> None:
        """Give the publishers' connections back; the next marks begin new series."""
        ending, self._series = self._series, []
        await end(*(series.publishing for series in ending))
        await asyncio.gather(*(series.publisher.close() for series in ending))

    def loss(self, marks: Iterable[Mark]) -> Point | None:
        """The beginning of a loss that marks about to be stored prove; None if they prove none."""
        stored = {series.name: series.stored for series in self._series}
        begins = []
        for name, number in marks:
            if name not in stored:
                continue
            if number > stored[name] + 1:
                begins += [series.well for series in self._series if series.name == name]
            stored[name] = max(stored[name], number)
        return min(begins, default=None)

    def note_stored(self, marks: Iterable[Mark], point: Point) -> None:
        """Note that marks are stored, in a batch that ended ``point``."""
        for series in self._series:
            numbers = [number for name, number in marks if name == series.name]
            if numbers:
                series.stored = max(series.stored, *numbers)
                series.well = point
                series.overdue_from = None if series.stored >= series.published else point.moment
                while series.sent and series.sent[0][0] <= series.stored:
                    series.settled = series.sent.popleft()[1]
                    # Later messages may wait in the queue.
                    series.well = Point(point.event_id, min(point.moment, series.settled))

    def overdue(self, limit: int) -> Point | None:
        """The beginning of a loss if everything queued is stored, and a mark has not come.

        One that the broker took at ``limit`` (µs) or later may be on its way.
        """
        overdue = [
            series
            for series in self._series
            if series.overdue_from is not None and series.overdue_from < limit
        ]
        self._due |= {series.name: series.published for series in overdue}
        return min((series.well for series in overdue), default=None)

    def have_come(self) -> bool | None:
        """Tell whether all overdue marks have come; None if they are no longer to be expected."""
        stored = {series.name: series.stored for series in self._series}
        if not self._due or not self._due.keys() <= stored.keys():
            self._due = {}
            return None
        if any(stored[name] < number for name, number in self._due.items()):
            return False
        self._due = {}
        return True

    async def _publish(self, series: _Series, point: Point) -> None:
        number = series.published + 1
        series.sent.append((number, now()))  # it may come before the broker confirms it
        try:
            await series.publisher.publish(series.name, number)
        except OutageError as outage:
            series.name = _new_name()  # while `well` stays: a loss began where it did
            series.published = series.stored = 0
            series.overdue_from = None
            series.sent.clear()
            series.trouble = str(outage)
            series.next_at = self._clock() + min(2.0**series.refusals, LONGEST_PAUSE_SECONDS)
            series.refusals += 1
        else:
            series.published = number
            series.refusals, series.trouble = 0, None
            if series.overdue_from is None and series.stored < number:
                series.overdue_from = point.moment


def _new_name() -> str:
    return secrets.token_hex(8)
