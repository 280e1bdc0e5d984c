"""SQLite, as the store uses it: one file, one writer, readers beside it (write-ahead log)."""

from __future__ import annotations

import functools
import itertools
import operator
import sqlite3
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.dialects import sqlite
from sqlalchemy.dialects.sqlite import Insert
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import ConnectionPoolEntry

from app.errors import SettingsError
from app.store.database import regex
from app.store.database.chunks import inserts, upserts
from app.store.database.lanes import POOL_SECONDS, Lane
from app.store.database.one_trip import all_rows, connect_sqlite, in_its_thread
from app.store.database.searched import Writing, keys
from app.store.database.tables import EVENT_ROWS, USUAL, events
from model.bodies import searchable
from model.words import EdgeKind

T = TypeVar("T")

NAME = "sqlite"

READERS = {Lane.quick: 4, Lane.follow: 2, Lane.bulk: 2}
# Each connection's cache of the file, in KiB; scans of the whole file would not gain from more.
CACHED = {Lane.quick: 65_536, Lane.probe: 64}
CACHED_ELSE = 16_384
BUSY_SECONDS = 10  # another process writes: one that runs traces, or migrates; never Spark
# SQLite's own waiting checks less and less often, in the end ten times a second, and meanwhile
# nobody uses the file.
TURN_SECONDS = 0.001

# Python's lock is released and taken again for each statement, while the event loop wants it too:
# with 32 rows in each, capture is a tenth slower. So a whole batch goes in a few statements, each
# with as many rows as fit.
ROWS_A_STATEMENT = (250, 25, 1)

# For a value that is no number, no text and no bytearray, Python's driver looks for an adapter: by
# its type, and if none is registered, in its class and itself, which formats and drops two
# exceptions. These adapters, which change nothing, save a third of the time to store an event. To
# look for one still takes 1,200 instructions, and a row of an event would have ten such values: so
# it has none (`Sqlite.absent`, `Sqlite.blob`).
_UNCHANGED: dict[type, Callable[[Any], Any]] = {
    bytes: bytes.__bytes__,
    bool: operator.index,
    type(None): dict[None, None]().get,
}
for _type, _unchanged in _UNCHANGED.items():
    sqlite3.register_adapter(_type, _unchanged)

# SQLite calls Python's handler after this many instructions: about every millisecond.
INSTRUCTIONS_BETWEEN_LOOKS = 20_000

ABSENT = -1
# A statement of which all rows have the usual values says these itself: to bind a value, and to
# make NULL of one, takes as long as to put it into the row.
_REST = tuple(ABSENT if value is None else value for value in USUAL.values())

# Settings that the file keeps, and only a writer may set. The order matters: auto_vacuum can only
# be set before the first page is written, and the switch to WAL writes it.
_OF_FILE = ("auto_vacuum=INCREMENTAL", "journal_mode=WAL")

# synchronous=FULL: a batch is acknowledged to the broker after its commit, and then exists nowhere
# else. NORMAL does not sync the log at a commit, so a power cut would lose acknowledged batches.
# Measured on ext4, with batches of 500 and of 2,000 events: no visible difference, about 1 ms in
# 20 spent on anything but computing.
_OF_CONNECTION = (
    "synchronous=FULL",
    "foreign_keys=ON",
    "temp_store=MEMORY",
    "cache_size=-65536",  # KiB
    # Pages of the log until they go into the file (1,000 by default). Pages of an index are written
    # anew by batch after batch, and so go there once for several: capture takes 6 % less time.
    "wal_autocheckpoint=8000",
    "journal_size_limit=67108864",  # the log shrinks to this after a long reader let it grow
    # Debian's SQLite by default fills each page that becomes free with zeros and writes it: with
    # 1,000 participants two thirds of the pages that retention wrote were such.
    "secure_delete=FAST",
)

