"""Records where the firehose may have been incomplete.

A loss lies between two points. It **begins** no earlier than the last point at which capture was
seen to work: when it is noticed, later events may be stored already. It **ends** before the first
event that is stored after everything that was queued at that moment, or held back by the tracker.

Losses noticed while the database is away are written as soon as it is back.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from app.traces.losses.marks import Point
from model.gaps import Gap
from model.times import now

if TYPE_CHECKING:
    from app.store.capture.gaps import Gaps

# A suspected gap that begins within this many events of the last one's end makes that longer.
NEAR_EVENTS = 5_000

log = logging.getLogger(__name__)


class _Loss(msgspec.Struct, eq=False):
    """One gap on its way into the store.

    ``end`` (µs) is None while the loss may go on; after that it is closed once ``due`` trace
    messages are stored, and nothing from before ``end`` is held back. ``before_event_id`` is the
    event that it was closed before, if it was. A ``tentative`` one may be taken back while it goes
    on, and so explains nothing else, nor makes anything unknown.
    """

    reason: str
    begin: int
    after_event_id: int
    suspected: bool = False
    declared: bool = False
    gap_id: int | None = None
    end: int | None = None
    due: int = 0
    before_event_id: int | None = None
    tentative: bool = False

    @property
    def is_proven(self) -> bool:
        return not self.suspected and not self.declared


@dataclass(eq=False)
class GapWatch:
    """The gaps of one trace, over all its runs. Times in µs.

    Declared gaps begin in the store, with the trace's selection; here they only end. They explain
    no loss: one within them is recorded like any other. ``name`` is the virtual host's, for the
    log.
    """

    gaps: Gaps
    trace_id: int
    name: str = ""

    def __post_init__(self) -> None:
        self._last_event_id = self._stands_at = 0
        self.processed = 0  # trace messages since this object was made
        self._held_since: int | None = None
        self._losses: list[_Loss] = []
        self._new: int | None = None
        self._writing = asyncio.Lock()
        self._last_proven = Point(0, 0)  # the last proven loss
        self._suspected: dict[str, _Loss] = {}  # the last one of each reason
        self.well = Point(0, 0)  # the last point at which capture was seen to work
        self.nodes: frozenset[str] = frozenset()  # running at that point
        self.epoch: int | None = None  # of the present run

    @property
    def is_open(self) -> bool:
        """Tell whether a proven gap is not closed yet, and will not be taken back."""
        return any(loss.is_proven and not loss.tentative for loss in self._losses)

    def take_new(self) -> int | None:
        """The event after which the proven losses since the last call begin."""
        begins, self._new = self._new, None
        return begins

    @property
    def is_pending(self) -> bool:
        return bool(self._losses)

    @property
    def point(self) -> Point:
        """The last stored event, and now."""
        return Point(self._last_event_id, now())

    def resume(
        self,
        last_event_id: int,
        recorded_at: int,
        stored: Sequence[Gap],
        queued: int,
        held_since: int | None = None,
        lifted: Sequence[Gap] = (),
    ) -> None:
        """Begin a run, with what the store holds and ``queued`` messages waiting.

        Gaps that an earlier run or a stop left open end here: we are connected again. Declared ones
        end only if they are ``lifted``.
        """
        self.stand(last_event_id, recorded_at)
        self._held_since = held_since
        for gap in stored:
            if gap.declared:
                continue
            if gap.until is None:
                self._adopt(gap)
            elif gap.suspected:
                self._suspected.setdefault(gap.reason, _loss_of(gap))
            elif gap.before_event_id is None or gap.before_event_id > last_event_id:
                self._note_new(gap.after_event_id)  # nothing is stored since it was closed
            self._note_at(Point(gap.after_event_id, gap.until or gap.since))
        for gap in lifted:
            self._adopt(gap)
        for loss in self._losses:
            loss.end = None  # one that was on its way into the store when the stream broke off
            self._end(loss, queued)

    def stand(self, last_event_id: int, recorded_at: int) -> None:
        """Note the trace's last event, and when that was recorded."""
        self._last_event_id = self._stands_at = last_event_id
        self._held_since = None
        if not self.well.moment:
            self.well = Point(last_event_id, recorded_at)

    def is_well(self, point: Point) -> None:
        """Note that capture worked up to a point, as far as could be seen."""
        if not self.is_open:
            self.well = point

    def has_one_since(self, point: Point) -> bool:
        """Tell whether a proven loss goes on, or was noted after a point.

        Between the same two events the clock decides, which may have been ahead.
        """
        return self.is_open or self._last_proven > point

    def covers(self, begins: Point, queued: int) -> bool:
        """Tell whether a proven loss spans everything from ``begins`` to the queue's end."""
        due = self.processed + queued
        return any(
            loss.after_event_id <= begins.event_id and (loss.end is None or loss.due >= due)
            for loss in self._losses
            if loss.is_proven
        )

    def is_losing(self, reason: str) -> bool:
        """Tell whether a loss of this reason goes on."""
        return any(loss.reason == reason and loss.end is None for loss in self._losses)

    def note(self, reason: str, queued: int, *, begins: Point | None = None) -> None:
        """Note a loss that is over, with ``queued`` messages from before or during it.

        It begins where capture was last well, unless ``begins`` is known.
        """
        self._end(self._begin(reason, begins), queued)

    def suspect(self, reason: str, queued: int, begins: int) -> None:
        """Note that something is probably missing after the event ``begins``.

        It ends with these ``queued`` messages. One that follows soon is the same gap.
        """
        loss = self._suspected.get(reason)
        if loss is None or begins > (loss.before_event_id or begins) + NEAR_EVENTS:
            loss = _Loss(reason, self.well.moment, begins, suspected=True)
            self._suspected[reason] = loss
        if loss not in self._losses:
            self._losses.append(loss)
        loss.end = None
        self._end(loss, queued)

    def is_suspected(self, reason: str) -> bool:
        return reason in self._suspected

    async def withdraw(self, reason: str) -> None:
        """Take a suspicion back: nothing is missing, or a proven gap says so.

        Raises `OutageError`, and may be called again.
        """
        async with self._writing:
            if (loss := self._suspected.get(reason)) is not None:
                await self._drop(loss, "no longer suspected")
                del self._suspected[reason]

    async def take_back(self, reason: str) -> None:
        """Take back a tentative loss that goes on: all has come. Raises `OutageError`."""
        async with self._writing:
            for loss in [*self._losses]:
                if loss.reason == reason and loss.tentative and loss.end is None:
                    await self._drop(loss, "all has come after all")

    async def _drop(self, loss: _Loss, news: str) -> None:
        if loss.gap_id is not None:
            await self.gaps.withdraw(loss.gap_id, epoch=self.epoch)
            log.warning("trace of %r: %s: %s", self.name, news, loss.reason)
        if loss in self._losses:
            self._losses.remove(loss)

    async def record(self, reason: str, queued: int, *, begins: Point | None = None) -> None:
        """Note and write a loss that is over; raises `OutageError`."""
        self.note(reason, queued, begins=begins)
        await self.write()

    async def open(
        self, reason: str, *, begins: Point | None = None, tentative: bool = False
    ) -> None:
        """Record a loss that is going on; repeated calls record it once."""
        if not self.is_losing(reason):
            self._begin(reason, begins, tentative=tentative)
        await self.write()

    async def close(self, reason: str, queued: int) -> None:
        """Note that a loss recorded by `open` is over."""
        for loss in self._losses:
            if loss.reason == reason and loss.end is None:
                self._end(loss, queued)
        await self.write()

    def note_stored(self, messages: int, last_event_id: int, held_since: int | None = None) -> None:
        """Note that this many more trace messages are stored, up to an event.

        ``held_since`` is when the oldest record came that the tracker holds back (µs).
        """
        self.processed += messages
        self._last_event_id = last_event_id
        self._held_since = held_since

    async def write(self) -> None:
        """Bring the store up to date; raises `OutageError`, and may be called again."""
        # The monitor and the consumer both call this: one loss must still be one gap.
        async with self._writing:
            await self._write()

    async def _write(self) -> None:
        for loss in list(self._losses):
            if loss.gap_id is None:
                loss.gap_id = await self.gaps.open(
                    self.trace_id,
                    after_event_id=loss.after_event_id,
                    since=loss.begin,
                    reason=loss.reason,
                    suspected=loss.suspected,
                    epoch=self.epoch,
                )
                kind = "a suspected gap" if loss.suspected else "a gap"
                log.warning("trace of %r has %s: %s", self.name, kind, loss.reason)
            if self._is_over(loss) and loss.end is not None:
                extend = loss.before_event_id is not None
                loss.before_event_id = self._last_event_id + 1
                await self.gaps.close(
                    loss.gap_id,
                    before_event_id=loss.before_event_id,
                    until=loss.end,
                    epoch=self.epoch,
                    extend=extend,
                )
                self._losses.remove(loss)

    def _is_over(self, loss: _Loss) -> bool:
        if loss.end is None or loss.due > self.processed:
            return False
        return self._held_since is None or self._held_since > loss.end

    def _begin(self, reason: str, begins: Point | None, *, tentative: bool = False) -> _Loss:
        begins = begins or self.well
        loss = _Loss(reason, begins.moment, begins.event_id, tentative=tentative)
        self._losses.append(loss)
        if not tentative:
            # Nothing is missing before the point where a stream broke off.
            self._note_new(max(begins.event_id, self._stands_at))
        return loss

    def _note_new(self, begins: int) -> None:
        self._new = begins if self._new is None else min(begins, self._new)

    def _adopt(self, gap: Gap) -> None:
        """Continue a stored gap, which may be a loss of ours whose reply never reached us."""
        for loss in self._losses:
            if loss.gap_id == gap.id:
                return
            key = (loss.reason, loss.begin, loss.after_event_id)
            if loss.gap_id is None and key == (gap.reason, gap.since, gap.after_event_id):
                loss.gap_id = gap.id
                return
        self._losses.append(_loss_of(gap))
        if gap.suspected:
            self._suspected[gap.reason] = self._losses[-1]
        elif not gap.declared:
            self._note_new(gap.after_event_id)

    def _end(self, loss: _Loss, queued: int) -> None:
        loss.end = loss.end or now()
        loss.due = self.processed + queued
        if loss.tentative:  # it is not taken back any more
            loss.tentative = False
            self._note_new(loss.after_event_id)
        if loss.is_proven:
            self._note_at(Point(self._last_event_id, loss.end))

    def _note_at(self, point: Point) -> None:
        self._last_proven = max(self._last_proven, point)


def _loss_of(gap: Gap) -> _Loss:
    return _Loss(
        gap.reason,
        gap.since,
        gap.after_event_id,
        gap.suspected,
        gap.declared,
        gap.id,
        gap.until,
        before_event_id=gap.before_event_id,
    )
