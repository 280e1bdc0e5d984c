"""One suite for every store: each test that takes ``store`` or ``database_url`` runs on all."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import asyncpg
import pytest
from sqlalchemy import URL, make_url

from app.store import Store, migrate
from tests.contract.history import RUN, number_from

if TYPE_CHECKING:  # where it is needed below: the quick part of the tests starts none
    from tools.servers import PostgresServer

DATABASES = ("sqlite", "postgresql")


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """The PostgreSQL of compose.yaml, if npm has it for this machine; others have another."""
    from tools.servers.postgres import PostgresServer, shipped

    with PostgresServer(programs=shipped()) as server:
        yield server


@pytest.fixture(scope="session")
def migrated_database(request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of a PostgreSQL database with empty tables, to be copied."""
    server = request.getfixturevalue("postgres")
    with server.fresh_database("template") as url:
        asyncio.run(migrate(url))
        yield url


@pytest.fixture(params=DATABASES)
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of a database with empty tables, for this test alone."""
    if request.param == "sqlite":
        shutil.copy(request.getfixturevalue("migrated_file"), tmp_path / "itc.db")
        yield f"sqlite:///{tmp_path / 'itc.db'}"
        return
    template = make_url(request.getfixturevalue("migrated_database"))
    name = f"test_{uuid4().hex[:12]}"
    # Its files are copied as they are, which is quicker than through the log for so small a one.
    asyncio.run(
        _ordered(
            template, f'CREATE DATABASE "{name}" TEMPLATE "{template.database}" STRATEGY FILE_COPY'
        )
    )
    yield template.set(database=name).render_as_string(hide_password=False)
    # Kept to the end, hundreds of them would be gigabytes.
    asyncio.run(_ordered(template, f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)'))


async def _ordered(database: URL, statement: str) -> None:
    """Have the database's server do something that concerns whole databases."""
    server = await asyncpg.connect(
        database.set(drivername="postgresql", database="postgres").render_as_string(False)
    )
    try:
        await server.execute(statement)
    finally:
        await server.close()


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[Store]:
    """An empty store."""
    opened = await Store.open(database_url)
    yield opened
    await opened.close()


@pytest.fixture(params=[1, 2 * RUN - 20], ids=["", "across runs"])
async def first_id(store: Store, request: pytest.FixtureRequest) -> int:
    """The id of the first event that will be stored; events may come to be in several runs."""
    first: int = request.param
    await number_from(store, first)
    return first


@pytest.fixture
async def trace_id(store: Store) -> int:
    """The number of a trace without events, of the virtual host /."""
    return (await store.traces.create("/", "channel")).id
