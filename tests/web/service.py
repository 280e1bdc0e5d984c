"""The service that the dashboard's tests look at: the real application, on a SQLite store that a
made-up history was stamped for and written to. What a broker and Spark would do is made up too.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import itertools
import json
import shutil
import sqlite3
import threading
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, TypeVar

import httpx2
from msgspec import structs

from app.api.application import build
from app.errors import ConflictError, NotFoundError, NotTracedError
from app.settings import Settings
from app.store import Store, migrate
from app.stored.capture import Batch
from app.traces.life import TraceState
from app.traces.status import TraceStatus
from app.tracker import (
    Bounds,
    Channel,
    Deliver,
    Policy,
    Publish,
    Record,
    Tracker,
)
from app.tracker.links import BUILT_IN, Rules
from tests.api import conftest as api
from tests.api.fakes import FakeBroker, FakeSpark, FakeTraces, trace_status
from tests.api.story import set_made
from tests.web import history
from tests.web.history import Event
from tests.web.jobs import counted, verdicts
from tests.web.past import Past, PastTrace, demo_world, micros

T = TypeVar("T")

WEB = Path(__file__).resolve().parents[2] / "web"
AT_ONCE = 2_000  # events of a batch
USERS = {
    "admin": ("admin", ["administrator"]),
    "watch": ("watch", ["monitoring"]),
    "nobody": ("nobody", ["management"]),
}


# ---- what is written --------------------------------------------------------------------------


def record_of(world: Past, event: Event) -> Record:
    """What the broker says of an event."""
    who = world.who(event)
    channel = Channel(who.node, who.connection, who.channel, who.user)
    named = {
        "message_id": event.message_id,
        "correlation_id": event.correlation_id,
        "type": event.kind,
    }
    properties: dict[str, Any] = {
        "content_type": "application/json",
        "delivery_mode": 2,
        "headers": event.headers,
        **{name: value for name, value in named.items() if value},
    }
    if event.received:
        assert event.queue is not None
        where = (event.exchange, (event.key,), event.queue, event.redelivered)
        return Deliver(channel, *where, properties, event.payload)
    where_to = (event.exchange, (event.key,), event.routed or ())
    return Publish(channel, *where_to, properties, event.payload)


class Writer:
    """Stamps the events of a world as its traces would, and stores them."""

    def __init__(self, world: Past) -> None:
        self._world = world
        self._trackers: dict[str, Tracker] = {}
        self._known = 0  # events that the trackers have seen

    async def write(self, store: Store, stored: int) -> None:
        """Store what the world has beyond its first ``stored`` events."""
        self._know(stored)
        events = self._world.events[stored:]
        for vhost, several in itertools.groupby(events, lambda event: event.vhost):
            trace = await store.traces.create(vhost, "channel")
            await set_made(store, vhost, history.START)
            left = list(several)
            while left:
                await self._append(store, trace.id, vhost, left[:AT_ONCE])
                left = left[AT_ONCE:]
        for vhost in self._world.traces:
            await store.traces.create(vhost, "channel")
            await set_made(store, vhost, history.START)

    async def _append(self, store: Store, trace_id: int, vhost: str, events: list[Event]) -> None:
        stamped = [one for event in events for one in self._stamped(event)]
        for message in self._world.unreadable.pop(vhost, []):
            self._tracker(vhost).quarantine(message, message.recorded_at)
        batch = Batch(stamped, self._tracker(vhost).checkpoint(), b"")
        ids = await store.batches.append(trace_id, batch)
        assert list(ids) == [event.id for event in events]
        self._known = events[-1].id

    def _know(self, stored: int) -> None:
        """Have the trackers go through events that are stored already."""
        for event in self._world.events[self._known : stored]:
            for one in self._stamped(event):
                one.reference.id = event.id
        for tracker in self._trackers.values():
            tracker.checkpoint()  # what changed until here is stored
        self._known = stored

    def _stamped(self, event: Event) -> Any:
        return self._tracker(event.vhost).apply(record_of(self._world, event), event.at)

    def _tracker(self, vhost: str) -> Tracker:
        if vhost not in self._trackers:
            self._trackers[vhost] = Tracker(Policy.channel, Bounds(), rules=Rules(BUILT_IN))
        return self._trackers[vhost]


@cache
def demo_file(events: int, participants: int) -> Path:
    """The store of a `demo_world`, made once and to be copied."""
    path = Path(mkdtemp(prefix="itc-demo-")) / "itc.db"

    async def make() -> None:
        url = f"sqlite:///{path}"
        await migrate(url)
        store = await Store.open(url)
        world = demo_world(events, participants)
        await Writer(world).write(store, 0)
        await store.close()

    with_own_loop(make())
    return path


def with_own_loop(work: Coroutine[Any, Any, T]) -> T:
    """Run something although Playwright has an event loop in this thread."""
    found: list[T] = []
    thread = threading.Thread(target=lambda: found.append(asyncio.run(work)))
    thread.start()
    thread.join()
    return found[0]


# ---- what is served ---------------------------------------------------------------------------


class WorldBroker(FakeBroker):
    """Knows the users, who may do what their tags say on all of the world's virtual hosts."""

    def __init__(self, world: Past) -> None:
        super().__init__()
        self.world = world

    def _name(self, authorization: bytes) -> str:
        for name, (password, tags) in USERS.items():
            self.add(name, password, " ".join(tags), *self.world.vhosts)
        return super()._name(authorization)


