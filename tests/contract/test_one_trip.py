"""Transactions on SQLite take one trip to their connection's thread, and are otherwise as ever."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import aiosqlite
import pytest
from sqlalchemy import make_url
from sqlalchemy.exc import IntegrityError, OperationalError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from app.errors import OutageError
from app.store.database.engine import Database
from app.store.database.lanes import Lane
from app.store.database.sqlite import Sqlite

INSERT = "INSERT INTO numbers VALUES (?)"
NUMBERS = "SELECT number FROM numbers ORDER BY number"


@pytest.fixture
def dialect(tmp_path: Path) -> Sqlite:
    return Sqlite(make_url(f"sqlite:///{tmp_path / 'numbers.db'}"))


@pytest.fixture
async def engine(dialect: Sqlite) -> AsyncIterator[AsyncEngine]:
    engine = dialect.writer()
    async with engine.begin() as connection:
        await connection.exec_driver_sql("CREATE TABLE numbers (number INTEGER PRIMARY KEY)")
        await connection.exec_driver_sql(INSERT, [(1,), (2,)])
    yield engine
    await engine.dispose()


@pytest.fixture
def trips(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a connection's thread is asked to do, from now on."""
    seen: list[str] = []
    execute: Any = aiosqlite.Connection._execute

    async def noted(self: aiosqlite.Connection, work: Any, *args: Any, **named: Any) -> Any:
        seen.append(getattr(work, "__name__", str(work)))
        return await execute(self, work, *args, **named)

    monkeypatch.setattr(aiosqlite.Connection, "_execute", noted)
    return seen


async def test_several_statements_take_one_trip(
    dialect: Sqlite, engine: AsyncEngine, trips: list[str]
) -> None:
    async with engine.begin() as connection:
        await connection.exec_driver_sql(INSERT, (3,))
        trips.clear()
        asked = (NUMBERS, "SELECT 1, :two", NUMBERS + " LIMIT 0")
        found = await dialect.rows_of(connection, asked, {"two": 2})
        assert found == [[(1,), (2,), (3,)], [(1, 2)], []]
        assert trips == ["_all_rows"]
        with pytest.raises(sqlite3.OperationalError, match="no such table"):
            await dialect.rows_of(connection, (NUMBERS, "SELECT * FROM letters"), {})


async def test_what_waits_for_its_connection_alone_takes_one_trip(
    dialect: Sqlite, engine: AsyncEngine, trips: list[str]
) -> None:
    async def asked(connection: AsyncConnection) -> list[int]:
        async with connection.begin():
            await connection.exec_driver_sql(INSERT, (3,))
            first = await connection.exec_driver_sql(NUMBERS)
            await connection.exec_driver_sql(INSERT, (4,))
            return [*first.scalars(), *(await connection.exec_driver_sql(NUMBERS)).scalars()]

    async with engine.connect() as connection:
        trips.clear()
        assert await dialect.run_quickly(connection, asked(connection)) == [1, 2, 3, 1, 2, 3, 4]
        assert trips == ["run"]


@pytest.mark.parametrize(
    "use", [partial(Database.search, lane=Lane.search), Database.write], ids=["search", "write"]
)
async def test_work_takes_as_many_trips_however_many_statements_it_has(
    tmp_path: Path, engine: AsyncEngine, trips: list[str], use: Callable[..., Any]
) -> None:
    async def asked(connection: AsyncConnection, statements: int) -> list[int]:
        found = [await connection.exec_driver_sql(NUMBERS) for _ in range(statements)]
        return [*found[-1].scalars()]

    database = Database(f"sqlite:///{tmp_path / 'numbers.db'}", query_seconds=60, searches=1)
    taken = []
    for statements in (1, 1, 5):  # the first one connects
        trips.clear()
        work = partial(asked, statements=statements)
        assert await use(database, work=work) == [1, 2]
        taken.append(len(trips))
    await database.close()
    assert taken[1] == taken[2]


