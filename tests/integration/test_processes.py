"""Traces in processes of their own: the same events, the same states, and they survive a crash."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from app.errors import OutageError
from app.secret_url import SecretUrl
from app.settings import Settings
from app.store import Store
from app.stored.capture import Batch
from app.traces.feed import Feed
from app.traces.life import TraceState
from app.traces.pipeline import PipelineSettings
from app.traces.processes import RemoteTrace, TraceProcesses
from app.traces.registry import TraceRegistry
from app.traces.running import Capture
from app.tracker import Record, StampedEvent, Tracker
from tests.integration.conftest import Service, until
from tests.integration.test_capture import send_and_receive
from tests.introductions import NOBODY
from tools.servers import Broker


@pytest.fixture
async def processes(
    service: Service, store: Store, rabbit: Broker, settings: PipelineSettings, tmp_path: Path
) -> AsyncIterator[TraceProcesses]:
    """Two processes behind the service's registry."""
    child = Settings(
        amqp_url=SecretUrl(rabbit.amqp_url("/")),
        management_url=SecretUrl(rabbit.management_url),
        data_dir=tmp_path,  # where the store is too
        trace_queue="itc.children",  # no announcements: nobody reads those of earlier tests
    )
    processes = TraceProcesses(2, msgspec.json.encode(child.portable()), most_silent=6)
    service.registry = TraceRegistry(store, service.source, settings, NOBODY, processes)
    yield processes
    await service.registry.shutdown(deadline=10)
    await processes.close()


def pid_of(service: Service, vhost: str) -> int | None:
    """The process that a trace runs in."""
    running = service.registry.here.present(vhost)
    assert isinstance(running, RemoteTrace)
    return None if running._process._child is None else running._process._child.pid


async def test_virtual_hosts_are_spread_and_told_of(
    service: Service, processes: TraceProcesses, rabbit: Broker, vhost: str
) -> None:
    with rabbit.fresh_vhost() as other:
        await service.running(vhost)
        await service.running(other)
        assert None not in (pid_of(service, vhost), pid_of(service, other))
        assert pid_of(service, vhost) != pid_of(service, other)
        await send_and_receive(rabbit, vhost, 5, "here")
        await send_and_receive(rabbit, other, 7, "there")
        last = (await service.stored(other, 14))[-1].id
        assert len(await service.stored(vhost, 10)) == 10
        assert await service.registry.feed.beyond(last - 1) >= last

        async def counted() -> bool:
            counters = (await service.registry.status(other)).counters
            return (counters.published, counters.received) == (7, 7)

        await until(counted, "the other process has told its counters")
        await service.registry.stop(other)
        assert (await service.registry.status(other)).state is TraceState.stopped


@pytest.mark.parametrize("shared", [True, False])
async def test_in_a_process_of_traces_nothing_is_stamped_while_one_of_them_stores(
    service: Service,
    store: Store,
    rabbit: Broker,
    vhost: str,
    shared: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    storing = stamped_meanwhile = 0
    append, steps = store.batches.append, Tracker.steps

    async def slow_append(trace_id: int, batch: Batch, epoch: int | None = None) -> range:
        nonlocal storing
        storing += 1
        try:
            await asyncio.sleep(0.01)
            return await append(trace_id, batch, epoch)
        finally:
            storing -= 1

    def seen_steps(self: Tracker, record: Record, now: int) -> Iterable[StampedEvent]:
        nonlocal stamped_meanwhile
        stamped_meanwhile += storing
        return steps(self, record, now)

    monkeypatch.setattr(store.batches, "append", slow_append)
    monkeypatch.setattr(Tracker, "steps", seen_steps)
    settings = PipelineSettings(batch_events=20, batch_seconds=0.02)
    capture = Capture(store, service.source, settings, NOBODY, Feed())
    if shared:
        capture.turn = asyncio.Lock()
    processes: Any = SimpleNamespace(start=lambda feed: None, run=capture.run)
    service.registry = TraceRegistry(store, service.source, settings, NOBODY, processes)
    with rabbit.fresh_vhost() as other:
        await service.running(vhost)
        await service.running(other)
        await asyncio.gather(
            send_and_receive(rabbit, vhost, 100), send_and_receive(rabbit, other, 100)
        )
        for each in (vhost, other):
            assert len(await service.stored(each, 200)) == 200
        await service.registry.shutdown(deadline=10)
    assert (stamped_meanwhile == 0) == shared


async def test_a_process_that_is_killed_is_replaced_and_nothing_is_lost(
    service: Service, processes: TraceProcesses, rabbit: Broker, vhost: str
) -> None:
    await service.running(vhost)
    await send_and_receive(rabbit, vhost, 5)
    await service.stored(vhost, 10)
    pid = pid_of(service, vhost)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    await send_and_receive(rabbit, vhost, 5)
    events = await service.stored(vhost, 20)
    assert len({event.id for event in events}) == len(events) == 20
    assert pid_of(service, vhost) != pid
    await service.registry.stop(vhost)
    assert (await service.registry.status(vhost)).state is TraceState.stopped


async def test_a_trace_is_read_ahead_in_the_process_that_then_runs_it(
    service: Service, processes: TraceProcesses, rabbit: Broker, vhost: str
) -> None:
    here = service.registry.here
    await service.running(vhost)
    await send_and_receive(rabbit, vhost, 5)
    await service.stored(vhost, 10)
    for runs in (True, False):
        await here.give_up(vhost)
        await here.prepare(vhost)
        [(trace_id, ahead)] = here.ahead.items()
        assert isinstance(ahead, RemoteTrace)
        assert [len(each) for each in processes._processes].count(1) == 1
        if runs:
            await here.run_here(vhost)
            assert here.present(vhost)._process is ahead._process  # type: ignore[union-attr]
            await send_and_receive(rabbit, vhost, 5)
            await service.stored(vhost, 20)
        else:
            here.forget(trace_id)
            assert [*map(len, processes._processes)] == [0, 0]


async def test_a_process_that_hangs_looks_so_and_is_replaced(
    service: Service, processes: TraceProcesses, rabbit: Broker, vhost: str
) -> None:
    await service.running(vhost)
    await send_and_receive(rabbit, vhost, 5)
    await service.stored(vhost, 10)
    pid = pid_of(service, vhost)
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)

    async def looks_old() -> bool:
        status = await service.registry.status(vhost)
        return status.state is TraceState.waiting and "nothing" in str(status.waiting_for)

    await until(looks_old, "it does not look as if it ran")
    with pytest.raises(OutageError, match="says nothing"):
        await service.registry.here.check_processes()
    await send_and_receive(rabbit, vhost, 5)
    events = await service.stored(vhost, 20)
    assert len({event.id for event in events}) == len(events) == 20
    assert pid_of(service, vhost) != pid
    await service.registry.here.check_processes()