# Free pages that stay in the file for the next events; only those beyond are given back, because
# giving back and growing again costs more than keeping.
SPARE_PAGES = 1_000
_FREE = "freelist_count"
# Pages given back at once, while nobody else can write; the rest next time.
MOST_PAGES = 3_000

_UNUSABLE = {
    sqlite3.SQLITE_NOTADB: "the file is no SQLite database",
    sqlite3.SQLITE_CORRUPT: "the SQLite file is damaged: restore it from a backup, or move it away "
    "to begin anew",
}
_OUTAGES = {
    sqlite3.SQLITE_BUSY: "the database file is locked by another process",
    sqlite3.SQLITE_LOCKED: "the database file is locked",
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_IOERR: "the disk that holds the database gave an error",
    sqlite3.SQLITE_CANTOPEN: "the database file cannot be opened",
    sqlite3.SQLITE_READONLY: "the database file cannot be written to",
    sqlite3.SQLITE_PERM: "the database file may not be accessed",
}
_VALUE_ERRORS = (sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_MISMATCH)


# From some events along messages and links, each event once. SQLite has no lateral joins.
_LED_TO = sa.text(
    "WITH RECURSIVE reached(id) AS ("
    "SELECT id FROM events WHERE id IN :ids"
    " UNION SELECT events.id FROM reached CROSS JOIN events"
    " WHERE events.cause_id = reached.id AND NOT events.quiet"
    " UNION SELECT edges.effect_id FROM reached CROSS JOIN edges"
    " WHERE edges.trace_id = :trace AND edges.cause_id = reached.id AND edges.kind <> :candidate"
    " AND NOT EXISTS (SELECT 1 FROM events WHERE id = edges.effect_id AND quiet)"
    ") SELECT id FROM reached LIMIT :most"
).bindparams(sa.bindparam("ids", expanding=True), candidate=int(EdgeKind.candidate))


