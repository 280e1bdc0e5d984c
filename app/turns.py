"""Whose request is started next when more arrive than can be answered at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from app.round_robin import RoundRobin

_IN_A_PASS = 2  # requests; the costliest take some 20 ms, so a newcomer waits only briefly


class Turns:
    """Starts waiting requests, one per address in turn, a few in each pass of the event loop.

    The loop runs everything that is ready before it checks for new input. If each request were
    started on arrival, one address could queue many seconds of work at once, and everybody else
    would wait for it. A pass itself costs next to nothing.
    """

    def __init__(self) -> None:
        self._waiting: RoundRobin[Callable[[], None]] = RoundRobin()
        self._scheduled = False

    def ask(self, address: str, begin: Callable[[], None]) -> None:
        """Have ``begin`` called when it is this address's turn."""
        self._waiting.put(address, begin)
        self._schedule()

    def _schedule(self) -> None:
        if self._waiting.owners() and not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._pass)

    def _pass(self) -> None:
        self._scheduled = False
        for _ in range(min(_IN_A_PASS, self._waiting.owners())):
            if begin := self._waiting.take():
                begin()
        self._schedule()
