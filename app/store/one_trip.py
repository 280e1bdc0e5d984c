"""Statements on SQLite in one trip to their connection's thread.

The library makes a cursor, executes, fetches and closes: four trips, each of which wakes a thread
and the event loop again, at 0.1 ms. Most statements of an answer take less than that by themselves.
Here a statement that is not streamed does all of it there, and a connection that is given back
outside of a transaction is not rolled back. A whole transaction that waits for nothing else goes
there at once (`in_its_thread`). Answers take half of the time (`bench.reading`).
"""

from __future__ import annotations

import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextvars import copy_context
from functools import partial
from typing import Any, TypeVar

import aiosqlite
from sqlalchemy.dialects.sqlite.aiosqlite import (
    AsyncAdapt_aiosqlite_connection,
    AsyncAdapt_aiosqlite_cursor,
    AsyncAdapt_aiosqlite_dbapi,
)
from sqlalchemy.util.concurrency import await_

T = TypeVar("T")

ROWS_AT_ONCE = 64  # of a statement that is streamed, as aiosqlite's own connections


class _Driver(aiosqlite.Connection):
    """A connection that may be used in its own thread, too: there nothing is waited for."""

    async def _execute(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if threading.current_thread() is self._thread:
            return fn(*args, **kwargs)
        return await super()._execute(fn, *args, **kwargs)  # type: ignore[no-untyped-call]


async def in_its_thread(driver: Any, work: Coroutine[Any, Any, T]) -> T:
    """What ``work`` comes to, all of which runs in the thread of the connection that it uses.

    It may wait for that connection alone; raises `RuntimeError` if it waits for anything else.
    ``driver`` is aiosqlite's connection.
    """
    result: T = await driver._execute(copy_context().run, _without_waiting, work)
    return result


def _without_waiting(work: Coroutine[Any, Any, T]) -> T:
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    work.close()
    raise RuntimeError("a transaction waited for something else than its connection")


class _Done:
    """What is left of a cursor once its rows are read."""

    arraysize = 1

    def __init__(self, cursor: sqlite3.Cursor | None = None) -> None:
        self.description = None if cursor is None else cursor.description
        self.rowcount = -1 if cursor is None else cursor.rowcount
        self.lastrowid = None if cursor is None else cursor.lastrowid

    def close(self) -> None:
        """It is closed."""


def _execute(
    connection: sqlite3.Connection, statement: str, parameters: Sequence[Any]
) -> tuple[_Done, list[Any]]:
    cursor = connection.execute(statement, parameters)
    try:
        rows = cursor.fetchall() if cursor.description else []
        return _Done(cursor), rows
    finally:
        cursor.close()


def _all_rows(
    connection: sqlite3.Connection, statements: Sequence[str], parameters: Mapping[str, Any]
) -> list[list[tuple[Any, ...]]]:
    return [connection.execute(statement, parameters).fetchall() for statement in statements]


async def all_rows(
    driver: Any, statements: Sequence[str], parameters: Mapping[str, Any]
) -> list[list[tuple[Any, ...]]]:
    """What each of several statements finds, in one trip for all of them; raises sqlite3's errors.

    ``driver`` is aiosqlite's connection.
    """
    found: list[list[tuple[Any, ...]]] = await driver._execute(
        _all_rows, driver._conn, statements, parameters
    )
    return found


def _execute_many(
    connection: sqlite3.Connection, statement: str, parameters: Iterable[Sequence[Any]]
) -> _Done:
    cursor = connection.executemany(statement, parameters)
    try:
        return _Done(cursor)
    finally:
        cursor.close()


class _Cursor(AsyncAdapt_aiosqlite_cursor):
    __slots__ = ()

    _awaitable_cursor_close = False
    _connection: Any  # aiosqlite's
    _cursor: _Done  # type: ignore[assignment]

    def _make_new_cursor(self, connection: Any) -> Any:
        return _Done()

    def _aenter_cursor(self, cursor: Any) -> Any:
        return cursor

    async def _execute_async(self, operation: Any, parameters: Any) -> None:
        its = self._connection
        async with self._adapt_connection._execute_mutex:
            self._cursor, rows = await its._execute(
                _execute, its._conn, operation, () if parameters is None else parameters
            )
            self._rows = deque(rows)

    async def _executemany_async(self, operation: Any, seq_of_parameters: Any) -> None:
        its = self._connection
        async with self._adapt_connection._execute_mutex:
            self._cursor = await its._execute(
                _execute_many, its._conn, operation, seq_of_parameters
            )


class _Connection(AsyncAdapt_aiosqlite_connection):
    __slots__ = ()

    _cursor_cls = _Cursor

    def rollback(self) -> None:
        its: Any = self._connection
        if its._connection and its.in_transaction:
            super().rollback()


class OneTrip(AsyncAdapt_aiosqlite_dbapi):
    """The driver, for ``create_async_engine(module=…)``."""

    def __init__(self) -> None:
        super().__init__(aiosqlite, sqlite3)

    def connect(self, *arg: Any, **kw: Any) -> AsyncAdapt_aiosqlite_connection:
        """A connection whose cursors make one trip."""
        driver: Any = _Driver(partial(sqlite3.connect, *arg, **kw), iter_chunk_size=ROWS_AT_ONCE)
        driver._thread.daemon = True  # as the library has it: it does not keep a process alive
        return _Connection(self, await_(driver))
