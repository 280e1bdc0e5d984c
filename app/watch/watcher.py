"""The task that holds assertions against the traces that run here, for as long as the service does.

It follows the store, beside capture and not within it: a trace without assertions costs one small
query a look for all traces together. If several services share a store, the one that runs a trace
watches it; if two do for a moment, the store lets only one of them judge.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING

from app.background import Lookout
from app.errors import OutageError
from app.stored.assertions import HeldAssertion, WebhookState
from app.watch.waiting import SettledPoint
from app.watch.watched import Judge, WatchedTrace
from model.times import now

if TYPE_CHECKING:
    from app.store.watch.assertions import Assertions
    from app.store.watch.watching import Watching
    from app.traces.holding.here import TracesHere

log = logging.getLogger(__name__)


@dataclass(eq=False)
class Watcher(Lookout):
    """Watches all traces that run here; a restart judges the events since it ended.

    ``found`` is called when an assertion did not hold; ``delivery`` says whether a webhook is told.
    """

    task_name = "judging assertions"
    look_seconds = 0.5  # for new events, and for due ones
    pause_seconds = 5.0

    assertions: Assertions
    events: Watching
    traces: TracesHere
    judge: Judge
    _: KW_ONLY
    delivery: WebhookState = WebhookState.none
    found: Callable[[], None] | None = None
    clock: Callable[[], int] = now
    _watched: dict[int, WatchedTrace] = field(default_factory=dict, init=False)

    async def stop(self) -> None:
        await super().stop()
        try:
            for trace in self._watched.values():
                await trace.leave()
        except OutageError as outage:
            log.debug("how far assertions are judged is not noted: %s", outage)

    async def look(self) -> bool:
        """Look at each trace once; tell whether any of them goes on at once.

        Raises `OutageError`; then nothing is lost. The failure of one trace is raised after all
        others had their turn.
        """
        snapshots = self.traces.snapshots()
        assertions: defaultdict[int, list[HeldAssertion]] = defaultdict(list)
        for assertion in await self.assertions.of_traces(snapshots):
            assertions[assertion.trace_id].append(assertion)
        self._watched = {
            trace_id: self._watched.get(trace_id) or self._begin(trace_id)
            for trace_id in assertions
        }
        goes_on_later = False
        failures: list[Exception] = []
        for trace_id, watched in self._watched.items():
            snapshot = snapshots[trace_id]
            watched.take_up(assertions[trace_id])
            settled = SettledPoint(snapshot.settled_at, snapshot.settled_id)
            try:
                violations, goes_on = await watched.look(settled)
            except OutageError:
                raise
            except Exception as error:  # noqa: BLE001  raised once the others had their turn
                failures.append(error)
                continue
            goes_on_later |= goes_on
            if violations and self.found is not None:
                self.found()
            # It is time to judge, and nobody knows yet whether everything until then is stored.
            due = watched.next_due
            if due is not None and settled.at < due <= self.clock():
                self.traces.prove(trace_id)
        if failures:
            self._watched.clear()
            raise failures[0]
        return goes_on_later

    def _begin(self, trace_id: int) -> WatchedTrace:
        return WatchedTrace(trace_id, self.assertions, self.events, self.judge, self.delivery)
