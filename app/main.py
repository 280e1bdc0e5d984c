"""The composition root: the only place that names concrete parts."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import msgspec
from fastapi import FastAPI

from app.api.application import build
from app.api.budget import ByteBudget
from app.api.otlp.intake import Intake, IntakeBounds
from app.api.readiness import Readiness
from app.api.searching import Searches
from app.api.services import Services
from app.api.signin.auth import Authenticator, BrokerAuthenticator, NobodyAsked
from app.api.streams import Subscribers
from app.api.tail import Tail
from app.broker.announcements import Announcements
from app.broker.consumer import Firehose
from app.broker.management import ManagementApi
from app.broker.source import TraceSource
from app.broker.trace_queue import QueueBounds
from app.errors import ItcError, SettingsError
from app.jobs.archives import Archives
from app.jobs.exports import Exports, folder_id
from app.jobs.manager import JobManager
from app.jobs.periods import PeriodFiles
from app.jobs.ports import Report
from app.jobs.process import SparkProcess
from app.jobs.reports import Reports
from app.jobs.restamps import KIND as RESTAMP
from app.jobs.restamps import RestampProcess
from app.jobs.runners import Runners
from app.jobs.topologies import Topologies
from app.jobs.touched import TouchedFiles
from app.link_rules import link_rules
from app.settings import Settings
from app.store import Store, migrate
from app.store.alone import only_service
from app.stored.assertions import Delivery
from app.stored.restamps import Rules
from app.stored.traces import Trace
from app.traces.claims import Claims
from app.traces.connectionwatch import ConnectionWatch
from app.traces.feed import Feed
from app.traces.introductions import Introductions
from app.traces.pipeline import PipelineSettings
from app.traces.processes import TraceProcesses
from app.traces.registry import TraceRegistry
from app.traces.restamping import Restamping
from app.traces.retention import RetentionRule
from app.traces.running import RunningTrace
from app.traces.spanwatch import SpanBounds, SpanWatch
from app.tracker import Bounds
from app.tracker.links import Rule, merged
from app.watch.judging import Judges
from app.watch.post import WebhookPost
from app.watch.watcher import Watcher
from app.watch.webhook import Webhook, secret_in
from model.exports import Quota

log = logging.getLogger(__name__)

_DAY_SECONDS = 86_400
GRACE_SECONDS = 4.0  # for transactions that were broken off, and what waited for them
ALWAYS = 100 * 366 * _DAY_SECONDS
# Beside the settings of a process that runs traces: the id of the service that it belongs to.
SERVICE = "of_service"


def create_app(settings: Settings) -> FastAPI:
    """The service as an ASGI application; its lifespan opens what it works with.

    Entering that raises `SettingsError` and, if the database is away, `OutageError`. If the broker
    is away, the service waits for it.
    """
    return build(settings, lambda: open_services(settings), web_folder())


class Closing:
    """How long the service may still take to end, once it is asked to.

    When that is over it no longer waits for the database; and if it still does not end, it ends as
    one does that is killed, which loses nothing.
    """

    def __init__(self, seconds: float, store: Store) -> None:
        self._seconds = seconds
        self._store = store
        self._until: float | None = None
        self.stopping = asyncio.Event()
        self._task = asyncio.create_task(self._give_up(), name="closing")

    def left(self) -> float:
        """How many seconds are left."""
        if self._until is None:
            return self._seconds
        return max(0.0, self._until - asyncio.get_running_loop().time())

    async def end(self) -> None:
        """Give nothing up: all has ended."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _give_up(self) -> None:
        await self.stopping.wait()
        self._until = asyncio.get_running_loop().time() + self._seconds
        await asyncio.sleep(self._seconds)
        self._store.give_up()
        await asyncio.sleep(GRACE_SECONDS)
        log.error("what is left of the service does not end: cutting it off")
        os._exit(1)


