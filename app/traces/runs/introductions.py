"""Clients behind connections that a trace has not met: looked up in the store, and waited for.

The broker announces a connection some milliseconds before its first message, and the service's main
process stores that; the trace, perhaps in another process, may be faster. The management API shows
unannounced connections (the queue was purged, the exchange was away) after five seconds. There is
no waiting where no announcements come.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING

from app.errors import OutageError
from app.stored.capture import BrokerConnection
from model.times import now

if TYPE_CHECKING:
    from app.broker.announcements import Announcements
    from app.store.capture.connections import Connections

POLL_SECONDS = 0.02
# Pause between questions to the management API, and where nothing is announced.
ASK_SECONDS = 1.0
ASK_RARELY = 5.0
# The broker's word that connections are announced to us holds for this long.
EXCHANGE_SECONDS = 5.0
# A connection that is closed may be the one before: a port can be used again about a second later.
# Its successor is announced and being stored.
USED_AGAIN = 1_000_000  # µs
SUCCESSOR_SECONDS = 0.25
# A name waited for in vain is not waited for again for some time, a successor for less; at most
# MOST_SETTLED names are remembered.
FORGET_SECONDS = 60.0
FORGET_SUCCESSOR_SECONDS = 5.0
MOST_SETTLED = 20_000


@dataclass(eq=False)
class Introductions:
    """Looks connections up, for all traces of a process.

    An unknown connection is waited for, ``seconds`` at most.
    """

    connections: Connections
    broker: Announcements
    _: KW_ONLY
    seconds: float = 6.0
    clock: Callable[[], float] = time.monotonic
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep

    def __post_init__(self) -> None:
        self._is_on = False
        self._looked_at = self._asked_at = float("-inf")
        # By name: the connection's id, None for no connection, and when that expires.
        self._settled: OrderedDict[str, tuple[int | None, float]] = OrderedDict()

    async def look_up(self, names: Sequence[str]) -> dict[str, BrokerConnection]:
        """The newest connection of each name; one that cannot be found in time is missing.

        A connection that was closed a while ago is the answer only when no newer one of its name
        is being announced. Raises `OutageError`.
        """
        if not names:
            return {}
        connections = dict(await self.connections.find(names))
        unsure = {name for name in names if self._is_unsure(name, connections.get(name))}
        if not unsure:
            return connections
        await self._wait_for(unsure, connections)
        for name in unsure:
            connection = connections.get(name)
            if connection is None:
                self._settle(name, None, FORGET_SECONDS)
            elif connection.closed_at is not None:
                self._settle(name, connection.id, FORGET_SUCCESSOR_SECONDS)
        return connections

    async def _wait_for(self, unsure: set[str], connections: dict[str, BrokerConnection]) -> None:
        """Look again until each of these names has a connection that is beyond doubt."""
        start = self.clock()
        is_on = await self._is_announced()
        # Without announcements a list is all there is; with them most are there in no time.
        first_ask, ask_every = (start + ASK_SECONDS, ASK_SECONDS) if is_on else (start, ASK_RARELY)
        while unsure:
            moment = self.clock()
            if not is_on or moment - start >= SUCCESSOR_SECONDS:
                unsure = unsure - connections.keys()
            if unsure and moment >= max(first_ask, self._asked_at + ask_every):
                self._asked_at = moment
                await self._ask(unsure - connections.keys())
            elif is_on and unsure and moment - start < self.seconds:
                await self.pause(POLL_SECONDS)
            else:
                return
            connections |= await self.connections.find(unsure)
            unsure = {name for name in unsure if self._is_unsure(name, connections.get(name))}

    def _is_unsure(self, name: str, connection: BrokerConnection | None) -> bool:
        settled, expiry = self._settled.get(name, (0, 0.0))
        if settled == (connection.id if connection else None) and self.clock() < expiry:
            return False
        if connection is None:
            return True
        closed_at = connection.closed_at
        return closed_at is not None and now() - closed_at > USED_AGAIN

    def _settle(self, name: str, connection: int | None, seconds: float) -> None:
        self._settled[name] = connection, self.clock() + seconds
        self._settled.move_to_end(name)
        if len(self._settled) > MOST_SETTLED:
            self._settled.popitem(last=False)

    async def _is_announced(self) -> bool:
        """Tell whether connections are announced to our queue, and so to the store."""
        moment = self.clock()
        if moment - self._looked_at >= EXCHANGE_SECONDS:
            self._looked_at = moment
            with contextlib.suppress(OutageError):  # the last answer is as good as any
                vhost = await self.broker.event_exchange()
                self._is_on = vhost is not None and await self.broker.is_bound(vhost)
        return self._is_on

    async def _ask(self, names: set[str]) -> None:
        """Store what the management API knows of these names."""
        if not names:
            return
        try:
            present = await self.broker.present()
        except OutageError:
            return
        if connections := [connection for connection in present if connection.name in names]:
            await self.connections.add(connections)
