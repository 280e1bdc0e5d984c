"""The briefs of a period's conversations on Spark, with the horizon of the record."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeAlias

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from model.words import Via
from spark_jobs.reports.brief import Brief, Horizon, brief_in, brief_of, text_of_brief
from spark_jobs.reports.conversations import COLUMNS, conversations_in, end_of
from spark_jobs.reports.conversations_job import conversation_events
from spark_jobs.reports.period import Period
from spark_jobs.spark.database import DatabaseAddress

Batches: TypeAlias = Iterable[pa.RecordBatch]

_OF_EVENTS = (*COLUMNS, "payload_bytes", "place")
_LINES = "line string"
_ARROW = pa.schema([("line", pa.string())])
_ROWS = 500
# The frame is persisted on disk alone: Spark would bring parts back into memory, of any size.
STORAGE = StorageLevel.DISK_ONLY


class Briefs(NamedTuple):
    """Lines of `brief.text_of`, and the horizon up to which conversations were observed."""

    frame: DataFrame
    observed: Horizon


def briefs(
    spark: SparkSession, database: DatabaseAddress, period: Period, via: Via, wait: int
) -> Briefs | None:
    """Briefs of what began in a period; effects are looked for up to ``wait`` µs after its end.

    None if there are none. A frame that is read more than once has to be persisted (`STORAGE`).
    """
    end_at = period.until + wait
    frame = conversation_events(spark, database, period, via, end_at=end_at, columns=_OF_EVENTS)
    if frame is None or period.ids is None:
        return None
    end = max(period.ids[1], end_of(period, end_at))
    newest = period.history.newest_until(period.trace, end)
    observed_until = min(end_at, newest[1] if newest else end_at)
    gaps = period.history.gaps_in_time(period.trace, period.ids[0], end)
    lines = frame.mapInArrow(_brief_lines(via, period.since, period.until), _LINES)
    return Briefs(lines, Horizon(observed_until, gaps))


def _brief_lines(via: Via, begin: int, end: int) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    def lines(batches: Batches) -> Iterator[pa.RecordBatch]:
        described: set[str] = set()
        lines = (
            text_of_brief(brief_of(rows, described))
            for rows in conversations_in(batches, via)
            if begin <= rows.conversation.began_at < end
        )
        yield from _line_batches(lines)

    return lines


def _line_batches(lines: Iterable[str]) -> Iterator[pa.RecordBatch]:
    chunk: list[str] = []
    for line in lines:
        chunk.append(line)
        if len(chunk) == _ROWS:
            yield pa.RecordBatch.from_arrays([pa.array(chunk, pa.string())], schema=_ARROW)
            chunk = []
    if chunk:
        yield pa.RecordBatch.from_arrays([pa.array(chunk, pa.string())], schema=_ARROW)


def briefs_in(batches: Batches) -> Iterator[Brief]:
    for batch in batches:
        for line in batch.column(0):
            yield brief_in(line.as_py())


def collect(
    frame: DataFrame, summarize: Callable[[Iterator[Brief]], Iterable[str]]
) -> Iterator[str]:
    """The lines of JSON that a function makes of each partition's briefs.

    They are compressed: Spark's driver keeps those of all partitions until the last is read.
    """

    def pack(batches: Batches) -> Iterator[pa.RecordBatch]:
        if text := "\n".join(summarize(briefs_in(batches))):
            lines = pa.array([zlib.compress(text.encode(), 1)], pa.binary())
            yield pa.RecordBatch.from_arrays([lines], ["lines"])

    for row in frame.mapInArrow(pack, "lines binary").toLocalIterator(prefetchPartitions=True):
        yield from zlib.decompress(row["lines"]).decode().split("\n")
