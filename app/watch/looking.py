"""Looks beside capture, unasked: for rules that tie messages together, and for their durations.

If the messages of a trace that runs here name few of their causes, and enough of them have come, a
process of its own reads the newest of them (`spark_jobs.reports.look_process`). One looks at a
time, of lowest priority and within bounds, and it ends if capture lags; then it is tried again
later. One that fails has found nothing new.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from app.background import Lookout
from app.children import Child
from app.stored.jobs import Answer
from app.stored.proposals import RuleProposal, TraceCoverage, proposals_in

if TYPE_CHECKING:
    from app.store.capture.proposals import RuleProposals
    from app.store.watch.durations import Durations
    from app.traces.holding.here import TracesHere
    from app.traces.status import Snapshot

log = logging.getLogger(__name__)

MODULE = "spark_jobs.reports.look_process"
MOST_EVENTS = 50_000  # the newest, that are looked at
MOST_LAG = 2_000  # waiting trace messages: beyond that, capture has the machine to itself
# Memory that is reserved and not used counts against the bound, too.
FRUGAL = {"ARROW_DEFAULT_MEMORY_POOL": "system", "OPENBLAS_NUM_THREADS": "1"}
LINE_BYTES = 16 << 20
MOST_SECONDS = 600.0  # it works an eighth of the time, and for a minute at most
LOOK_SECONDS = 1.0


_LAGS = Answer("lags")


@dataclass(eq=False)
class Looking(Lookout):
    """Looks at the traces that run here; tests start another ``command``."""

    task_name = "looking for what ties messages together"
    look_seconds = 10.0
    pause_seconds = 60.0

    proposals: RuleProposals
    traces: TracesHere
    database_url: str
    command: Sequence[str] = (sys.executable, "-m", MODULE)

    async def look(self) -> bool:
        """Look at the first trace that is due; tell whether there was one."""
        snapshots = self.traces.snapshots().items()
        idle = [trace_id for trace_id, snapshot in snapshots if not _lags(snapshot)]
        for coverage in await self.proposals.coverage(idle):
            if coverage.is_due:
                proposals = await self._propose(coverage)
                if proposals is not None:
                    await self.proposals.put(coverage, proposals)
                return proposals is not None
        return False

    async def _propose(self, coverage: TraceCoverage) -> Sequence[RuleProposal] | None:
        """Look at a trace; None if capture lags."""
        child = await Child.start(self.command, Answer, line_bytes=LINE_BYTES, environment=FRUGAL)
        try:
            child.write(
                {"database_url": self.database_url, "vhost": coverage.vhost, "events": MOST_EVENTS}
            )
            answer = await self._answer(child, coverage.trace_id)
        finally:
            await child.kill()
        if answer is _LAGS:
            return None
        if answer is None or answer.say != "done":
            reason = "it came to its bounds" if answer is None else answer.reason
            log.warning(
                "%r was not looked at for what ties its messages: %s", coverage.vhost, reason
            )
            return coverage.found
        return proposals_in(answer.result)

    async def _answer(self, child: Child[Answer], trace_id: int) -> Answer | None:
        reading = asyncio.create_task(child.read())
        try:
            async with asyncio.timeout(MOST_SECONDS):
                while not reading.done():
                    await asyncio.wait({reading}, timeout=LOOK_SECONDS)
                    if _lags(self.traces.snapshots().get(trace_id)):
                        return _LAGS
                return reading.result()
        except TimeoutError:
            return None
        finally:
            reading.cancel()


def _lags(snapshot: Snapshot | None) -> bool:
    return snapshot is None or snapshot.lag is None or snapshot.lag > MOST_LAG


PORTION = 4_000
"""Events of a trace that are counted in one transaction."""

FORGETTING_SECONDS = 3_600.0


@dataclass(eq=False)
class DurationWatch(Lookout):
    """The task that counts durations; it starts again with the events since it ended."""

    task_name = "counting durations"
    look_seconds = 5.0
    pause_seconds = 10.0

    durations: Durations
    traces: TracesHere
    timer: Callable[[], float] = time.monotonic
    _next_forgetting: float = field(default=0.0, init=False)

    async def look(self) -> bool:
        """Count the next events of each trace, unless capture lags; tell whether one has more."""
        moment, goes_on = self.timer(), False
        if moment >= self._next_forgetting:
            await self.durations.forget()
            self._next_forgetting = moment + FORGETTING_SECONDS
        for place in await self.durations.behind(self.traces.snapshots()):
            if any((snapshot.lag or 0) > MOST_LAG for snapshot in self.traces.snapshots().values()):
                return False
            portion = await self.durations.next(place, PORTION)
            await self.durations.count(portion)
            goes_on |= not portion.is_whole
        return goes_on
