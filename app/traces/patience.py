"""Waiting out an outage of the store: tried again, with growing pauses."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from app.errors import LeaseLostError, OutageError
from app.traces.supervisor import FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS

T = TypeVar("T")


async def patiently(
    work: Callable[[], Awaitable[T]], waiting: Callable[[str], None] | None = None
) -> T:
    """The result of ``work``, which is tried again while the store is away.

    ``waiting`` is told why, before each pause. Raises `LeaseLostError`, which no waiting mends.
    """
    pause = FIRST_PAUSE_SECONDS
    while True:
        try:
            return await work()
        except LeaseLostError:
            raise
        except OutageError as outage:
            if waiting is not None:
                waiting(str(outage))
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE_SECONDS)
