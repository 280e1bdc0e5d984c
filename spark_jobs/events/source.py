"""Reading a slice of events through ADBC in Arrow, from the store or from an archive."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

import pyarrow as pa

from spark_jobs.events.archive import Archive
from spark_jobs.events.causes import NamedCause, causes_in, text_of_causes
from spark_jobs.events.slices import Slice
from spark_jobs.spark.columns import restore, select
from spark_jobs.spark.database import DatabaseAddress

# Columns of an event's cause, by the names that they have beside the event.
CAUSE_COLUMNS = {
    "cause_participant": "participant",
    "cause_height": "height",
    "cause_seq": "seq",
    "cause_recorded_at": "recorded_at",
    "cause_user": "user",
}
LINKS = "links"
BATCH_ROWS = 2000

Batches: TypeAlias = Iterable[pa.RecordBatch]


def read(
    database: DatabaseAddress, columns: Sequence[str], part: Slice
) -> Iterator[pa.RecordBatch]:
    """One slice's events in batches, by id."""
    if part.ranges is None or part.by_ranges:
        yield from _rows_of(database, columns, part)
        return
    names = tuple(dict.fromkeys((*columns, "participant", "height")))
    for batch in _rows_of(database, names, part):
        is_inside = part.ranges.hold(
            batch.column("participant").to_numpy(), batch.column("height").to_numpy()
        )
        if is_inside.any():
            yield batch.filter(pa.array(is_inside)).select(list(columns))


def _rows_of(
    database: DatabaseAddress, columns: Sequence[str], part: Slice
) -> Iterator[pa.RecordBatch]:
    """The rows that the slice's condition selects, wherever they are stored."""
    archive = part.archive
    if archive is not None and part.last_id <= archive.through:
        for batch in archive.read(columns, part.first_id, part.last_id):
            yield _with_located_links(batch, archive)
        return
    if archive is not None:
        columns = _with_cause(columns)
    statement = f"{select(columns, database.dialect)} {part.condition()} ORDER BY e.id"
    for raw in database.query(statement, BATCH_ROWS):
        if raw.num_rows:  # SQLite's driver makes up the types of no rows
            batch = restore(raw, columns)
            if archive is not None:
                batch = _with_located_links(_with_archived_causes(batch, archive), archive)
            yield batch


def _with_cause(columns: Sequence[str]) -> Sequence[str]:
    """The columns, with the cause's id if anything of a cause is asked for."""
    if any(name in CAUSE_COLUMNS for name in columns):
        return tuple(dict.fromkeys((*columns, "cause_id")))
    return columns


def _with_archived_causes(batch: pa.RecordBatch, archive: Archive) -> pa.RecordBatch:
    """The batch, with what the archive knows of causes that the store no longer has."""
    names = [name for name in batch.schema.names if name in CAUSE_COLUMNS]
    if not names:
        return batch
    causes = batch.column("cause_id").to_pylist()
    archived_ids = [cause for cause in causes if cause is not None and cause <= archive.through]
    rows = archive.lookup([CAUSE_COLUMNS[name] for name in names], archived_ids)
    columns = batch.to_pydict()
    for name in names:
        pairs = zip(causes, columns[name], strict=True)
        columns[name] = [
            rows[cause][CAUSE_COLUMNS[name]] if cause in rows else value for cause, value in pairs
        ]
    return pa.RecordBatch.from_pydict(columns, schema=batch.schema)


def _with_located_links(batch: pa.RecordBatch, archive: Archive) -> pa.RecordBatch:
    """The batch, with where the causes stand that were named and had been pruned."""
    if LINKS not in batch.schema.names:
        return batch
    links = [causes_in(text, candidates=True) for text in batch.column(LINKS).to_pylist()]
    pruned = {cause.cause for causes in links for cause in causes if not cause.is_located}
    if not pruned:
        return batch
    rows = archive.lookup(("participant", "height", "seq", "recorded_at"), sorted(pruned))
    texts = [text_of_causes([_locate(link, rows) for link in causes]) for causes in links]
    column = pa.array(texts, pa.string())
    return batch.set_column(batch.schema.get_field_index(LINKS), LINKS, column)


def _locate(link: NamedCause, rows: Mapping[int, Mapping[str, int]]) -> NamedCause:
    if link.is_located or link.cause not in rows:
        return link
    cause = rows[link.cause]
    return NamedCause(*link[:3], *(cause[name] for name in NamedCause._fields[3:]))
