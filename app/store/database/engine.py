"""Connections to the database, and the edge at which its errors are translated."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple, TypeAlias, TypeVar

from sqlalchemy import URL, ColumnElement, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from app.errors import BadRequestError, OutageError, SettingsError
from app.store.database import postgres, sqlite
from app.store.database.lanes import POOL_SECONDS, Lane
from model.times import now

Dialect: TypeAlias = sqlite.Sqlite | postgres.Postgres

# Time for transactions that were broken off, and then for connections, to end.
LEAVING_SECONDS = 0.5

GIVEN_UP = "the service ends, and did not wait for the database any longer"

T = TypeVar("T")
Work: TypeAlias = Callable[[AsyncConnection], Awaitable[T]]


class _SharedReader(NamedTuple):
    """The transaction of all quick reads of a task or a thread."""

    database: Database
    reader: object
    connection: AsyncConnection


def _reader() -> object:
    """The running task, or the thread without one."""
    try:
        return asyncio.current_task()
    except RuntimeError:  # a transaction in its connection's thread
        return threading.get_ident()


_shared_reader: ContextVar[_SharedReader | None] = ContextVar("_shared", default=None)


def parse_url(database_url: str) -> URL:
    """The address's parts; raises `SettingsError`, which never shows it, if it is invalid."""
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


def dialect_of(database_url: str, service: str | None = None) -> Dialect:
    """The dialect of an address; raises `SettingsError` if there is none."""
    url = parse_url(database_url)
    kind = sqlite.Sqlite if url.get_backend_name() == sqlite.NAME else postgres.Postgres
    return kind(url, service)


class Database:
    """Connections for reading and for writing; each use of one is a transaction.

    A transaction that has begun runs to its end even if the caller is cancelled, and the caller
    waits for it: a driver cut off in the middle leaves the file locked, or a commit in doubt.
    """

    def __init__(
        self,
        database_url: str,
        query_seconds: float,
        searches: int,
        service: str | None = None,
        clock: Callable[[], int] = now,
    ) -> None:
        """Connect to nothing yet: the first transaction does.

        ``searches`` is the number of connections for searches, ``service`` names us to the server;
        ``clock`` gives the time in µs.
        """
        self.clock = clock
        self._query_seconds = query_seconds
        self.dialect = dialect_of(database_url, service)
        sizes = {**dict.fromkeys(Lane, 1), **self.dialect.readers, Lane.search: searches}
        self._readers = {lane: _Readers(self.dialect, lane, sizes[lane]) for lane in Lane}
        self._writer = self.dialect.writer()
        self._running: set[asyncio.Task[Any]] = set()
        self._is_given_up = False

    def give_up(self) -> None:
        """Break off all transactions, and begin no more; each raises `OutageError`.

        A commit on its way is in doubt, as after a crash.
        """
        self._is_given_up = True
        for task in self._running:
            task.cancel()

    async def close(self) -> None:
        """Wait for running transactions to end, or only briefly once given up, and close all."""
        if self._running:
            await asyncio.wait(self._running, timeout=self._patience)
        await self._dispose(*(readers.engine for readers in self._readers.values()))
        # If two SQLite connections close at once, each leaves the log to the other.
        await self._dispose(self._writer)

    async def _dispose(self, *engines: AsyncEngine) -> None:
        closing = [asyncio.create_task(engine.dispose()) for engine in engines]
        finished, _ = await asyncio.wait(closing, timeout=self._patience)
        for task in finished:
            task.result()

    @property
    def now(self) -> ColumnElement[int]:
        """The time in a statement, µs: the server's, if there is one."""
        return self.dialect.now(self.clock)

    @property
    def _patience(self) -> float | None:
        return LEAVING_SECONDS if self._is_given_up else None

    async def read(self, work: Work[T], lane: Lane = Lane.quick) -> T:
        """The result of ``work`` in a read-only transaction; raises `OutageError`.

        All work except bulk work waits for its connection alone, and runs in its thread if it has
        one. Quick work within `at_once` shares that transaction.
        """
        reader = _shared_reader.get()
        # Tasks that work started inherit the variable, and may outlive its connection.
        is_ours = reader is not None and reader[:2] == (self, _reader())
        if reader is not None and is_ours and lane is Lane.quick:
            return await work(reader.connection)
        return await self._in_lane(lane, None, work)

    async def at_once(self, work: Callable[[], Awaitable[T]]) -> T:
        """The result of ``work``, whose quick reads share one transaction and see one moment.

        The whole is quick work too: it waits for nothing else. Raises `OutageError`.
        """

        async def transaction(connection: AsyncConnection) -> T:
            # In a context of its own, whose variable ends with it.
            _shared_reader.set(_SharedReader(self, _reader(), connection))
            return await work()

        return await self.read(transaction)

    async def search(self, lane: Lane, work: Work[T]) -> T:
        """As `read`, but raises `BadRequestError` after ``query_seconds``."""
        return await self._in_lane(lane, self._query_seconds, work)

    async def write(self, work: Work[T]) -> T:
        """The result of ``work`` in a transaction that is committed, or rolled back by an error.

        Work waits for its connection alone, and runs in its thread if it has one. Raises
        `OutageError`; after one during the commit, it is unknown whether that succeeded.
        """
        return await self._to_its_end(self._write(work))

    def refuses(self, error: BaseException) -> bool:
        """Tell whether an error says that the database or its driver refused a value."""
        return any(
            isinstance(cause, ValueError | OverflowError) or self.dialect.refuses(cause)
            for cause in _and_causes(error)
        )

    async def _in_lane(self, lane: Lane, seconds: float | None, work: Work[T]) -> T:
        readers = self._readers[lane]
        async with readers.slot():  # a caller cancelled while waiting for one leaves at once
            return await self._to_its_end(self._read(lane, seconds, work))

    async def _read(self, lane: Lane, seconds: float | None, work: Work[T]) -> T:
        with translate_errors(self.dialect, limited=seconds is not None):
            async with self._readers[lane].engine.connect() as connection:

                async def limit_and_work(connection: AsyncConnection) -> T:
                    await self.dialect.limit_time(connection, seconds)
                    return await work(connection)

                transaction = _in_transaction(connection, limit_and_work)
                if lane is Lane.bulk:
                    return await transaction
                return await self.dialect.run_quickly(connection, transaction)

    async def _write(self, work: Work[T]) -> T:
        with translate_errors(self.dialect):
            async with self._writer.connect() as connection:
                return await self.dialect.run_quickly(connection, _in_transaction(connection, work))

    async def _to_its_end(self, transaction: Coroutine[Any, Any, T]) -> T:
        if self._is_given_up:
            transaction.close()
            raise OutageError(GIVEN_UP)
        task = asyncio.create_task(transaction)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if not task.done():
                await asyncio.wait({task}, timeout=self._patience)
            if task.done() and not task.cancelled():
                task.exception()  # nobody else asks for it
            caller = asyncio.current_task()
            if task.cancelled() and caller is not None and not caller.cancelling():
                raise OutageError(GIVEN_UP) from None
            raise


