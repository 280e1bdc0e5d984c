"""The capturing half of the service on a real broker, with a store of its own for each test."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import TypeVar
from uuid import uuid4

import pytest

from app.broker.announcements import Announcements
from app.broker.consumer import TRACE_QUEUE, Firehose
from app.broker.management import ManagementApi
from app.broker.source import TraceSource
from app.broker.trace_queue import QueueBounds
from app.store import Store
from app.stored.reading import EventFilter
from app.traces.pipeline import PipelineSettings
from app.traces.registry import TraceRegistry
from app.traces.runs.introductions import Introductions
from model.event import Event
from tools.plugin import NAME, build
from tools.servers import Broker, RabbitNode

T = TypeVar("T")

DEADLINE_SECONDS = 60.0


async def until(condition: Callable[[], Awaitable[T | None]], what: str) -> T:
    """Wait until a condition is true; fail with what it was for after a minute."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < deadline:
        if found := await condition():
            return found
        await asyncio.sleep(0.05)
    pytest.fail(f"not within {DEADLINE_SECONDS:.0f} s: {what}")


class Service:
    """Store, broker and registry, wired as the service wires them, without HTTP."""

    def __init__(
        self,
        store: Store,
        broker: Broker,
        settings: PipelineSettings,
        bounds: QueueBounds = QueueBounds(),  # noqa: B008 - frozen
        *,
        amqp_url: str | None = None,
        queue: str = TRACE_QUEUE,
    ) -> None:
        self.store = store
        self.management = ManagementApi(broker.management_url, broker.user, broker.password)
        url = amqp_url or broker.amqp_url("/")
        firehose = Firehose(url, bounds=bounds, queue=queue)
        self.source = TraceSource(firehose, self.management)
        # A queue of its own: the usual one may be there since an earlier test, but nobody reads it
        # here, and each connection would be waited for until 6 s are over.
        own = f"{TRACE_QUEUE}-{uuid4().hex[:8]}"
        self.announcements = Announcements(broker.amqp_url("/"), self.management, own)
        introductions = Introductions(store.connections, self.announcements)
        self.registry = TraceRegistry(store, self.source, settings, introductions=introductions)

    async def events(self, vhost: str) -> list[Event]:
        """All stored events of a virtual host, oldest first."""
        found: list[Event] = []
        wanted = EventFilter(vhosts=frozenset({vhost}))
        while page := (
            await self.store.events.find(wanted, after=found[-1].id if found else 0, limit=500)
        ).items:
            found += page
        return found

    async def running(self, vhost: str, policy: str | None = None) -> None:
        """Start the trace of a virtual host and wait until it runs."""
        await self.registry.start(vhost, policy)

        async def runs() -> bool:
            return (await self.registry.status(vhost)).state == "running"

        await until(runs, f"the trace of {vhost} runs")

    async def stored(self, vhost: str, count: int) -> list[Event]:
        """Wait until this many events of a virtual host are stored; return all there are."""

        async def enough() -> list[Event] | None:
            events = await self.events(vhost)
            return events if len(events) >= count else None

        return await until(enough, f"{count} events of {vhost} are stored")

    async def close(self) -> None:
        await self.registry.shutdown(deadline=10)
        await self.management.close()


@pytest.fixture(scope="session")
def plugins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the broker plugin."""
    folder = tmp_path_factory.mktemp("plugins")
    build(folder)
    return folder


@pytest.fixture(scope="module")
def broker(plugins: Path) -> Iterator[RabbitNode]:
    """A broker with the plugin, for the tests of one module."""
    with RabbitNode(plugins=(NAME,), plugins_folder=plugins) as node:
        yield node


@pytest.fixture
def settings() -> PipelineSettings:
    return PipelineSettings(batch_seconds=0.02, check_seconds=0.5)


@pytest.fixture
async def store(tmp_path: Path, migrated_file: Path) -> AsyncIterator[Store]:
    shutil.copy(migrated_file, tmp_path / "itc.db")
    store = await Store.open(f"sqlite:///{tmp_path / 'itc.db'}")
    yield store
    await store.close()


@pytest.fixture
async def service(
    store: Store,
    rabbit: Broker,
    settings: PipelineSettings,
    vhost: str,  # so that it is there until the service has closed, which else waits for it
) -> AsyncIterator[Service]:
    service = Service(store, rabbit, settings)
    yield service
    await service.close()
