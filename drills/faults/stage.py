"""The stage of a trial: a virtual host, the service, its database, clients."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import httpx2

from drills.faults.clients import ENDS, Clients, Ender
from drills.faults.history import History, Key
from drills.faults.judge import Held, Verdict, judged
from drills.judge import opened, stored_events
from drills.proxy import Proxy
from drills.service import Service
from model.event import Event
from model.words import EventType
from tools.servers import Broker, PostgresServer, RabbitCluster, RabbitNode, ServerError

POLICY = "channel"  # every client's connection is a participant
BODY = b"x" * 100
CLOCK_FILE = "ahead"
CLOCK_FOLDER = Path(__file__).parent / "clock"
READY_SECONDS = 60.0
ANSWER_SECONDS = 5.0
CAUGHT_UP_SECONDS = 60.0
CLOSED_SECONDS = 25.0  # the service looks every 15 s by default
MOST_GAPS = 100_000
ASKED = 20  # pairs about which the service is asked as well

_ERROR = re.compile(r"\S+ \S+ ERROR app\.\S+: ")
_RAISED = re.compile(r"[A-Za-z_][\w.]*(Error|Exception)\b")

Settings: TypeAlias = Mapping[str, str]


class Stage:
    """One trial's parts.

    ``notes`` are sentences about what went wrong beside the record: each is an error.
    ``broker_proxy`` and ``database_proxy`` are the first service's, if the fault asks for them.
    """

    def __init__(
        self,
        broker: Broker,
        vhost: str,
        store: str,
        database_url: str,
        folder: Path,
        *,
        postgres: PostgresServer | None,
        settings: Settings,
    ) -> None:
        self.broker = broker
        self.vhost = vhost
        self.store = store
        self.database_url = database_url
        self.folder = folder
        self.postgres = postgres
        self.settings = dict(settings)
        self.notes: list[str] = []
        self.remarks: list[str] = []
        self.broker_proxy = Proxy("")
        self.database_proxy = Proxy("")
        self.services: list[Service] = []
        self.silent: list[Service] = []  # not to be asked
        self.stack = AsyncExitStack()
        self._ways: dict[Service, tuple[Proxy, Proxy]] = {}
        self.clients: Clients

    @property
    def service(self) -> Service:
        """The first service."""
        return self.services[0]

    @property
    def database(self) -> PostgresServer:
        """The PostgreSQL server; raises RuntimeError on SQLite."""
        if self.postgres is None:
            raise RuntimeError("the database is no server")
        return self.postgres

    def another(
        self, name: str, settings: Settings | None = None, database_url: str | None = None
    ) -> Service:
        """A further service, not started yet, with the same database unless another is given."""
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        made = Service(
            self.broker,
            database_url or self.database_url,
            folder,
            settings={**self.settings, **(settings or {})},
        )
        self.services.append(made)
        return made

    # What faults do

    async def pass_by(self, seconds: float) -> None:
        """Let the load go on."""
        await asyncio.sleep(seconds)

    async def api(self, method: str, *path: str, json: object = None) -> Any:
        """Ask the broker's management API."""
        return await asyncio.to_thread(self.broker.api, method, *path, json=json)

    async def kill(self, service: Service | None = None) -> None:
        """SIGKILL a service."""
        await asyncio.to_thread((service or self.service).end, signal.SIGKILL)

    async def restart(self, service: Service | None = None) -> None:
        """Start a service that was killed, and wait until it answers."""
        (service or self.service).start()
        await (service or self.service).listening()

    async def restart_broker(self, node: RabbitNode | None = None) -> None:
        """SIGKILL the broker, or one of its nodes, and start it again."""
        struck = node or self.broker
        if not isinstance(struck, RabbitNode):
            raise ServerError("a broker of somebody else's is not killed")
        await asyncio.to_thread(struck.kill)
        await self.pass_by(1)
        await asyncio.to_thread(struck.start)

    def frozen_database(self) -> AbstractContextManager[None]:
        """Have PostgreSQL stand still during the block."""
        return frozen(self.database.pid)

    async def proxied(self) -> tuple[Settings, tuple[Proxy, Proxy]]:
        """Settings with which a service reaches broker and database through these two."""
        broker = await self.stack.enter_async_context(Proxy(self.broker.amqp_url("/")).open())
        settings = {"ITC_AMQP_URL": broker.url}
        if self.postgres is None:
            return settings, (broker, Proxy(""))
        database = await self.stack.enter_async_context(Proxy(self.database_url).open())
        settings["ITC_DATABASE_URL"] = database.url
        return settings, (broker, database)

    async def another_proxied(self, name: str) -> Service:
        """A further service, which can be cut off."""
        settings, ways = await self.proxied()
        made = self.another(name, settings)
        self._ways[made] = ways
        return made

    def set_ways(self, service: Service, ways: tuple[Proxy, Proxy]) -> None:
        """Note what a service reaches broker and database through."""
        self._ways[service] = ways

    @contextmanager
    def partition(self, service: Service, *, database: bool = True) -> Iterator[None]:
        """Cut a service off from the broker, and from the database, during the block, silently."""
        ways = self._ways[service][: 2 if database else 1]
        for proxy in ways:
            proxy.is_partitioned = True
        try:
            yield
        finally:
            for proxy in ways:
                proxy.is_partitioned = False

    @contextmanager
    def without(self, service: Service) -> Iterator[None]:
        """Ask this service nothing during the block."""
        self.silent.append(service)
        try:
            yield
        finally:
            self.silent.remove(service)

    async def another_slow(self, name: str, seconds: float) -> tuple[Service, Proxy]:
        """A further service, of which everything takes this long on its way to the broker."""
        proxy = Proxy(self.broker.amqp_url("/"))
        proxy.delay = seconds
        await self.stack.enter_async_context(proxy.open())
        return self.another(name, {"ITC_AMQP_URL": proxy.url}), proxy

    def set_clock_forward(self, seconds: float) -> None:
        """Set the service's clock forward, if it has one of its own."""
        (self.folder / CLOCK_FILE).write_text(str(seconds))

    @asynccontextmanager
    async def away(self) -> AsyncIterator[None]:
        """Kill the service, and start it again after the block."""
        await self.kill()
        yield
        await self.restart()

    @asynccontextmanager
    async def behind(self) -> AsyncIterator[None]:
        """Have the service stand still during the block."""
        with frozen(self.service.process.pid):
            yield

    async def until(
        self, condition: Callable[[], Awaitable[bool]], seconds: float, what: str
    ) -> bool:
        """Wait for a condition; notes that it did not come true. Returns whether it did."""
        deadline = time.monotonic() + seconds
        while not await condition():
            if time.monotonic() > deadline:
                self.notes.append(f"{what}: not within {seconds:g} s")
                return False
            await asyncio.sleep(0.1)
        return True

    async def trace(self) -> dict[str, Any]:
        """Return the trace as a service that answers shows it; empty if none does."""
        for service in self._asked():
            if found := await self.trace_of(service):
                return found
        return {}

    async def trace_of(self, service: Service) -> dict[str, Any]:
        """Return the trace as this service shows it; empty if it does not answer."""
        path = f"{self.vhost}/undefined/undefined/undefined"
        try:
            return dict(await service.get(path, seconds=ANSWER_SECONDS))
        except httpx2.HTTPError:
            return {}

    def _asked(self) -> list[Service]:
        return [each for each in self.services if each not in self.silent and each.is_running]

    async def runs(self) -> bool:
        """Tell whether the trace is running."""
        return (await self.trace()).get("state") == "running"

    async def captures(self) -> bool:
        """Tell whether an event is stored that happens now. Takes some tenths of a second."""
        return await self.caught_up(5.0)

    async def caught_up(self, seconds: float) -> bool:
        """Tell whether everything that was traced until now is stored, within some seconds."""
        # Another may be on its way when the first is stored: what it sends is not judged.
        ender = Ender(f"end{time.monotonic_ns()}", self.clients.urls[0], History(), ())
        name = ender.name
        task = asyncio.create_task(ender.live(b"end"))
        deadline = time.monotonic() + seconds
        try:
            while time.monotonic() < deadline:
                if await self._has_end(name):
                    return True
                await asyncio.sleep(0.1)
            return False
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _has_end(self, name: str) -> bool:
        for service in self._asked():
            try:
                found = await service.get(
                    "",
                    seconds=ANSWER_SECONDS,
                    vhost=self.vhost,
                    exchange=ENDS,
                    page_size=1,
                    columns="id,properties",
                )
            except httpx2.HTTPError:
                continue
            if found:
                last = str(found[0]["properties"].get("message_id", ""))
                return last.startswith(f"{name}.")
        return False

    # The verdict

    async def verdict(self) -> Verdict:
        """Wait for what is still on its way, and judge."""
        if not await self.caught_up(CAUGHT_UP_SECONDS):
            said = await self.trace()
            self.notes.append(
                f"what happens is not stored, {CAUGHT_UP_SECONDS:g} s after the fault: the trace is"
                f" {said.get('state')} ({said.get('waiting_for') or said.get('last_error')})"
            )
        await self.until(self._is_closed, CLOSED_SECONDS, "the gap is closed")
        async with opened(self.database_url) as store:
            held = [
                _held(event)
                async for event in stored_events(store)
                if event.vhost == self.vhost and event.exchange != ENDS
            ]
            trace = await store.traces.find(self.vhost)
            gaps = await store.gaps.newest(trace.id, MOST_GAPS) if trace else []
        verdict = await asyncio.to_thread(judged, self.clients.history, held, gaps)
        await self._ask(verdict, held)
        self.notes += filter(None, map(_bug, self.services))
        self._remark(verdict, held)
        return verdict

    async def _is_closed(self) -> bool:
        return all(gap["until"] is not None for gap in (await self.trace()).get("gaps", ()))

    async def _ask(self, verdict: Verdict, held: Sequence[Held]) -> None:
        """See that the service's answers are those that the judge took from the store."""
        asked = [(wrong.a.id, wrong.b.id, wrong.stored) for wrong in verdict.wrong_outside[:ASKED]]
        for a, b, stored in asked:
            answer = await self._asked()[0].get(f"compare/{a}/{b}")
            if (answer["relation"], answer["complete"]) != (stored, True):
                self.notes.append(f"the service says {answer} of what is stored as {stored}")

    def _remark(self, verdict: Verdict, held: Sequence[Held]) -> None:
        for reason, times in Counter(gap.reason for gap in verdict.gaps).items():
            last = [gap for gap in verdict.gaps if gap.reason == reason][-1]
            span = f"after {last.after_event_id} and before {last.before_event_id}"
            self.remarks.append(f"gap, {times} times, the last {span}: {reason}")
        if unmatched := _unmatched(held):
            spread = [each.id for each in unmatched[:: max(1, len(unmatched) // 5)]]
            self.remarks.append(
                f"{len(unmatched)} deliveries do not know their publish, which is stored: {spread}"
            )
        if verdict.gaps:
            self.remarks.append(f"{verdict.in_gaps} stored events lie in gaps")
        for key in verdict.lost_outside[:: max(1, len(verdict.lost_outside) // 3)][:3]:
            self.remarks.append(f"lost: {key}, between the events {verdict.bounds[key]}")
        for wrong in verdict.wrong_outside[:3]:
            self.remarks.append(
                f"wrong: {wrong.a.id} {wrong.a.key} is {wrong.stored} {wrong.b.id} {wrong.b.key},"
                f" in truth {wrong.true}"
            )


def _bug(service: Service) -> str | None:
    """Find what a service took for a bug of its own, by its log; an outage is no error there."""
    lines = service.log.read_text(errors="replace").splitlines()
    begins = [
        place
        for place, line in enumerate(lines[:-1])
        if _ERROR.match(line) and lines[place + 1].startswith("Traceback")
    ]
    if not begins:
        return None
    said = _ERROR.sub("", lines[begins[-1]])
    raised = next(filter(_RAISED.match, lines[begins[-1] :]), "")
    return f"{len(begins)} errors in the service's log, the last: {said} {raised}"[:300]


def _held(event: Event) -> Held:
    identity = str((event.properties or {}).get("message_id", ""))
    key = Key(event.type, identity)
    if event.type is EventType.received:
        key = Key(event.type, identity, event.queue or "", event.connection)
    return Held(event.id, key, event.clock or b"", event.interval, event.cause)


def _unmatched(held: Sequence[Held]) -> list[Held]:
    """Deliveries whose publish is stored and is not their cause."""
    publishes = {each.key.message: each.id for each in held if each.key.queue == ""}
    return [
        each
        for each in held
        if each.key.queue and each.cause != publishes.get(each.key.message, each.cause)
    ]


def family(pid: int) -> list[int]:
    """A process and all its descendants."""
    found = [pid]
    for each in found:
        try:
            children = Path(f"/proc/{each}/task/{each}/children").read_text().split()
        except OSError:
            continue
        found += map(int, children)
    return found


@contextmanager
def frozen(pid: int) -> Iterator[None]:
    """Have a process and its descendants stand still."""
    _signal(family(pid), signal.SIGSTOP)
    try:
        yield
    finally:
        _signal(family(pid), signal.SIGCONT)


def _signal(pids: Sequence[int], number: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


@asynccontextmanager
async def staged(
    broker: Broker,
    store: str,
    folder: Path,
    *,
    postgres: PostgresServer | None = None,
    settings: Settings | None = None,
    pause: float = 0.025,
    body: bytes = BODY,
    proxies: bool = False,
    own_clock: bool = False,
) -> AsyncIterator[Stage]:
    """A stage with a running trace and clients at work."""
    async with AsyncExitStack() as stack:
        vhost = stack.enter_context(broker.fresh_vhost("fault"))
        url = f"sqlite:///{folder / 'itc.db'}"
        if store == "postgres":
            if postgres is None:
                raise ServerError("no PostgreSQL")
            url = stack.enter_context(postgres.fresh_database("fault"))
        stage = Stage(broker, vhost, store, url, folder, postgres=postgres, settings=settings or {})
        stage.stack = stack
        own = dict(settings or {})
        if own_clock:
            own |= {"PYTHONPATH": str(CLOCK_FOLDER), "DRILL_CLOCK": str(folder / CLOCK_FILE)}
        if proxies:
            through, ways = await stage.proxied()
            stage.broker_proxy, stage.database_proxy = ways
            own |= through
        stage.services.append(Service(broker, url, folder, own))
        stage.set_ways(stage.service, (stage.broker_proxy, stage.database_proxy))
        stack.push_async_callback(_end_all, stage)
        await stage.restart()
        await stage.service.start_trace(vhost, POLICY)
        await stage.until(stage.runs, READY_SECONDS, "the trace runs")
        nodes = broker.nodes if isinstance(broker, RabbitCluster) else [broker]
        urls = [node.amqp_url(vhost) for node in nodes]
        stage.clients = Clients(urls, pause=pause, body=body)
        await stage.clients.start()
        stack.push_async_callback(stage.clients.stop_at_once)
        yield stage


async def _end_all(stage: Stage) -> None:
    for service in stage.services:
        await asyncio.to_thread(service.end, signal.SIGKILL)
