"""Statements for many values and many rows, as both databases understand them.

Both bound a statement's parameters. And SQLAlchemy makes a dictionary of each row, and takes 5 µs
to look at one of a participant: with 1,000 of them a batch changes nearly half as many rows as it
has events.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Select, Table, TableClause, delete, select
from sqlalchemy.ext.asyncio import AsyncConnection

T = TypeVar("T")

CHUNK = 500


def chunks(values: Sequence[T], size: int | None = None) -> Iterator[Sequence[T]]:
    """The values in their order, as many at a time as a statement takes; none for none."""
    size = size or CHUNK
    for first in range(0, len(values), size):
        yield values[first : first + size]


def given(
    *pairs: tuple[Callable[[Any], ColumnElement[bool]], Any],
) -> Iterator[ColumnElement[bool]]:
    """The conditions on values that are given: one that is None asks for nothing."""
    return (condition(value) for condition, value in pairs if value is not None)


async def rows_with(
    connection: AsyncConnection,
    query: Select[Any],
    column: ColumnElement[Any],
    values: Collection[Any],
) -> list[Any]:
    rows: list[Any] = []
    for portion in chunks(sorted(values)):
        rows += await connection.execute(query.where(column.in_(portion)))
    return rows


async def keep_newest(
    connection: AsyncConnection, table: Table, limit: int, *conditions: ColumnElement[bool]
) -> int:
    """Remove all rows of some but those with the greatest ids; returns how many."""
    ids = table.c.id
    newest_to_go = select(ids).where(*conditions).order_by(ids.desc()).offset(limit).limit(1)
    result = await connection.execute(
        delete(table).where(*conditions, ids <= newest_to_go.scalar_subquery())
    )
    return result.rowcount


def inserts(table: TableClause) -> str:
    """The statement's beginning, for rows with a value for each column, in the table's order."""
    names = ", ".join(f'"{column.name}"' for column in table.columns)
    return f"INSERT INTO {table.name} ({names})"


def upserts(table: Table, changing: tuple[str, ...]) -> str:
    """The statement's end: where a row with the same primary key is there, these columns change.

    Without any, a row that is there stays.
    """
    if not changing:
        return " ON CONFLICT DO NOTHING"
    keys = ", ".join(f'"{column.name}"' for column in table.primary_key.columns)
    values = ", ".join(f'"{name}" = excluded."{name}"' for name in changing)
    return f" ON CONFLICT ({keys}) DO UPDATE SET {values}"