@asynccontextmanager
async def open_services(settings: Settings) -> AsyncIterator[Services]:
    """Open everything behind the routes; close it in reverse order."""
    service = secrets.token_hex(8)
    async with AsyncExitStack() as stack:
        pipeline = _pipeline(settings)
        store = await _open_store(settings, service, stack, pipeline.found_by)
        closing = Closing(settings.shutdown_seconds, store)
        stack.push_async_callback(closing.end)
        stack.push_async_callback(store.close)
        management = management_api(settings)
        stack.push_async_callback(management.close)
        greeting = asyncio.create_task(_say_what_there_is(settings, management), name="greeting")
        stack.callback(greeting.cancel)
        watch = _watch_connections(stack, settings, store, management)
        spans, intake = _spans(stack, settings, store)
        archives = Archives(settings.archives)
        registry = _registry(stack, settings, store, management, pipeline, service)
        jobs = _jobs(settings, store, registry, archives, pipeline.link_rules)
        folder = await asyncio.to_thread(folder_id, settings.exports)
        claims = Claims(
            store.services,
            registry.here,
            service,
            settings.service,
            seconds=ALWAYS if store.is_alone else settings.lease_seconds,
            exports=folder,
            tend=jobs.tend,
        )
        await claims.register()
        stack.push_async_callback(claims.leave)
        exports, touched = _exports(settings, claims), _touched(settings)
        periods = _periods(settings)
        if not await registry.others():  # what a killed one left
            await store.restamps.clear()
            await asyncio.to_thread(exports.sweep)
        await registry.resume()
        stack.push_async_callback(lambda: registry.shutdown(closing.left()))
        if not store.is_alone:
            claims.start()
            stack.push_async_callback(claims.stop)
        await jobs.start()
        stack.push_async_callback(jobs.stop)
        _watch_assertions(stack, settings, store, registry)
        budget = ByteBudget(settings.answers_max_bytes)
        searches = _searches(settings, store)
        yield Services(
            settings=settings,
            authenticator=_authenticator(settings, management),
            broker=management,
            traces=registry,
            connections=watch.snapshot,
            store=store,
            searches=searches,
            budget=budget,
            tail=Tail(
                store.events,
                store.causality,
                searches,
                registry.feed,
                budget,
                settings.tail_max_bytes,
            ),
            subscribers=Subscribers(settings.live_subscribers),
            jobs=jobs,
            exports=exports,
            touched=touched,
            periods=periods,
            topologies=Topologies(settings.data_dir.absolute() / "topologies"),
            reports=Reports(settings.data_dir.absolute() / "reports"),
            archives=archives,
            readiness=Readiness(database=store.ping, broker=management.vhosts),
            spans=intake,
            resolved=spans,
            link_rules=pipeline.rules_of_all,
            stopping=closing.stopping,
        )


async def _say_what_there_is(settings: Settings, management: ManagementApi) -> None:
    """Log what the service works with, and loudly if the broker refuses it or is away."""
    page = "with the dashboard" if web_folder() else "without a dashboard"
    log.info("the store is %s; %s", settings.database, page)
    try:
        user, version = await management.own_user(), await management.version()
        log.info("the broker is RabbitMQ %s at %s", version, settings.management_url)
        if "administrator" not in user.tags:
            log.warning("the broker's user %r is no administrator: it cannot trace", user.name)
    except ItcError as error:
        log.warning("the broker cannot be used yet: %s; rabbitmq-itc doctor says more", error)


def _watch_connections(
    stack: AsyncExitStack, settings: Settings, store: Store, management: ManagementApi
) -> ConnectionWatch:
    """The one task of the service that notes who connects to the broker; it is running."""
    watch = ConnectionWatch(
        store.connections, _announcements(settings, management), keep=settings.connections_kept
    )
    watch.start()
    stack.push_async_callback(watch.stop)
    return watch


def _spans(
    stack: AsyncExitStack, settings: Settings, store: Store
) -> tuple[SpanWatch | None, Intake | None]:
    """Where spans come in, and the running task that resolves them; none of it if it is off."""
    if not settings.otlp:
        return None, None
    days = settings.retention_days
    watch = SpanWatch(
        store.spans, SpanBounds(settings.otlp_spans, days, settings.retention_check_seconds)
    )
    watch.start()
    stack.push_async_callback(watch.stop)
    bounds = IntakeBounds(
        unpacked_bytes=settings.otlp_unpacked_max_bytes,
        spans=settings.otlp_spans_per_request,
        per_second=settings.otlp_spans_per_second,
        days=days,
    )
    return watch, Intake(store.spans, bounds, arrived=watch.arrived)


