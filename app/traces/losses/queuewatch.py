"""Looks whether copies still wait in their queues: purges, limits and deletions leave no trace.

The management API is asked sparingly, for some of the queues in turn whose copies have waited long.
What has waited in a queue that holds nothing any more, or is not there, is gone, unless its
delivery is on its way to us: so it is given up once all is stored that was traced before the
answer. The broker's numbers are up to 5 s old, those of quorum queues 10 s (3.10.8), and a
publish is traced before it is put into its queue; both are far less than a copy has waited by then.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from typing import TYPE_CHECKING, TypeAlias

from app.traces.losses.marks import Point
from app.traces.pipeline import Ending, Pipeline
from app.traces.runs.recorder import Recorder
from app.tracker.events import PendingCopy
from model.deaths import LossWord
from model.texts import is_reply
from model.times import now

if TYPE_CHECKING:
    from app.broker.management import QueueInfo

WAITED = 60_000_000  # µs
# So many queues are asked for in one look.
MOST_QUEUES = 20
# And so many seconds it waits for what was traced by then.
SETTLE_SECONDS = 20
# Other things are done between so many copies.
TOGETHER = 5_000
# So many copies are given up with one batch.
MOST_GIVEN_UP = 1_000

# Queues of these types keep messages; others stand for clients to whom they are handed at once.
KEEPING = frozenset({"classic", "quorum", "stream"})

Loss: TypeAlias = tuple[PendingCopy, int, LossWord]


class QueueWatch:
    """The queues of one stream."""

    def __init__(self, pipeline: Pipeline, recorder: Recorder, ending: Ending) -> None:
        self._pipeline = pipeline
        self._recorder = recorder
        self._ending = ending
        self._last = ""  # queue that was asked for
        self._lost: deque[Loss] = deque()

    async def look(self) -> None:
        """Look once, for what is to be taken up then. Raises `OutageError`."""
        if self._lost:  # as many are not even given up yet
            return
        waiting = await self._waiting()
        names = sorted(waiting)
        turn = [each for each in names if each > self._last] + names
        lost: list[Loss] = []
        source, vhost = self._pipeline.source, self._pipeline.trace.vhost
        for name in [*dict.fromkeys(turn)][:MOST_QUEUES]:
            self._last = name
            reason = _why_gone(await source.queue(vhost, name))
            if reason is not None:
                lost += [(copy, now(), reason) for copy in waiting[name]]
        if lost and await self._is_settled(now()):
            self._lost.extend(lost)

    def take_up(self) -> None:
        """Give up copies that are known to be gone; no batch may be half stamped."""
        recorder = self._recorder
        for _ in range(min(len(self._lost), MOST_GIVEN_UP)):
            copy, at, reason = self._lost.popleft()
            # It may have been handed over in a gap.
            published = Point(copy.cause.id or 0, copy.recorded_at)
            is_known = not self._pipeline.gaps.has_one_since(published)
            recorder.tracker.lose(copy, at, reason if is_known else "left")
            recorder.is_ledger_new = True  # stored with the next batch, or by itself

    async def _waiting(self) -> dict[str, list[PendingCopy]]:
        copies, time = self._recorder.tracker.waiting()
        found: defaultdict[str, list[PendingCopy]] = defaultdict(list)
        for first in range(0, len(copies), TOGETHER):
            for copy in copies[first : first + TOGETHER]:
                if copy.recorded_at > time - WAITED:
                    return found
                if not is_reply(copy.queue):
                    found[copy.queue].append(copy)
            await asyncio.sleep(0)
        return found

    async def _is_settled(self, at: int) -> bool:
        """Wait until all that was traced before a time is stored; False if that takes too long."""
        for _ in range(SETTLE_SECONDS):
            if self._recorder.settled.at >= at or self._ending.when_empty:
                break
            self._pipeline.marks.ask()
            await asyncio.sleep(1)
        return self._recorder.settled.at >= at


def _why_gone(queue: QueueInfo | None) -> LossWord | None:
    """The reason why nothing is in a queue; None if something is, or nobody knows."""
    if queue is None:
        return "queue_deleted"
    if queue.messages != 0 or queue.type not in KEEPING:
        return None
    has_letters = "x-dead-letter-exchange" in queue.arguments
    has_letters |= "dead-letter-exchange" in queue.policy_definition
    return "left" if has_letters else "not_there"
