"""Connections to the database, and the edge at which its errors are translated."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TypeAlias

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.ext.asyncio import AsyncConnection

from app.errors import BadRequestError, OutageError, SettingsError
from app.store import postgres, sqlite

Dialect: TypeAlias = sqlite.Sqlite | postgres.Postgres


def parse_url(database_url: str) -> URL:
    """The address's parts; `SettingsError`, which never shows the address, where it is none."""
    try:
        url = make_url(database_url)
    except (ArgumentError, ValueError):
        # Not the library's text: it may hold a piece of the password.
        raise SettingsError(
            "ITC_DATABASE_URL cannot be read: expected sqlite:///file or "
            "postgresql://user:password@host/database"
        ) from None
    if url.get_backend_name() not in (sqlite.NAME, postgres.NAME):
        raise SettingsError(
            f"ITC_DATABASE_URL: no {url.get_backend_name()} here, SQLite or PostgreSQL"
        )
    return url


def dialect_of(database_url: str) -> Dialect:
    """The dialect that an address asks for; `SettingsError` where there is none."""
    url = parse_url(database_url)
    return sqlite.Sqlite(url) if url.get_backend_name() == sqlite.NAME else postgres.Postgres(url)


class Database:
    """Connections for reading and for writing, each in a transaction of its own."""

    def __init__(self, database_url: str) -> None:
        """Connect to nothing yet: that happens with the first transaction."""
        self.dialect = dialect_of(database_url)
        self._reader = self.dialect.reader()
        self._writer = self.dialect.writer()

    async def close(self) -> None:
        """Close all connections."""
        await self._reader.dispose()
        await self._writer.dispose()

    @asynccontextmanager
    async def reading(self, seconds: float | None = None) -> AsyncIterator[AsyncConnection]:
        """A connection that only reads; given seconds, a query that takes longer is broken off.

        Raises `OutageError`, and `BadRequestError` at the end of the time.
        """
        with translated(self.dialect):
            async with self._reader.begin() as connection:
                await self.dialect.limit_time(connection, seconds)
                yield connection

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[AsyncConnection]:
        """A connection whose transaction is committed behind the block, and undone by an error.

        Raises `OutageError`; one that comes at the commit leaves open whether it took place.
        """
        with translated(self.dialect):
            async with self._writer.begin() as connection:
                yield connection


@contextmanager
def translated(dialect: Dialect) -> Iterator[None]:
    """Turn a database that is away into `OutageError`, a wrong address into `SettingsError`.

    What is neither is a mistake in this program, and leaves as it is.
    """
    try:
        yield
    except PoolTimeoutError as error:
        raise OutageError("the database is too busy: no connection became free") from error
    except Exception as error:
        # Each driver's errors come raw or wrapped, as the library pleases.
        for each in _and_causes(error):
            if what := dialect.outage(each):
                raise OutageError(what) from error
            if what := dialect.misconfigured(each):
                raise SettingsError(f"ITC_DATABASE_URL: {what}") from error
            if dialect.is_timeout(each):
                raise BadRequestError(
                    "this takes too long to find: narrow it down by vhost, since, until or after"
                ) from error
        raise


def _and_causes(error: BaseException) -> Iterator[BaseException]:
    """An error, what it wraps and what it came from, the outermost first."""
    seen: BaseException | None = error
    for _ in range(8):
        if seen is None:
            return
        yield seen
        original = getattr(seen, "orig", None)
        seen = original if isinstance(original, BaseException) else seen.__cause__