def _watch_assertions(
    stack: AsyncExitStack, settings: Settings, store: Store, registry: TraceRegistry
) -> None:
    """Hold assertions against the traces that run here, and tell the webhook if there is one."""
    webhook = _webhook(settings, store)
    if webhook is not None:
        webhook.start()
        stack.push_async_callback(webhook.stop)
    watcher = Watcher(
        store.assertions,
        store.watching,
        registry.here,
        Judges(store.watching, store.conversations, store.events, store.gaps, store.doubts).judge,
        delivery=Delivery.none if webhook is None else Delivery.due,
        found=None if webhook is None else webhook.arrived,
    )
    watcher.start()
    stack.push_async_callback(watcher.stop)


def _webhook(settings: Settings, store: Store) -> Webhook | None:
    """Whoever is told of what did not hold; None for nobody. Raises `SettingsError`."""
    if settings.webhook_url is None:
        return None
    secret, file = None, settings.webhook_secret_file
    if file is not None:
        try:
            secret = secret_in(file.read_bytes())
        except OSError as error:
            raise SettingsError(f"ITC_WEBHOOK_SECRET_FILE: {file}: {error.strerror}") from error
        except ValueError as error:
            raise SettingsError(f"ITC_WEBHOOK_SECRET_FILE: {file}: {error}") from error
    return Webhook(
        store.violations,
        WebhookPost(settings.webhook_url, settings.webhook_seconds),
        f"urn:rabbitmq-itc:{store.name}",
        seconds=settings.webhook_seconds,
        give_up_seconds=settings.webhook_give_up_seconds,
        secret=secret,
    )


def _registry(
    stack: AsyncExitStack,
    settings: Settings,
    store: Store,
    management: ManagementApi,
    pipeline: PipelineSettings,
    service: str,
) -> TraceRegistry:
    """The traces, in processes of their own if so set."""
    elsewhere = None
    if settings.trace_processes:
        line = msgspec.json.encode({**settings.portable(), SERVICE: service})
        processes = TraceProcesses(settings.trace_processes, line)
        stack.push_async_callback(processes.close)
        elsewhere = processes.run
    source = _source(settings, store, management, service)
    introductions = _introductions(settings, store, management)
    return TraceRegistry(store, source, pipeline, elsewhere, introductions, service)


@asynccontextmanager
async def open_capture(
    settings: Settings, service: str
) -> AsyncIterator[Callable[[Trace, Feed], RunningTrace]]:
    """Open what a process that only runs traces needs; yields the function that runs one."""
    async with AsyncExitStack() as stack:
        store = await _open_store(settings)
        stack.push_async_callback(store.close)
        management = management_api(settings)
        stack.push_async_callback(management.close)
        source = _source(settings, store, management, service)
        pipeline = _pipeline(settings)
        introductions, turn = _introductions(settings, store, management), asyncio.Lock()
        yield lambda trace, feed: RunningTrace(
            trace, store, source, feed, pipeline, turn, introductions
        )


@asynccontextmanager
async def open_restamping(
    settings: Settings,
    trace_id: int,
    rules: Rules,
    report: Report,
    links: tuple[Rule, ...] | None = None,
) -> AsyncIterator[Restamping]:
    """Open what a process that restamps a trace needs.

    With ``links``, the rules of all virtual hosts, messages are read again, by the trace's own too.
    """
    pipeline = _pipeline(settings, links or ())
    store = await _open_store(settings)
    try:
        if links is not None:
            held = merged(pipeline.rules_of_all, await store.link_rules.own(trace_id))
            rules = msgspec.structs.replace(rules, links=held)
        yield Restamping(
            store.restamps,
            trace_id,
            rules,
            report,
            shared_places=settings.shared_places,
            assumed=pipeline.bounds.assumed,
            named=pipeline.bounds.named,
            found_by=pipeline.found_by,
        )
    finally:
        await store.close()


def web_folder() -> Path | None:
    """The dashboard's files: inside the package in a wheel, beside it in a checkout."""
    here = Path(__file__).parent
    for folder in (here / "web", here.parent / "web"):
        if (folder / "index.html").is_file():
            return folder
    return None


