"""Brings a database's tables up to date, and reports outdated ones."""

from __future__ import annotations

import functools
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, FromClause, text
from sqlalchemy.ext.asyncio import AsyncConnection

from app.errors import SettingsError
from app.store.database.engine import dialect_of, parse_url, translate_errors
from app.store.database.searched import keys
from app.store.database.tables import metadata

# Revisions of the time before the first release were plain numbers.
_UNRELEASED = re.compile(r"\d{4}")

# In one statement: the library asks for one table after the other.
_COLUMNS = {
    # A view whose table is gone cannot be asked for its columns.
    "sqlite": "SELECT its.name, c.name FROM sqlite_master AS its, pragma_table_info(its.name) AS c"
    " WHERE its.type = 'table'",
    # Anywhere on the search path: a schema may have come before that of the tables.
    "postgresql": "SELECT relname, attname FROM pg_class AS its"
    " JOIN pg_attribute ON attrelid = its.oid"
    " WHERE pg_table_is_visible(its.oid) AND attnum > 0 AND NOT attisdropped",
}


class SchemaState(msgspec.Struct, frozen=True):
    """The revision that a database's tables have, and the one that this program needs.

    ``found`` is None for a database without our tables. ``is_newer``: a later version of this
    program made them. ``lacking`` are columns that tables of the needed revision would have, as
    ``table.column``.
    """

    found: str | None
    needed: str
    is_newer: bool = False
    lacking: tuple[str, ...] = ()

    @property
    def is_current(self) -> bool:
        return self.found == self.needed and not self.lacking

    @property
    def fault(self) -> tuple[str, str] | None:
        """A fault that `migrate` cannot mend, and what to do; None if there is none."""
        if self.found is not None and _UNRELEASED.fullmatch(self.found):
            return (
                f"the database's tables ({self.found}) are of a version before the first release",
                "carry its events over with that version's rabbitmq-itc archive, which writes"
                " them as Parquet, and give this program an empty database",
            )
        if self.is_newer:
            return (
                f"the database's tables are of a newer version ({self.found}) than this"
                f" program's ({self.needed})",
                "use the newer program",
            )
        if self.found == self.needed and self.lacking:
            return (
                f"the database's tables are at {self.found}, but lack {_abridge(self.lacking)}",
                "somebody has changed them: restore a backup",
            )
        return None


async def migrate(database_url: str) -> SchemaState:
    """Bring the tables up to date; creates the database file and its folder if needed.

    Several processes may call it at once, and one of them does the work; within a process only
    one caller at a time, because Alembic keeps its state in globals.

    Returns the state before. Raises `SettingsError` if the tables are another program's or have
    been changed, and `OutageError`.
    """
    _make_folder(database_url)
    with translate_errors(dialect_of(database_url)):
        async with locked_connection(database_url) as connection:
            state = await connection.run_sync(_state)
            if state.fault is not None:
                raise _schema_error(state)
            if not state.is_current:
                await connection.run_sync(
                    lambda sync_connection: command.upgrade(
                        migration_config(sync_connection), "head"
                    )
                )
    return state


async def schema_state(database_url: str) -> SchemaState:
    """The tables' state; raises `OutageError`."""
    with translate_errors(dialect_of(database_url)):
        async with locked_connection(database_url) as connection:
            return await connection.run_sync(_state)


async def check_schema(connection: AsyncConnection) -> None:
    """Raise `SettingsError`, which says what to do, unless the tables are up to date."""
    state = await connection.run_sync(_state)
    if not state.is_current:
        raise _schema_error(state)


@asynccontextmanager
async def locked_connection(database_url: str) -> AsyncIterator[AsyncConnection]:
    """A connection in one transaction, during which nobody else can change the tables."""
    dialect = dialect_of(database_url)
    engine = dialect.migrator()
    try:
        async with engine.begin() as connection:
            await dialect.lock_tables(connection)
            yield connection
    finally:
        await engine.dispose()


def migration_config(connection: Connection | None = None) -> Config:
    """Alembic's configuration without its file: works in a checkout and an installed wheel."""
    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(_scripts()).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config


def _scripts() -> Path:
    packaged = Path(__file__).parents[1] / "migrations"
    return packaged if packaged.is_dir() else Path(__file__).parents[3] / "alembic"


def _make_folder(database_url: str) -> None:
    url = parse_url(database_url)
    if url.get_backend_name() != "sqlite" or not url.database:
        return
    folder = Path(url.database).absolute().parent
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsError(
            f"ITC_DATABASE_URL: the folder {folder} cannot be made ({error.strerror})"
        ) from error


@functools.cache
def _revisions() -> tuple[str, ...]:
    """This program's revisions, the newest first."""
    scripts = ScriptDirectory.from_config(migration_config())
    return tuple(str(script.revision) for script in scripts.walk_revisions())


def _state(connection: Connection) -> SchemaState:
    revision = MigrationContext.configure(connection).get_current_revision()
    newest, *older = _revisions()
    lacking = _missing_columns(connection) if revision == newest else ()
    return SchemaState(revision, newest, revision not in (newest, *older, None), lacking)


def _missing_columns(connection: Connection) -> tuple[str, ...]:
    query = text(_COLUMNS[connection.dialect.name])
    present = {f"{table}.{column}" for table, column in connection.execute(query)}
    tables: dict[str, FromClause] = {**metadata.tables, "keys": keys}
    columns = [f"{name}.{column}" for name, table in tables.items() for column in table.c.keys()]  # noqa: SIM118  no mapping
    return tuple(column for column in columns if column not in present)


def _abridge(columns: tuple[str, ...]) -> str:
    rest = len(columns) - 3
    return ", ".join(columns[:3]) + (f" and {rest} more columns" if rest > 0 else "")


def _schema_error(state: SchemaState) -> SettingsError:
    if state.fault is not None:
        fault, remedy = state.fault
        return SettingsError(f"ITC_DATABASE_URL: {fault}: {remedy}")
    revision = "has no tables yet" if state.found is None else f"is at {state.found}"
    return SettingsError(
        f"ITC_DATABASE_URL: the database {revision}, and this program needs {state.needed}: "
        "run rabbitmq-itc migrate"
    )
