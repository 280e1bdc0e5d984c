"""Looks whether copies still wait in their queues: purges, limits and deletions leave no trace.

The management API is asked sparingly, for some of the queues in turn whose copies have waited long.
A copy in a queue that is empty or not there is gone, unless its delivery is on its way to us: so it
is given up once everything traced before the answer is stored. The broker's numbers are up to 5 s
old, those of quorum queues 10 s (3.10.8), and a publish is traced before it is put into its queue;
both are far less than a copy has waited by then. The same holds of copies that came back to their
queue, of which the store knows.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from typing import TYPE_CHECKING, TypeAlias

from app.stored.causality import QueueCopies
from app.traces.losses.marks import Point
from app.traces.pipeline import Ending, Pipeline
from app.traces.recorder import Recorder
from app.tracker.events import LostCopy, PendingCopy, Reference
from model.deaths import LossWord
from model.texts import is_reply
from model.times import now

if TYPE_CHECKING:
    from app.broker.management import QueueInfo

WAIT = 60_000_000  # µs
MOST_QUEUES = 20  # asked for in one look
# A look waits this long until everything traced before it is stored.
SETTLE_SECONDS = 20
# Copies looked at before other tasks have a turn.
SLICE = 5_000
MOST_GIVEN_UP = 1_000  # copies with one batch

Loss: TypeAlias = tuple[PendingCopy, int, LossWord]


class QueueWatch:
    """The queues of one stream."""

    def __init__(self, pipeline: Pipeline, recorder: Recorder, ending: Ending) -> None:
        self._pipeline = pipeline
        self._recorder = recorder
        self._ending = ending
        self._last = ""  # queue that was asked for
        self._losses: deque[Loss] = deque()
        self._returned: list[LostCopy] = []

    async def look(self) -> None:
        """Find copies for `take_up` to give up. Raises `OutageError`."""
        if self._losses:  # as many are not even given up yet
            return
        copies = await self._old_copies()
        until = now() - WAIT
        names = sorted({*copies, *(copy.queue for copy in await self._back_until(until))})
        turn = [name for name in names if name > self._last] + names
        losses: list[Loss] = []
        gone: dict[str, int] = {}
        is_blind = None  # a local shovel may have moved them, which is not traced
        source, vhost = self._pipeline.source, self._pipeline.trace.vhost
        for name in [*dict.fromkeys(turn)][:MOST_QUEUES]:
            self._last = name
            reason = _why_gone(await source.queue(vhost, name))
            if reason is not None:
                gone[name] = now()
                if is_blind is None:
                    is_blind = await source.may_move_unseen()
                word: LossWord = "left" if is_blind else reason
                losses += [(copy, now(), word) for copy in copies.get(name, ())]
        if gone and await self._is_settled(now()):
            self._losses.extend(losses)
            self._returned = [  # those that were not handed over again meanwhile
                LostCopy(Reference(b"", 0, copy.event), copy.queue, gone[copy.queue], "returned")
                for copy in await self._back_until(until)
                if copy.queue in gone
            ]

    def take_up(self) -> None:
        """Give up copies that are known to be gone; no batch may be half stamped."""
        recorder = self._recorder
        for _ in range(min(len(self._losses), MOST_GIVEN_UP)):
            copy, moment, reason = self._losses.popleft()
            # It may have been handed over in a gap.
            published = Point(copy.cause.id or 0, copy.recorded_at)
            is_known = not self._pipeline.gaps.has_one_since(published)
            recorder.tracker.lose(copy, moment, reason if is_known else "left")
            recorder.is_ledger_new = True  # stored with the next batch, or by itself
        for returned in self._returned:
            recorder.tracker.note_lost(returned)
            recorder.is_ledger_new = True
        self._returned = []

    async def _back_until(self, moment: int) -> list[QueueCopies]:
        store, trace = self._pipeline.store, self._pipeline.trace
        return await store.copies.back_in_queues(trace.id, moment)

    async def _old_copies(self) -> dict[str, list[PendingCopy]]:
        copies, time = self._recorder.tracker.pending()
        by_queue: defaultdict[str, list[PendingCopy]] = defaultdict(list)
        for first in range(0, len(copies), SLICE):
            for copy in copies[first : first + SLICE]:
                if copy.recorded_at > time - WAIT:
                    return by_queue
                if not is_reply(copy.queue):
                    by_queue[copy.queue].append(copy)
            await asyncio.sleep(0)
        return by_queue

    async def _is_settled(self, moment: int) -> bool:
        """Wait until everything traced before a time is stored; False if that takes too long."""
        for _ in range(SETTLE_SECONDS):
            if self._recorder.settled.moment >= moment or self._ending.when_empty:
                break
            self._pipeline.marks.ask()
            await asyncio.sleep(1)
        return self._recorder.settled.moment >= moment


def _why_gone(queue: QueueInfo | None) -> LossWord | None:
    """The reason why a queue holds nothing; None if it does, or that is unknown."""
    if queue is None:
        return "queue_deleted"
    if queue.messages != 0 or not queue.keeps_messages:
        return None
    return "left" if queue.has_dead_letters else "not_there"
