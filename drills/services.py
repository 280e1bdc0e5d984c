"""Several services on one PostgreSQL, of which one after the other is lost under load.

    python -m drills.services [FAULTS] [--rolling TIMES]

30 faults by default. In turn the service that runs a trace is killed, stopped (SIGSTOP, and woken
later), cut off from the database by a proxy that passes nothing on, or asked to end. Then another
has to take its traces over, and one that comes back must write nothing more. It prints how long
nothing was captured, and for each virtual host what `drills.judge` finds: lost, doubled and wrong
must be 0. With ``--rolling`` all services are replaced instead, one by one, each when the one
before is back, and each virtual host may be without an event for at most 3 s.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import make_url

from app.store import Store, migrate
from app.stored.capture import LeasedTrace
from drills.judge import Report, judged, opened, oracle, settled
from drills.load import Load
from drills.service import Service
from tools.servers import Broker, PostgresServer, RabbitNode

SERVICES = 3
TRACES = 2
LOOK_SECONDS = 0.05
TAKEN_SECONDS = 60.0  # then a takeover has failed
BACK_SECONDS = 60.0
MOST_SECONDS = 10.0  # that a trace may be without capture
MOST_WHEN_ROLLING = 3.0


class Gone(NamedTuple):
    """One fault, and how long its trace was without capture."""

    fault: str
    taken: float  # until another service had it
    seconds: float


class Link:
    """A TCP proxy in front of the database, which can be cut without either side knowing."""

    def __init__(self, database_url: str) -> None:
        self._url = make_url(database_url)
        self._open = asyncio.Event()
        self._open.set()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        """The database's address through it."""
        if self._server is None:
            raise RuntimeError("the proxy does not run")
        port = self._server.sockets[0].getsockname()[1]
        return self._url.set(host="127.0.0.1", port=port).render_as_string(hide_password=False)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Link]:
        """Pass everything on while the block runs."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        try:
            yield self
        finally:
            self._server.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self) -> None:
        """Pass nothing on."""
        self._open.clear()

    def mend(self) -> None:
        """Pass everything on again, also what came meanwhile."""
        self._open.set()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._open.wait()
        there = await asyncio.open_connection(self._url.host, self._url.port)
        for source, target in ((reader, there[1]), (there[0], writer)):
            task = asyncio.create_task(self._pass(source, target))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pass(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(1 << 16):
                await self._open.wait()
                target.write(data)
                await target.drain()
        await self._open.wait()
        target.close()


class Member:
    """One of the services, with its link to the database."""

    def __init__(self, service: Service, link: Link) -> None:
        self.service = service
        self.link = link

    @property
    def name(self) -> str:
        """The name that the others know it by."""
        return f"{os.uname().nodename}:{self.service.port}"

    async def kill(self) -> None:
        """Kill it, and start it again a little later."""
        await asyncio.to_thread(self.service.end, signal.SIGKILL)

    async def leave(self) -> None:
        """Ask it to end, as a rolling restart does, and go on meanwhile."""
        self.service.process.signal(signal.SIGTERM)

    async def come_back(self) -> None:
        """Wait until it has ended, and start it again."""
        await asyncio.to_thread(self.service.process.wait, BACK_SECONDS)
        await asyncio.to_thread(self.service.end, signal.SIGTERM)
        self.service.start()

    async def revive(self) -> None:
        """Start it again."""
        self.service.start()

    async def stop(self) -> None:
        """Stop it in the middle of whatever it is about."""
        self.service.process.signal(signal.SIGSTOP)

    async def wake(self) -> None:
        """Let it go on."""
        self.service.process.signal(signal.SIGCONT)

    async def cut(self) -> None:
        """Cut it off from the database."""
        self.link.cut()

    async def mend(self) -> None:
        """Let it reach the database again."""
        self.link.mend()


Step = Callable[[Member], Awaitable[None]]
FAULTS: Sequence[tuple[str, Step, Step]] = (
    ("kill -9", Member.kill, Member.revive),
    ("SIGSTOP", Member.stop, Member.wake),
    ("partition", Member.cut, Member.mend),
    ("SIGTERM", Member.leave, Member.come_back),
)


@asynccontextmanager
async def members(
    broker: Broker,
    database_url: str,
    folder: Path,
    count: int = SERVICES,
    *,
    linked: bool = True,
) -> AsyncIterator[list[Member]]:
    """Services on one database, all of them answering; ``linked``: each may be cut off from it."""
    async with AsyncExitStack() as stack:
        found: list[Member] = []
        for number in range(count):
            link = await stack.enter_async_context(Link(database_url).running())
            own = folder / f"service-{number}"
            own.mkdir()
            url = link.url if linked else database_url  # where this process takes no turn at all
            member = Member(Service(broker, url, own), link)
            member.service.start()
            stack.push_async_callback(asyncio.to_thread, member.service.end, signal.SIGTERM)
            found.append(member)
        for member in found:
            await member.service.listening()
        yield found


async def drill(
    broker: Broker,
    database_url: str,
    faults: int,
    folder: Path,
    *,
    pause: float = 0.03,
    rolling: int = 0,
) -> tuple[list[Report], list[Gone]]:
    """Run the drill on an empty database; returns a verdict for each virtual host.

    ``rolling`` restarts take the place of the faults.
    """
    await migrate(database_url)
    async with AsyncExitStack() as stack:
        vhosts = [stack.enter_context(broker.fresh_vhost("services")) for _ in range(TRACES)]
        seen = [await stack.enter_async_context(oracle(broker, vhost)) for vhost in vhosts]
        store = await stack.enter_async_context(opened(database_url))
        services = members(broker, database_url, folder, linked=not rolling)
        there = await stack.enter_async_context(services)
        for number, vhost in enumerate(vhosts):
            await there[number].service.start_trace(vhost)
        loads = [Load(broker.amqp_url(vhost), pause) for vhost in vhosts]
        for load in loads:
            await load.start()
        gone = [each for _ in range(rolling) for each in await _replaced(store, there, vhosts)]
        gone += [
            await _one(store, there, vhosts[number % TRACES], *FAULTS[number % len(FAULTS)])
            for number in range(0 if rolling else faults)
        ]
        for load in loads:
            await load.stop()
        reports = []
        for vhost, records in zip(vhosts, seen, strict=True):
            await settled(store, records, vhost)
            reports.append(await judged(faults, store, records, vhost))
        return reports, gone


async def _one(
    store: Store, there: Sequence[Member], vhost: str, fault: str, strike: Step, heal: Step
) -> Gone:
    """Lose the service that runs a trace; returns how long nothing was captured."""
    await _all_live(store, len(there))
    await _captured(store, vhost, 0)
    await asyncio.sleep(random.uniform(0.1, 1.5))
    names = {each.id: each.name for each in await store.services.all()}
    before = await _held(store, vhost)
    victim = next(each for each in there if each.name == names[before.holder or ""])
    began = time.monotonic()
    await strike(victim)
    try:
        newest = await _taken(store, vhost, before.holder)
        taken = time.monotonic() - began
        await _captured(store, vhost, newest)
        seconds = time.monotonic() - began
        print(
            f"{fault}: taken over after {taken:.1f} s, captured after {seconds:.1f} s", flush=True
        )
        await asyncio.sleep(random.uniform(0, 2))
    finally:
        await heal(victim)
    return Gone(fault, taken, seconds)


async def _replaced(store: Store, there: Sequence[Member], vhosts: Sequence[str]) -> list[Gone]:
    """Replace every service, one by one; returns how long each trace was without capture."""
    await _all_live(store, len(there))
    for vhost in vhosts:
        await _captured(store, vhost, 0)
    ended = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        pauses = [tasks.create_task(_longest_pause(store, vhost, ended)) for vhost in vhosts]
        for member in there:
            await member.leave()
            await member.come_back()
            await member.service.listening()
            await _all_live(store, len(there))
        ended.set()
    found = [each.result() for each in pauses]
    for each in found:
        print(
            f"{each.fault}: taken over after {each.taken:.1f} s, "
            f"captured after {each.seconds:.1f} s",
            flush=True,
        )
    return found


async def _longest_pause(store: Store, vhost: str, ended: asyncio.Event) -> Gone:
    """The longest time in which a virtual host's events did not grow in number."""
    longest = Gone("rolling restart", 0.0, 0.0)
    newest, holder, at, taken = 0, None, time.monotonic(), 0.0
    while not ended.is_set():
        held = await _held(store, vhost)
        pause = time.monotonic() - at
        if held.holder != holder:
            holder, taken = held.holder, pause
        longest = max(longest, Gone(longest.fault, taken, pause), key=lambda each: each.seconds)
        if (found := await _newest(store, vhost)) > newest:
            newest, at, taken = found, time.monotonic(), 0.0
        await asyncio.sleep(LOOK_SECONDS)
    return longest


