"""Resolves the links of imported spans, for as long as the service runs.

Spans and events are stored in any order, each by its own transaction; new ones wait in the store,
so nothing is forgotten when the service ends. Several services on one database may resolve the same
spans: the same links come of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from app.background import Lookout
from model.times import DAY, now

if TYPE_CHECKING:
    from app.store.spans.imported import Spans

# It only bounds the database: a span is looked at soon after it came, and read again only to say
# how long a message was handled.
MOST_SPANS = 1_000_000
PRUNE_SECONDS = 600.0


@dataclass(eq=False)
class SpanWatch(Lookout):
    """The task that resolves; it goes on where it ended. ``keep`` spans are kept at most.

    They go after some ``days``, None for never.
    """

    task_name = "resolving spans"
    look_seconds = 1.0  # for new events, when no span comes
    pause_seconds = 10.0

    store: Spans
    days: float | None = None
    keep: int = MOST_SPANS
    clock: Callable[[], int] = now
    _prune_at: float = field(default=0.0, init=False)

    async def look(self) -> bool:
        while await self.store.resolve():
            pass
        if time.monotonic() >= self._prune_at:
            older_than = None if self.days is None else self.clock() - int(self.days * DAY)
            await self.store.prune(older_than, self.keep)
            self._prune_at = time.monotonic() + PRUNE_SECONDS
        return False
