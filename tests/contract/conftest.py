"""One suite for every store: each test that takes ``store`` or ``database_url`` runs on all."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from uuid import uuid4

import asyncpg
import pytest
from sqlalchemy import make_url

from app.store import Store, migrate

DATABASES = ("sqlite", "postgresql")


@pytest.fixture(scope="session")
def migrated_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite file with empty tables, to be copied."""
    path = tmp_path_factory.mktemp("template") / "itc.db"
    asyncio.run(migrate(f"sqlite:///{path}"))
    return path


@pytest.fixture(scope="session")
def migrated_database(request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of a PostgreSQL database with empty tables, to be copied."""
    server = request.getfixturevalue("postgres")
    with server.fresh_database("template") as url:
        asyncio.run(migrate(url))
        yield url


@pytest.fixture(params=DATABASES)
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a database with empty tables, for this test alone."""
    if request.param == "sqlite":
        shutil.copy(request.getfixturevalue("migrated_file"), tmp_path / "itc.db")
        return f"sqlite:///{tmp_path / 'itc.db'}"
    return asyncio.run(_copied(request.getfixturevalue("migrated_database")))


async def _copied(template_url: str) -> str:
    # The server belongs to the test session and ends with it, copies and all.
    template = make_url(template_url)
    name = f"test_{uuid4().hex[:12]}"
    server = await asyncpg.connect(
        template.set(drivername="postgresql", database="postgres").render_as_string(False)
    )
    try:
        await server.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template.database}"')
    finally:
        await server.close()
    return template.set(database=name).render_as_string(hide_password=False)


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[Store]:
    """An empty store."""
    opened = await Store.open(database_url)
    yield opened
    await opened.close()


@pytest.fixture
async def trace_id(store: Store) -> int:
    """The number of a trace without events, of the virtual host /."""
    return (await store.traces.create("/", "channel")).id
