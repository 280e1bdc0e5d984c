"""The application around fakes and a real store, with a real HTTP server or without one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import httpx2
import msgspec
import pytest
import pytest_asyncio
from fastapi import FastAPI
from msgspec.structs import replace

from app.api.answers import ANSWERS_BYTES, ByteBudget
from app.api.application import build
from app.api.otlp.intake import Intake, IntakeBounds
from app.api.readiness import Readiness
from app.api.searching import PER_USER, QUEUE_LENGTH, Searches
from app.api.services import ServiceParts
from app.api.signin.auth import FREE_FAILURES, Authenticator, BrokerAuthenticator, OpenAccess
from app.api.streams import MOST_READERS, Subscribers
from app.api.tail import KEPT_BYTES, Tail
from app.extras import check_spark
from app.jobs.folders import Archives
from app.jobs.manager import QUEUE, JobManager
from app.jobs.opening import open_folders
from app.jobs.restamp import RestampProcess
from app.restamp.replay import previews
from app.server import Server, bind, configuration
from app.settings import Settings
from app.store import Store
from app.stored.reading import SEARCHES
from app.traces.pipeline import PipelineSettings
from app.traces.spanwatch import SpanWatch
from app.tracker import Record
from app.tracker.links import BUILT_IN
from model.exports import Quota
from tests.api.fakes import Clock, FakeBroker, FakeSpark, FakeTraces
from tests.api.story import Teller, open_store, tell_story

ADMINISTRATOR = ("admin", "secret")


@dataclass(frozen=True)
class WorldBounds:
    """The service's own bounds, which tests make smaller."""

    answers_bytes: int = ANSWERS_BYTES
    exports: int = Quota.files
    jobs: int = QUEUE
    readers: int = MOST_READERS
    searches: int = SEARCHES
    searches_each: int = PER_USER
    searches_waiting: int = QUEUE_LENGTH
    sign_in_failures: int = FREE_FAILURES
    spans: IntakeBounds = field(default_factory=IntakeBounds)
    tail_bytes: int = KEPT_BYTES


@dataclass
class World:
    """A service of fakes, and what it was made with."""

    settings: Settings
    bounds: WorldBounds
    broker: FakeBroker
    traces: FakeTraces
    folder: Path
    spark: FakeSpark
    store: Store = field(init=False)  # open while the application is
    tellers: dict[str, Teller] = field(init=False)
    subscribers: Subscribers = field(init=False)
    searches: Searches = field(init=False)
    stop: Callable[[], None] = field(init=False)  # what SIGTERM does first
    resolver: SpanWatch | None = None  # looks when it is told to
    timer: Clock = field(default_factory=Clock)  # by which spans a second are counted

    def authenticator(self) -> Authenticator:
        if self.settings.auth == "none":
            return OpenAccess()
        return BrokerAuthenticator(
            self.broker,
            cache_seconds=self.settings.auth_cache_seconds,
            failures=self.bounds.sign_in_failures,
            loopback_users=self.settings.loopback_users,
        )

    async def opened(self) -> Store:
        """The store, with what there is to be read."""
        store = await open_store(self.folder)
        self.tellers = await tell_story(store)
        return store

    @asynccontextmanager
    async def services(self) -> AsyncIterator[ServiceParts]:
        self.store = self.traces.store = store = await self.opened()
        try:
            self.subscribers = Subscribers(self.bounds.readers)
            self.traces.feed.advance(await store.events.last_id())
            restamps = RestampProcess(
                msgspec.json.encode(self.settings.portable()),
                self.traces.paused,
                Archives(self.settings.archives),
                link_rules=[rule.to_json() for rule in BUILT_IN],
            )
            jobs = JobManager(
                store.jobs,
                self.spark,  # type: ignore[arg-type]
                others={"restamp": restamps, "spans": self.spark},
                queue_limit=self.bounds.jobs,
            )
            await jobs.start()
            budget = ByteBudget(self.bounds.answers_bytes)
            intake = self._intake(store)
            self.searches = searches = Searches(
                at_once=self.bounds.searches,
                per_user=self.bounds.searches_each,
                queue_length=self.bounds.searches_waiting,
            )
            quota = Quota(self.settings.exports_max_bytes, self.bounds.exports)
            services = ServiceParts(
                settings=self.settings,
                authenticator=self.authenticator(),
                broker=self.broker,
                lengths=self.broker.lengths,
                traces=self.traces,
                connections=lambda: True,
                store=store,
                searches=searches,
                budget=budget,
                tail=Tail(
                    store.events,
                    store.causality,
                    searches,
                    self.traces.feed,
                    budget,
                    self.bounds.tail_bytes,
                ),
                subscribers=self.subscribers,
                jobs=jobs,
                folders=open_folders(self.settings, quota=quota),
                readiness=Readiness(
                    database=store.ping,
                    broker=self.broker.vhosts,
                    jobs=partial(asyncio.to_thread, check_spark),
                ),
                previews=previews(store, PipelineSettings()),
                spans=intake,
            )
            self.stop = services.stopping.set
            yield services
            await jobs.stop()
        finally:
            await store.close()

    def _intake(self, store: Store) -> Intake | None:
        if not self.settings.otlp:
            return None
        self.resolver = SpanWatch(store.spans)
        bounds = replace(self.bounds.spans, days=self.settings.retention_days)
        return Intake(store.spans, bounds, timer=self.timer)

    async def tell(self, *records: Record, vhost: str = "/") -> list[int]:
        """Store records as a running trace would, and tell the readers; returns their ids."""
        if vhost not in self.tellers:
            self.tellers[vhost] = Teller(self.store, vhost)
        stored = await self.tellers[vhost].tell(records)
        self.traces.feed.advance(await self.store.events.last_id())
        return list(stored)

    def app(self) -> FastAPI:
        return build(self.settings, self.services, web=None)