@dataclass
class ShownTraces(FakeTraces):
    """The traces of a world: their states are the world's, all else is the store's."""

    world: Past = field(kw_only=True)

    async def start(self, vhost: str, policy: str | None, *_: Any, **__: Any) -> bool:
        if vhost not in self.world.vhosts:
            raise NotFoundError(f"no such virtual host: the broker has no {vhost!r}")
        known = vhost in self.world.traces and self.world.traces[vhost].state == "running"
        trace = self.world.start_trace(vhost)
        trace.policy = policy or trace.policy
        await self.store.traces.create(vhost, trace.policy)
        return not known

    async def stop(self, vhost: str) -> None:
        self._trace(vhost).state = "stopped"

    async def status(self, vhost: str) -> TraceStatus:
        trace = self._trace(vhost)
        stored = await self.store.traces.find(vhost)
        assert stored is not None
        totals = Tracker.stored_totals(stored.checkpoint)
        return structs.replace(
            trace_status(vhost, TraceState(trace.state), trace.policy),
            created_at=history.START,
            waiting_for="the broker" if trace.state == "waiting" else None,
            last_error=trace.last_error,
            restarts=4 if trace.state == "failed" else 0,
            counters=totals.counters,
            pending_copies=totals.pending_copies,
            links=trace.links,
            evidence=await self.store.doubts.evidence(stored.id),
            events=stored.events,
            participants=stored.participants,
            last_event_id=stored.last_event_id,
            rate=trace.rate if trace.state == "running" else 0.0,
            lag=0 if trace.state == "running" else None,
            gaps=await self.store.gaps.newest(stored.id),
        )

    async def statuses(self) -> list[TraceStatus]:
        return [await self.status(vhost) for vhost in sorted(self.world.traces)]

    async def reset(self, vhost: str) -> str:
        raise ConflictError(f"the checkpoint of the trace of {vhost!r} can be read")

    def _trace(self, vhost: str) -> PastTrace:
        if vhost not in self.world.traces:
            raise NotTracedError(vhost)
        return self.world.traces[vhost]


class WorldSpark(FakeSpark):
    """Jobs that take as long as the world says, and find what there is in it."""

    def __init__(self, world: Past) -> None:
        super().__init__()
        self.world = world

    async def run(self, job_id: int, kind: str, work: Any, report: Any) -> Any:
        await asyncio.sleep(self.world.job_seconds)
        if kind == "chain":
            self._look(work)
        elif kind == "touched":
            found = verdicts(self.world, [self.world.events[work["event"] - 1]])
            rows = {number: name for name, ids in found.items() for number in ids}
            self.rows = [{"id": number, "verdict": rows[number]} for number in sorted(rows)]
        return await super().run(job_id, kind, work, report)

    def _look(self, work: Any) -> None:
        a, b = (self.world.events[work[end] - 1] for end in ("from", "to"))
        first, last = sorted((a, b), key=lambda event: event.id)
        self.relation = self.world.relation(a, b)
        ids = history.chain(self.world.events, first, last, work["via"])
        self.finds = bool(ids)
        self.rows = [{"id": number} for number in ids]

    def _write(self, path: Path) -> Any:  # type: ignore[override]
        written = super()._write(path)
        content = "".join(json.dumps(row) + "\n" for row in self.rows).encode()
        path.write_bytes(content)
        digest = hashlib.sha256(content).hexdigest()
        return written | {"events": len(self.rows), "bytes": len(content), "sha256": digest}

    def _touch(self, work: Any) -> Any:  # type: ignore[override]
        found = FakeSpark._touch(work)
        written = self._write(Path(work["output"]))
        return found | {name: written[name] for name in ("events", "bytes", "sha256")}

    def _count(self, work: Any) -> Any:  # type: ignore[override]
        found = super()._count(work)
        path = Path(work["output"])
        lists = counted(self.world, work["vhost"], work["since"], work["until"])
        path.write_text(json.dumps(json.loads(path.read_text()) | lists))
        return found | {name: len(rows) for name, rows in lists.items()}


