"""The store as Spark's side sees it: one address, read through ADBC as Arrow.

The service's settings hold the address in SQLAlchemy's form (``sqlite+aiosqlite:///path``,
``postgresql+asyncpg://user:password@host/name``); `DatabaseAddress.from_url` is the only place that
translates it. Executors open their own connections, so a `DatabaseAddress` travels to them inside
pickled functions; neither its text form nor the errors raised here contain the password.

Its driver has an SQLite of its own, which takes the log from a connection of Python's in the same
process: a process that reads here has no store open.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

import adbc_driver_manager.dbapi
import adbc_driver_postgresql.dbapi
import adbc_driver_sqlite
import adbc_driver_sqlite.dbapi
import pyarrow as pa

from model.jobs import Problem
from spark_jobs.errors import JobError

Dialect: TypeAlias = Literal["sqlite", "postgresql"]

# asyncpg's and libpq's names differ in one option; libpq does not know the rest of asyncpg's.
LIBPQ_OPTIONS = {
    "ssl": "sslmode",
    "sslmode": "sslmode",
    "sslrootcert": "sslrootcert",
    "sslcert": "sslcert",
    "sslkey": "sslkey",
    "host": "host",
    "port": "port",
    "application_name": "application_name",
    "connect_timeout": "connect_timeout",
}
TABLES = re.compile(r"no such (table|column)|(relation|column) .* does not exist")
DAMAGED = re.compile(r"malformed|not a database")
# SQLite's driver takes a column's type from its first batch; PostgreSQL's has a bound of its own.
SQLITE_BATCH_ROWS = "adbc.sqlite.query.batch_rows"


@dataclass(frozen=True)
class DatabaseAddress:
    """The address of the events. ``uri`` is what ADBC takes, without the password."""

    dialect: Dialect
    uri: str
    password: str | None = field(default=None, repr=False)

    @classmethod
    def from_url(cls, url: str) -> DatabaseAddress:
        """Translate a SQLAlchemy database URL.

        Raises `JobError` if it names neither SQLite nor PostgreSQL, or no SQLite file.
        """
        scheme = url.partition(":")[0].partition("+")[0]
        if scheme == "sqlite":
            return _sqlite(url)
        if scheme in ("postgresql", "postgres"):
            return _postgresql(url)
        raise JobError(
            Problem.bad_request,
            f"The database URL begins with '{scheme}'; chain jobs read sqlite and postgresql.",
        )

    @property
    def file(self) -> str:
        """Path of the SQLite store."""
        return unquote(urlsplit(self.uri).path)

    def query(self, sql: str, batch_rows: int = 4096) -> Iterator[pa.RecordBatch]:
        """Run one SELECT on a connection of its own; yield its batches."""
        with self.connect() as connection:
            yield from connection.query(sql, batch_rows)

    @contextmanager
    def connect(self) -> Iterator[Connection]:
        """One connection, read-only on SQLite, closed on leaving."""
        with self.explain_errors():
            connection = self._open()
        try:
            yield Connection(self, connection)
        finally:
            connection.close()

    @contextmanager
    def explain_errors(self) -> Iterator[None]:
        """Turn a driver's error into a sentence, without the password."""
        try:
            yield
        except adbc_driver_manager.dbapi.Error as error:
            text = str(error)
            if self.password:
                text = text.replace(self.password, "***")
            raise JobError(Problem.outage, _sentence(text)) from None

    def _open(self) -> Any:
        if self.dialect == "sqlite":
            if not Path(self.file).is_file():
                raise JobError(
                    Problem.outage,
                    f"There is no SQLite store at {self.file}; start the service once.",
                )
            return adbc_driver_sqlite.dbapi.connect(self.uri, autocommit=True)
        return adbc_driver_postgresql.dbapi.connect(self._with_password(), autocommit=True)

    def _with_password(self) -> str:
        if self.password is None:
            return self.uri
        separator = "&" if "?" in self.uri else "?"
        return f"{self.uri}{separator}password={quote(self.password, safe='')}"


class Connection:
    """One open connection to the store."""

    def __init__(self, database: DatabaseAddress, connection: Any) -> None:
        self.database = database
        self._connection = connection

    def query(self, sql: str, batch_rows: int = 4096) -> Iterator[pa.RecordBatch]:
        """Yield the answer's batches; on SQLite of at most ``batch_rows`` rows each."""
        with self.database.explain_errors(), self._connection.cursor() as cursor:
            if self.database.dialect == "sqlite":
                cursor.adbc_statement.set_options(**{SQLITE_BATCH_ROWS: str(batch_rows)})
            cursor.execute(sql)
            yield from cursor.fetch_record_batch()

    def rows(self, sql: str) -> list[dict[str, Any]]:
        """The whole of a small answer, one dictionary per row."""
        return [row for batch in self.query(sql) for row in batch.to_pylist()]


def _sqlite(url: str) -> DatabaseAddress:
    path = unquote(urlsplit(url).path).removeprefix("/")
    if not path or path == ":memory:":
        raise JobError(
            Problem.bad_request, "An SQLite store must be a file: sqlite+aiosqlite:///path/to.db"
        )
    return DatabaseAddress("sqlite", f"file:{quote(str(Path(path).absolute()))}?mode=ro")


def _postgresql(url: str) -> DatabaseAddress:
    parts = urlsplit(url)
    user, host = parts.username or "", parts.hostname or ""
    host = f"[{host}]" if ":" in host else host
    port = f":{parts.port}" if parts.port else ""
    options = {
        LIBPQ_OPTIONS[name]: value
        for name, value in parse_qsl(parts.query)
        if name in LIBPQ_OPTIONS
    }
    query = f"?{urlencode(options)}" if options else ""
    password = unquote(parts.password) if parts.password is not None else None
    address = f"{user}@{host}" if user else host
    return DatabaseAddress(
        "postgresql", f"postgresql://{address}{port}{parts.path}{query}", password
    )


def _sentence(text: str) -> str:
    """A sentence on what an operator can do about a driver's error."""
    if TABLES.search(text):
        return f"The store's tables are missing or old; run `rabbitmq-itc migrate` on it. ({text})"
    if DAMAGED.search(text):
        return f"The SQLite file is damaged or is no store; restore it from a backup. ({text})"
    return f"The database cannot be read; check that it is up and reachable. ({text})"
