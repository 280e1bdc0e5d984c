"""The store's disk is full: the trace says so and waits, resumes by itself, and loses nothing."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import asyncpg
import pytest

from app.errors import OutageError
from app.store import Store, migrate
from app.traces.life import TraceState
from app.traces.pipeline import PipelineSettings
from model.words import EventType, Match
from tests.disks import fill, small_disk
from tests.integration.conftest import Service, until
from tests.integration.test_capture import send_and_receive
from tests.integration.test_outages import waiting
from tools.servers import Broker, PostgresServer

MESSAGES = 40


async def gone_on(service: Service, vhost: str, messages: int) -> None:
    """All that was published and delivered is stored, matched, and without a gap."""
    events = await service.stored(vhost, 2 * messages)
    assert len(events) == 2 * messages
    received = [event.match for event in events if event.type is EventType.received]
    assert received == [Match.routed] * messages

    async def runs() -> bool:
        return (await service.registry.status(vhost)).state is TraceState.running

    await until(runs, "the trace runs again")
    status = await service.registry.status(vhost)
    assert (status.restarts, status.gaps, status.waiting_for) == (0, [], None)


async def test_a_full_disk_under_sqlite_is_waited_for_without_loss(
    rabbit: Broker, vhost: str, settings: PipelineSettings, tmp_path: Path
) -> None:
    with small_disk(tmp_path / "disk", megabytes=8) as disk:
        url = f"sqlite:///{disk / 'itc.db'}"
        await migrate(url)
        store = await Store.open(url)
        service = Service(store, rabbit, settings)
        try:
            await service.running(vhost)
            await send_and_receive(rabbit, vhost, MESSAGES)
            await service.stored(vhost, 2 * MESSAGES)
            filler = fill(disk)
            await send_and_receive(rabbit, vhost, MESSAGES, "meanwhile")
            await waiting(service, vhost, "disk")
            assert len(await service.events(vhost)) < 4 * MESSAGES  # and it can be read
            filler.unlink()
            await gone_on(service, vhost, 2 * MESSAGES)
        finally:
            await service.close()
            await store.close()


@pytest.mark.long(13)
async def test_a_file_that_may_not_grow_is_waited_for_without_loss(
    service: Service, store: Store, rabbit: Broker, vhost: str
) -> None:
    """The same, reported by SQLite itself: this works where no disk may be mounted."""
    await service.running(vhost)
    await store._database.write(lambda each: each.exec_driver_sql("PRAGMA max_page_count=1"))
    await send_and_receive(rabbit, vhost, 2_000)
    await waiting(service, vhost, "disk is full")
    with pytest.raises(OutageError, match="disk is full"):  # readiness asks so
        await service.registry.here.check_store()
    await store._database.write(lambda each: each.exec_driver_sql("PRAGMA max_page_count=1000000"))
    await gone_on(service, vhost, 2_000)
    await service.registry.here.check_store()


@pytest.mark.long(27)
async def test_a_full_disk_under_postgresql_is_waited_for_without_loss(
    rabbit: Broker, vhost: str, postgres: PostgresServer, settings: PipelineSettings
) -> None:
    if os.geteuid() != 0:
        pytest.skip("a disk to be filled needs the right to mount one")
    with small_disk(postgres.folder / f"disk-{vhost}", megabytes=32) as disk:
        user = pwd.getpwnam("postgres")
        os.chown(disk, user.pw_uid, user.pw_gid)
        url = await _database_on(postgres, disk)
        await migrate(url)
        store = await Store.open(url)
        service = Service(store, rabbit, settings)
        try:
            await service.running(vhost)
            await send_and_receive(rabbit, vhost, MESSAGES)
            await service.stored(vhost, 2 * MESSAGES)
            filler = fill(disk)
            await send_and_receive(rabbit, vhost, 10 * MESSAGES, "meanwhile")
            await waiting(service, vhost, "disk")
            filler.unlink()
            await gone_on(service, vhost, 11 * MESSAGES)
        finally:
            await service.close()
            await store.close()
            await _remove(postgres)


async def _database_on(postgres: PostgresServer, disk: Path) -> str:
    connection = await asyncpg.connect(postgres.url(driver="postgresql"))
    await connection.execute(f"CREATE TABLESPACE small LOCATION '{disk}'")
    await connection.execute("CREATE DATABASE on_small_disk TABLESPACE small")
    await connection.close()
    return postgres.url("on_small_disk")


async def _remove(postgres: PostgresServer) -> None:
    postgres.drop_database("on_small_disk")
    connection = await asyncpg.connect(postgres.url(driver="postgresql"))
    await connection.execute("DROP TABLESPACE small")
    await connection.close()
