"""A process that runs traces for the service: ``python -m app.trace_process``.

Reads its settings from the first line of stdin, then orders; writes its traces' status to stdout
(see `app.traces.processes`). It ends when its stdin does, so it never outlives the service.
"""

from __future__ import annotations

import asyncio
import logging

import msgspec
import uvloop

from app.children import leave_signals_to_the_service, orders_of_service, tell_service
from app.garbage import tune_garbage_collection
from app.main import open_capture
from app.settings import Settings
from app.stored.capture import Trace
from app.traces.life import NOT_RUN
from app.traces.processes import LINE_BYTES, SERVICE, Notice, TraceOrder
from app.traces.running import Capture, RunningTrace
from app.traces.status import Snapshot
from app.tracker import RestorePoint

log = logging.getLogger(__name__)

NOTICE_SECONDS = 1.0


class Attendant:
    """Runs traces as ordered, and reports their status."""

    def __init__(self, capture: Capture) -> None:
        self._capture = capture
        self._running: dict[int, RunningTrace] = {}
        self._ahead: dict[int, asyncio.Task[RestorePoint | None]] = {}
        self._ending: set[asyncio.Task[None]] = set()

    async def attend(self, orders: asyncio.StreamReader) -> None:
        """Follow orders until there are no more, then end everything."""
        telling = asyncio.create_task(self._tell())
        while line := await orders.readline():
            self._follow(msgspec.json.decode(line, type=TraceOrder))
        telling.cancel()
        await asyncio.gather(*(self._end(trace, False, 10.0) for trace in self._running.values()))

    def _follow(self, order: TraceOrder) -> None:
        if order.do == "read":
            self._ahead[order.trace.id] = asyncio.create_task(self._read(order.trace))
        elif order.do == "run":
            ahead = self._taken(order.trace)
            self._running[order.trace.id] = self._capture.run(order.trace, ahead)
        elif running := self._running.get(order.trace.id):
            if order.do == "drain":
                running.drain()
            elif order.do == "prove":
                running.prove()
            else:
                ending = asyncio.create_task(self._end(running, order.drain, order.deadline))
                self._ending.add(ending)
                ending.add_done_callback(self._ending.discard)
        else:
            self._taken(order.trace)

    async def _read(self, trace: Trace) -> RestorePoint | None:
        read = None  # then its run reads it
        try:
            read = await self._capture.read(trace)
        except Exception:
            log.exception("the trace of %r could not be read ahead", trace.vhost)
        tell_service(Notice(trace.id, Snapshot(NOT_RUN), read is not None, of_run=False))
        return read

    def _taken(self, trace: Trace) -> RestorePoint | None:
        """What was read ahead of a trace, if all was; what still reads it ends."""
        reading = self._ahead.pop(trace.id, None)
        return None if reading is None or reading.cancel() else reading.result()

    async def _end(self, running: RunningTrace, drain: bool, deadline: float) -> None:
        await running.end(drain=drain, deadline=deadline)
        _say(running.trace, running)
        self._running.pop(running.trace.id, None)

    async def _tell(self) -> None:
        while True:
            seen = self._capture.feed.latest
            for running in self._running.values():
                _say(running.trace, running)
            try:
                async with asyncio.timeout(NOTICE_SECONDS):
                    await self._capture.feed.beyond(seen)
            except TimeoutError:
                continue


def _say(trace: Trace, running: RunningTrace) -> None:
    tell_service(Notice(trace.id, running.snapshot(), running.is_alive))


async def _main() -> None:
    orders = await orders_of_service(LINE_BYTES)
    said = msgspec.json.decode(await orders.readline())
    async with open_capture(Settings.model_validate(said), said.get(SERVICE, "")) as capture:
        await Attendant(capture).attend(orders)


def main() -> None:
    leave_signals_to_the_service()
    tune_garbage_collection()
    uvloop.run(_main())


if __name__ == "__main__":
    main()
