"""PostgreSQL, as the store uses it."""

from __future__ import annotations

import functools
import re
import socket
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

import sqlalchemy as sa
from asyncpg import exceptions as errors
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects.postgresql import JSON, JSONB, Insert
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool

from app.store.database.chunks import inserts, upserts
from app.store.database.lanes import POOL_SECONDS, Lane
from app.store.database.searched import Writing
from model.words import EdgeKind

T = TypeVar("T")

NAME = "postgresql"

WRITERS = 4
READERS = {Lane.quick: 8, Lane.follow: 2, Lane.bulk: 2}
CONNECT_SECONDS = 10
STATEMENT_SECONDS = 60  # a server that hangs must not hang the service
# A network that drops everything silently is noticed within this time, at both ends. A server that
# is only slow is not affected: its system answers for it.
DEAD_SECONDS = 20
# A writer that is silent this long in a transaction is stopped or cut off, and its locks delay
# everybody.
IDLE_SECONDS = 10
ADVISORY_LOCK = 15_680  # any number, the same for all who change tables

_CONNECTION_LOST = "the connection to the database was lost"
# By SQLSTATE, by its first three characters, or by its class, the first two.
_OUTAGES = {
    "08": _CONNECTION_LOST,
    "25006": "the database only reads: a standby, perhaps, that took over",
    "25P04": "the database broke off the transaction",
    "53": "the database is out of memory, connections or disk space",
    "55P03": "the database is locked",
    "25P03": "the database broke off a transaction that stood still",
    "40": "the database broke off the transaction",
    "57P": _CONNECTION_LOST,
    "57P01": "the database is shutting down",
    "57P02": "the database has crashed",
    "57P03": "the database is starting up",
    "58": "the database's disk gave an error",
    "XX000": "the database had an internal error",
}
# Texts of the driver's errors when a connection broke at a moment that it did not expect: their
# classes are also those of wrong calls.
_CONNECTION_BROKEN = re.compile(
    "clos(ed|ing)|another operation|released back|manually started transaction|the transaction is"
)
_SETTINGS = {
    "28": "the database does not accept this user and password",
    "3D": "there is no database of this name",
}
# Classes of errors about values: two of a key, no text or number of its, one that is missing or
# there already, and one that is too large.
_VALUE_ERRORS = ("21", "22", "23", "54")

_PROGRAM = "rabbitmq-itc"

# The row's xmax is the transaction that has it locked.
_BREAK_OFF = """
SELECT pg_terminate_backend(other.pid) FROM traces
JOIN pg_stat_activity AS other ON other.backend_xid = traces.xmax
WHERE traces.id = :trace AND other.usename = current_user AND other.pid <> pg_backend_pid()
"""


# From some events along messages and links, each event once. PostgreSQL takes one recursive term.
_LED_TO = sa.text(
    "WITH RECURSIVE reached(id) AS ("
    "SELECT id FROM events WHERE id IN :ids"
    " UNION SELECT following.id FROM reached CROSS JOIN LATERAL ("
    "SELECT events.id FROM events WHERE events.cause_id = reached.id AND NOT events.quiet"
    " UNION ALL SELECT edges.effect_id FROM edges"
    " WHERE edges.trace_id = :trace AND edges.cause_id = reached.id AND edges.kind <> :candidate"
    " AND NOT EXISTS (SELECT 1 FROM events WHERE id = edges.effect_id AND quiet)"
    ") AS following) SELECT id FROM reached LIMIT :most"
).bindparams(sa.bindparam("ids", expanding=True), candidate=int(EdgeKind.candidate))


@functools.cache
def _with_numbers(statement: str) -> sa.TextClause:
    """A statement of our own with its parameters, numbers as large as ids."""
    clause = sa.text(statement)
    names = {*re.findall(r"(?<!:):(\w+)", statement)}
    return clause.bindparams(*(sa.bindparam(name, type_=sa.BigInteger) for name in names))


