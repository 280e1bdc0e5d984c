"""Migrations create the tables that the program works with, and remove them again."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import asyncpg
import pytest
import yaml
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection, inspect, make_url, text

from app.errors import SettingsError
from app.store import SchemaState, Store, migrate, schema_state
from app.store.database.migrate import locked_connection
from app.store.database.searched import is_of_metadata, keys
from app.store.database.tables import metadata
from tools.servers.postgres import shipped

CHECKOUT = Path(__file__).parents[2]
TABLES = {*metadata.tables, "keys", "alembic_version"}
NEWEST = "r0007"


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a database without tables, or of one that does not exist yet (SQLite)."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'new folder' / 'itc.db'}"
    url: str = request.getfixturevalue("postgres_url")
    return url


def _differences(connection: Connection) -> list[object]:
    compared = MigrationContext.configure(connection, opts={"include_name": is_of_metadata})
    return compare_metadata(compared, metadata)


def _tables(connection: Connection) -> set[str]:
    return {name for name in inspect(connection).get_table_names() if name != "runs"}


async def test_migrations_equal_the_tables_of_the_program(database_url: str) -> None:
    async with locked_connection(database_url) as connection:
        assert await connection.run_sync(_differences) == []
        assert await connection.run_sync(_tables) == TABLES


async def test_the_tests_of_the_store_have_the_postgresql_of_compose(postgres_url: str) -> None:
    if shipped() is None:
        pytest.skip("npm has no PostgreSQL for this machine")
    services = yaml.safe_load((CHECKOUT / "compose.yaml").read_text())["services"]
    server = await asyncpg.connect(postgres_url.replace("+asyncpg", ""))
    version = await server.fetchval("show server_version")
    await server.close()
    assert services["postgres"]["image"].startswith(f"postgres:{version.split('.')[0]}.")


async def test_sqlite_counts_few_events_of_a_span_from_their_own_index(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'itc.db'}"
    await migrate(url)
    few = {
        str(each.name): each.dialect_options["sqlite"]["where"].text
        for each in metadata.tables["events"].indexes
        if each.dialect_options["sqlite"]["where"] is not None and "id" in each.columns
    }
    assert len(few) == 8
    async with locked_connection(url) as connection:
        for name, condition in few.items():
            query = (
                f"SELECT count(*) FROM events WHERE trace_id = 1 AND {condition}"
                " AND id BETWEEN 1 AND 1000"
            )
            plan = await connection.execute(text(f"EXPLAIN QUERY PLAN {query}"))
            assert f"INDEX {name} (" in str(plan.all())


def _made_by_statements(connection: Connection) -> list[str]:
    if connection.dialect.name == "sqlite":
        query = (
            "SELECT replace(sql, 'IF NOT EXISTS ', '') FROM sqlite_master WHERE type = 'view'"
            " OR type = 'trigger' OR tbl_name IN ('runs', 'keys') AND sql IS NOT NULL ORDER BY name"
        )
    else:
        query = (
            "SELECT indexdef FROM pg_indexes WHERE tablename = 'keys'"
            " UNION ALL SELECT definition FROM pg_views WHERE schemaname = 'public'"
            " UNION ALL SELECT concat_ws(' ', column_name, data_type, is_nullable)"
            " FROM information_schema.columns WHERE table_name = 'keys' ORDER BY 1"
        )
    return [*connection.execute(text(query)).scalars()]


async def test_migrations_equal_the_statements_of_the_program(database_url: str) -> None:
    async with locked_connection(database_url) as connection:
        migrated = await connection.run_sync(_made_by_statements)
        await connection.run_sync(_drop_all)
        await connection.run_sync(metadata.create_all)
        made = await connection.run_sync(_made_by_statements)
    assert made == migrated
    assert len(made) in (7, 6)


def _drop_all(connection: Connection) -> None:
    connection.execute(text("DROP VIEW searched_keys"))
    metadata.drop_all(connection)
    for name in {"keys", "runs"} & {*inspect(connection).get_table_names()}:
        connection.execute(text(f"DROP TABLE {name}"))


async def test_the_comparison_sees_a_difference(database_url: str) -> None:
    async with locked_connection(database_url) as connection:
        await connection.execute(text("DROP INDEX ix_events_cause_id"))
        assert len(await connection.run_sync(_differences)) == 1


async def test_a_table_that_a_view_needs_is_lacking_as_others_are(database_url: str) -> None:
    async with locked_connection(database_url) as connection:
        its_view = "CASCADE" if connection.dialect.name == "postgresql" else ""
        await connection.execute(text(f"DROP TABLE keys {its_view}"))
    lacking = (await schema_state(database_url)).lacking
    assert lacking == tuple(f"keys.{column.name}" for column in keys.c)


async def test_tables_are_found_behind_a_schema_that_has_the_name_of_the_user(
    postgres_url: str,
) -> None:
    await migrate(postgres_url)
    async with locked_connection(postgres_url) as connection:
        await connection.execute(text("CREATE SCHEMA AUTHORIZATION CURRENT_USER"))
    assert (await schema_state(postgres_url)).is_current


async def test_a_new_database_is_migrated_once(empty_url: str) -> None:
    assert await migrate(empty_url) == SchemaState(found=None, needed=NEWEST)
    again = await migrate(empty_url)
    assert again.is_current
    store = await Store.open(empty_url)
    assert await store.traces.list() == []
    await store.close()


def test_several_processes_may_migrate_at_once(empty_url: str) -> None:
    program = (
        "import asyncio, os, sys, app.store\n"
        "begin, hold = os.pipe()\n"
        "for _ in range(4):\n"
        "    if os.fork() == 0:\n"
        "        os.close(hold)\n"
        "        os.read(begin, 1)  # until all are there\n"
        "        state = asyncio.run(app.store.migrate(sys.argv[1]))\n"
        "        os.write(1, f'{state.found}\\n'.encode())\n"
        "        os._exit(0)\n"
        "os.close(hold)\n"
        "sys.exit(any(os.wait()[1] for _ in range(4)))"
    )
    command_line = (sys.executable, "-c", program, empty_url)
    said = subprocess.run(command_line, stdout=subprocess.PIPE, text=True, check=True).stdout
    assert sorted(said.split()) == sorted(["None", *[NEWEST] * 3])
    assert asyncio.run(schema_state(empty_url)).is_current


PUBLISHED = {
    "r0001_tables.py": "dd7a5936032d565de90f0f572c5f2e0fd944628ab86b17221da9b69fb32149a2",
    "r0002_durations.py": "df8ecbbf308013bcbaa31f20e8b66b930075606634f8c761d1fb90f662097c4a",
    "r0003_quarantined.py": "9d35864650373d6b09274f512acf037d5a2cbe0cc59b5c1bbed15f8db1d6bd13",
    "r0004_pruned.py": "a8ec53b6178cf5d58c215cd7fc5d426ebfe6acc7dbe83eea3ab91f2d78688322",
    "r0005_redactions.py": "bbf8e85cedc4edf5304ae2941a63e0a1e995aa43a4fddb3b1d42cc66b44459f8",
    "r0006_spans.py": "e52ca358364a92c18cd2ba03b5ab46122da2cfee2ea5588eaade1f28772d6d24",
    "r0007_back.py": "4e0ab8b481ba456a840dc0a2d34feac25b23d9c2825d2b75ca66094fd0b73862",
}
"""Each migration that a database may have been made by, and the SHA-256 of its file."""


def test_a_published_migration_never_changes() -> None:
    """Whoever changes tables adds a migration, and its line here."""
    files = (CHECKOUT / "alembic" / "versions").glob("*.py")
    assert {file.name: sha256(file.read_bytes()).hexdigest() for file in files} == PUBLISHED


@pytest.mark.parametrize(
    ("damage", "lacks"),
    [
        ("DROP TABLE late_edges", "late_edges.trace_id, late_edges.effect_id, late_edges.cause_id"),
        ("ALTER TABLE traces DROP COLUMN holder", "traces.holder"),
        ("DROP TABLE gaps", "gaps.id, gaps.trace_id, gaps.after_event_id and"),
    ],
)
async def test_tables_that_somebody_has_changed_are_named(
    database_url: str, damage: str, lacks: str
) -> None:
    async with locked_connection(database_url) as connection:
        await connection.execute(text(damage))
    assert not (await schema_state(database_url)).is_current
    for attempt in (Store.open, migrate):
        with pytest.raises(SettingsError, match=rf"lack {lacks}.*restore a backup"):
            await attempt(database_url)


async def test_a_store_from_before_the_first_release_says_how_to_carry_it_over(
    database_url: str,
) -> None:
    async with locked_connection(database_url) as connection:
        await connection.execute(text("UPDATE alembic_version SET version_num = '0018'"))
    for attempt in (Store.open, migrate):
        with pytest.raises(SettingsError, match=r"before the first release.*rabbitmq-itc archive"):
            await attempt(database_url)


async def test_a_database_without_tables_says_what_to_do(empty_url: str) -> None:
    if empty_url.startswith("sqlite"):
        Path(make_url(empty_url).database or "").parent.mkdir()
    with pytest.raises(SettingsError, match=r"has no tables yet.*run rabbitmq-itc migrate"):
        await Store.open(empty_url)


@pytest.fixture
async def newer_url(database_url: str) -> str:
    async with locked_connection(database_url) as connection:
        await connection.execute(text("UPDATE alembic_version SET version_num = 'from 2031'"))
    return database_url


async def test_a_newer_program_s_database_is_left_alone(newer_url: str) -> None:
    assert (await schema_state(newer_url)).is_newer
    for attempt in (Store.open, migrate):
        with pytest.raises(SettingsError, match=r"newer version \(from 2031\)"):
            await attempt(newer_url)


def _alembic(database_url: str, *words: str) -> str:
    done = subprocess.run(
        [Path(sys.executable).with_name("alembic"), *words],
        cwd=CHECKOUT,
        env={**os.environ, "ITC_DATABASE_URL": database_url},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


async def test_what_an_older_program_knew_of_open_channels_is_forgotten(empty_url: str) -> None:
    if empty_url.startswith("sqlite"):
        Path(make_url(empty_url).database or "").parent.mkdir()
    await asyncio.to_thread(_alembic, empty_url, "upgrade", "r0002")
    async with locked_connection(empty_url) as connection:
        for statement in (
            "INSERT INTO traces"
            " (id, vhost, policy, quiet, wanted, created_at, events, last_event_id)"
            " VALUES (1, '/', 'client', '[]', true, 0, 0, 0)",
            "INSERT INTO open_channels (trace_id, pid, state) VALUES (1, '<1.2.3>', 'old')",
        ):
            await connection.execute(text(statement))
    await migrate(empty_url)
    async with locked_connection(empty_url) as connection:
        assert await connection.scalar(text("SELECT count(*) FROM open_channels")) == 0


@pytest.mark.parametrize(
    ("participant", "seq", "last_id", "pruned"),
    [
        (1, 1, 7, False),
        (1, 2, 7, True),
        (2, 1, 7, True),
        (None, None, 7, True),
        (None, None, 0, False),
    ],
)
async def test_a_trace_of_an_older_program_is_pruned_where_the_first_event_is_gone(
    empty_url: str, participant: int | None, seq: int | None, last_id: int, pruned: bool
) -> None:
    if empty_url.startswith("sqlite"):
        Path(make_url(empty_url).database or "").parent.mkdir()
    await asyncio.to_thread(_alembic, empty_url, "upgrade", "r0003")
    async with locked_connection(empty_url) as connection:
        await connection.execute(
            text(
                "INSERT INTO traces"
                " (id, vhost, policy, quiet, wanted, created_at, events, last_event_id)"
                " VALUES (1, '/', 'client', '[]', true, 0, 0, :last_id)"
            ),
            {"last_id": last_id},
        )
        if participant is not None:
            await connection.run_sync(_insert_event, participant, seq)
    await migrate(empty_url)
    async with locked_connection(empty_url) as connection:
        assert bool(await connection.scalar(text("SELECT pruned FROM traces"))) is pruned


def _insert_event(connection: Connection, participant: int, seq: int) -> None:
    """An event of trace 1, with 1 for each number that it must have."""
    columns = [
        column
        for column in inspect(connection).get_columns("events")
        if not column["nullable"] and column["default"] is None
    ]
    values = {column["name"]: column["type"].python_type(1) for column in columns}
    values |= {"id": 7, "trace_id": 1, "participant": participant, "seq": seq}
    names = ", ".join(f'"{name}"' for name in values)
    connection.execute(
        text(f"INSERT INTO events ({names}) VALUES ({', '.join(f':{name}' for name in values)})"),
        values,
    )


def test_alembic_s_own_command_line_finds_nothing_to_do(database_url: str) -> None:
    assert "No new upgrade operations" in _alembic(database_url, "check")


async def test_the_statements_alone_make_the_same_tables(empty_url: str) -> None:
    statements = await asyncio.to_thread(_alembic, empty_url, "upgrade", "head", "--sql")
    if empty_url.startswith("sqlite"):
        path = Path(make_url(empty_url).database or "")
        path.parent.mkdir()
        with contextlib.closing(sqlite3.connect(path)) as connection:
            connection.executescript(statements)
    else:
        driver = await asyncpg.connect(
            make_url(empty_url).set(drivername="postgresql").render_as_string(False)
        )
        await driver.execute(statements)
        await driver.close()
    async with locked_connection(empty_url) as connection:
        assert await connection.run_sync(_differences) == []
    store = await Store.open(empty_url)
    await store.close()


async def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SettingsError, match=r"the folder .*file/under cannot be made"):
        await migrate(f"sqlite:///{tmp_path / 'file' / 'under' / 'itc.db'}")


async def test_a_file_that_is_not_a_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "itc.db"
    path.write_text("some notes, and no database at all " * 100)
    with pytest.raises(SettingsError, match="no SQLite database"):
        await migrate(f"sqlite:///{path}")
    assert path.read_text().startswith("some notes")


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("mysql://u:secret@h/d", "no mysql here"),
        ("nonsense secret", "cannot be read"),
        ("postgresql://u:secret@h:port/d", "cannot be read"),
        ("sqlite://", "needs a file"),
        ("sqlite:///:memory:", "needs a file"),
        ("sqlite://secret@h/itc.db", "a file has no host"),
    ],
)
async def test_an_invalid_address_is_refused_without_showing_it(url: str, reason: str) -> None:
    for attempt in (Store.open, migrate):
        with pytest.raises(SettingsError, match=reason) as caught:
            await attempt(url)
        assert "secret" not in str(caught.value)
