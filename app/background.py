"""Work that goes on beside the requests, for as long as the service runs, and waiting."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from itertools import accumulate, repeat
from typing import Any, ClassVar, Self

from app.errors import OutageError

log = logging.getLogger(__name__)


async def end(*tasks: asyncio.Task[Any] | None) -> None:
    """Cancel tasks, and wait until they are over, whatever they end with."""
    running = [task for task in tasks if task is not None]
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)


async def is_set_within(event: asyncio.Event, seconds: float) -> bool:
    """Wait for an event; whether it came in time."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
    return event.is_set()


def pauses(first: float, longest: float) -> Iterator[float]:
    """Pauses (s) that double, for as long as something is away."""
    return accumulate(repeat(longest), lambda pause, most: min(2 * pause, most), initial=first)


class Background:
    """A task that goes on until it is stopped."""

    task_name: ClassVar[str]
    _task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self.run(), name=self.task_name)

    async def stop(self) -> None:
        await end(self._task)

    def run_in(self, stack: AsyncExitStack) -> Self:
        """Start it, and stop it with the stack."""
        self.start()
        stack.push_async_callback(self.stop)
        return self

    async def run(self) -> None:
        raise NotImplementedError


@dataclass(eq=False)
class Lookout(Background):
    """A task that looks again and again, and at once when something has arrived.

    Neither an outage nor a failure ends it. ``pause_seconds`` go by after one.
    """

    look_seconds: float = field(init=False)
    pause_seconds: float = field(init=False)
    _arrival: asyncio.Event = field(default_factory=asyncio.Event, init=False)

    async def look(self) -> bool:
        """Look once; whether there may be more to do at once. Raises `OutageError`."""
        raise NotImplementedError

    def wake(self) -> None:
        self._arrival.set()

    async def run(self) -> None:
        while True:
            self._arrival.clear()
            goes_on = True
            try:
                goes_on = await self.look()
            except OutageError as outage:
                log.warning("%s waits: %s", self.task_name, outage)
                await asyncio.sleep(self.pause_seconds)
            except Exception:
                log.exception("%s failed; trying again", self.task_name)
                await asyncio.sleep(self.pause_seconds)
            await is_set_within(self._arrival, 0 if goes_on else self.look_seconds)
