"""The conversations of a period on Spark, each gathered in one partition.

The driver joins events by three numbers each; Spark brings the events themselves together, and
hands them to a function one conversation at a time.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import LongType

from model.words import Via
from spark_jobs.events.slices import MOST_ROWS, Slice
from spark_jobs.events.slices_job import slices_of, tasks_at_a_time
from spark_jobs.events.source import Batches, read
from spark_jobs.reports.conversations import (
    COLUMNS,
    ConversationTable,
    end_of,
    is_member,
    join_events,
    loss_table,
    publisher_table,
)
from spark_jobs.reports.period import Period
from spark_jobs.spark.columns import spark_schema
from spark_jobs.spark.database import DatabaseAddress

# Rows that Spark sends to each task instead of moving events.
BROADCAST_ROWS = 2_000_000


def conversation_events(
    spark: SparkSession,
    database: DatabaseAddress,
    period: Period,
    via: Via,
    *,
    end_at: int | None = None,
    columns: Sequence[str] = COLUMNS,
) -> DataFrame | None:
    """The events of a period's conversations, with the column ``root``; None if there are none.

    Each conversation is in one partition, its events together and by id (see `conversations`), up
    to those recorded before ``end_at`` (µs), by default up to the newest. Quiet traffic is left
    out. Raises `JobError` where the period has more events than the driver can join.
    """
    if period.ids is None:
        return None
    first, last = period.ids
    end = max(last, end_of(period, end_at))
    table = join_events(period.history.connection, period.trace, (first, last), end, via)
    if not len(table.ids):
        return None
    slices = slices_of(spark, period.trace, first, end)
    events = _read(spark, database, columns, slices, table)
    parts = max(tasks_at_a_time(spark), -(-len(table.ids) // MOST_ROWS))
    publishers = publisher_table(period.history.connection, period.trace, (first, end), via)
    publishing = _frame(spark, publishers)
    events = events.join(F.broadcast(publishing), "participant", "left")
    losses = loss_table(period.history.connection, period.trace, (first, end))
    loss_frame = _frame(spark, losses)
    if len(losses) <= BROADCAST_ROWS:
        loss_frame = F.broadcast(loss_frame)
    events = events.join(loss_frame, "id", "left")
    return events.repartition(parts, "root").sortWithinPartitions("root", "id")


def _read(
    spark: SparkSession,
    database: DatabaseAddress,
    columns: Sequence[str],
    slices: Sequence[Slice],
    table: ConversationTable,
) -> DataFrame:
    """The slices' events that are joined, with the column ``root``.

    Ids and roots go to the task that reads the slice: a join by Spark would move all events again.
    """
    cuts = np.searchsorted(table.ids, [part.last_id for part in slices], "right")[:-1]
    parts = zip(np.split(table.ids, cuts), np.split(table.roots, cuts), strict=True)
    texts = [zlib.compress(np.stack([ids, ids - roots]).tobytes(), 1) for ids, roots in parts]
    frame = _frame(spark, pa.table({"number": range(len(slices)), "joined": texts}))

    def read_roots(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number, text in zip(*batch.to_pydict().values(), strict=True):
                ids, back = np.frombuffer(zlib.decompress(text), np.int64).reshape(2, -1)
                for events in read(database, columns, slices[number]) if len(ids) else ():
                    members = events.filter(pa.array(is_member(ids, events.column("id"))))
                    positions = np.searchsorted(ids, members.column("id"))
                    yield members.append_column("root", pa.array(ids[positions] - back[positions]))

    schema = spark_schema(columns).add("root", LongType())
    return frame.repartition(len(slices)).mapInArrow(read_roots, schema)


def _frame(spark: SparkSession, table: pa.Table) -> DataFrame:
    """A table for Spark, with its schema: Connect would not know the columns of an empty one."""
    return spark.createDataFrame(table, from_arrow_schema(table.schema))
