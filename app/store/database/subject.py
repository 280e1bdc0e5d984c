"""A subject of the store: a class whose methods are one transaction each.

A method takes the connection that it works on, and `reads` or `writes` opens a transaction around
each call: callers never see a connection. A step of a larger transaction is a function below the
class.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, TypeAlias, TypeVar

from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.database.engine import Database, Work
from app.store.database.lanes import Lane


class Subject:
    """A part of the store.

    Every method may raise `OutageError`: the database is away, wait and try again. ``vhosts`` are
    the virtual hosts that the caller may see, None for all. Times are microseconds since the epoch,
    UTC.
    """

    def __init__(self, database: Database) -> None:
        self.database = database


S = TypeVar("S", bound=Subject)
P = ParamSpec("P")
T = TypeVar("T")
Inside: TypeAlias = Callable[Concatenate[S, AsyncConnection, P], Awaitable[T]]
Method: TypeAlias = Callable[Concatenate[S, P], Coroutine[Any, Any, T]]


def _in_transaction(
    run: Callable[[Database, Work[Any]], Awaitable[Any]],
) -> Callable[[Inside[S, P, T]], Method[S, P, T]]:
    def decorate(work: Inside[S, P, T]) -> Method[S, P, T]:
        @functools.wraps(work)
        async def method(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
            result: T = await run(
                self.database, lambda connection: work(self, connection, *args, **kwargs)
            )
            return result

        return method

    return decorate


# Decorators that run a method in a transaction: reading, reading for long (`Database.search`), and
# writing, which is committed, or rolled back by an error.
reads = _in_transaction(Database.read)
searches = _in_transaction(lambda database, work: database.search(Lane.search, work))
writes = _in_transaction(Database.write)


def read_method(
    work: Callable[Concatenate[AsyncConnection, P], Awaitable[T]],
) -> Callable[Concatenate[Subject, P], Coroutine[Any, Any, T]]:
    """A method that runs a function of a connection in a read-only transaction."""

    @functools.wraps(work)
    async def method(self: Subject, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.database.read(lambda connection: work(connection, *args, **kwargs))

    return method
