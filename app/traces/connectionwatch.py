"""Notes in the store who is connected to the broker, for as long as the service runs.

The broker's event exchange announces connections as they open and close; its management API lists
the present ones. The list is up to five seconds old, so it is read twice: at once for connections
from before our start, and a little later for those that it was too old for. Announcement and list
say the same of a connection, in any order.

No failure here stops the service, or a trace: without a name a participant is assumed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING

from app.background import Background, end, pauses
from app.errors import OutageError
from model.times import now

if TYPE_CHECKING:
    from app.broker.announcements import Announcements, AnnouncementStream
    from app.store.capture.connections import Connections

log = logging.getLogger(__name__)

FIRST_PAUSE_SECONDS = 0.25
LONGEST_PAUSE_SECONDS = 10.0
# Pause between checks that the exchange is there, and our queue bound to it.
CHECK_SECONDS = 5.0
# The age of the management API's list, and how often it is read: with announcements it finds missed
# connections, without them it is all there is.
LIST_AGE_SECONDS, LIST_SECONDS, LIST_ALONE_SECONDS = 6.0, 300.0, 15.0
PRUNE_SECONDS = 600.0

NO_EXCHANGE = "the broker's event exchange is off: rabbitmq-plugins enable rabbitmq_event_exchange"


@dataclass(eq=False)
class ConnectionWatch(Background):
    """The task that watches; announcements that are not stored when it ends come again.

    At most ``keep`` connections that are closed are kept.
    """

    task_name = "connections to the broker"

    store: Connections
    broker: Announcements
    _: KW_ONLY
    keep: int = 100_000
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep

    def __post_init__(self) -> None:
        # Why connections are not announced to us; None while they are.
        self.why_not: str | None = "the service is starting"
        self._list_at = self._prune_at = 0.0
        self._pauses = pauses(FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)

    async def run(self) -> None:
        while True:
            try:
                await self._attempt()
            except OutageError as outage:
                self._note_reason(str(outage))
                with contextlib.suppress(OutageError):  # as well as it goes without
                    await self._list_and_prune(LIST_ALONE_SECONDS)
            except Exception:
                log.exception("watching the broker's connections failed")
                self._note_reason("an error in the service itself; its log says more")
            await self.pause(next(self._pauses))

    def _note_reason(self, why_not: str) -> None:
        if self.why_not != why_not:
            log.warning("connections are not announced: %s", why_not)
        self.why_not = why_not

    async def _attempt(self) -> None:
        vhost = await self.broker.event_exchange()
        if vhost is None:
            await self._alone()
            return
        async with self.broker.open(vhost) as stream:
            # Before the announcements, or a connection could be listed after its end.
            await self._list()
            self._list_at = time.monotonic() + LIST_AGE_SECONDS
            await stream.consume()
            self.why_not = None
            self._pauses = pauses(FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)
            log.info("connections are announced in the virtual host %r", vhost)
            upkeep = asyncio.create_task(self._keep_up(vhost, stream), name="announcements' upkeep")
            try:
                while True:
                    await self._take_in(stream)
            finally:
                await end(upkeep)

    async def _alone(self) -> None:
        """Without the event exchange: until it is there, list the connections now and then."""
        self._note_reason(NO_EXCHANGE)
        self._pauses = pauses(FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)
        self._list_at = 0.0
        while await self.broker.event_exchange() is None:
            await self._list_and_prune(LIST_ALONE_SECONDS)
            await self.pause(CHECK_SECONDS)

    async def _take_in(self, stream: AnnouncementStream) -> None:
        announcements = await stream.batch()
        await self.store.add(announcements.opened, announcements.closed)
        await stream.acknowledge(announcements.tag)

    async def _keep_up(self, vhost: str, stream: AnnouncementStream) -> None:
        while True:
            await self.pause(CHECK_SECONDS)
            try:
                # An exchange that was away and is back has lost its bindings. If it is still away,
                # this ends the stream.
                if not await self.broker.is_bound(vhost):
                    await stream.bind()
                    await self._list()
                    self._list_at = time.monotonic() + LIST_AGE_SECONDS
                await self._list_and_prune(LIST_SECONDS)
            except OutageError as outage:
                log.info("the broker's connections cannot be looked at: %s", outage)
            except Exception:
                log.exception("looking at the broker's connections failed")

    async def _list_and_prune(self, list_every: float) -> None:
        moment = time.monotonic()
        if moment >= self._list_at:
            await self._list()
            self._list_at = moment + list_every
        if moment >= self._prune_at:
            await self.store.prune(self.keep)
            self._prune_at = moment + PRUNE_SECONDS

    async def _list(self) -> None:
        present = await self.broker.present()
        await self.store.reconcile(present, now())
