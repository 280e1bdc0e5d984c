"""Runs the migrations: on a connection passed in, on ITC_DATABASE_URL, or as SQL text.

`app.store.database.migrate` passes a connection. `alembic` on the command line opens its own, or
with ``--sql`` prints the statements, for those who may not connect.
"""

from __future__ import annotations

import asyncio
import os
from logging.config import fileConfig

from alembic import context
from sqlalchemy import Connection

from app.store.database.engine import dialect_of
from app.store.database.migrate import locked_connection
from app.store.database.searched import is_of_metadata
from app.store.database.tables import metadata


def _database_url() -> str:
    argument = context.get_x_argument(as_dictionary=True).get("url")
    url = argument or os.environ.get("ITC_DATABASE_URL")
    if not url:
        raise SystemExit("set ITC_DATABASE_URL, or give alembic -x url=…")
    return url


def _migrate(connection: Connection) -> None:
    context.configure(connection=connection, target_metadata=metadata, include_name=is_of_metadata)
    with context.begin_transaction():
        context.run_migrations()


async def _connect_and_migrate() -> None:
    async with locked_connection(_database_url()) as connection:
        await connection.run_sync(_migrate)


def _write_statements() -> None:
    context.configure(
        dialect_name=dialect_of(_database_url()).name,
        target_metadata=metadata,
        literal_binds=True,
        dialect_opts={"paramstyle": "named"},
    )
    with context.begin_transaction():
        context.run_migrations()


handed_in = context.config.attributes.get("connection")
if handed_in is not None:
    _migrate(handed_in)
else:
    if context.config.config_file_name is not None:
        fileConfig(context.config.config_file_name, disable_existing_loggers=False)
    if context.is_offline_mode():
        _write_statements()
    else:
        asyncio.run(_connect_and_migrate())
