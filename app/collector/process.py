"""The process that makes spans and sends them: ``python -m app.collector.process``.

Beside the service rather than in it, at its low priority, so that no event waits for a span. It
reads the settings from the first line of stdin, its order from the second, and while it follows,
the traces to follow from further ones. It says what it waits for, or its progress, on stdout. It
ends at once when its stdin does.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from contextlib import AsyncExitStack
from typing import Any

import msgspec
import uvloop

from app.children import orders_of_service, tell_service
from app.collector.follower import SpanFollower
from app.collector.period import PeriodOrder, send_period
from app.collector.sender import CollectorError, Sender
from app.errors import ItcError, OutageError
from app.garbage import tune_garbage_collection
from app.settings import Settings
from app.store.opening import open_store
from app.store.store import Store

ORDER_BYTES = 1 << 22
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
        self._pause = 0.0
        self.traces = FollowedTraces()

    async def run(self) -> None:
        while True:
            if self.traces.lags:  # nothing is known of the collector meanwhile
                await asyncio.sleep(LOOK_SECONDS)
                continue
            try:
                goes_on = await self._look()
            except OutageError as outage:
                pause = outage.pause if isinstance(outage, CollectorError) else None
                self._pause = min(max(FIRST_PAUSE, 2 * self._pause), LONGEST_PAUSE)
                tell_service({"say": "waits", "reason": str(outage)})
                await asyncio.sleep(max(self._pause, pause or 0.0))
                continue
            if self._pause:
                self._pause = 0.0
                tell_service({"say": "goes on"})
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


async def _follow(stack: AsyncExitStack, settings: Settings, orders: asyncio.StreamReader) -> None:
    store, sender = await _open(stack, settings)
    loop = FollowLoop(SpanFollower(store.span_exports, sender, settings.export_shares), store)
    running = asyncio.create_task(loop.run(), name="following")
    listening = asyncio.create_task(_listen(loop, orders), name="listening")
    await asyncio.wait({running, listening}, return_when=asyncio.FIRST_COMPLETED)
    if running.done():
        await running


async def _listen(loop: FollowLoop, orders: asyncio.StreamReader) -> None:
    while line := await orders.readline():
        loop.traces = msgspec.json.decode(line, type=FollowedTraces)
    os._exit(0)


async def _send(stack: AsyncExitStack, settings: Settings, order: PeriodOrder) -> None:
    store, sender = await _open(stack, settings)
    tell_service({"say": "done", "result": await send_period(store, sender, order, _tell)})


def _tell(progress: Any) -> None:
    tell_service({"say": "progress", **msgspec.to_builtins(progress)})


async def _open(stack: AsyncExitStack, settings: Settings) -> tuple[Store, Sender]:
    store = await open_store(stack, settings)
    sender = Sender(settings.collector or {})
    stack.push_async_callback(sender.close)
    return store, sender


async def _end_with(orders: asyncio.StreamReader) -> None:
    await orders.read()
    os._exit(1)


async def _main() -> None:
    orders = await orders_of_service(ORDER_BYTES)
    settings = Settings.model_validate(msgspec.json.decode(await orders.readline()))
    order = msgspec.json.decode(await orders.readline(), type=Order)
    async with AsyncExitStack() as stack:
        if order.period is None:
            await _follow(stack, settings, orders)
            return
        watching = asyncio.create_task(_end_with(orders))
        try:
            await _send(stack, settings, order.period)
        except ItcError as error:
            tell_service({"say": "error", "reason": str(error)})
        finally:
            watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watching


def main() -> None:
    tune_garbage_collection()
    uvloop.run(_main())


if __name__ == "__main__":
    main()
