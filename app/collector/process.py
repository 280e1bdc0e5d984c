"""The process that makes spans and sends them: ``python -m app.collector.process``.

Beside the service rather than in it, at its low priority, so that no event waits for a span. It
reads orders as `app.orders` says, and while it follows, the traces to follow from further lines. It
says what it waits for, or its progress.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack

import msgspec

from app.background import pauses
from app.collector.follower import SpanFollower
from app.collector.period import PeriodOrder, send_period
from app.collector.sender import CollectorError, Sender
from app.errors import OutageError
from app.orders import Lines, obey, tell_progress, tell_service
from app.settings import Settings
from app.store.opening import open_store
from app.store.store import Store

LOOK_SECONDS = 0.5
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0


class FollowedTraces(msgspec.Struct, frozen=True):
    """The traces to follow, and whether capture lags, which comes first.

    Traces that are newer than ``since`` (µs) are followed from their first event; 0: wait.
    """

    since: int = 0
    traces: list[int] = []
    lags: bool = False


class Order(msgspec.Struct, frozen=True):
    """An order to send a period, or else to follow."""

    period: PeriodOrder | None = None


class FollowLoop:
    """Follows until the process ends, whatever is away meanwhile."""

    def __init__(self, follower: SpanFollower, store: Store) -> None:
        self._follower, self._store = follower, store
        self._known: list[int] | None = None
        self._waits: Iterator[float] | None = None
        self.traces = FollowedTraces()

    async def run(self, lines: Lines) -> None:
        while True:
            while not lines.empty():
                self.traces = msgspec.json.decode(lines.get_nowait(), type=FollowedTraces)
            if self.traces.lags:  # nothing is known of the collector meanwhile
                await asyncio.sleep(LOOK_SECONDS)
                continue
            try:
                goes_on = await self._look()
            except OutageError as outage:
                pause = outage.pause if isinstance(outage, CollectorError) else None
                self._waits = self._waits or pauses(FIRST_PAUSE, LONGEST_PAUSE)
                tell_service("waits", reason=str(outage))
                await asyncio.sleep(max(next(self._waits), pause or 0.0))
                continue
            if self._waits is not None:
                self._waits = None
                tell_service("goes on")
            await asyncio.sleep(0 if goes_on else LOOK_SECONDS)

    async def _look(self) -> bool:
        if not self.traces.since:
            return False
        if self._known != self.traces.traces:
            known = self.traces.traces
            vhosts = {trace.vhost for trace in await self._store.traces.list()}
            await self._follower.begin(vhosts, self.traces.since)
            self._known = known
        return await self._follower.look(self.traces.traces)


async def _obey(settings: Settings, order: Order, lines: Lines) -> None:
    async with AsyncExitStack() as stack:
        store, sender = await open_store(stack, settings), Sender(settings.collector or {})
        stack.push_async_callback(sender.close)
        if order.period is None:
            follower = SpanFollower(store.span_exports, sender, settings.export_shares)
            await FollowLoop(follower, store).run(lines)
        else:
            summary = await send_period(store, sender, order.period, tell_progress)
            tell_service("done", result=summary)


if __name__ == "__main__":
    obey(Order, _obey)