async def _in_transaction(connection: AsyncConnection, work: Work[T]) -> T:
    async with connection.begin():
        return await work(connection)


class _Readers:
    """The connections of a lane, taken in turn."""

    def __init__(self, dialect: Dialect, lane: Lane, size: int) -> None:
        self.engine = dialect.reader(size, lane)
        self._slots = asyncio.Semaphore(size)

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Wait for a free connection; raises `OutageError` if there is none in time."""
        try:
            async with asyncio.timeout(POOL_SECONDS):
                await self._slots.acquire()
        except TimeoutError:
            raise OutageError("the database is too busy: no connection became free") from None
        try:
            yield
        finally:
            self._slots.release()


@contextmanager
def translate_errors(dialect: Dialect, *, limited: bool = False) -> Iterator[None]:
    """Turn an unreachable database into `OutageError`, a wrong address into `SettingsError`.

    A caller's invalid request becomes `BadRequestError`, and so does one that takes too long if its
    time was ``limited``; otherwise somebody else broke it off. Any other error is a bug in this
    program, and passes unchanged.
    """
    try:
        yield
    except PoolTimeoutError as error:
        raise OutageError("the database is too busy: no connection became free") from error
    except Exception as error:
        # Each driver's errors come raw or wrapped, depending on where they happen.
        for cause in _and_causes(error):
            if sentence := dialect.outage(cause):
                raise OutageError(sentence) from error
            if sentence := dialect.settings_fault(cause):
                raise SettingsError(f"ITC_DATABASE_URL: {sentence}") from error
            if dialect.is_timeout(cause):
                if not limited:
                    raise OutageError("the database broke off a statement") from error
                raise BadRequestError(
                    "this takes too long to find: narrow it down by vhost, since, until or after"
                ) from error
            if sentence := dialect.regex_fault(cause):
                raise BadRequestError(sentence) from error
        raise


def _and_causes(error: BaseException) -> Iterator[BaseException]:
    """An error and the errors that it wraps or came from, outermost first.

    A connection that broke in a transaction often shows only at the rollback, in an error of the
    library's own.
    """
    cause: BaseException | None = error
    for _ in range(8):
        if cause is None:
            return
        yield cause
        original = getattr(cause, "orig", None)
        if isinstance(original, BaseException):
            cause = original
        elif isinstance(cause, SQLAlchemyError):
            cause = cause.__cause__ or cause.__context__
        else:
            cause = cause.__cause__
