"""The keys by which stored messages are found, and the end of their keys and links."""

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

# Deliveries that stay of publishes that go. Deliveries from streams, whose fingerprints have two
# halves, may say something else than their publishes, and have rows of their own.
_STAY = (
    "events.id > :last AND length(events.fingerprint) = :half"
    " AND events.cause_id BETWEEN (SELECT min(id) FROM events WHERE trace_id = :trace) AND :last"
)
# The keys by which these deliveries were found through their publishes. For conversations they have
# rows of their own; a publish that was read by earlier rules may have had others. SQLite keeps the
# order of a CROSS JOIN, and would take the index of a trace for the narrower one. PostgreSQL begins
# with the few that stay.
_BEQUEATH = (
    f"{{insert}} FROM keys CROSS JOIN events WHERE {{in_span}} AND {_STAY}"
    " AND events.cause_id = keys.event_id AND events.trace_id + 0 = keys.trace_id"
    " AND (keys.roles & :found_by) = :found_by"
    " ON CONFLICT DO NOTHING"
)
# Mostly no delivery stays: then no keys are looked through.
_HEIR = text(
    f"SELECT 1 FROM events WHERE trace_id + 0 = :trace AND {_STAY} LIMIT 1"  # noqa: S608
).bindparams(half=BYTES)


@functools.cache
def _removal(writing: Writing) -> tuple[TextClause, TextClause]:
    insert = writing.insert("events.id", "keys.key", ":found_by")
    bequeath = _BEQUEATH.format(insert=insert, in_span=writing.in_span)
    remove = text(f"DELETE FROM keys WHERE {writing.in_span}")  # noqa: S608  our own words
    return text(bequeath).bindparams(found_by=IS_FOUND_BY, half=BYTES), remove


async def forget_keys_before(
    connection: AsyncConnection, dialect: Dialect, trace_id: int, event_id: int
) -> None:
    """Remove the keys of events before an id, and the links between them.

    The events themselves go afterwards. Later effects keep their links: an archive may have the
    cause.
    """
    span = {"trace": trace_id, "first": 0, "last": event_id - 1}
    bequeath, remove = _removal(dialect.keys)
    if (await connection.execute(_HEIR, span)).first():
        await connection.execute(bequeath, span)
    await connection.execute(remove, span)
    # A cause has a smaller id than its effect, and by causes there is an index.
    is_before = _edges.cause_id < event_id, _edges.effect_id < event_id
    await connection.execute(delete(tables.edges).where(_edges.trace_id == trace_id, *is_before))


class IndexStart(NamedTuple):
    """The first event whose values of a field are among the keys; 0 if there is none before.

    ``by_publish``: a delivery may have them by its publish alone (`key_rows`).
    """

    first: int
    by_publish: bool


async def index_starts(connection: AsyncConnection) -> dict[str, IndexStart]:
    return {
        field: IndexStart(0 if first <= max(oldest, FIRST_ID) else first, bool(by_publish))
        for field, first, by_publish, oldest in await connection.execute(_INDEXED)
    }


async def declare(
    connection: AsyncConnection, dialect: Dialect, headers: Mapping[str, bool]
) -> None:
    """Note that from now on the values of exactly these headers are among the keys.

    A header maps to whether deliveries have its values by their publish alone. That stays true once
    it was: some stored deliveries have no keys of their own.
    """
    fields = {f"{HEADER}{name}": by_publish for name, by_publish in headers.items()}
    stored = await index_starts(connection)
    old_fields = {field for field in stored if field.startswith(HEADER)}
    if dropped := old_fields - fields.keys():
        is_dropped = _indexed_fields.field.in_(sorted(dropped))
        await connection.execute(delete(tables.indexed_fields).where(is_dropped))
    both = sorted(old_fields & fields.keys())
    if widened := [field for field in both if fields[field] > stored[field].by_publish]:
        statement = update(tables.indexed_fields).where(_indexed_fields.field.in_(widened))
        await connection.execute(statement.values(by_publish=True))
    if new := sorted(fields.keys() - old_fields):
        first = (await connection.execute(select(_event_ids.next))).scalar_one()
        rows = [(field, first, fields[field]) for field in new]
        await dialect.upsert_many(connection, tables.indexed_fields, rows, ())
