"""A period's conversations, turned by executors into pieces that the driver writes or sends.

The driver holds a partition's pieces at a time, however long the period is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

import pyarrow as pa
from pyspark.sql import SparkSession

from model.blocks import MAX_ID
from model.gaps import Gap
from spark_jobs.interchange.period_request import Json, PeriodRequest
from spark_jobs.progress import Meter
from spark_jobs.reports.conversations import COLUMNS, ConversationRows, conversations_in
from spark_jobs.reports.conversations_job import conversation_events
from spark_jobs.reports.period import Period
from spark_jobs.spark.failures import spark_errors

PIECES = (
    "events bigint, conversations bigint, is_cut bigint, body binary, annex binary, facts string"
)
_SCHEMA = pa.schema(
    [
        ("events", pa.int64()),
        ("conversations", pa.int64()),
        ("is_cut", pa.int64()),
        ("body", pa.binary()),
        ("annex", pa.binary()),
        ("facts", pa.string()),
    ]
)


class Piece(NamedTuple):
    """A part of the answer; ``annex`` is what does not go where the body goes."""

    body: bytes
    annex: bytes
    facts: Json


class Packer(Protocol):
    """Takes conversations, and gives a piece whenever it has enough for one."""

    def add(self, rows: ConversationRows) -> Iterator[Piece]:
        """Take one more."""
        ...

    def rest(self) -> Iterator[Piece]:
        """Give what is left."""
        ...


class WrittenCount:
    """The number of events and conversations written; ``cut`` were longer than is looked at."""

    def __init__(self) -> None:
        self.events = self.conversations = self.cut = 0

    def facts(self) -> dict[str, int]:
        """Return the fields of `ConversationCounts`."""
        return {"events": self.events, "conversations": self.conversations, "cut": self.cut}


def pieces(
    spark: SparkSession,
    request: PeriodRequest,
    period: Period,
    meter: Meter,
    packer: Callable[[], Packer],
    tally: WrittenCount,
) -> Iterator[Piece]:
    """The pieces of all conversations that began in the period, in an order that stays the same.

    Raises `JobError`, where Spark or the store fails.
    """
    columns = (*COLUMNS, "payload_bytes", "connection")
    with spark_errors():
        meter.enter("gathering", 2.0)
        frame = conversation_events(spark, request.database, period, request.via, columns=columns)
        if frame is None or period.ids is None:
            return
        meter.enter("reading", 10.0)
        meter.expect(period.ids[1] - period.ids[0] + 1)
        gaps = period.history.gaps(period.trace, period.ids[0], MAX_ID)
        frame_of_pieces = frame.mapInArrow(_pack(request, packer, gaps), PIECES)
        for row in frame_of_pieces.toLocalIterator(prefetchPartitions=True):
            meter.read(row.events)
            yield Piece(bytes(row.body), bytes(row.annex), json.loads(row.facts))
            tally.events += row.events
            tally.conversations += row.conversations
            tally.cut += row.is_cut
            meter.count_written(row.events)


def _pack(
    request: PeriodRequest, packer: Callable[[], Packer], gaps: Sequence[Gap]
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    begin, end, via = request.since, request.until, request.via

    def packed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pack, tally = packer(), WrittenCount()
        for rows in conversations_in(batches, via, gaps):
            # Some may have begun a moment outside: blocks of ids are no exact bounds.
            if begin <= rows.conversation.began_at < end:
                tally.events += len(rows.rows)
                tally.conversations += 1
                tally.cut += rows.is_cut
                for piece in pack.add(rows):
                    yield _row(piece, tally)
                    tally = WrittenCount()
        for piece in pack.rest():
            yield _row(piece, tally)
            tally = WrittenCount()

    return packed


def _row(piece: Piece, tally: WrittenCount) -> pa.RecordBatch:
    facts = json.dumps(piece.facts)
    values = (tally.events, tally.conversations, tally.cut, piece.body, piece.annex, facts)
    return pa.RecordBatch.from_pylist([dict(zip(_SCHEMA.names, values, strict=True))], _SCHEMA)
