"""An answer's questions to SQLite in one trip to its connection's thread.

The library makes a cursor, executes, fetches and closes: four trips, each of which wakes a thread
and the event loop again, at 0.1 ms. A whole transaction that waits for nothing else goes there at
once (`in_its_thread`), and so do several statements (`all_rows`). Without that, an event's answer
takes 1.5 times the processor time, a comparison 1.4, causes 1.3, and a page 1.08 (`bench.reading`,
100,000 events, a busy machine with two cores). `_Driver` overrides a method that is aiosqlite's
own: pyproject.toml pins the release exactly.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextvars import copy_context
from functools import partial
from typing import Any, TypeVar

import aiosqlite

T = TypeVar("T")


class _Driver(aiosqlite.Connection):
    """A connection that may also be used in its own thread, where nothing is waited for."""

    async def _execute(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if threading.current_thread() is self._thread:
            return fn(*args, **kwargs)
        return await super()._execute(fn, *args, **kwargs)  # type: ignore[no-untyped-call]


async def in_its_thread(driver: Any, work: Coroutine[Any, Any, T]) -> T:
    """The result of ``work``, all of which runs in the thread of the connection that it uses.

    It may wait for that connection alone; raises `RuntimeError` if it waits for anything else.
    ``driver`` is aiosqlite's connection.
    """
    result: T = await driver._execute(copy_context().run, _without_waiting, work)
    return result


def _without_waiting(work: Coroutine[Any, Any, T]) -> T:
    try:
        work.send(None)
    except StopIteration as stop:
        result: T = stop.value
        return result
    work.close()
    raise RuntimeError("a transaction waited for something else than its connection")


def _all_rows(
    connection: sqlite3.Connection, statements: Sequence[str], parameters: Mapping[str, Any]
) -> list[list[tuple[Any, ...]]]:
    return [connection.execute(statement, parameters).fetchall() for statement in statements]


async def all_rows(
    driver: Any, statements: Sequence[str], parameters: Mapping[str, Any]
) -> list[list[tuple[Any, ...]]]:
    """The rows of several statements, in one trip for all of them; raises sqlite3's errors.

    ``driver`` is aiosqlite's connection.
    """
    rows: list[list[tuple[Any, ...]]] = await driver._execute(
        _all_rows, driver._conn, statements, parameters
    )
    return rows


async def connect_sqlite(path: str, **options: Any) -> aiosqlite.Connection:
    """A connection to a file, for ``create_async_engine(async_creator=…)``."""
    driver: Any = _Driver(partial(sqlite3.connect, path, **options), iter_chunk_size=64)
    driver._thread.daemon = True  # as in SQLAlchemy: it does not keep a process alive
    connection: aiosqlite.Connection = await driver
    return connection
