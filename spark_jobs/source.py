"""Spark's way into the store: a Python data source that answers in Arrow batches from ADBC.

A source is made for one database, one set of columns and one set of slices; each slice is a
partition, read by whichever executor runs it on a connection of its own. All of this travels in
the pickled class and nothing in options, so no plan, log or page of Spark's shows an address or a
password.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from spark_jobs.columns import restore, select, spark_schema
from spark_jobs.database import Database
from spark_jobs.slices import Slice

NAME = "itc_events"
BATCH_ROWS = 2000


def read_slices(
    spark: SparkSession, database: Database, columns: Sequence[str], slices: Sequence[Slice]
) -> DataFrame:
    """The slices' events as a frame with the named columns, by id within each partition."""
    spark.dataSource.register(_source(database, tuple(columns), list(slices)))
    return spark.read.format(NAME).load()


def read(database: Database, columns: Sequence[str], part: Slice) -> Iterator[pa.RecordBatch]:
    """One slice's events in batches, by id."""
    needed = columns
    if part.ranges is not None and not part.by_ranges:
        needed = tuple(dict.fromkeys((*columns, "participant", "height")))
    statement = f"{select(needed, database.dialect)} {part.condition()} ORDER BY e.id"
    for raw in database.query(statement, BATCH_ROWS):
        if raw.num_rows == 0:  # SQLite's driver makes up the types of no rows
            continue
        batch = restore(raw, needed)
        if needed is not columns and part.ranges is not None:
            held = part.ranges.hold(
                batch.column("participant").to_numpy(), batch.column("height").to_numpy()
            )
            batch = batch.filter(pa.array(held)).select(list(columns))
        if batch.num_rows:
            yield batch


def _source(database: Database, columns: tuple[str, ...], slices: list[Slice]) -> type[DataSource]:
    """A data source of these slices. The class is local, so it is pickled with what it holds."""

    class Reader(DataSourceReader):
        def partitions(self) -> Sequence[InputPartition]:
            return list(slices)

        def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
            assert isinstance(partition, Slice)  # noqa: S101 - ours, as `partitions` made it
            return read(database, columns, partition)

    class Events(DataSource):
        @classmethod
        def name(cls) -> str:
            return NAME

        def schema(self) -> StructType:
            return spark_schema(columns)

        def reader(self, schema: StructType) -> DataSourceReader:
            return Reader()

    return Events
