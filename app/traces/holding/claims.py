"""Keeps the traces that this service holds, and claims those that nobody holds.

Several services on one PostgreSQL share the traces among them. Each renews its lease every few
seconds, and looks every second for traces whose holder has not done so in time. All of them derive
the same turns: among the services that reach the broker the one with the fewest traces takes a
trace, among equals the one that has waited longest. If it does not, the next one does. A service
that does not reach the broker, while another does, gives up its traces.

On SQLite there is one service, and nothing to do here.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

from app.background import end
from app.errors import ItcError, OutageError
from app.stored.capture import LeasedTrace, Service
from app.traces.holding.elsewhere import ability, encode_snapshots

if TYPE_CHECKING:
    from app.store.holding.services import Services
    from app.traces.holding.here import TracesHere

log = logging.getLogger(__name__)

LEASE_SECONDS = 5.0
RENEWALS_A_LEASE = 3
LOOK_SECONDS = 0.5
# The same while traces are handed over.
QUICK_SECONDS = 0.1
# Pause between looks for events of other services, while somebody waits for them.
FOLLOW_SECONDS = 0.2
# The broker is asked for something small this often, and may take as long.
REACH_SECONDS = 2.0
# A service's head start on a free trace before the next in turn.
TURN_SECONDS = 1.5


@dataclass(eq=False)
class Claims:
    """This service among the others. Args:

    service, name: its id, and what people call it.
    seconds: how long a lease lasts after its last renewal.
    tend: called at each look, for jobs.
    reach: asks the broker for something; raises `OutageError` if it does not answer.
    hold_seconds: how long a trace is kept whose broker does not answer here.
    """

    store: Services
    traces: TracesHere
    service: str
    name: str
    _: KW_ONLY
    seconds: float = LEASE_SECONDS
    tend: Callable[[], Awaitable[None]] | None = None
    reach: Callable[[], Awaitable[Any]] | None = None
    hold_seconds: float = 10.0

    def __post_init__(self) -> None:
        self._reaches = True
        self._away_since: dict[str, float] = {}
        # A service that could not reach the database itself does not know which others are dead:
        # they may only be later in finding it again.
        self._renewed_at = time.monotonic()
        self._blind_until = 0.0
        self._free_since: dict[int, float] = {}
        self._busy: dict[str, asyncio.Task[None]] = {}
        self._preparing: dict[str, asyncio.Task[None]] = {}
        self._has_peers = False
        self._tasks: list[asyncio.Task[None]] = []
        self._renewing: asyncio.Task[None] | None = None

    async def register(self) -> None:
        """Make this service known to the others. Raises `OutageError`."""
        await self.store.register(self.service, self.name, self.seconds)

    def start(self) -> None:
        self._renewing = asyncio.create_task(self._renew(), name="this service's lease")
        self._tasks = [
            asyncio.create_task(self._look(), name="traces to claim"),
            asyncio.create_task(self._follow(), name="others' events"),
            asyncio.create_task(self._ask_broker(), name="the broker's reach"),
        ]

    async def stop(self) -> None:
        """Claim nothing more; the lease is still renewed."""
        await end(*self._tasks, *self._busy.values(), *self._preparing.values())

    async def hand_over(self, deadline: float) -> None:
        """Leave each trace to the others as soon as its run has ended, within ``deadline`` seconds.

        From then on it is no longer this service's turn for anything.
        """
        await self.stop()
        self._reaches = False
        if not self._has_peers:
            return
        with contextlib.suppress(OutageError):  # then the others have the traces a little later
            snapshots = encode_snapshots(self.traces.snapshots(), reaches=False)
            await self.store.renew(self.service, self.seconds, snapshots)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(deadline / 2):
                    await self._wait_for_peers()
            vhosts = self.traces.running()
            await asyncio.gather(*(self.traces.give_up(vhost, deadline / 2) for vhost in vhosts))

    async def _wait_for_peers(self) -> None:
        """Wait until others can take over the traces, which run here meanwhile."""
        trace_ids = self.traces.snapshots().keys()
        while True:
            services = await self.store.all()
            abilities = [ability(service) for service in services if service.is_alive]
            ready = [peer.prepared for peer in abilities if peer.reaches]
            if not ready or trace_ids <= set().union(*ready):
                return
            await asyncio.sleep(QUICK_SECONDS)

    async def leave(self) -> None:
        """End the lease, so that the others take the traces."""
        await end(self._renewing)
        with contextlib.suppress(OutageError):  # then they wait until it runs out
            await self.store.leave(self.service)

    async def _renew(self) -> None:
        while True:
            with contextlib.suppress(OutageError):
                reaches = self._reaches and not self._stuck()
                snapshots = encode_snapshots(self.traces.snapshots(), reaches, self.traces.ahead)
                if not await self.store.renew(self.service, self.seconds, snapshots):
                    await self.register()
                moment = time.monotonic()
                if moment - self._renewed_at > self.seconds:
                    self._blind_until = moment + self.seconds
                self._renewed_at = moment
            await asyncio.sleep(self.seconds / RENEWALS_A_LEASE)

    async def _look(self) -> None:
        while True:
            try:
                await self.look()
                if self.tend is not None:
                    await self.tend()
            except OutageError as outage:
                log.info("the other services cannot be seen: %s", outage)
            except Exception:
                log.exception("looking at the other services failed")
            await asyncio.sleep(QUICK_SECONDS if self.traces.ahead else LOOK_SECONDS)

    async def look(self) -> None:
        """Drop traces that others have taken, obey requests from elsewhere, claim free traces."""
        services, traces = await self.store.all(), await self.store.leased_traces()
        living = {service.id: service for service in services if service.is_alive}
        self._has_peers = len(living) > 1
        local = [trace for trace in traces if trace.holder == self.service]
        for vhost in set(self.traces.running()) - {trace.vhost for trace in local}:
            self._start_work(vhost, self.traces.drop)
        for trace in local:
            if not trace.wanted:
                self._start_work(trace.vhost, self.traces.stop_here)
            elif self.traces.alive(trace.vhost) is None:
                self._start_work(trace.vhost, self.traces.run_here)
        able = {
            key: service for key, service in living.items() if ability(service).reaches
        } or living
        self._give_up(self.service in living and self.service not in able)
        leaving = [trace for trace in traces if trace.holder in living.keys() - able.keys()]
        incoming = {
            trace.trace_id for trace in traces if trace in leaving or is_free(trace, living)
        }
        for trace_id in self.traces.ahead.keys() - incoming:
            self.traces.forget(trace_id)
        if self.service in able and time.monotonic() >= self._blind_until:
            self._claim(traces, living, able)
            for trace, turns in turns_of(leaving, traces, able).items():
                if turns[0] == self.service and trace.wanted:
                    self._start_work(trace.vhost, self.traces.prepare, self._preparing)

    def _give_up(self, others_can: bool) -> None:
        """Give up traces that have waited for long for a broker that others reach."""
        moment = time.monotonic()
        vhosts = self.traces.out_of_reach()
        self._away_since = {vhost: self._away_since.get(vhost, moment) for vhost in vhosts}
        for vhost in self._stuck() if others_can else ():
            self._start_work(vhost, self.traces.give_up)

    def _stuck(self) -> list[str]:
        long_ago = time.monotonic() - self.hold_seconds
        return [vhost for vhost, start in self._away_since.items() if start <= long_ago]

    def _claim(
        self,
        traces: Sequence[LeasedTrace],
        living: Mapping[str, Service],
        able: Mapping[str, Service],
    ) -> None:
        moment, free_since = time.monotonic(), self._free_since
        free = [trace for trace in traces if is_free(trace, living)]
        self._free_since = {
            trace.trace_id: free_since.get(trace.trace_id, moment) for trace in free
        }
        for trace, turns in turns_of(free, traces, able).items():
            wait = moment - self._free_since[trace.trace_id]
            if wait >= turns.index(self.service) * TURN_SECONDS:
                if reading := self._preparing.get(trace.vhost):  # it can be had at once
                    reading.cancel()
                self._start_work(trace.vhost, self.traces.run_here)

    async def _ask_broker(self) -> None:
        while self.reach is not None:
            try:
                async with asyncio.timeout(REACH_SECONDS):
                    await self.reach()
            except (OutageError, TimeoutError):
                self._reaches = False
            else:
                self._reaches = True
            await asyncio.sleep(REACH_SECONDS)

    async def _follow(self) -> None:
        feed = self.traces.feed
        while True:
            await asyncio.sleep(FOLLOW_SECONDS if feed.is_awaited else LOOK_SECONDS)
            if self._has_peers:
                with contextlib.suppress(OutageError):
                    await self.traces.follow()

    def _start_work(
        self,
        vhost: str,
        work: Callable[[str], Awaitable[None]],
        busy: dict[str, asyncio.Task[None]] | None = None,
    ) -> None:
        """Do something with a trace, unless something is being done with it already."""
        tasks = self._busy if busy is None else busy
        if vhost in tasks:
            return
        task = tasks[vhost] = asyncio.create_task(_attempt(vhost, work))
        task.add_done_callback(lambda _: tasks.pop(vhost, None))


def is_free(trace: LeasedTrace, living: Collection[str]) -> bool:
    """Tell whether a trace that runs nowhere should run, or has yet to be stopped in order."""
    return trace.holder not in living and (trace.wanted or trace.holder is not None)


def turns_of(
    free: Sequence[LeasedTrace], traces: Sequence[LeasedTrace], living: Mapping[str, Service]
) -> dict[LeasedTrace, list[str]]:
    """For each free trace the living services, in the order in which they may take it."""
    counts = {key: sum(trace.holder == key for trace in traces) for key in living}
    waits = {service.id: (service.idle_since, service.id) for service in living.values()}
    turns = {}
    for trace in free:
        turns[trace] = sorted(living, key=lambda key: (counts[key], waits[key]))
        counts[turns[trace][0]] += 1
    return turns


async def _attempt(vhost: str, work: Callable[[str], Awaitable[None]]) -> None:
    try:
        await work(vhost)
    except ItcError as error:  # the next look may find it otherwise
        log.info("the trace of %r: %s", vhost, error)
    except Exception:
        log.exception("the trace of %r could not be taken over or given up", vhost)