def make_world(tmp_path: Path, bounds: WorldBounds = WorldBounds(), **settings: object) -> World:
    broker = FakeBroker()
    broker.add("admin", "secret", "administrator", "/", "shop")
    broker.add("watcher", "secret", "monitoring", "/", "shop")
    return World(
        Settings(_env_file=None, data_dir=tmp_path, port=0, **settings),
        bounds,
        broker,
        FakeTraces(frozenset({"/", "shop", "undefined", "50%2F off", "ü"})),
        tmp_path,
        FakeSpark(),
    )


@asynccontextmanager
async def served(app: FastAPI, settings: Settings) -> AsyncIterator[str]:
    """Serve on a free loopback port, by the same protocol as in production; yields the URL."""
    listener = bind(settings)
    server = Server(configuration(app, settings))
    async with app.router.lifespan_context(app):
        task = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            app.state.services.stopping.set()
            server.stop()
            await task


@asynccontextmanager
async def connected(app: FastAPI, **options: object) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of the application, without a server in between."""
    async with app.router.lifespan_context(app):
        transport = httpx2.ASGITransport(app, raise_app_exceptions=False)
        async with httpx2.AsyncClient(
            transport=transport, base_url="http://localhost", **options
        ) as client:
            yield client


class Lent:
    """A world that tests which only read have in common: most of their time is in making one."""

    READING = frozenset({"GET", "HEAD", "OPTIONS"})
    REFUSED = frozenset({401, 429})  # which is counted

    def __init__(self, folders: pytest.TempPathFactory) -> None:
        self._folders = folders
        self._open: AsyncExitStack | None = None
        self._client: httpx2.AsyncClient
        self.is_used = False  # it is no longer as it was made

    async def client(self) -> httpx2.AsyncClient:
        if self._open is None:
            self.is_used = False
            self._open = AsyncExitStack()
            app = make_world(self._folders.mktemp("lent")).app()
            hooks = {"response": [self._note]}
            self._client = await self._open.enter_async_context(
                connected(app, auth=ADMINISTRATOR, event_hooks=hooks)
            )
        return self._client

    async def _note(self, answer: httpx2.Response) -> None:
        read = answer.request.method in self.READING and answer.status_code not in self.REFUSED
        self.is_used = self.is_used or not read

    async def close(self) -> None:
        if self._open is not None:
            await self._open.aclose()
            self._open = None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Have the tests that borrow a world run in one loop, in which it stays open."""
    here = Path(__file__).parent
    for item in items:
        if item.path.parent == here and pytest_asyncio.is_async_test(item):
            names = item.fixturenames  # type: ignore[attr-defined]
            if "client" in names and "world" not in names:
                item.add_marker(pytest.mark.asyncio(loop_scope="module"), append=False)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def world(tmp_path: Path) -> World:
    return make_world(tmp_path)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def lent(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Lent]:
    """For the tests of a file."""
    lent = Lent(tmp_path_factory)
    yield lent
    await lent.close()


@pytest_asyncio.fixture(loop_scope="module")
async def lent_client(lent: Lent) -> AsyncIterator[httpx2.AsyncClient]:
    yield await lent.client()
    if lent.is_used:
        await lent.close()


@pytest.fixture
async def own_client(world: World) -> AsyncIterator[httpx2.AsyncClient]:
    async with connected(world.app(), auth=ADMINISTRATOR) as client:
        yield client


@pytest.fixture
def client(request: pytest.FixtureRequest) -> httpx2.AsyncClient:
    """Signed in as administrator of ``/`` and ``shop``; of a test's own world, if it takes one."""
    name = "own_client" if "world" in request.fixturenames else "lent_client"
    client: httpx2.AsyncClient = request.getfixturevalue(name)
    return client