@dataclass
class ShownWorld(api.World):
    """A service of the world."""

    shown: Past = field(kw_only=True)
    writer: Writer = field(kw_only=True)

    async def opened(self) -> Store:
        """Its store, with all that there is in the world."""
        path = self.folder / "itc.db"
        url = f"sqlite:///{path}"
        recipe = self.shown.demo
        if self.shown.stored is not None:
            shutil.copy(self.shown.stored, path)
        elif recipe is not None:
            shutil.copy(await asyncio.to_thread(demo_file, *recipe), path)
        else:
            await migrate(url)
        store = await Store.open(url)
        if self.shown.stored is None:
            await self.writer.write(store, self.shown.made if recipe is not None else 0)
        for vhost, trace in self.shown.traces.items():
            for gap in trace.gaps:
                await note_gap(store, vhost, gap, path)
        self.tellers = {}
        return store

    def app(self) -> Any:
        return build(self.settings, self.services, web=WEB)


async def note_gap(store: Store, vhost: str, gap: dict[str, Any], path: Path) -> None:
    """Store a gap, given as the API shows it."""
    trace = await store.traces.find(vhost)
    assert trace is not None
    number = await store.gaps.open(
        trace.id,
        after_event_id=gap["after_event_id"],
        since=micros(gap["since"]),
        reason=gap["reason"],
        suspected=gap["suspected"],
    )
    if gap["until"] is not None:
        before, until = gap["before_event_id"], micros(gap["until"])
        await store.gaps.close(number, before_event_id=before, until=until)
    if gap["declared"]:  # which a trace does by itself, from the event on at which it starts
        with contextlib.closing(sqlite3.connect(path)) as database, database:
            database.execute("UPDATE gaps SET declared = 1 WHERE id = ?", (number,))


class Served:
    """The service of a world, in a thread of its own."""

    url: str

    def __init__(self, world: Past, folder: Path) -> None:
        self.world = world
        broker = WorldBroker(world)
        settings: dict[str, Any] = {"auth": "broker" if world.auth else "none"}
        self.parts = ShownWorld(
            Settings(_env_file=None, data_dir=folder, port=0, auth_cache_seconds=0.01, **settings),
            api.WorldBounds(),
            broker,
            ShownTraces(frozenset(world.vhosts), world=world),
            folder,
            WorldSpark(world),
            shown=world,
            writer=Writer(world),
        )
        self._ready = threading.Event()
        self._thread = threading.Thread(target=asyncio.run, args=(self._serve(),), daemon=True)

    async def _serve(self) -> None:
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        try:
            async with api.served(self.parts.app(), self.parts.settings) as self.url:
                self._ready.set()
                await self._end.wait()
        finally:
            self._ready.set()

    def start(self) -> None:
        self._thread.start()
        self._ready.wait()
        self.world.grown = self._grown

    def stop(self) -> None:
        self.world.grown = None
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join()

    def answer(self, path: str, **query: object) -> Any:
        """What the API says, as the administrator is told."""
        with httpx2.Client(base_url=self.url, auth=("admin", "admin"), timeout=60) as client:
            answer = client.get(path, params={name: str(each) for name, each in query.items()})
        answer.raise_for_status()
        return answer.json()

    def put(self, path: str, content: bytes = b"", **query: object) -> None:
        """Ask for something as the administrator; a job is not waited for."""
        with httpx2.Client(base_url=self.url, auth=("admin", "admin"), timeout=60) as client:
            at_once = {"prefer": "respond-async, wait=0"}
            client.put(path, params=query, content=content, headers=at_once).raise_for_status()

    def finished(self, path: str, content: bytes = b"", **query: object) -> None:
        """Have the job done that a PUT starts."""
        with httpx2.Client(base_url=self.url, auth=("admin", "admin"), timeout=60) as client:
            client.put(path, params=query, content=content).raise_for_status()

    def done(self, work: Coroutine[Any, Any, T]) -> T:
        """Have something done by the service's own parts."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _grown(self) -> None:
        async def write() -> None:
            store = self.parts.store
            await self.parts.writer.write(store, await store.events.last_id())
            self.parts.traces.feed.advance(await store.events.last_id())

        self.done(write())

    def gap(self, vhost: str, **gap: Any) -> None:
        """A gap more."""
        self.world.traces[vhost].gaps.append(gap)
        self.done(note_gap(self.parts.store, vhost, gap, self.parts.folder / "itc.db"))


@contextlib.contextmanager
def running(world: Past) -> Iterator[Served]:
    """The service of a world until the block ends."""
    folder = Path(mkdtemp(prefix="itc-web-"))
    server = Served(world, folder)
    server.start()
    try:
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)
