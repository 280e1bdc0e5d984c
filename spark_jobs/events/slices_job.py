"""Slices of events on Spark: a partition each, read by its task through ADBC in Arrow.

A frame begins as the slices' numbers, one a partition, and a task maps its number to the slice's
events on a connection of its own. The slices, the database and what is done with the events travel
in the pickled function, so none of Spark's plans, logs or pages shows an address or a password.

It is not one of Spark's Python data sources: those start three more Python daemons for planning
(half of a cold start and of a warm job), and pass every row through the JVM into a second worker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from spark_jobs.events.slices import MOST_ROWS, Slice, id_spans
from spark_jobs.events.source import Batches, read
from spark_jobs.spark.columns import spark_schema
from spark_jobs.spark.database import DatabaseAddress

CLOCKS = ("id", "participant", "height", "seq", "clock")
"""The columns by which clocks are compared."""

# A Connect server does not say how many tasks it can run at a time.
CONNECT_TASKS = 8


def tasks_at_a_time(spark: SparkSession) -> int:
    """The number of tasks that the session can run at once."""
    if hasattr(spark, "_jsparkSession"):
        return int(spark.sparkContext.defaultParallelism)
    return CONNECT_TASKS


def slices_of(spark: SparkSession, trace: int, first_id: int, last_id: int) -> list[Slice]:
    """Equal slices of a span of ids: as many as tasks can run at once, more where it is long."""
    count = max(tasks_at_a_time(spark), -(-(last_id - first_id + 1) // MOST_ROWS))
    return id_spans(trace, first_id, last_id, count)


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
