"""Whose request is begun next, where more come than can be answered at once."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

_IN_A_PASS = 2  # requests; the costliest take some 20 ms each, so who is new waits for little


class Turns:
    """Begins waiting requests, one of each address in turn, a few in each pass of the loop.

    The loop lets everything that is ready run before it looks for what has come since. If each
    request were begun as it came, one address could make many seconds' work ready at once, and
    all others would wait for that. A pass itself costs next to nothing.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, deque[Callable[[], None]]] = {}  # the next address first
        self._scheduled = False

    def ask(self, address: str, begin: Callable[[], None]) -> None:
        """Have ``begin`` called when it is this address's turn."""
        self._waiting.setdefault(address, deque()).append(begin)
        self._schedule()

    def _schedule(self) -> None:
        if self._waiting and not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._pass)

    def _pass(self) -> None:
        self._scheduled = False
        for _ in range(min(_IN_A_PASS, len(self._waiting))):
            address = next(iter(self._waiting))
            queue = self._waiting.pop(address)
            begin = queue.popleft()
            if queue:
                self._waiting[address] = queue  # behind the others
            begin()
        self._schedule()
