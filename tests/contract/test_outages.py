"""A database that is away is an outage that says what is away; nothing else is."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import make_url

from app.errors import OutageError, SettingsError, UnfitError
from app.store import Store, migrate
from app.store.database import postgres, sqlite
from app.store.database.engine import dialect_of
from app.stored.reading import EventFilter
from app.tracker.records import Unreadable
from tests.contract.history import History, omission
from tools.servers import PostgresServer

EVERYTHING = EventFilter()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PostgresServer]:
    """A server of this test's own, to be broken."""
    with PostgresServer() as server:
        yield server


async def test_the_store_goes_on_after_the_server_was_away(server: PostgresServer) -> None:
    url = server.create_database("itc")
    await migrate(url)
    store = await Store.open(url)
    trace = await store.traces.create("/", "channel")
    history = History(seed=1)
    await store.batches.append(trace.id, history.batch(10))
    batch = history.batch(10)
    server.kill()
    for _ in range(2):
        with pytest.raises(OutageError, match="database"):
            await store.batches.append(trace.id, batch)
        with pytest.raises(OutageError, match="database"):
            await store.events.find(EVERYTHING)
        with pytest.raises(OutageError):
            await store.ping()
    with pytest.raises(OutageError, match="cannot be reached"):
        await Store.open(url)
    server.start()
    assert await store.batches.append(trace.id, batch) == range(11, 21)
    assert len((await store.events.find(EVERYTHING)).items) == 20
    server.restart()  # its connections are dead, and the store does not know
    assert len((await store.events.find(EVERYTHING)).items) == 20
    assert await store.batches.append(trace.id, history.batch(1)) == range(21, 22)
    await store.close()


async def test_a_batch_whose_commit_was_in_doubt_is_stored_once(
    store: Store, trace_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = History(seed=2)
    batch = history.batch(10)
    write = store._database._write

    async def cut_off_after_the_commit(work):  # type: ignore[no-untyped-def]
        await write(work)
        raise OutageError("the connection to the database was lost")

    monkeypatch.setattr(store._database, "_write", cut_off_after_the_commit)
    with pytest.raises(OutageError):
        await store.batches.append(trace_id, batch)
    monkeypatch.undo()
    assert await store.batches.append(trace_id, batch) == range(1, 11)
    assert await store.events.count(EVERYTHING) == 10


async def test_a_locked_file_is_an_outage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "BUSY_SECONDS", 0.05)
    url = f"sqlite:///{tmp_path / 'itc.db'}"
    await migrate(url)
    store = await Store.open(url)
    trace = await store.traces.create("/", "channel")
    batch = History(seed=3).batch(5)
    with contextlib.closing(sqlite3.connect(tmp_path / "itc.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(OutageError, match="locked by another process"):
            await store.batches.append(trace.id, batch)
        assert (await store.events.find(EVERYTHING)).items == []  # readers go on
        other.execute("ROLLBACK")
    assert await store.batches.append(trace.id, batch) == range(1, 6)
    await store.close()


async def test_a_writer_waits_for_its_turn_while_others_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = threading.Event()

    def sleep(seconds: float) -> None:
        waits.set()
        real_sleep(seconds)

    real_sleep = time.sleep
    monkeypatch.setattr(sqlite.time, "sleep", sleep)
    url = f"sqlite:///{tmp_path / 'itc.db'}"
    await migrate(url)
    store = await Store.open(url)
    trace = await store.traces.create("/", "channel")
    with contextlib.closing(sqlite3.connect(tmp_path / "itc.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        appending = asyncio.create_task(store.batches.append(trace.id, History(seed=3).batch(5)))
        await asyncio.to_thread(waits.wait)
        assert (await store.events.find(EVERYTHING)).items == []
        assert not appending.done()
        other.execute("ROLLBACK")
    assert await appending == range(1, 6)
    await store.close()


async def test_a_full_disk_is_an_outage(tmp_path: Path) -> None:
    dialect = dialect_of(f"sqlite:///{tmp_path / 'itc.db'}")
    with contextlib.closing(sqlite3.connect(tmp_path / "small.db")) as small:
        small.execute("PRAGMA max_page_count=3")
        small.execute("CREATE TABLE t (x)")
        with pytest.raises(sqlite3.OperationalError) as full:
            small.execute("INSERT INTO t VALUES (zeroblob(100000))")
    assert dialect.outage(full.value) == "the disk is full"


async def test_a_file_that_cannot_be_opened_is_an_outage(tmp_path: Path) -> None:
    (tmp_path / "itc.db").mkdir()
    with pytest.raises(OutageError, match="cannot be opened"):
        await Store.open(f"sqlite:///{tmp_path / 'itc.db'}")
    # The failed connection's thread still has something to tell this test's event loop.
    for thread in threading.enumerate():
        if "_connection_worker_thread" in thread.name:
            await asyncio.to_thread(thread.join, 10)


async def test_a_bug_in_the_program_is_no_outage(store: Store, trace_id: int) -> None:
    batch = History(seed=4).batch(2)
    await store.batches.append(trace_id, batch)
    twice = History(seed=4).batch(2)
    with pytest.raises(UnfitError):
        await store.batches.append(trace_id, twice)
    broken = History(seed=5).batch(0)
    broken.checkpoint.omissions.append(omission(Unreadable(None, "", "", b"", 0, 0)))  # type: ignore[arg-type]
    with pytest.raises(UnfitError):
        await store.batches.append(trace_id, broken)


@pytest.mark.parametrize("change", [{"password": "WRONG-SECRET"}, {"database": "missing"}])
async def test_wrong_credentials_are_a_setting_and_never_shown(
    postgres_url: str, change: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    url = make_url(postgres_url).set(**change)  # type: ignore[arg-type]
    for attempt in (Store.open, migrate):
        with pytest.raises(SettingsError, match="ITC_DATABASE_URL") as caught:
            await attempt(url.render_as_string(hide_password=False))
        chain: BaseException | None = caught.value
        while chain is not None:
            assert url.password not in f"{chain!s} {chain!r}"
            chain = chain.__cause__ or chain.__context__
    assert url.password is not None
    assert url.password not in caplog.text


async def test_an_unknown_host_is_an_outage() -> None:
    url = "postgresql://u:SECRET@127.0.0.1:1/itc"
    with pytest.raises(OutageError, match=r"127\.0\.0\.1 cannot be reached") as caught:
        await Store.open(url)
    assert "SECRET" not in str(caught.value)


def test_the_address_for_spark_s_driver_is_taken_too() -> None:
    dialect = dialect_of("postgresql://u:p@h/d?sslmode=require")
    assert isinstance(dialect, postgres.Postgres)
    assert dict(dialect.reader().url.query) == {"ssl": "require"}


async def test_an_append_that_is_cancelled_anywhere_is_stored_once_when_repeated(
    store: Store, trace_id: int
) -> None:
    history = History(seed=6)
    cut_off = 0
    for turns in range(0, 160, 4):
        batch = history.batch(5)
        appending = asyncio.create_task(store.batches.append(trace_id, batch))
        for _ in range(turns):  # of the event loop: further into the append each time
            await asyncio.sleep(0)
        appending.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await appending
        cut_off += appending.cancelled()
        await store.batches.append(trace_id, batch)
    assert cut_off > 3
    rows = (await store.events.find(EVERYTHING, after=0, limit=1000)).items
    assert [row.id for row in rows] == list(range(1, 201))
    assert [row.stamp for row in rows] == [event.stamp for event in history.events]