class Postgres:
    """The dialect of PostgreSQL."""

    name = NAME
    readers = READERS
    is_alone = False  # other services can use the database

    led_to = _LED_TO
    listed = "string_agg(id::text, ',')"
    keys = Writing(with_runs=False)
    # The driver takes these as they are.
    flags = (False, True)
    absent = None
    blob = bytes
    knows_usual = False

    def __init__(self, url: sa.URL, service: str | None = None) -> None:
        """Accepts libpq's ``sslmode`` too, since Spark's driver needs it in the same address.

        The server shows ``service`` with each connection.
        """
        self._application_name = _PROGRAM if service is None else f"{_PROGRAM} {service}"
        query = dict(url.query)
        if "sslmode" in query:
            query["ssl"] = query.pop("sslmode")
        self._url = url.set(drivername="postgresql+asyncpg", query=query)

    def writer(self) -> AsyncEngine:
        return self._engine(WRITERS, idle_in_transaction_session_timeout=str(IDLE_SECONDS * 1000))

    def reader(self, connections: int = 1, lane: Lane = Lane.quick) -> AsyncEngine:
        del lane  # its server remembers for all of them
        return self._engine(
            connections,
            default_transaction_read_only="on",
            # All statements of a transaction see the store as of its first, as on SQLite.
            default_transaction_isolation="repeatable read",
        )

    def migrator(self) -> AsyncEngine:
        """The engine of a connection that changes tables, however long it takes."""
        return create_async_engine(
            self._url,
            connect_args={"timeout": CONNECT_SECONDS},
            poolclass=NullPool,
            hide_parameters=True,
        )

    async def lock_tables(self, connection: AsyncConnection) -> None:
        """Keep others from changing tables until this transaction ends."""
        await connection.execute(sa.func.pg_advisory_xact_lock(ADVISORY_LOCK).select())

    def _engine(self, connections: int, **server_settings: str) -> AsyncEngine:
        engine = create_async_engine(
            self._url,
            connect_args={
                "timeout": CONNECT_SECONDS,
                "command_timeout": STATEMENT_SECONDS,
                # JIT compilation pays for long queries; these are short, and many.
                "server_settings": {
                    "application_name": self._application_name,
                    "jit": "off",
                    "tcp_keepalives_idle": str(DEAD_SECONDS // 2),
                    "tcp_keepalives_interval": str(DEAD_SECONDS // 4),
                    "tcp_keepalives_count": "2",
                    **server_settings,
                },
            },
            pool_size=connections,
            max_overflow=0,
            pool_timeout=POOL_SECONDS,
            pool_pre_ping=True,  # connections from before the server's restart are dead
            hide_parameters=True,
        )
        sa.event.listen(engine.sync_engine, "connect", _watch)
        return engine

    async def insert_many(
        self, connection: AsyncConnection, table: sa.TableClause, rows: Sequence[tuple[Any, ...]]
    ) -> None:
        """Insert rows with a value for each of the table's columns, in their order.

        By COPY, inside the connection's transaction, which an earlier statement must have begun.
        """
        if not rows:
            return
        driver: Any = (await connection.get_raw_connection()).driver_connection
        names = [column.name for column in table.columns]
        await driver.copy_records_to_table(table.name, records=rows, columns=names)

    async def upsert_many(
        self,
        connection: AsyncConnection,
        table: sa.Table,
        rows: Sequence[tuple[Any, ...]],
        changing: tuple[str, ...],
    ) -> None:
        if rows:
            columns = tuple(zip(*rows, strict=True))
            types = [column.type.compile(connection.dialect) for column in table.columns]
            await connection.exec_driver_sql(_upsert(table, changing, tuple(types)), columns)

    def upsert(self, table: sa.Table) -> Insert:
        return postgresql.insert(table)

    async def rows_of(
        self, connection: AsyncConnection, statements: Sequence[str], parameters: Mapping[str, int]
    ) -> Sequence[Sequence[Any]]:
        """The rows of each statement; it may leave out parameters, which are whole numbers."""
        if not parameters:
            return [(await connection.exec_driver_sql(statement)).all() for statement in statements]
        return [
            (await connection.execute(_with_numbers(statement), parameters)).all()
            for statement in statements
        ]

    def numbers(self, rows: Sequence[tuple[int | None, ...]]) -> tuple[str, tuple[Any, ...]]:
        columns = tuple(zip(*rows, strict=True))
        arrays = ", ".join(f"${position}::BIGINT[]" for position in range(1, len(columns) + 1))
        return f"SELECT * FROM unnest({arrays})", columns  # noqa: S608  numbers of places

    async def run_quickly(self, connection: AsyncConnection, work: Coroutine[Any, Any, T]) -> T:
        return await work

    async def limit_time(self, connection: AsyncConnection, seconds: float | None) -> None:
        """Interrupt each statement of this transaction after this time."""
        if seconds is not None:
            await _set(connection, "statement_timeout", str(round(seconds * 1000)))

    async def follow_indexes(self, connection: AsyncConnection) -> None:
        """Find last rows along an index: without statistics the server would sort all of them."""
        await _set(connection, "enable_sort", "off")

    async def limit_waiting(self, connection: AsyncConnection, seconds: float) -> None:
        """Have each statement of this transaction wait no longer for somebody's lock."""
        await _set(connection, "lock_timeout", str(round(seconds * 1000)))

    async def break_off(self, connection: AsyncConnection, trace_id: int) -> None:
        """End the connection that has a trace's row locked.

        The server may take a client for alive that was stopped or cut off long ago.
        """
        await connection.execute(sa.text(_BREAK_OFF), {"trace": trace_id})

    def is_gone(self, service: sa.ColumnElement[str]) -> sa.ColumnElement[bool]:
        sessions = sa.table("pg_stat_activity", sa.column("application_name", sa.Text))
        name = sessions.c.application_name
        return ~sa.exists().where(name == sa.literal(f"{_PROGRAM} ") + service)

    def now(self, clock: Callable[[], int]) -> sa.ColumnElement[int]:
        """The server's time, µs: several services use it."""
        del clock
        seconds = sa.func.extract("epoch", sa.func.clock_timestamp())
        return sa.cast(seconds * 1_000_000, sa.BigInteger)

    async def size(self, connection: AsyncConnection) -> int:
        """Bytes that the database takes, including space that its vacuum has not given back."""
        size = sa.select(sa.func.pg_database_size(sa.func.current_database()))
        return int((await connection.execute(size)).scalar_one())

    async def reclaim(self, connection: AsyncConnection) -> bool:
        """False, with nothing done: the server's own vacuum does it."""
        return False

    def contains(self, column: sa.ColumnElement[Any], part: str | bytes) -> sa.ColumnElement[bool]:
        return sa.func.position(sa.literal(part).op("IN")(column)) > 0

    def searchable(
        self,
        payload: sa.ColumnElement[bytes | None],
        encoding: sa.ColumnElement[str | None],
        escapes: bool,
    ) -> None:
        """None: the server has no function that reads gzip, nor one for JSON that is cut."""

    def property_text(
        self, column: sa.ColumnElement[str], *path: str
    ) -> sa.ColumnElement[str | None]:
        # One NUL in any of the values, and the server refuses to read the whole.
        readable = sa.cast(sa.func.replace(column, r"\u0000", r"\ufffd"), JSON)
        return sa.func.json_extract_path_text(readable, *path)

    def elements(self, column: sa.ColumnElement[str]) -> sa.TableValuedAlias:
        texts = sa.func.jsonb_array_elements_text(sa.cast(column, JSONB))
        return texts.table_valued("value")

    def outage(self, error: BaseException) -> str | None:
        if isinstance(error, errors.InvalidCachedStatementError):
            return "the database's tables were changed"
        if isinstance(error, errors.PostgresError):
            return _by_state(_OUTAGES, error)
        if isinstance(error, errors.InternalClientError):  # the driver is out of step
            return _CONNECTION_LOST
        if isinstance(error, errors.InterfaceError) and _CONNECTION_BROKEN.search(str(error)):
            return _CONNECTION_LOST
        if isinstance(error, OSError):  # TimeoutError among them
            return f"the database at {self._url.host} cannot be reached"
        return None

    def settings_fault(self, error: BaseException) -> str | None:
        return _by_state(_SETTINGS, error) if isinstance(error, errors.PostgresError) else None

    def refuses(self, error: BaseException) -> bool:
        state = getattr(error, "sqlstate", None) if isinstance(error, errors.PostgresError) else ""
        return (state or "")[:2] in _VALUE_ERRORS

    def regex_fault(self, error: BaseException) -> str | None:
        """The server's complaint about an invalid regular expression, in a sentence."""
        if isinstance(error, errors.InvalidRegularExpressionError):
            return f"not one of PostgreSQL's regular expressions: {error}"
        return None

    def is_timeout(self, error: BaseException) -> bool:
        return isinstance(error, errors.QueryCanceledError)


async def _set(connection: AsyncConnection, name: str, value: str) -> None:
    """Set one of the server's settings until this transaction ends."""
    await connection.execute(sa.func.set_config(name, value, True).select())


def _watch(connection: Any, _: object) -> None:
    """Have our system notice a server that is gone, as the server does for us."""
    client = connection.driver_connection._transport.get_extra_info("socket")
    if client is None or client.family == socket.AF_UNIX or not hasattr(socket, "TCP_USER_TIMEOUT"):
        return
    client.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        (socket.TCP_KEEPIDLE, DEAD_SECONDS // 2),
        (socket.TCP_KEEPINTVL, DEAD_SECONDS // 4),
        (socket.TCP_KEEPCNT, 2),
        (socket.TCP_USER_TIMEOUT, DEAD_SECONDS * 1000),
    ):
        client.setsockopt(socket.IPPROTO_TCP, option, value)


@functools.cache
def _upsert(table: sa.Table, changing: tuple[str, ...], types: tuple[str, ...]) -> str:
    arrays = ", ".join(f"${position}::{kind}[]" for position, kind in enumerate(types, 1))
    return f"{inserts(table)} SELECT * FROM unnest({arrays}){upserts(table, changing)}"  # noqa: S608  our own names


def _by_state(sentences: dict[str, str], error: errors.PostgresError) -> str | None:
    state: str = getattr(error, "sqlstate", None) or ""
    return sentences.get(state) or sentences.get(state[:3]) or sentences.get(state[:2])
