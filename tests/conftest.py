"""Real servers for the tests that need them, started on first use and once a session.

A test that names none of these fixtures starts nothing. Nothing is skipped for want of a server:
where one cannot be started the tests that need it fail and say why.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pytest

from tests.disks import in_memory

if TYPE_CHECKING:  # where they are needed below: the unit tests are done before they are imported
    from playwright.sync_api import Browser

    from tools.servers import Broker, PostgresServer

Server = TypeVar("Server", "Broker", "PostgresServer")

pytest_plugins = ("tests.sampling", "tests.parts", "tests.random_runs")

# Before anybody asks where temporary files go: hundreds of databases are made and removed here, and
# where each commit waits for a disk, and each file's end too, that takes longer than the tests.
if "TMPDIR" not in os.environ and (disk := in_memory()):
    os.environ["TMPDIR"] = tempfile.tempdir = str(disk)


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """The argument's name for bytes nobody can read; a compressed body is another each second.

    Workers have to collect the same tests, and some begin a second later.
    """
    return argname if isinstance(val, bytes) and not val.decode("latin-1").isprintable() else None


def _running(server: Server) -> Iterator[Server]:
    """The server, started on first use and closed behind the last; a test fails where it cannot."""
    from tools.servers import ServerError

    try:
        yield server.start()
    except ServerError as error:
        pytest.fail(str(error), pytrace=False)
    finally:
        server.close()


@pytest.fixture(scope="session")
def rabbit() -> Iterator[Broker]:
    """The broker of AMQP_URL and MANAGEMENT_URL, or a private node for this session."""
    from tools.servers import Broker, RabbitNode

    yield from _running(Broker.from_environment(os.environ) or RabbitNode())


@pytest.fixture(scope="session")
def migrated_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite file with empty tables, to be copied."""
    from app.store import migrate

    path = tmp_path_factory.mktemp("template") / "itc.db"
    asyncio.run(migrate(f"sqlite:///{path}"))
    return path


@pytest.fixture
def vhost(rabbit: Broker) -> Iterator[str]:
    """The name of an empty virtual host, for this test alone."""
    with rabbit.fresh_vhost() as name:
        yield name


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A private PostgreSQL server for this session."""
    from tools.servers import PostgresServer

    yield from _running(PostgresServer())


@pytest.fixture
def postgres_url(postgres: PostgresServer) -> Iterator[str]:
    """The SQLAlchemy address of an empty database, for this test alone."""
    with postgres.fresh_database() as url:
        yield url


@pytest.fixture(scope="module")
def postgres_module_url(postgres: PostgresServer) -> Iterator[str]:
    """The SQLAlchemy address of a database that starts empty, for the tests of one module."""
    with postgres.fresh_database() as url:
        yield url


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """The one of a process, for all folders: Playwright cannot run twice in it."""
    from playwright.sync_api import sync_playwright

    from tests.web.browser import launch

    with sync_playwright() as playwright:
        browser = launch(playwright)
        yield browser
        browser.close()
