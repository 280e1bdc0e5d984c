"""The composition root: wires what each room opens."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from fastapi import FastAPI

from app.api.answers import ByteBudget
from app.api.application import build
from app.api.otlp.intake import Intake, IntakeBounds
from app.api.readiness import Readiness
from app.api.searching import Searches
from app.api.services import ServiceParts
from app.api.signin.auth import authenticator
from app.api.streams import Subscribers
from app.api.tail import Tail
from app.background import end
from app.broker.connection import ready_in
from app.broker.management import ManagementApi
from app.broker.opening import BrokerParts
from app.broker.provider import IdentityProvider
from app.collector.following import Following
from app.errors import ItcError, SettingsError
from app.extras import check_spark
from app.jobs.opening import open_folders, open_jobs
from app.restamp.replay import previews
from app.settings import Settings
from app.store.opening import open_store
from app.store.store import Store
from app.traces.connectionwatch import ConnectionWatch
from app.traces.holding.claims import LEASE_SECONDS, Claims
from app.traces.opening import pipeline_settings
from app.traces.registry import TraceRegistry
from app.traces.runs.introductions import Introductions
from app.traces.spanwatch import SpanWatch
from app.tracker.links import BUILT_IN, Rule, Rules
from app.watch.opening import open_watches

log = logging.getLogger(__name__)

GRACE_SECONDS = 4.0  # for transactions that were broken off, and for their callers
UNLIMITED_SECONDS = 100 * 366 * 86_400


def create_app(settings: Settings) -> FastAPI:
    """The service as an ASGI application; its lifespan opens the parts.

    Entering it raises `SettingsError` and, if the database is away, `OutageError`. If the broker is
    away, the service waits for it.
    """
    return build(settings, lambda: open_services(settings), web_folder())


class Closing:
    """The time that the service may still take to end, once it is asked to.

    After that it no longer waits for the database. If it still does not end, it exits like a killed
    process, which loses nothing.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.store: Store | None = None  # once it is open
        self._deadline: float | None = None
        self.stopping = asyncio.Event()
        self._task = asyncio.create_task(self._give_up(), name="closing")

    def seconds_left(self) -> float:
        if self._deadline is None:
            return self._seconds
        return max(0.0, self._deadline - asyncio.get_running_loop().time())

    def when_stopping(
        self, work: Callable[[float], Awaitable[None]]
    ) -> Callable[[], Awaitable[None]]:
        """Start some work as soon as the service is asked to end, with the seconds that are left.

        The result waits until it is done, and cancels it if the service ends for another reason.
        """

        async def work_at_end() -> None:
            await self.stopping.wait()
            await work(self.seconds_left())

        task = asyncio.create_task(work_at_end(), name="what is done first at the end")

        async def finish() -> None:
            if self.stopping.is_set():
                await asyncio.wait({task}, timeout=self.seconds_left())
            await end(task)

        return finish

    async def end(self) -> None:
        await end(self._task)

    async def _give_up(self) -> None:
        await self.stopping.wait()
        self._deadline = asyncio.get_running_loop().time() + self._seconds
        await asyncio.sleep(self._seconds)
        if self.store is not None:
            self.store.give_up()
        await asyncio.sleep(GRACE_SECONDS)
        log.error("what is left of the service does not end: cutting it off")
        os._exit(1)


