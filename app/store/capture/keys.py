"""Names that stored messages give themselves, and the links to the causes that they name."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import NamedTuple

from sqlalchemy import TextClause, delete, select, text, update
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.database import tables
from app.store.database.engine import Dialect
from app.store.database.searched import Writing
from app.stored.reading import HEADER
from app.tracker.fingerprint import BYTES
from model.blocks import BLOCK
from model.words import IS_FOUND_BY

_edges = tables.edges.c
_event_ids = tables.event_ids.c
_indexed_fields = tables.indexed_fields.c

FIRST_ID = 1  # of all events

_INDEXED = text(
    "SELECT field, from_event_id, by_publish,"
    " (SELECT coalesce(min(number), 0) * :ids FROM blocks) FROM indexed_fields"
).bindparams(ids=BLOCK)

# Deliveries that stay, of publishes that go. Those from streams, whose marks have two halves, may
# say something else than these, and have rows of their own.
_STAY = (
    "events.id > :last AND length(events.fingerprint) = :half"
    " AND events.cause_id BETWEEN (SELECT min(id) FROM events WHERE trace_id = :trace) AND :last"
)
# What they were found by through these. Of conversations they have rows of their own; a publish
# that was read by earlier rules may have had others. SQLite keeps the order of a CROSS JOIN, and
# would take the index of a trace for the narrower one. PostgreSQL begins with the few that stay.
_BEQUEATH = (
    f"{{insert}} FROM keys CROSS JOIN events WHERE {{in_span}} AND {_STAY}"
    " AND events.cause_id = keys.event_id AND events.trace_id + 0 = keys.trace_id"
    " AND (keys.roles & :found_by) = :found_by"
    " ON CONFLICT DO NOTHING"
)
# Mostly there are none: then no keys need be looked through for them.
_HEIR = text(
    f"SELECT 1 FROM events WHERE trace_id + 0 = :trace AND {_STAY} LIMIT 1"  # noqa: S608
).bindparams(half=BYTES)


@functools.cache
def _removal(writing: Writing) -> tuple[TextClause, TextClause]:
    insert = writing.insert("events.id", "keys.key", ":found_by")
    bequeath = _BEQUEATH.format(insert=insert, in_span=writing.in_span)
    remove = text(f"DELETE FROM keys WHERE {writing.in_span}")  # noqa: S608  our own words
    return text(bequeath).bindparams(found_by=IS_FOUND_BY, half=BYTES), remove


async def forget_before(
    connection: AsyncConnection, dialect: Dialect, trace_id: int, event_id: int
) -> None:
    """Remove the keys of events before an id, and the links of what they name.

    The events themselves go afterwards. What names one of them keeps the link: their archive may
    have it.
    """
    span = {"trace": trace_id, "first": 0, "last": event_id - 1}
    bequeath, remove = _removal(dialect.keys)
    if (await connection.execute(_HEIR, span)).first():
        await connection.execute(bequeath, span)
    await connection.execute(remove, span)
    # A cause has a smaller id than its effect, and by causes there is an index.
    await connection.execute(
        delete(tables.edges).where(
            _edges.trace_id == trace_id,
            _edges.cause_id < event_id,
            _edges.effect_id < event_id,
        )
    )


class IndexStart(NamedTuple):
    """Since which event a field's values are among the keys; 0 where none is stored before.

    ``by_publish``: a delivery may have them by its publish alone (`key_rows`).
    """

    first: int
    by_publish: bool


async def indexed(connection: AsyncConnection) -> dict[str, IndexStart]:
    return {
        field: IndexStart(0 if first <= max(oldest, FIRST_ID) else first, bool(by_publish))
        for field, first, by_publish, oldest in await connection.execute(_INDEXED)
    }


async def declare(
    connection: AsyncConnection, dialect: Dialect, headers: Mapping[str, bool]
) -> None:
    """Note that from now on the values of just these headers are among the keys.

    Each with whether deliveries have them by their publish alone. Where they once had, they are
    looked for so ever after: some that are stored have no other.
    """
    fields = {f"{HEADER}{name}": by_publish for name, by_publish in headers.items()}
    stored = await indexed(connection)
    old_fields = {field for field in stored if field.startswith(HEADER)}
    if dropped := old_fields - fields.keys():
        await connection.execute(
            delete(tables.indexed_fields).where(_indexed_fields.field.in_(sorted(dropped)))
        )
    if widened := [
        field for field in old_fields & fields.keys() if fields[field] > stored[field].by_publish
    ]:
        statement = update(tables.indexed_fields).where(_indexed_fields.field.in_(sorted(widened)))
        await connection.execute(statement.values(by_publish=True))
    if new := sorted(fields.keys() - old_fields):
        first = (await connection.execute(select(_event_ids.next))).scalar_one()
        rows = [(field, first, fields[field]) for field in new]
        await dialect.upsert_many(connection, tables.indexed_fields, rows, ())
