"""Keeps the traces that this service holds, and claims those that nobody holds.

Several services on one PostgreSQL share the traces among them. Each says every few seconds that it
lives, and looks every second for traces whose holder has not been heard of in time. All of them
reckon whose turn it is in the same way: of those that reach the broker the service with the fewest
traces takes it, of several the one that has waited longest. One whose turn it is not takes it too
if nobody does. One that does not reach the broker, while another does, gives up what it holds.

On SQLite there is one service, and nothing to do here.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from app.background import end
from app.errors import ItcError, OutageError
from app.stored.capture import LeasedTrace, Service
from app.traces.holding.elsewhere import ability, encoded

if TYPE_CHECKING:
    from app.store.capture.services import Services
    from app.traces.holding.here import TracesHere

log = logging.getLogger(__name__)

LEASE_SECONDS = 5.0
RENEWALS_A_LEASE = 3
LOOK_SECONDS = 0.5
# And while one that leaves waits for those that take its traces over, and they for it.
QUICK_SECONDS = 0.1
# How often to look for events that others have stored, while somebody waits for them.
FOLLOW_SECONDS = 0.2
# How often the broker is asked for something small, and how long it may take.
REACH_SECONDS = 2.0
# How long a service lets each of those take a free trace whose turn it is before its own.
TURN_SECONDS = 1.5


class Claims:
    """This service among the others. Args:

    service, name: its id, and what people call it.
    seconds: how long after it was last heard of it still holds what it holds.
    tend: what else is to be done at each look, for jobs.
    reach: asks the broker for something; raises `OutageError` if it does not answer.
    hold_seconds: how long a trace is kept whose broker does not answer here.
    """

    def __init__(
        self,
        store: Services,
        traces: TracesHere,
        service: str,
        name: str,
        *,
        seconds: float = LEASE_SECONDS,
        tend: Callable[[], Awaitable[None]] | None = None,
        reach: Callable[[], Awaitable[Any]] | None = None,
        hold_seconds: float = 10.0,
    ) -> None:
        self._store = store
        self._traces = traces
        self._service = service
        self._name = name
        self._seconds = seconds
        self._tend = tend
        self._reach = reach
        self._reaches = True
        self._hold_seconds = hold_seconds
        self._away_since: dict[str, float] = {}
        # Whoever could not reach the database itself does not know who is dead: the others may only
        # be later in finding it again.
        self._renewed_at = time.monotonic()
        self._blind_until = 0.0
        self._free_since: dict[int, float] = {}
        self._busy: dict[str, asyncio.Task[None]] = {}
        self._preparing: dict[str, asyncio.Task[None]] = {}
        self._others = False
        self._tasks: list[asyncio.Task[None]] = []
        self._renewing: asyncio.Task[None] | None = None

    async def register(self) -> None:
        """Tell the others of this service. Raises `OutageError`."""
        await self._store.register(self._service, self._name, self._seconds)

    def start(self) -> None:
        """Begin to renew and to look."""
        self._renewing = asyncio.create_task(self._renew(), name="this service's lease")
        self._tasks = [
            asyncio.create_task(self._look(), name="traces to claim"),
            asyncio.create_task(self._follow(), name="others' events"),
            asyncio.create_task(self._ask_broker(), name="the broker's reach"),
        ]

    async def stop(self) -> None:
        """Claim nothing more; what is held is still renewed."""
        await end(*self._tasks, *self._busy.values(), *self._preparing.values())

    async def hand_over(self, deadline: float) -> None:
        """Leave what is held to the others as soon as its run has ended, before all else ends.

        All have ``deadline`` seconds for that. It is no more this service's turn for anything.
        """
        await self.stop()
        self._reaches = False
        if not self._others:
            return
        with contextlib.suppress(OutageError):  # then the others have what is held a little later
            snapshots = encoded(self._traces.snapshots(), reaches=False)
            await self._store.renew(self._service, self._seconds, snapshots)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(deadline / 2):
                    await self._others_prepared()
            vhosts = self._traces.running()
            await asyncio.gather(*(self._traces.give_up(each, deadline / 2) for each in vhosts))

    async def _others_prepared(self) -> None:
        """Wait until others can take over what is held, which runs here meanwhile."""
        held = self._traces.snapshots().keys()
        while True:
            others = [ability(each) for each in await self._store.all() if each.is_alive]
            ready = [each.prepared for each in others if each.reaches]
            if not ready or held <= set().union(*ready):
                return
            await asyncio.sleep(QUICK_SECONDS)

    async def leave(self) -> None:
        """Let the others have what is held."""
        await end(self._renewing)
        with contextlib.suppress(OutageError):  # then they wait until it is not heard of
            await self._store.leave(self._service)

    async def _renew(self) -> None:
        while True:
            with contextlib.suppress(OutageError):
                reaches = self._reaches and not self._stuck()
                snapshots = encoded(self._traces.snapshots(), reaches, self._traces.ahead)
                if not await self._store.renew(self._service, self._seconds, snapshots):
                    await self.register()
                now = time.monotonic()
                if now - self._renewed_at > self._seconds:
                    self._blind_until = now + self._seconds
                self._renewed_at = now
            await asyncio.sleep(self._seconds / RENEWALS_A_LEASE)

    async def _look(self) -> None:
        while True:
            try:
                await self.look()
                if self._tend is not None:
                    await self._tend()
            except OutageError as outage:
                log.info("the other services cannot be seen: %s", outage)
            except Exception:
                log.exception("looking at the other services failed")
            await asyncio.sleep(QUICK_SECONDS if self._traces.ahead else LOOK_SECONDS)

    async def look(self) -> None:
        """Give up what others have taken, do what was asked elsewhere, and claim what is free."""
        services, traces = await self._store.all(), await self._store.held()
        living = {each.id: each for each in services if each.is_alive}
        self._others = len(living) > 1
        ours = {each.vhost for each in traces if each.holder == self._service}
        for vhost in set(self._traces.running()) - ours:
            self._do(vhost, self._traces.drop)
        for held in traces:
            if held.holder == self._service:
                if not held.wanted:
                    self._do(held.vhost, self._traces.stop_here)
                elif self._traces.alive(held.vhost) is None:
                    self._do(held.vhost, self._traces.run_here)
        able = {key: each for key, each in living.items() if ability(each).reaches} or living
        self._give_up(self._service in living and self._service not in able)
        left = [each for each in traces if each.holder in living.keys() - able.keys()]
        coming = {each.trace_id for each in traces if each in left or is_free(each, living)}
        for trace_id in self._traces.ahead.keys() - coming:
            self._traces.forget(trace_id)
        if self._service in able and time.monotonic() >= self._blind_until:
            self._claim(traces, living, able)
            for held, turns in in_turn(left, traces, able).items():
                if turns[0] == self._service and held.wanted:
                    self._do(held.vhost, self._traces.prepare, self._preparing)

    def _give_up(self, others_can: bool) -> None:
        """Give up what has waited for long for a broker that others reach."""
        now = time.monotonic()
        away = self._traces.out_of_reach()
        self._away_since = {each: self._away_since.get(each, now) for each in away}
        for vhost in self._stuck() if others_can else ():
            self._do(vhost, self._traces.give_up)

    def _stuck(self) -> list[str]:
        long_ago = time.monotonic() - self._hold_seconds
        return [vhost for vhost, since in self._away_since.items() if since <= long_ago]

    def _claim(
        self,
        traces: Sequence[LeasedTrace],
        living: Mapping[str, Service],
        able: Mapping[str, Service],
    ) -> None:
        now = time.monotonic()
        free = [each for each in traces if is_free(each, living)]
        kept = {each.trace_id: self._free_since.get(each.trace_id, now) for each in free}
        self._free_since = kept
        for held, turns in in_turn(free, traces, able).items():
            if now - kept[held.trace_id] >= turns.index(self._service) * TURN_SECONDS:
                if reading := self._preparing.get(held.vhost):  # for what is to be had at once
                    reading.cancel()
                self._do(held.vhost, self._traces.run_here)

    async def _ask_broker(self) -> None:
        while self._reach is not None:
            try:
                async with asyncio.timeout(REACH_SECONDS):
                    await self._reach()
            except (OutageError, TimeoutError):
                self._reaches = False
            else:
                self._reaches = True
            await asyncio.sleep(REACH_SECONDS)

    async def _follow(self) -> None:
        feed = self._traces.feed
        while True:
            await asyncio.sleep(FOLLOW_SECONDS if feed.is_awaited else LOOK_SECONDS)
            if self._others:
                with contextlib.suppress(OutageError):
                    await self._traces.follow()

    def _do(
        self,
        vhost: str,
        work: Callable[[str], Awaitable[None]],
        busy: dict[str, asyncio.Task[None]] | None = None,
    ) -> None:
        """Do something with a trace, unless something is being done with it already."""
        doing = self._busy if busy is None else busy
        if vhost in doing:
            return
        task = doing[vhost] = asyncio.create_task(_done(vhost, work))
        task.add_done_callback(lambda _: doing.pop(vhost, None))


def is_free(held: LeasedTrace, living: Collection[str]) -> bool:
    """Tell whether a trace that runs nowhere should run, or has yet to be stopped in order."""
    return held.holder not in living and (held.wanted or held.holder is not None)


def in_turn(
    free: Sequence[LeasedTrace], traces: Sequence[LeasedTrace], living: Mapping[str, Service]
) -> dict[LeasedTrace, list[str]]:
    """For each free trace the living services, in the order in which they may take it."""
    holding = {each: sum(held.holder == each for held in traces) for each in living}
    waits = {each.id: (each.idle_since, each.id) for each in living.values()}
    turns = {}
    for held in free:
        turns[held] = sorted(living, key=lambda each: (holding[each], waits[each]))
        first = turns[held][0]
        holding[first] += 1
    return turns


async def _done(vhost: str, work: Callable[[str], Awaitable[None]]) -> None:
    try:
        await work(vhost)
    except ItcError as error:  # the next look may find it otherwise
        log.info("the trace of %r: %s", vhost, error)
    except Exception:
        log.exception("the trace of %r could not be taken over or given up", vhost)
