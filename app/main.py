"""The composition root: the only place that names concrete parts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import msgspec
from fastapi import FastAPI

from app.api.application import build
from app.api.readiness import Readiness
from app.api.services import Services
from app.api.signin.auth import Authenticator, BrokerAuthenticator, NobodyAsked
from app.api.streams import Subscribers
from app.api.tail import Tail
from app.broker.consumer import Firehose
from app.broker.management import ManagementApi
from app.broker.source import TraceSource
from app.broker.trace_queue import QueueBounds
from app.jobs.archives import Archives
from app.jobs.exports import Exports
from app.jobs.manager import JobManager
from app.jobs.process import SparkProcess
from app.jobs.topologies import Topologies
from app.settings import Settings
from app.store import Store, migrate
from app.stored.traces import Trace
from app.traces.feed import Feed
from app.traces.pipeline import PipelineSettings
from app.traces.processes import TraceProcesses
from app.traces.registry import TraceRegistry
from app.traces.retention import Retention
from app.traces.running import RunningTrace
from app.tracker import Bounds

_DAY_SECONDS = 86_400


def create_app(settings: Settings) -> FastAPI:
    """The service as an ASGI application; what it works with is opened by its lifespan.

    Entering that raises `SettingsError` and, where the database is away, `OutageError`. A broker
    that is away is waited for.
    """
    return build(settings, lambda: open_services(settings), web_folder())


@asynccontextmanager
async def open_services(settings: Settings) -> AsyncIterator[Services]:
    """Everything behind the routes, opened; closed in the opposite order."""
    async with AsyncExitStack() as stack:
        store = await _open_store(settings)
        stack.push_async_callback(store.close)
        management = management_api(settings)
        stack.push_async_callback(management.close)
        elsewhere = None
        if settings.trace_processes:
            line = msgspec.json.encode(settings.portable())
            processes = TraceProcesses(settings.trace_processes, line)
            stack.push_async_callback(processes.close)
            elsewhere = processes.run
        source = _source(settings, management)
        registry = TraceRegistry(store, source, _pipeline(settings), elsewhere)
        await registry.resume()
        stack.push_async_callback(registry.shutdown, settings.shutdown_seconds)
        exports = Exports(settings.exports, settings.archives)
        jobs = _jobs(settings, store)
        await asyncio.to_thread(exports.sweep)
        await jobs.start()
        stack.push_async_callback(jobs.stop)
        yield Services(
            settings=settings,
            authenticator=_authenticator(settings, management),
            broker=management,
            traces=registry,
            store=store,
            tail=Tail(store.events, registry.subscribe()),
            subscribers=Subscribers(settings.live_subscribers),
            jobs=jobs,
            exports=exports,
            topologies=Topologies(settings.data_dir.absolute() / "topologies"),
            archives=Archives(settings.archives),
            readiness=Readiness(database=store.ping, broker=management.vhosts),
        )


@asynccontextmanager
async def open_capture(settings: Settings) -> AsyncIterator[Callable[[Trace, Feed], RunningTrace]]:
    """What a process needs that only runs traces; gives the function that runs one."""
    async with AsyncExitStack() as stack:
        store = await _open_store(settings)
        stack.push_async_callback(store.close)
        management = management_api(settings)
        stack.push_async_callback(management.close)
        source, pipeline = _source(settings, management), _pipeline(settings)
        turn = asyncio.Lock()
        yield lambda trace, feed: RunningTrace(trace, store, source, feed, pipeline, turn)


def web_folder() -> Path | None:
    """The dashboard's files: inside the package in a wheel, beside it in a checkout."""
    here = Path(__file__).parent
    for folder in (here / "web", here.parent / "web"):
        if (folder / "index.html").is_file():
            return folder
    return None


async def _open_store(settings: Settings) -> Store:
    url = settings.database.reveal()
    if settings.database_migrate:
        await migrate(url)
    return await Store.open(
        url,
        payload_max_bytes=settings.payload_max_bytes,
        quarantine_max=settings.quarantine_max,
        query_seconds=settings.query_seconds,
    )


def management_api(settings: Settings) -> ManagementApi:
    """The broker's management API, under the service's own account."""
    user, password = settings.management_credentials
    return ManagementApi(
        settings.management_url.without_credentials,
        user,
        password,
        timeout_seconds=settings.management_timeout_seconds,
    )


def _source(settings: Settings, management: ManagementApi) -> TraceSource:
    firehose = Firehose(
        settings.amqp_url.reveal(),
        bounds=QueueBounds(settings.trace_queue_max_bytes, settings.trace_queue_max_messages),
        queue=settings.trace_queue,
    )
    return TraceSource(firehose, management)


def _pipeline(settings: Settings) -> PipelineSettings:
    days = settings.retention_days
    return PipelineSettings(
        bounds=Bounds(
            copies=settings.pending_copies,
            copy_age=_microseconds(settings.pending_copy_seconds),
            handovers=settings.remembered_deliveries,
            reorder_window=_microseconds(settings.reorder_seconds),
            reorder_held=settings.reorder_held,
        ),
        batch_events=settings.batch_events,
        batch_seconds=settings.batch_seconds,
        prefetch=settings.prefetch,
        check_seconds=settings.tracing_check_seconds,
        retention=Retention(
            keep_events=settings.retention_events,
            keep_seconds=None if days is None else days * _DAY_SECONDS,
            check_seconds=settings.retention_check_seconds,
        ),
    )


def _jobs(settings: Settings, store: Store) -> JobManager:
    spark = SparkProcess(
        settings.database.reveal(),
        master=settings.spark_master,
        remote=settings.spark_remote,
        memory=settings.spark_memory,
    )
    return JobManager(
        store.jobs,
        spark,
        queue_limit=settings.job_queue,
        idle_seconds=settings.spark_idle_seconds,
        history=settings.job_history,
        start_runner=settings.spark_at_boot,
    )


def _microseconds(seconds: float) -> int:
    return int(seconds * 1_000_000)


def _authenticator(settings: Settings, management: ManagementApi) -> Authenticator:
    if settings.auth == "none":
        return NobodyAsked()
    return BrokerAuthenticator(
        management,
        cache_seconds=settings.auth_cache_seconds,
        cache_users=settings.auth_cache_users,
        failures=settings.sign_in_failures,
        loopback_users=settings.loopback_users,
    )