class Sqlite:
    """The dialect of SQLite."""

    name = NAME
    readers = READERS
    is_alone = True  # no other service can use the database

    led_to = _LED_TO
    listed = "group_concat(id)"
    keys = Writing(with_runs=True)
    # Values for which the driver looks for no adapter: false and true; NULL in an event's row,
    # where no number is negative; and bytes.
    flags = (0, 1)
    absent = ABSENT
    blob = bytearray
    knows_usual = True

    def __init__(self, url: sa.URL, service: str | None = None) -> None:
        """Refuse a database in memory: readers and the writer have separate connections."""
        if url.host or url.username:
            raise SettingsError("ITC_DATABASE_URL: a file has no host, sqlite:///path/to/file")
        if not url.database or url.database == ":memory:" or "mode=memory" in url.database:
            raise SettingsError("ITC_DATABASE_URL: SQLite needs a file, sqlite:///path/to/file")
        self._url = url.set(drivername="sqlite+aiosqlite")

    def writer(self) -> AsyncEngine:
        engine = self._writing_engine()
        # `_begin_to_write` does the waiting.
        sa.event.listen(engine.sync_engine, "connect", partial(_set, pragmas=[_busy_timeout(0)]))
        return engine

    def reader(self, connections: int = 1, lane: Lane = Lane.quick) -> AsyncEngine:
        """The engine of a lane's connections, which only read."""
        engine = self._engine(connections)
        cached = CACHED.get(lane, CACHED_ELSE)
        sa.event.listen(engine.sync_engine, "connect", partial(_set_up_reader, cached=cached))
        sa.event.listen(engine.sync_engine, "begin", _begin)
        return engine

    def migrator(self) -> AsyncEngine:
        engine = self._writing_engine()
        sa.event.listen(engine.sync_engine, "connect", _set_up_file)
        return engine

    async def lock_tables(self, connection: AsyncConnection) -> None:
        """Nothing to do: a writing transaction already keeps others from changing tables."""

    def _writing_engine(self) -> AsyncEngine:
        engine = self._engine(1)
        sa.event.listen(engine.sync_engine, "begin", _begin_to_write)
        return engine

    def _engine(self, connections: int) -> AsyncEngine:
        engine = create_async_engine(
            self._url,
            async_creator=partial(
                connect_sqlite,
                self._url.database or "",
                isolation_level=None,  # no transactions except those begun here
                timeout=BUSY_SECONDS,
            ),
            pool_size=connections,
            max_overflow=0,
            pool_timeout=POOL_SECONDS,
            hide_parameters=True,
        )
        sa.event.listen(engine.sync_engine, "connect", partial(_set, pragmas=_OF_CONNECTION))
        return engine

    async def insert_many(
        self, connection: AsyncConnection, table: sa.TableClause, rows: Sequence[tuple[Any, ...]]
    ) -> None:
        """Insert rows with a value for each of the table's columns, in their order."""
        await _insert(connection, table, rows)

    async def upsert_many(
        self,
        connection: AsyncConnection,
        table: sa.Table,
        rows: Sequence[tuple[Any, ...]],
        changing: tuple[str, ...],
    ) -> None:
        """Insert such rows, or set these columns of one with the same primary key."""
        await _insert(connection, table, rows, upserts(table, changing))

    def upsert(self, table: sa.Table) -> Insert:
        """An INSERT with an action on conflict."""
        return sqlite.insert(table)

    async def rows_of(
        self, connection: AsyncConnection, statements: Sequence[str], parameters: Mapping[str, Any]
    ) -> Sequence[Sequence[Any]]:
        """The rows of each statement; all of them in one trip to the connection's thread.

        A statement may leave out parameters.
        """
        raw = await connection.get_raw_connection()
        return await all_rows(raw.driver_connection, statements, parameters)

    def numbers(self, rows: Sequence[tuple[int | None, ...]]) -> tuple[str, tuple[Any, ...]]:
        """A table of whole numbers, at least a row, as the driver's SQL and its parameters."""
        row = f"({', '.join('?' * len(rows[0]))})"
        return f"VALUES {', '.join([row] * len(rows))}", tuple(itertools.chain.from_iterable(rows))

    async def run_quickly(self, connection: AsyncConnection, work: Coroutine[Any, Any, T]) -> T:
        """The result of ``work``, which waits for this connection alone: it runs in its thread."""
        raw = await connection.get_raw_connection()
        return await in_its_thread(raw.driver_connection, work)

    async def follow_indexes(self, connection: AsyncConnection) -> None:
        """Nothing to do: SQLite follows indexes anyway."""

    async def limit_time(self, connection: AsyncConnection, seconds: float | None) -> None:
        """Interrupt what this connection runs after this time; None for no limit."""
        raw = await connection.get_raw_connection()
        raw.info["deadline"].at = None if seconds is None else time.monotonic() + seconds

    async def limit_waiting(self, connection: AsyncConnection, seconds: float) -> None:
        """Nothing to do: a writing transaction has waited for its turn before it begins."""

    async def break_off(self, connection: AsyncConnection, trace_id: int) -> None:
        """Nothing to do: a process that is killed leaves no transaction open."""

    def is_gone(self, service: sa.ColumnElement[str]) -> sa.ColumnElement[bool]:
        """False: there is one service at a time."""
        return sa.false()

    def now(self, clock: Callable[[], int]) -> sa.ColumnElement[int]:
        """The time by our clock, µs: nobody else uses the file."""
        return sa.literal(clock())

    async def size(self, connection: AsyncConnection) -> int:
        """Bytes that tables and indexes take; free pages do not count."""
        pages, free, bytes_each = await _pragma_values(connection, "page_count", _FREE, "page_size")
        return (pages - free) * bytes_each

    async def reclaim(self, connection: AsyncConnection) -> bool:
        """Give pages that deletions have freed back to the file system, except for a reserve.

        :returns: whether there are more than may be given back at once.
        """
        free, total = await _pragma_values(connection, _FREE, "page_count")
        spare = max(SPARE_PAGES, total // 10)
        pages = min(free - spare, MOST_PAGES)
        if free > 2 * spare:
            # It frees one page per step, as if each were a row, and `execute` takes only the first;
            # a script runs to its end. It commits the transaction, in which nothing was changed.
            driver: Any = (await connection.get_raw_connection()).driver_connection
            steps = (_busy_timeout(BUSY_SECONDS), f"incremental_vacuum({pages})", _busy_timeout(0))
            await driver.executescript("; ".join(f"PRAGMA {step}" for step in steps))
        return bool(free - pages > 2 * spare)

    def contains(self, column: sa.ColumnElement[Any], part: str | bytes) -> sa.ColumnElement[bool]:
        """The condition that a text (case-sensitively; LIKE ignores case) or bytes have a part."""
        return sa.func.instr(column, part) > 0

    def searchable(
        self,
        payload: sa.ColumnElement[bytes | None],
        encoding: sa.ColumnElement[str | None],
        escapes: bool,
    ) -> sa.ColumnElement[bytes | None]:
        """The text that a body's encoding or escapes hide; NULL if they hide none."""
        return sa.func.searchable(payload, encoding, escapes, type_=sa.LargeBinary)

    def property_text(
        self, column: sa.ColumnElement[str], *path: str
    ) -> sa.ColumnElement[str | None]:
        """A value in a JSON object, as text: under a name, or under the name of an object in it."""
        # By a bound name: no path in SQLite's notation can hold every name.
        root = "$" if len(path) == 1 else f"$.{path[0]}"
        entries = sa.func.json_each(column, root).table_valued("key", "value", "type")
        words = {word: sa.literal(word) for word in ("true", "false")}
        value = sa.case(words, value=entries.c.type, else_=sa.cast(entries.c.value, sa.Text))
        query = sa.select(value).where(entries.c.key == path[-1]).limit(1)
        return query.correlate_except(entries).scalar_subquery()

    def elements(self, column: sa.ColumnElement[str]) -> sa.TableValuedAlias:
        """The texts in a JSON array, as a table with the column ``value``."""
        return sa.func.json_each(column).table_valued("value")

    def outage(self, error: BaseException) -> str | None:
        """The part that is unavailable, in a sentence, if this driver's error says so."""
        if isinstance(error, sqlite3.Error):
            return _OUTAGES.get(getattr(error, "sqlite_errorcode", 0) & 0xFF)
        return None

    def settings_fault(self, error: BaseException) -> str | None:
        """The fault of the address, in a sentence, if this driver's error says so."""
        return _UNUSABLE.get(getattr(error, "sqlite_errorcode", 0) & 0xFF)

    def refuses(self, error: BaseException) -> bool:
        """Tell whether this driver's error is about a value."""
        return getattr(error, "sqlite_errorcode", 0) & 0xFF in _VALUE_ERRORS

    def regex_fault(self, error: BaseException) -> str | None:
        """None: `app.store.database.regex` does the matching, and has checked them already."""

    def is_timeout(self, error: BaseException) -> bool:
        """Tell whether this driver's error comes from `limit_time`."""
        return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_INTERRUPT


class _Deadline:
    """The time to interrupt what a connection runs; called in the connection's own thread."""

    __slots__ = ("at",)

    def __init__(self) -> None:
        self.at: float | None = None

    def is_over(self) -> bool:
        return self.at is not None and time.monotonic() > self.at


def _set_up_file(connection: DBAPIConnection, entry: ConnectionPoolEntry) -> None:
    # SQLite waits its turn for everything except the switch to WAL, which fails at once if another
    # connection is making it at the same moment.
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            return _set(connection, entry, _OF_FILE)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _set(connection: DBAPIConnection, _: ConnectionPoolEntry, pragmas: Iterable[str]) -> None:
    cursor = connection.cursor()
    for pragma in pragmas:
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


async def _pragma_values(connection: AsyncConnection, *pragmas: str) -> list[int]:
    return [
        (await connection.exec_driver_sql(f"PRAGMA {pragma}")).scalar_one() for pragma in pragmas
    ]


def _busy_timeout(seconds: float) -> str:
    return f"busy_timeout={seconds * 1000:.0f}"


def _set_up_reader(connection: Any, entry: ConnectionPoolEntry, cached: int) -> None:
    deadline = entry.info["deadline"] = _Deadline()
    connection.run_async(
        lambda driver: driver.set_progress_handler(deadline.is_over, INSTRUCTIONS_BETWEEN_LOOKS)
    )
    connection.create_function("regexp", 2, regex.matches, deterministic=True)
    connection.create_function("searchable", 3, searchable, deterministic=True)
    _set(connection, entry, ["query_only=ON", f"cache_size=-{cached}"])


def _begin(connection: sa.Connection) -> None:
    connection.exec_driver_sql("BEGIN")


def _begin_to_write(connection: sa.Connection) -> None:
    adapted: Any = connection.connection.dbapi_connection
    adapted.run_async(lambda driver: driver._execute(_take_turn, driver._conn))


def _take_turn(connection: sqlite3.Connection) -> None:
    # A transaction that first reads and then writes fails at once if another process has written
    # in between; one that begins as a writer waits its turn.
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(TURN_SECONDS)
        else:
            return


async def _insert(
    connection: AsyncConnection,
    table: sa.TableClause,
    rows: Sequence[tuple[Any, ...]],
    suffix: str = "",
) -> None:
    begin = 0
    for size in ROWS_A_STATEMENT:
        end = len(rows) - (len(rows) - begin) % size
        portions = (rows[first : first + size] for first in range(begin, end, size))
        begin = end
        for is_usual, alike in itertools.groupby(portions, partial(_are_usual, table)):
            rest = () if is_usual or table is not EVENT_ROWS else _REST
            values = [_values(portion, rest) for portion in alike]
            statement = _insert_statement(table, size, suffix, is_usual)
            await connection.exec_driver_sql(statement, values)


def _are_usual(table: sa.TableClause, rows: Sequence[tuple[Any, ...]]) -> bool:
    """Tell whether the values at the ends of all rows are left out, as they are the usual ones."""
    return table is EVENT_ROWS and max(map(len, rows)) < len(EVENT_ROWS.columns)


def _values(rows: Sequence[tuple[Any, ...]], rest: tuple[Any, ...]) -> tuple[Any, ...]:
    values: list[Any] = []
    for row in rows:
        values += row  # takes less than a chain of them
        if rest and len(row) < len(EVENT_ROWS.columns):
            values += rest
    return tuple(values)


@functools.cache
def _insert_statement(table: sa.TableClause, rows: int, suffix: str, is_usual: bool) -> str:
    if table is keys:
        return _insert_keys(rows)
    row = f"({', '.join(_value_text(table, column.name, is_usual) for column in table.columns)})"
    return f"{inserts(table)} VALUES {', '.join([row] * rows)}{suffix}"


def _value_text(table: sa.TableClause, name: str, is_usual: bool) -> str:
    """A value as a statement has it: a mark, or itself."""
    if table is not EVENT_ROWS:
        return "?"
    if is_usual and name in USUAL:
        return "NULL" if USUAL[name] is None else str(USUAL[name])
    return f"nullif(?, {ABSENT})" if events.c[name].nullable else "?"


def _insert_keys(rows: int) -> str:
    """Insert keys with their runs: SQLite computes them from ids in less time than Python."""
    first = range(1, len(keys.columns) * rows, len(keys.columns))
    values = (
        f"(?{index}, ?{index + 1}, ?{index + 2}, ?{index + 3}, -(?{index + 1} >> 16))"
        for index in first
    )
    return f"INSERT INTO keys (trace_id, event_id, key, roles, run) VALUES {', '.join(values)}"  # noqa: S608  places
