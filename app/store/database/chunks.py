"""Statements for many values and many rows, in forms that both databases take.

Both databases bound a statement's parameters. SQLAlchemy would make a dictionary of each row: 5 µs
for a participant's, and with 1,000 of them a batch changes nearly half as many rows as it has
events.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Select, Table, TableClause, delete, select
from sqlalchemy.ext.asyncio import AsyncConnection

T = TypeVar("T")

CHUNK = 500


def chunks(values: Sequence[T], size: int | None = None) -> Iterator[Sequence[T]]:
    """The values in their order, ``size`` at a time, or as many as a statement takes."""
    size = size or CHUNK
    for first in range(0, len(values), size):
        yield values[first : first + size]


def columns(table: Any, names: str) -> list[ColumnElement[Any]]:
    """Some columns of a table (``table.c``), by their names with spaces between them."""
    return [table[name] for name in names.split()]


def filters(
    *pairs: tuple[Callable[[Any], ColumnElement[bool]], Any],
) -> Iterator[ColumnElement[bool]]:
    """The conditions whose value is not None."""
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
    """Remove rows that meet conditions, except those with the greatest ids; returns how many."""
    ids = table.c.id
    newest_to_go = select(ids).where(*conditions).order_by(ids.desc()).offset(limit).limit(1)
    result = await connection.execute(
        delete(table).where(*conditions, ids <= newest_to_go.scalar_subquery())
    )
    return result.rowcount


def inserts(table: TableClause) -> str:
    """The beginning of a statement for rows with a value for each column, in the table's order."""
    names = ", ".join(f'"{column.name}"' for column in table.columns)
    return f"INSERT INTO {table.name} ({names})"


def upserts(table: Table, changing: tuple[str, ...]) -> str:
    """The end of the statement: of a row with the same primary key these columns change, if any."""
    if not changing:
        return " ON CONFLICT DO NOTHING"
    keys = ", ".join(f'"{column.name}"' for column in table.primary_key.columns)
    values = ", ".join(f'"{name}" = excluded."{name}"' for name in changing)
    return f" ON CONFLICT ({keys}) DO UPDATE SET {values}"