@asynccontextmanager
async def open_services(settings: Settings) -> AsyncIterator[ServiceParts]:
    service = secrets.token_hex(8)
    async with AsyncExitStack() as stack:
        rules_of_all = link_rules(settings.link_rules, built_in=settings.links)
        pipeline = pipeline_settings(settings, rules_of_all)
        closing = Closing(settings.shutdown_seconds)
        stack.push_async_callback(closing.end)
        store = await open_store(stack, settings, service, pipeline.found_by)
        closing.store = store
        broker = BrokerParts(stack, settings, store.name, service)
        greeting = asyncio.create_task(
            _say_what_there_is(settings, broker.management), name="greeting"
        )
        stack.callback(greeting.cancel)
        connections = ConnectionWatch(store.connections, broker.announcements()).run_in(stack)
        spans = None
        if settings.otlp:
            spans = SpanWatch(store.spans, settings.retention_days).run_in(stack)
        introductions = Introductions(store.connections, broker.announcements())
        traces = TraceRegistry(store, broker.source, pipeline, introductions, service)
        folders = open_folders(settings)
        rules = [rule.to_json() for rule in rules_of_all]
        jobs = open_jobs(settings, store.jobs, traces.here.paused, folders.archives, rules)
        claims = Claims(
            store.services,
            traces.here,
            service,
            settings.service,
            seconds=UNLIMITED_SECONDS if store.is_alone else LEASE_SECONDS,
            tend=jobs.tend,
            reach=broker.management.own_user,
            hold_seconds=settings.hold_seconds,
        )
        await claims.register()
        stack.push_async_callback(claims.leave)
        if not await traces.others():  # left by a killed process
            await store.restamps.clear()
            await asyncio.to_thread(folders.exports.sweep)
        await traces.resume()
        stack.push_async_callback(lambda: traces.shutdown(closing.seconds_left()))
        if not store.is_alone:
            claims.start()
            stack.push_async_callback(claims.stop)
            stack.push_async_callback(closing.when_stopping(claims.hand_over))
        await jobs.start()
        stack.push_async_callback(jobs.stop)
        open_watches(stack, settings, store, traces.here)
        following = None
        if settings.export_shares:
            portable = msgspec.json.encode(settings.portable())
            following = Following(portable, traces.here).run_in(stack)
        budget, searches = ByteBudget(), Searches()
        intake = IntakeBounds(days=settings.retention_days)
        yield ServiceParts(
            settings=settings,
            authenticator=authenticator(
                settings,
                broker.management,
                IdentityProvider(
                    broker.management.oauth_settings,
                    *(settings.oauth_client or "").split(maxsplit=1),
                ),
            ),
            broker=broker.management,
            lengths=partial(ready_in, settings.amqp_url.reveal()),
            traces=traces,
            connections=lambda: connections.why_not is None,
            store=store,
            searches=searches,
            budget=budget,
            tail=Tail(store.events, store.causality, searches, traces.feed, budget),
            subscribers=Subscribers(),
            jobs=jobs,
            folders=folders,
            readiness=Readiness(
                database=traces.here.check_store,
                broker=broker.management.vhosts,
                traces=traces.here.check_failed,
                jobs=partial(asyncio.to_thread, check_spark),
            ),
            spans=None if spans is None else Intake(store.spans, intake, on_arrival=spans.wake),
            following=following,
            previews=previews(store, pipeline),
            link_rules=pipeline.rules_of_all,
            stopping=closing.stopping,
        )


def link_rules(path: Path | None, *, built_in: bool) -> tuple[Rule, ...]:
    """The rules of links that hold in all traces: the built-in ones, and those of a file.

    Raises `SettingsError`, which says what is wrong with the file.
    """
    rules = BUILT_IN if built_in else ()
    if path is None:
        return rules
    try:
        file_rules = msgspec.json.decode(path.read_bytes(), type=list[Any])
        rules = (*rules, *map(Rule.from_json, file_rules))
        Rules(rules)
    except OSError as error:
        raise SettingsError(f"ITC_LINK_RULES: {path}: {error.strerror}") from error
    except ValueError as error:  # errors of JSON, and of a rule
        raise SettingsError(f"ITC_LINK_RULES: {path}: {error}") from error
    return rules


async def _say_what_there_is(settings: Settings, management: ManagementApi) -> None:
    """Log the versions that the service works with; warn if the broker refuses it or is away."""
    page = "with the dashboard" if web_folder() else "without a dashboard"
    log.info("the store is %s; %s", settings.database, page)
    try:
        user, version = await management.own_user(), await management.version()
        log.info("the broker is RabbitMQ %s at %s", version, settings.management_url)
        if "administrator" not in user.tags:
            log.warning("the broker's user %r is no administrator: it cannot trace", user.name)
    except ItcError as error:
        log.warning("the broker cannot be used yet: %s; rabbitmq-itc doctor says more", error)


def web_folder() -> Path | None:
    """The dashboard's files: inside the package in a wheel, beside it in a checkout."""
    package = Path(__file__).parent
    for folder in (package / "web", package.parent / "web"):
        if (folder / "index.html").is_file():
            return folder
    return None
