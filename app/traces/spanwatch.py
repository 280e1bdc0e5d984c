"""Resolves what imported spans tell of, for as long as the service runs.

Spans and events are stored in any order, each by its own transaction; whatever is new waits in the
store to be looked at, so nothing is forgotten when the service ends. Several services on one
database may look at the same: the same links come of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from app.background import Lookout
from model.times import now

if TYPE_CHECKING:
    from app.store.spans.imported import Spans

_DAY = 86_400_000_000  # µs
# It only bounds the database: a span is looked at soon after it came, and read again only to say
# how long a message was handled.
MOST_SPANS = 1_000_000
PRUNE_SECONDS = 600.0


class SpanWatch(Lookout):
    """The task that resolves; what is new when it ends is looked at when it starts again."""

    task_name = "resolving spans"
    look_seconds = 1.0  # for new events, when no span comes

    def __init__(
        self,
        store: Spans,
        days: float | None = None,
        *,
        keep: int = MOST_SPANS,
        clock: Callable[[], int] = now,
        pause_seconds: float = 10.0,
    ) -> None:
        """Keep spans for some days, None for any number of them, and ``keep`` at most."""
        super().__init__()
        self._store = store
        self._days = days
        self._keep = keep
        self._clock = clock
        self.pause_seconds = pause_seconds
        self._prune_at = 0.0

    async def look(self) -> bool:
        """Resolve all that can be, and remove what is kept no longer when it is time for that."""
        while await self._store.resolve():
            pass
        if time.monotonic() >= self._prune_at:
            older_than = None if self._days is None else self._clock() - int(self._days * _DAY)
            await self._store.prune(older_than, self._keep)
            self._prune_at = time.monotonic() + PRUNE_SECONDS
        return False
