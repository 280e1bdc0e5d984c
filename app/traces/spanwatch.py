"""Resolves what imported spans tell of, for as long as the service runs.

Spans and events are stored in any order, each by its own transaction; whatever is new waits in the
store to be looked at, so nothing is forgotten when the service ends. Several services on one
database may look at the same: the same links come of it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from app.errors import ItcError
from app.stored.spans import ResolutionOutcome
from model.times import now

if TYPE_CHECKING:
    from app.store.spans.imported import Spans

log = logging.getLogger(__name__)

# How often to look for new events when no span comes.
LOOK_SECONDS = 1.0
# After an outage, or a failure.
PAUSE_SECONDS = 10.0
_DAY = 86_400_000_000  # µs


class SpanBounds(msgspec.Struct, frozen=True):
    """How many spans are kept, for how many days (None: any), and how often that is looked at."""

    keep: int
    days: float | None
    prune_every: float = 600.0


class SpanState(msgspec.Struct):
    """Counts of what came of publishes' traceparents since the service started.

    ``links``: how many links were stored; ``known``: of these, what the clocks had already.
    """

    outcomes: Counter[ResolutionOutcome] = msgspec.field(default_factory=Counter)
    links: int = 0
    known: int = 0
    pruned: int = 0


class SpanWatch:
    """The task that resolves."""

    def __init__(
        self,
        store: Spans,
        bounds: SpanBounds,
        *,
        clock: Callable[[], int] = now,
        pause_seconds: float = PAUSE_SECONDS,
    ) -> None:
        self._store = store
        self._bounds = bounds
        self._clock = clock
        self._pause_seconds = pause_seconds
        self._prune_at = 0.0
        self._arrived = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.state = SpanState()

    def start(self) -> None:
        """Begin."""
        self._task = asyncio.create_task(self._watch(), name="spans")

    async def stop(self) -> None:
        """End; what is new is looked at when the service starts again."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def arrived(self) -> None:
        """Look at once: spans were stored."""
        self._arrived.set()

    async def look(self) -> None:
        """Resolve all that can be, and remove what is kept no longer when it is time for that."""
        while True:
            done = await self._store.resolve()
            self.state.outcomes.update(done.outcomes)
            self.state.links += done.links
            self.state.known += done.known
            if not done.more:
                break
        if time.monotonic() >= self._prune_at:
            days = self._bounds.days
            older_than = None if days is None else self._clock() - int(days * _DAY)
            self.state.pruned += await self._store.prune(older_than, self._bounds.keep)
            self._prune_at = time.monotonic() + self._bounds.prune_every

    async def _watch(self) -> None:
        while True:
            self._arrived.clear()
            try:
                await self.look()
            except ItcError as error:
                log.warning("spans wait to be resolved: %s", error)
                await asyncio.sleep(self._pause_seconds)
            except Exception:
                log.exception("resolving spans failed; trying again")
                await asyncio.sleep(self._pause_seconds)
            try:
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._arrived.wait()
            except TimeoutError:
                pass