async def _open_store(
    settings: Settings,
    service: str | None = None,
    stack: AsyncExitStack | None = None,
    indexed_headers: Mapping[str, bool] | None = None,
) -> Store:
    """The store: of a service, which has a SQLite file for itself, or of one of its children."""
    url = settings.database.reveal()
    if stack is not None:
        stack.enter_context(only_service(url))
    if settings.database_migrate:
        await migrate(url)
    return await Store.open(
        url,
        payload_max_bytes=settings.payload_max_bytes,
        quarantine_max=settings.quarantine_max,
        query_seconds=settings.query_seconds,
        searches=settings.searches,
        service=service,
        indexed_headers=indexed_headers,
        traceparents=settings.otlp,
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


def _source(
    settings: Settings, store: Store, management: ManagementApi, service: str
) -> TraceSource:
    firehose = Firehose(
        settings.broker,
        bounds=QueueBounds(settings.trace_queue_max_bytes, settings.trace_queue_max_messages),
        queue=settings.trace_queue,
        owner=store.name,
        service=service,
    )
    return TraceSource(firehose, management, guard=settings.trace_queue_policy)


def _announcements(settings: Settings, management: ManagementApi) -> Announcements:
    return Announcements(settings.broker, management, settings.trace_queue)


def _introductions(settings: Settings, store: Store, management: ManagementApi) -> Introductions:
    return Introductions(
        store.connections, _announcements(settings, management), seconds=settings.client_seconds
    )


def _pipeline(settings: Settings, rules: tuple[Rule, ...] | None = None) -> PipelineSettings:
    """How traces run; without ``rules`` of links the file that holds them is read."""
    if rules is None:
        rules = link_rules(settings.link_rules, built_in=settings.links)
    days = settings.retention_days
    return PipelineSettings(
        bounds=Bounds(
            copies=settings.pending_copies,
            copy_age=_microseconds(settings.pending_copy_seconds),
            handovers=settings.remembered_deliveries,
            reorder_window=_microseconds(settings.reorder_seconds),
            reorder_held=settings.reorder_held,
            assumed=settings.assumed_participants,
            named=settings.named_events,
        ),
        link_rules=rules,
        indexed_headers=settings.indexed_headers,
        batch_events=settings.batch_events,
        batch_seconds=settings.batch_seconds,
        prefetch=settings.prefetch,
        check_seconds=settings.tracing_check_seconds,
        mark_seconds=settings.mark_seconds,
        audit_seconds=settings.audit_seconds,
        shared_places=settings.shared_places,
        retention=RetentionRule(
            keep_events=settings.retention_events,
            keep_seconds=None if days is None else days * _DAY_SECONDS,
            check_seconds=settings.retention_check_seconds,
        ),
    )


def _exports(settings: Settings, claims: Claims) -> Exports:
    quota = Quota(files=settings.exports_max_files, bytes=settings.exports_max_bytes)
    return Exports(settings.exports, settings.archives, quota, lambda: claims.apart)


def _touched(settings: Settings) -> TouchedFiles:
    quota = Quota(files=settings.exports_max_files, bytes=settings.exports_max_bytes)
    return TouchedFiles(settings.exports, quota, settings.signing_key_file)


def _periods(settings: Settings) -> PeriodFiles:
    quota = Quota(files=settings.exports_max_files, bytes=settings.exports_max_bytes)
    return PeriodFiles(settings.exports, quota, settings.collector)


def _searches(settings: Settings, store: Store) -> Searches:
    return Searches(
        store.events,
        at_once=settings.searches,
        each=settings.searches_per_user,
        waiting=settings.searches_waiting,
    )


def _jobs(
    settings: Settings,
    store: Store,
    registry: TraceRegistry,
    archives: Archives,
    rules: tuple[Rule, ...],
) -> JobManager:
    remote, secret = settings.spark_remote, settings.spark_secret
    spark = SparkProcess(
        settings.database.reveal(),
        master=settings.spark_master,
        remote=remote.reveal() if remote else None,
        memory=settings.spark_memory,
        secret=secret.get_secret_value() if secret else None,
    )
    restamps = RestampProcess(
        msgspec.json.encode(settings.portable()),
        registry.here.paused,
        archives,
        link_rules=[rule.to_json() for rule in rules],
    )
    return JobManager(
        store.jobs,
        Runners(spark, {RESTAMP: restamps}),
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