async def _all_live(store: Store, count: int) -> None:
    async def live() -> bool:
        return sum(each.is_alive for each in await store.services.all()) == count

    await _until(live, BACK_SECONDS, "all services are there")


async def _held(store: Store, vhost: str) -> LeasedTrace:
    return next(each for each in await store.services.held() if each.vhost == vhost)


async def _taken(store: Store, vhost: str, holder: str | None) -> int:
    """The newest event when another service has a trace."""

    async def taken() -> bool:
        return (await _held(store, vhost)).holder not in (None, holder)

    await _until(taken, TAKEN_SECONDS, "another service has the trace")
    return await _newest(store, vhost)


async def _captured(store: Store, vhost: str, beyond: int) -> None:
    async def stored() -> bool:
        return await _newest(store, vhost) > beyond

    await _until(stored, TAKEN_SECONDS, "events are captured")


async def _newest(store: Store, vhost: str) -> int:
    trace = await store.traces.find(vhost)
    return 0 if trace is None else trace.last_event_id


async def _until(condition: Callable[[], Awaitable[bool]], seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while not await condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds:.0f} s: {what}")
        await asyncio.sleep(LOOK_SECONDS)


async def main(faults: int, rolling: int) -> int:
    """Run it on private servers; returns the number of errors."""
    given = Broker.from_environment(os.environ)
    with (
        tempfile.TemporaryDirectory() as place,
        given or RabbitNode() as broker,
        PostgresServer() as server,
        server.fresh_database() as url,
    ):
        reports, gone = await drill(broker, url, faults, Path(place), rolling=rolling)
    for report in reports:
        print(report)
    for fault in dict.fromkeys(each.fault for each in gone):
        seconds = sorted(each.seconds for each in gone if each.fault == fault)
        middle = seconds[len(seconds) // 2]
        print(f"{fault}: {len(seconds)} times, {middle:.1f} s, at most {seconds[-1]:.1f} s")
    late = sum(each.seconds > (MOST_WHEN_ROLLING if rolling else MOST_SECONDS) for each in gone)
    return sum(report.wrong for report in reports) + late


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m drills.services")
    parser.add_argument("faults", nargs="?", type=int, default=30)
    parser.add_argument("--rolling", type=int, default=0, help="restarts of all, one by one")
    return parser.parse_args()


if __name__ == "__main__":
    given = arguments()
    sys.exit(asyncio.run(main(given.faults, given.rolling)) > 0)
