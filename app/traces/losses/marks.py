"""The marks of one trace: which were published, which have come, and what is missing.

Marks of a series are published one after the other over one connection, so their trace messages
come in the order of their numbers. If one is missing, whatever was traced between the marks around
it may be missing too: the loss lies between two known events. A mark of which nobody knows whether
the broker took it ends its series.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from app.errors import OutageError
from model.times import now

if TYPE_CHECKING:
    from app.broker.marks import MarkPublisher

Mark: TypeAlias = tuple[str, int]  # series, and number from 1

# A node that takes no marks holds up the marks of the others for this long, and is tried again
# after growing pauses.
PATIENCE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 60.0
# Of a series the times of so many marks that are on their way are remembered.
MOST_ON_THEIR_WAY = 1_000


class Point(msgspec.Struct, frozen=True, order=True):
    """A point of a trace: the last event before it, and when it was (µs)."""

    event_id: int
    at: int


class _Series(msgspec.Struct):
    """One publisher's marks.

    ``published`` and ``stored`` are their last numbers; all before ``well`` is stored.
    ``overdue_from`` is when a mark that has not come was published (µs), None if all have.
    ``refusals`` counts those in a row that the broker did not take, ``trouble`` says why, and the
    next is published at ``next_at`` (s, monotonic). ``sent`` are numbers and times (µs) of those on
    their way; ``settled`` is when the last one that has come was sent.
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
        self._due: dict[str, int] = {}  # the last one of each series when some were overdue

    def ask(self) -> None:
        """Ask for a mark, though there may be no traffic: somebody waits to be sure of a time."""
        self.is_asked = True

    @property
    def settled(self) -> int | None:
        """Until when all that was traced is stored (µs); None while no mark has come."""
        times = [each.settled for each in self._series]
        return None if not times or None in times else min(filter(None, times))

    @property
    def trouble(self) -> str | None:
        """The reason why some marks cannot be published, in a sentence; None if all can."""
        return next((each.trouble for each in self._series if each.trouble), None)

    async def publish(self, publishers: Sequence[MarkPublisher], here: Point) -> None:
        """Publish the next mark with each publisher, where the broker takes it.

        ``here`` is where the trace stands: before a new series nothing of it is missing that marks
        could tell of.
        """
        known = {id(each.publisher): each for each in self._series}
        self._series = [
            known.get(id(publisher)) or _new_series(publisher, here) for publisher in publishers
        ]
        self.is_asked = False
        moment = self._clock()
        for each in self._series:
            if each.next_at <= moment and (each.publishing is None or each.publishing.done()):
                each.publishing = asyncio.create_task(self._publish(each, here))
        waiting = {each.publishing for each in self._series if each.publishing is not None}
        if waiting:
            await asyncio.wait(waiting, timeout=PATIENCE_SECONDS)

    async def close(self) -> None:
        """Give the publishers' connections back; the next marks begin new series."""
        series, self._series = self._series, []
        publishing = {each.publishing for each in series if each.publishing is not None}
        for task in publishing:
            task.cancel()
        await asyncio.gather(*publishing, return_exceptions=True)
        await asyncio.gather(*(each.publisher.close() for each in series))

    def missing(self, marks: Iterable[Mark]) -> Point | None:
        """Find where a loss begins that marks about to be stored prove; None if they prove none."""
        stored = {each.name: each.stored for each in self._series}
        begins = []
        for name, number in marks:
            if name not in stored:
                continue
            if number > stored[name] + 1:
                begins += [each.well for each in self._series if each.name == name]
            stored[name] = max(stored[name], number)
        return min(begins, default=None)

    def stored(self, marks: Iterable[Mark], here: Point) -> None:
        """Note that marks are stored, in a batch that ended ``here``."""
        for each in self._series:
            numbers = [number for name, number in marks if name == each.name]
            if numbers:
                each.stored = max(each.stored, *numbers)
                each.well = here
                each.overdue_from = None if each.stored >= each.published else here.at
                while each.sent and each.sent[0][0] <= each.stored:
                    each.settled = each.sent.popleft()[1]
                    # What was traced since may wait in the queue.
                    each.well = Point(here.event_id, min(here.at, each.settled))

    def overdue(self, before: int) -> Point | None:
        """Find where a loss begins if all that was queued is stored, and a mark has not come.

        One that the broker took later than ``before`` (µs) may be on its way.
        """
        overdue = [
            each
            for each in self._series
            if each.overdue_from is not None and each.overdue_from < before
        ]
        self._due |= {each.name: each.published for each in overdue}
        begins = [each.well for each in overdue]
        return min(begins, default=None)

    def have_come(self) -> bool | None:
        """Tell whether all marks have come that were overdue, none of them missing.

        None: no more of them is to be expected, and nobody knows.
        """
        stored = {each.name: each.stored for each in self._series}
        if not self._due or not self._due.keys() <= stored.keys():
            self._due = {}
            return None
        if any(stored[name] < number for name, number in self._due.items()):
            return False
        self._due = {}
        return True

    async def _publish(self, series: _Series, here: Point) -> None:
        number = series.published + 1
        series.sent.append((number, now()))  # it may come before the broker confirms it
        try:
            await series.publisher.publish(series.name, number)
        except OutageError as outage:
            series.name = _new_name()  # and what is missing began where it did
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
                series.overdue_from = here.at


def _new_series(publisher: MarkPublisher, here: Point) -> _Series:
    return _Series(publisher, _new_name(), here)


def _new_name() -> str:
    return secrets.token_hex(8)
