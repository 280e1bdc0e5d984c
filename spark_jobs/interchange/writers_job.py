"""A period written to a file: each form with what it needs of Spark."""

from __future__ import annotations

import base64
import json
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import BinaryIO, cast

import pyarrow as pa
from pyspark.sql import SparkSession

from model import otlp
from model.described import json_of
from model.interchange import ConversationCounts, DocumentCounts, SpanCounts
from model.jobs import Problem
from model.spans import ExportedSpan, LinkDelivery, spans_of
from model.times import iso_time
from model.words import Via
from spark_jobs.errors import JobError
from spark_jobs.events.slices import spans_that_fit
from spark_jobs.events.slices_job import map_slices, tasks_at_a_time
from spark_jobs.export import HashedFile
from spark_jobs.formats.renderer_job import MOST_IN_WAVE
from spark_jobs.interchange import asyncapi, ocel
from spark_jobs.interchange.period_request import PeriodRequest
from spark_jobs.interchange.pieces_job import Piece, WrittenCount, pieces
from spark_jobs.interchange.traffic import COLUMNS, PeriodShapes
from spark_jobs.progress import Meter
from spark_jobs.reports.conversations import ConversationRows
from spark_jobs.reports.period import Period
from spark_jobs.spark.failures import spark_errors
from spark_jobs.spark.versions import versions

# In one piece: a request of this many spans is below what collectors take.
MOST_SPANS = 1_000
PIECE_BYTES = 1 << 20
# Objects of several conversations, such as keys, and types of events: the driver knows each.
MOST_SHARED = 2_000_000
MOST_TYPES = 100_000


# OCEL


class LogPacker:
    """Conversations as events and objects of a log."""

    def __init__(self) -> None:
        self._clear()

    def add(self, rows: ConversationRows) -> Iterator[Piece]:
        """Take one more conversation."""
        part = ocel.log_part(rows)
        self._events += part.events
        self._objects += part.objects
        self._common.update(part.common)
        self._types |= part.types
        self._bytes += sum(map(len, (*part.events, *part.objects)))
        if self._bytes >= PIECE_BYTES:
            yield from self.rest()

    def rest(self) -> Iterator[Piece]:
        """Give what is left."""
        if self._events:
            objects = {
                object_id: base64.b85encode(text).decode()
                for object_id, text in self._common.items()
            }
            facts = {"shared": objects, "types": sorted(self._types)}
            yield Piece(b",\n".join(self._events), b",\n".join(self._objects), facts)
        self._clear()

    def _clear(self) -> None:
        self._events: list[bytes] = []
        self._objects: list[bytes] = []
        self._common: dict[str, bytes] = {}
        self._types: set[str] = set()
        self._bytes = 0


def write_ocel(
    spark: SparkSession, request: PeriodRequest, period: Period, meter: Meter, file: HashedFile
) -> ConversationCounts:
    """The log: events as they come, objects kept aside until the events are over."""
    tally, digests, types, count = WrittenCount(), set[int](), set[str](), 0
    with tempfile.TemporaryFile(dir=request.output.parent) as objects:
        file.write(ocel.head())
        for piece in pieces(spark, request, period, meter, LogPacker, tally):
            file.write((b",\n" if count else b"") + piece.body)
            objects.write((b",\n" if count else b"") + piece.annex)
            for object_id, text in piece.facts["shared"].items():
                if (digest := ocel.object_digest(object_id)) not in digests:
                    digests.add(digest)
                    objects.write(b",\n" + base64.b85decode(text))
            types.update(piece.facts["types"])
            _check(len(digests), MOST_SHARED, "keys, participants and queues")
            _check(len(types), MOST_TYPES, "types of events")
            count += 1
        file.write(ocel.middle())
        objects.seek(0)
        shutil.copyfileobj(cast(BinaryIO, objects), cast(BinaryIO, file))
        file.write(ocel.tail(types))
    return ConversationCounts(**tally.facts())


def _check(count: int, limit: int, noun: str) -> None:
    if count > limit:
        raise JobError(
            Problem.bad_request,
            f"The period has more than {limit:,} {noun}; ask for a shorter one.",
        )


