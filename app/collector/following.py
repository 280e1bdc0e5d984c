"""The service's side of the process that sends spans: started, and told what runs here."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from app.background import Background, end
from app.children import Child
from app.jobs.children import SENDER, open_child
from app.stored.jobs import Answer
from model.times import now

if TYPE_CHECKING:
    from app.traces.holding.here import TracesHere

log = logging.getLogger(__name__)

MOST_LAG = 2_000  # waiting trace messages: beyond that, capture has the machine to itself
TELL_SECONDS = 1.0
PAUSE_SECONDS = 5.0  # before it is started again


@dataclass(eq=False)
class Following(Background):
    """The task that has spans of the traces that run here sent as events come.

    ``waits_for`` is what keeps them, in a sentence; None while they go.
    """

    task_name = "sending spans"

    settings: bytes
    traces: TracesHere
    since: int = field(default_factory=now)
    waits_for: str | None = field(default=None, init=False)

    async def run(self) -> None:
        while True:
            try:
                await self._run_once()
                log.warning("the process that sends spans has ended; starting it again")
            except Exception:
                log.exception("the process that sends spans failed; starting it again")
            self.waits_for = "the process that sends them is started again"
            await asyncio.sleep(PAUSE_SECONDS)

    async def _run_once(self) -> None:
        async with open_child(SENDER, self.settings, {}) as child:
            telling = asyncio.create_task(self._tell(child))
            try:
                self.waits_for = None
                while (answer := await child.read()) is not None:
                    self._hear(answer)
            finally:
                await end(telling)

    def _hear(self, answer: Answer) -> None:
        if answer.say in ("waits", "error"):
            if self.waits_for is None:
                log.warning("spans wait: %s", answer.reason)
            self.waits_for = answer.reason
        else:
            log.info("spans are sent again")
            self.waits_for = None

    async def _tell(self, child: Child[Answer]) -> None:
        while True:
            snapshots = self.traces.snapshots()
            lags = any((snapshot.lag or 0) > MOST_LAG for snapshot in snapshots.values())
            child.write({"since": self.since, "traces": [*snapshots], "lags": lags})
            await asyncio.sleep(TELL_SECONDS)
