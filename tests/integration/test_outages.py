"""What is away comes back: the trace says what it waits for, resumes, and tells no lies."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import msgspec
import pytest

from app.broker.trace_queue import QueueBounds
from app.store import Store, migrate
from app.traces.life import TraceState
from app.traces.losses.monitor import FULL, MARKS_MISSING
from app.traces.pipeline import PipelineSettings
from app.traces.runs.attempts import RunningTrace
from model.words import Match
from tests.integration.conftest import Service, until
from tests.integration.test_capture import send_and_receive
from tools.servers import Broker, PostgresServer, RabbitNode


async def gap_reasons(service: Service, vhost: str, count: int) -> list[str]:
    """Wait until there are this many gaps, all closed; return their reasons."""

    async def closed() -> list[str] | None:
        gaps = (await service.registry.status(vhost)).gaps
        done = len(gaps) >= count and all(gap.until is not None for gap in gaps)
        return [gap.reason for gap in gaps] if done else None

    return await until(closed, f"{count} gaps are closed")


async def waiting(service: Service, vhost: str, word: str) -> None:
    async def waits() -> bool:
        status = await service.registry.status(vhost)
        return status.state is TraceState.waiting and word in (status.waiting_for or "")

    await until(waits, f"the trace waits for the {word}")


@pytest.mark.long(14)
async def test_tracing_that_somebody_switched_off_is_on_again_and_a_gap_says_so(
    service: Service, rabbit: Broker, vhost: str
) -> None:
    await service.running(vhost)
    await send_and_receive(rabbit, vhost, 1)
    last = (await service.stored(vhost, 2))[-1].id
    rabbit.api("PUT", "vhosts", vhost, json={"tracing": False})
    (reason,) = await gap_reasons(service, vhost, 1)
    assert reason.startswith("tracing was off on")
    (gap,) = (await service.registry.status(vhost)).gaps
    assert gap.after_event_id <= last  # how far capture was seen to be well
    await send_and_receive(rabbit, vhost, 1, "later")
    assert len(await service.stored(vhost, 4)) == 4


async def test_a_connection_cut_in_the_middle_loses_and_doubles_nothing(
    service: Service, rabbit: Broker, vhost: str
) -> None:
    await service.running(vhost)

    async def ours() -> list[str]:
        # A connection is listed before its name is: that comes with its client properties.
        found = await asyncio.to_thread(rabbit.api, "GET", "vhosts", vhost, "connections")
        named = [c for c in found if c.get("user_provided_name") == "rabbitmq-itc"]
        return [c["name"] for c in named]

    traffic = asyncio.create_task(send_and_receive(rabbit, vhost, 200))
    for _ in range(2):
        (name,) = await until(ours, "the broker knows our connection")
        await asyncio.to_thread(rabbit.api, "DELETE", "connections", name)

        async def gone(name: str = name) -> bool:
            return name not in await ours()

        await until(gone, "the broker has closed our connection")
    await traffic
    events = await service.stored(vhost, 400)
    assert len(events) == 400
    assert [e.match for e in events].count(Match.routed) == 200
    status = await service.registry.status(vhost)
    assert (status.restarts, status.gaps) == (0, [])


@pytest.mark.long(16)
async def test_a_trace_queue_that_somebody_deleted_is_created_again_and_a_gap_says_so(
    service: Service, rabbit: Broker, vhost: str
) -> None:
    await service.running(vhost)
    await send_and_receive(rabbit, vhost, 1)
    await service.stored(vhost, 2)
    rabbit.api("DELETE", "queues", vhost, "itc.trace")
    assert await gap_reasons(service, vhost, 1) == ["the trace queue was gone"]
    await send_and_receive(rabbit, vhost, 1, "later")
    assert len(await service.stored(vhost, 4)) == 4


def _another(database: Path) -> sqlite3.Connection:
    """A connection of somebody else, who waits for the file in a thread: the service may write."""
    return sqlite3.connect(database, isolation_level=None, check_same_thread=False)


@pytest.mark.long(17)
async def test_a_locked_database_is_waited_for_without_loss(
    service: Service, rabbit: Broker, vhost: str, tmp_path: Path
) -> None:
    await service.running(vhost)
    lock = _another(tmp_path / "itc.db")
    await asyncio.to_thread(lock.execute, "BEGIN IMMEDIATE")
    await send_and_receive(rabbit, vhost, 5)
    await waiting(service, vhost, "locked")
    lock.execute("ROLLBACK")
    lock.close()
    assert len(await service.stored(vhost, 10)) == 10
    status = await service.registry.status(vhost)
    assert (status.state, status.restarts, status.gaps) == (TraceState.running, 0, [])


async def test_a_trace_queue_that_reached_its_limit_is_a_gap(
    store: Store, rabbit: Broker, vhost: str, settings: PipelineSettings, tmp_path: Path
) -> None:
    # The limit counts bodies, and these have a few bytes each.
    settings = msgspec.structs.replace(settings, prefetch=10)
    service = Service(store, rabbit, settings, QueueBounds(bytes=500))
    await service.running(vhost)
    await send_and_receive(rabbit, vhost, 2, "before")
    await service.stored(vhost, 4)
    lock = _another(tmp_path / "itc.db")
    await asyncio.to_thread(lock.execute, "BEGIN IMMEDIATE")  # so that the queue is not emptied
    await send_and_receive(rabbit, vhost, 600, "many")
    running = service.registry.here._running[vhost]
    assert isinstance(running, RunningTrace)

    async def noticed() -> bool:
        return running.pipeline.gaps.is_open

    await until(noticed, "the trace sees that its queue is full, and cannot store that yet")
    lock.execute("ROLLBACK")
    lock.close()
    reasons = await gap_reasons(service, vhost, 1)
    # Marks that were dropped, and come to light only later, may make it longer.
    assert reasons[0] == FULL
    assert set(reasons) <= {FULL, MARKS_MISSING}
    events = await service.events(vhost)
    assert len(events) < 4 + 1_200  # something was really lost
    gap = (await service.registry.status(vhost)).gaps[0]
    assert gap.after_event_id < (gap.before_event_id or 0) <= events[-1].id + 1
    await send_and_receive(rabbit, vhost, 5, "later")
    await service.stored(vhost, len(events) + 10)
    assert len((await service.registry.status(vhost)).gaps) == len(reasons)
    await service.registry.stop(vhost)
    await service.close()


async def test_a_database_that_was_stopped_is_waited_for_without_loss(
    rabbit: Broker, vhost: str, postgres: PostgresServer, settings: PipelineSettings
) -> None:
    with postgres.fresh_database() as url:
        await migrate(url)
        store = await Store.open(url)
        service = Service(store, rabbit, settings)
        await service.running(vhost)
        await send_and_receive(rabbit, vhost, 5)
        await service.stored(vhost, 10)
        await asyncio.to_thread(postgres.kill)
        await send_and_receive(rabbit, vhost, 5, "meanwhile")
        await asyncio.to_thread(postgres.start)
        assert len(await service.stored(vhost, 20)) == 20
        assert (await service.registry.status(vhost)).restarts == 0
        await service.registry.stop(vhost)
        await service.close()
        await store.close()


@pytest.mark.long(50)
async def test_a_service_ends_in_time_while_its_database_is_away(
    store: Store, rabbit: Broker, vhost: str, settings: PipelineSettings, tmp_path: Path
) -> None:
    service = Service(store, rabbit, settings)
    await service.running(vhost)
    lock = _another(tmp_path / "itc.db")
    await asyncio.to_thread(lock.execute, "BEGIN IMMEDIATE")
    await send_and_receive(rabbit, vhost, 5)
    await waiting(service, vhost, "locked")
    async with asyncio.timeout(30):
        await service.close()
    lock.close()
    again = Service(store, rabbit, settings)
    await again.registry.resume()
    assert len(await again.stored(vhost, 10)) == 10
    await again.registry.stop(vhost)
    await again.close()


async def test_a_broker_that_restarts_is_traced_again_and_a_gap_says_what_may_be_missing(
    store: Store, settings: PipelineSettings
) -> None:
    with RabbitNode() as node:
        node.add_vhost("v")
        service = Service(store, node, settings)
        await service.running("v")
        await send_and_receive(node, "v", 2)
        await service.stored("v", 4)
        await asyncio.to_thread(node.kill)
        await waiting(service, "v", "broker")
        await asyncio.to_thread(node.start)
        (reason,) = await gap_reasons(service, "v", 1)
        assert reason.startswith("tracing was off on")
        await send_and_receive(node, "v", 2, "later")
        assert len(await service.stored("v", 8)) == 8
        assert (await service.registry.status("v")).restarts == 0
        await service.close()


async def test_pruning_keeps_the_newest_and_the_trace_goes_on(
    service: Service, rabbit: Broker, vhost: str
) -> None:
    await service.running(vhost)
    await send_and_receive(rabbit, vhost, 10, "old")
    await service.stored(vhost, 20)
    would = await service.registry.upkeep.prune(vhost, keep_events=4, dry_run=True)
    assert (would.events, len(await service.events(vhost))) == (16, 20)
    assert await service.registry.upkeep.prune(vhost, keep_events=4) == would
    assert len(await service.events(vhost)) == 4
    await service.running(vhost)
    await send_and_receive(rabbit, vhost, 3, "new")
    events = await service.stored(vhost, 10)
    assert [e.match for e in events[4:]].count(Match.routed) == 3
    assert (await service.registry.status(vhost)).gaps == []
