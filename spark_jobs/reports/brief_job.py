"""The briefs of a period's conversations on Spark, and up to when each of them was observed."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeAlias

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from model.words import Via
from spark_jobs.reports.brief import Brief, Horizon, brief_in, brief_of, text_of
from spark_jobs.reports.gathering import COLUMNS, each, end_of, gathered
from spark_jobs.reports.period import Period
from spark_jobs.spark.database import DatabaseAddress

Batches: TypeAlias = Iterable[pa.RecordBatch]

_OF_EVENTS = (*COLUMNS, "payload_bytes", "place")
_LINES = "line string"
_ARROW = pa.schema([("line", pa.string())])
_ROWS = 500
# Where the frame is persisted. From there Spark would otherwise bring parts back into memory,
# whole and whatever its size.
KEPT = StorageLevel.DISK_ONLY


class Briefs(NamedTuple):
    """Lines of `brief.text_of`, and up to when their conversations were observed."""

    frame: DataFrame
    observed: Horizon


def briefs(
    spark: SparkSession, database: DatabaseAddress, period: Period, via: Via, wait: int
) -> Briefs | None:
    """Briefs of what began in a period; effects are looked for up to ``wait`` µs after its end.

    None if there is nothing. Whoever reads the frame more than once has to persist it (`KEPT`).
    """
    through = period.until + wait
    frame = gathered(spark, database, period, via, through=through, columns=_OF_EVENTS)
    if frame is None or period.ids is None:
        return None
    end = max(period.ids[1], end_of(period, through))
    newest = period.history.newest_until(period.trace, end)
    until = min(through, newest[1] if newest else through)
    gaps = period.history.gaps_in_time(period.trace, period.ids[0], end)
    lines = frame.mapInArrow(_briefed(via, period.since, period.until), _LINES)
    return Briefs(lines, Horizon(until, gaps))


def _briefed(via: Via, since: int, until: int) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    def lines(batches: Batches) -> Iterator[pa.RecordBatch]:
        described: set[str] = set()
        made = (
            text_of(brief_of(one, described))
            for one in each(batches, via)
            if since <= one.conversation.began_at < until
        )
        yield from _batched(made)

    return lines


def _batched(lines: Iterable[str]) -> Iterator[pa.RecordBatch]:
    """Lines as rows of `_LINES`."""
    some: list[str] = []
    for line in lines:
        some.append(line)
        if len(some) == _ROWS:
            yield pa.RecordBatch.from_arrays([pa.array(some, pa.string())], schema=_ARROW)
            some = []
    if some:
        yield pa.RecordBatch.from_arrays([pa.array(some, pa.string())], schema=_ARROW)


def each_brief(batches: Batches) -> Iterator[Brief]:
    """The briefs of a partition."""
    for batch in batches:
        for line in batch.column(0):
            yield brief_in(line.as_py())


def collected(frame: DataFrame, found: Callable[[Iterator[Brief]], Iterable[str]]) -> Iterator[str]:
    """The lines, of JSON, that a function makes of the briefs of each partition.

    Compressed on their way: Spark's driver keeps those of all partitions until the last is read.
    """

    def packed(batches: Batches) -> Iterator[pa.RecordBatch]:
        if text := "\n".join(found(each_brief(batches))):
            lines = pa.array([zlib.compress(text.encode(), 1)], pa.binary())
            yield pa.RecordBatch.from_arrays([lines], ["lines"])

    for row in frame.mapInArrow(packed, "lines binary").toLocalIterator(prefetchPartitions=True):
        yield from zlib.decompress(row["lines"]).decode().split("\n")