# OpenTelemetry


class SpanPacker:
    """Conversations as requests with spans."""

    def __init__(self, request: PeriodRequest) -> None:
        self._vhost = request.vhost
        self._arrivals = {
            int(event): LinkDelivery(*side) for event, side in request.arrivals.items()
        }
        self._by_keys = request.via is Via.conversation
        self._version = versions()["rabbitmq-itc"]
        self._spans: list[ExportedSpan] = []

    def add(self, rows: ConversationRows) -> Iterator[Piece]:
        """Take one more conversation."""
        facts = rows.span_facts
        for span in spans_of(
            rows.conversation, facts, self._vhost, self._arrivals, by_keys=self._by_keys
        ):
            self._spans.append(span)
            if len(self._spans) >= MOST_SPANS:
                yield from self.rest()

    def rest(self) -> Iterator[Piece]:
        """Give what is left."""
        if self._spans:
            body = otlp.as_json(self._spans, self._vhost, self._version)
            yield Piece(body, b"", {"spans": len(self._spans)})
        self._spans = []


def write_otlp(
    spark: SparkSession, request: PeriodRequest, period: Period, meter: Meter, file: HashedFile
) -> SpanCounts:
    """Requests in JSON, one a line."""
    tally, count = WrittenCount(), 0
    packer = partial(SpanPacker, request)
    for piece in pieces(spark, request, period, meter, packer, tally):
        file.write(piece.body)
        count += piece.facts["spans"]
    return SpanCounts(**tally.facts(), spans=count)


# AsyncAPI


def write_asyncapi(
    spark: SparkSession, request: PeriodRequest, period: Period, meter: Meter, file: HashedFile
) -> DocumentCounts:
    """The document, from what executors noted."""
    shapes = PeriodShapes()
    for notes in _notes(spark, request, period, meter):
        shapes.merge(PeriodShapes.from_json(json.loads(notes)))
    facts = {
        "vhost": request.vhost,
        "since": iso_time(request.since),
        "until": iso_time(request.until),
        "complete": not period.gaps,
        "gaps": json_of(period.gaps),
    }
    document = asyncapi.document_of(shapes, facts, request.rules)
    is_yaml = request.form.endswith("yaml")
    file.write(asyncapi.as_yaml(document) if is_yaml else asyncapi.as_json(document))
    return DocumentCounts(
        events=shapes.events,
        channels=len(document["channels"]),
        operations=len(document["operations"]),
        messages=len(document["components"]["messages"]),
        left_out=document["info"]["x-left-out"],
    )


def _notes(
    spark: SparkSession, request: PeriodRequest, period: Period, meter: Meter
) -> Iterator[str]:
    if period.ids is None:
        return
    first, last = period.ids
    slices = spans_that_fit(period.history, period.trace, first, last, tasks_at_a_time(spark))
    meter.enter("reading", 5.0)
    meter.expect(last - first + 1)
    for start in range(0, len(slices), MOST_IN_WAVE):
        wave = slices[start : start + MOST_IN_WAVE]
        with spark_errors():
            frame = map_slices(
                spark, request.database, COLUMNS, wave, _noter(request), "notes string"
            )
            table = frame.toArrow()
        yield from table.column("notes").to_pylist()
        meter.read(sum(part.last_id - part.first_id + 1 for part in wave))


def _noter(
    request: PeriodRequest,
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    begin, end = request.since, request.until

    def notes(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        shapes = PeriodShapes()
        for batch in batches:
            for row in batch.to_pylist():
                if begin <= row["recorded_at"] < end and not row["quiet"]:
                    shapes.add(row)
        yield pa.RecordBatch.from_pylist([{"notes": json.dumps(shapes.to_json())}])

    return notes


Write = Callable[
    [SparkSession, PeriodRequest, Period, Meter, HashedFile], ConversationCounts | DocumentCounts
]

WRITERS: dict[str, Write] = {
    "ocel.json": write_ocel,
    "otlp.json": write_otlp,
    "asyncapi.json": write_asyncapi,
    "asyncapi.yaml": write_asyncapi,
}