async def test_a_write_that_is_given_up_is_stored_whole_or_not_at_all(
    tmp_path: Path, engine: AsyncEngine
) -> None:
    """Its thread goes on for a while: nobody can break it off."""
    has_begun, go_on = threading.Event(), threading.Event()

    async def insert(connection: AsyncConnection) -> None:
        await connection.exec_driver_sql(INSERT, (3,))
        has_begun.set()
        go_on.wait()
        await connection.exec_driver_sql(INSERT, (4,))

    database = Database(f"sqlite:///{tmp_path / 'numbers.db'}", query_seconds=60, searches=1)
    writing = asyncio.create_task(database.write(insert))
    await asyncio.to_thread(has_begun.wait)
    database.give_up()
    go_on.set()
    with pytest.raises(OutageError, match="the service ends"):
        await writing
    await database.close()
    async with engine.connect() as connection:
        seen = [*(await connection.exec_driver_sql(NUMBERS)).scalars()]
    assert seen in ([1, 2], [1, 2, 3, 4])


async def test_what_waits_for_something_else_is_refused_and_undone(
    dialect: Sqlite, engine: AsyncEngine
) -> None:
    async def asked(connection: AsyncConnection) -> None:
        async with connection.begin():
            await connection.exec_driver_sql(INSERT, (3,))
            await asyncio.sleep(0)

    async with engine.connect() as connection:
        with pytest.raises(RuntimeError, match="waited for something else"):
            await dialect.run_quickly(connection, asked(connection))
        assert [*(await connection.exec_driver_sql(NUMBERS)).scalars()] == [1, 2]


async def test_errors_of_what_runs_in_the_thread_pass(dialect: Sqlite, engine: AsyncEngine) -> None:
    async def asked(connection: AsyncConnection) -> None:
        async with connection.begin():
            await connection.exec_driver_sql("DELETE FROM numbers")
            await connection.exec_driver_sql("SELECT * FROM letters")

    async with engine.connect() as connection:
        with pytest.raises(OperationalError, match="no such table"):
            await dialect.run_quickly(connection, asked(connection))
        assert [*(await connection.exec_driver_sql(NUMBERS)).scalars()] == [1, 2]


async def test_rows_and_counts_are_told(engine: AsyncEngine) -> None:
    async with engine.begin() as connection:
        assert (await connection.exec_driver_sql(INSERT, [(3,), (4,)])).rowcount == 2
        changed = await connection.exec_driver_sql("DELETE FROM numbers WHERE number > 1")
        assert changed.rowcount == 3
        found = await connection.exec_driver_sql(NUMBERS)
        assert [dict(each) for each in found.mappings()] == [{"number": 1}]


async def test_after_an_error_the_transaction_can_be_undone(engine: AsyncEngine) -> None:
    async with engine.connect() as connection:
        await connection.exec_driver_sql(INSERT, (3,))
        with pytest.raises(IntegrityError):
            await connection.exec_driver_sql(INSERT, (3,))
        with pytest.raises(OperationalError, match="no such table"):
            await connection.exec_driver_sql("SELECT * FROM letters")
        await connection.rollback()
        assert [*(await connection.exec_driver_sql(NUMBERS)).scalars()] == [1, 2]


async def test_what_was_not_committed_is_gone_once_the_connection_is_given_back(
    engine: AsyncEngine,
) -> None:
    async with engine.connect() as connection:
        await connection.exec_driver_sql(INSERT, (3,))
    async with engine.connect() as connection:
        assert [*(await connection.exec_driver_sql(NUMBERS)).scalars()] == [1, 2]


async def test_readers_see_what_was_committed(engine: AsyncEngine, tmp_path: Path) -> None:
    dialect = Sqlite(make_url(f"sqlite:///{tmp_path / 'numbers.db'}"))
    readers = dialect.reader()
    try:
        for number in (3, 4):
            async with engine.begin() as connection:
                await connection.exec_driver_sql(INSERT, (number,))
            async with readers.connect() as connection:
                assert number in [*(await connection.exec_driver_sql(NUMBERS)).scalars()]
    finally:
        await readers.dispose()
