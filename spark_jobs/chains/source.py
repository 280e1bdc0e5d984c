"""Spark's way into the store: each slice is a partition, read by its task through ADBC in Arrow.

A frame begins as the slices' numbers, one a partition, and a task maps its number to the slice's
events on a connection of its own. The slices, the database and what is done with the events travel
in the pickled function, so none of Spark's plans, logs or pages shows an address or a password.

It is not one of Spark's Python data sources: those start three more Python daemons for planning
(half of a cold start and of a warm job), and pass every row through the JVM into a second worker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from spark_jobs.archive.reader import Archive
from spark_jobs.chains.causes import NamedCause, causes_in, text_of
from spark_jobs.chains.slices import Slice
from spark_jobs.spark.columns import restore, select, spark_schema
from spark_jobs.spark.database import DatabaseAddress

# What is read of an event's cause: the cause's own columns.
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


def read_slices(
    spark: SparkSession, database: DatabaseAddress, columns: Sequence[str], slices: Sequence[Slice]
) -> DataFrame:
    """The slices' events as a frame with the named columns, by id within each partition."""
    return map_slices(spark, database, columns, slices, iter, spark_schema(columns))


def map_slices(
    spark: SparkSession,
    database: DatabaseAddress,
    columns: Sequence[str],
    slices: Sequence[Slice],
    work: Callable[[Batches], Iterator[pa.RecordBatch]],
    schema: StructType | str,
) -> DataFrame:
    """The results of ``work`` on each slice's events, which are by id and have the named columns.

    It runs in the task that reads the slice, so the events themselves never leave that process.
    """
    parts, names = list(slices), tuple(columns)

    def run(numbers: Batches) -> Iterator[pa.RecordBatch]:
        task_slices = (parts[number] for batch in numbers for number in batch.column(0).to_pylist())
        return work(batch for part in task_slices for batch in read(database, names, part))

    return spark.range(0, len(parts), 1, max(len(parts), 1)).mapInArrow(run, schema)


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
            yield _with_placed_links(batch, archive)
        return
    if archive is not None:
        columns = _with_cause(columns)
    statement = f"{select(columns, database.dialect)} {part.condition()} ORDER BY e.id"
    for raw in database.query(statement, BATCH_ROWS):
        if raw.num_rows:  # SQLite's driver makes up the types of no rows
            batch = restore(raw, columns)
            if archive is not None:
                batch = _with_placed_links(_with_archived_causes(batch, archive), archive)
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


def _with_placed_links(batch: pa.RecordBatch, archive: Archive) -> pa.RecordBatch:
    """The batch, with where the causes stand that were named and had been pruned."""
    if LINKS not in batch.schema.names:
        return batch
    links = [causes_in(text, candidates=True) for text in batch.column(LINKS).to_pylist()]
    pruned = {cause.cause for causes in links for cause in causes if not cause.is_placed}
    if not pruned:
        return batch
    rows = archive.lookup(("participant", "height", "seq", "recorded_at"), sorted(pruned))
    texts = [text_of([_place(link, rows) for link in causes]) for causes in links]
    column = pa.array(texts, pa.string())
    return batch.set_column(batch.schema.get_field_index(LINKS), LINKS, column)


def _place(link: NamedCause, rows: Mapping[int, Mapping[str, int]]) -> NamedCause:
    if link.is_placed or link.cause not in rows:
        return link
    cause = rows[link.cause]
    return NamedCause(*link[:3], *(cause[name] for name in NamedCause._fields[3:]))
