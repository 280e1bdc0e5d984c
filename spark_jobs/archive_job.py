"""The archive job: a trace's oldest events as Parquet, one folder per day, so they can be pruned.

Executors read the events in the order of ids, with all that belongs to them; the driver writes
files of one day each. They count from the moment the manifest names them: a job that fails leaves
files that nobody reads, which the next one removes.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from model.archives import ArchiveFile, ArchiveSummary
from model.jobs import Problem
from model.times import DAY
from spark_jobs.errors import JobError
from spark_jobs.events.archive import Archive
from spark_jobs.events.history import History
from spark_jobs.events.slices import id_spans, rows_per_slice
from spark_jobs.events.slices_job import tasks_at_a_time
from spark_jobs.export import disk_errors, sync
from spark_jobs.formats.parquet import stream_of
from spark_jobs.formats.renderer import Chain, Renderer, write_chunks
from spark_jobs.formats.renderer_job import render_slices
from spark_jobs.progress import Meter, Report, silent
from spark_jobs.spark.columns import COLUMNS, arrow_schema
from spark_jobs.spark.database import DatabaseAddress

EVERY_COLUMN = tuple(COLUMNS)
ROW_GROUP = 50_000
UNFINISHED = ".part-"


@dataclass(frozen=True)
class ArchiveRequest:
    """A virtual host's events from before ``before`` (µs) that are not archived yet."""

    database: DatabaseAddress
    vhost: str
    before: int
    root: Path


def run(spark: SparkSession, request: ArchiveRequest, report: Report = silent) -> ArchiveSummary:
    """Archive; returns what was added, and the id up to which everything is archived."""
    meter = Meter(report)
    meter.enter("planning", 0.0)
    with request.database.connect() as connection:
        history = History(connection)
        trace = history.trace(request.vhost)
        archive = Archive.of_vhost(request.root, request.vhost, trace)
        archive.check_of(history, trace)
        span = history.prefix_before(trace, request.before, archive.through)
        if span is None:
            return _summary(archive, ())
        first_id, last_id, events = span
        count = -(-events // rows_per_slice(history.row_bytes(trace, first_id, last_id), events, 1))
        slices = id_spans(trace, first_id, last_id, max(count, tasks_at_a_time(spark)))
        meter.enter("reading", 5.0)
        meter.expect(events)
        chunks = render_slices(spark, request.database, RAW, Chain(), slices, meter)
        parts = _write(archive.folder, (b for chunk in chunks for b in pa.ipc.open_stream(chunk)))
        if meter.rows_written != events:
            raise JobError(
                Problem.failed,
                f"{events} events were to be archived and {meter.rows_written} could be read: the"
                " trace is being pruned, or its store is damaged. Nothing was archived.",
            )
        newest = history.newest_until(trace, last_id)
        gaps = {gap.id: gap for gap in (*archive.gaps, *history.gaps(trace, 0, last_id))}
        participants = (*archive.assumed, *history.assumed_participants(trace, 0, last_id))
        assumed = {participant.number: participant for participant in participants}
        misfit = history.misfit(trace)
        uninformed = (*archive.missing, *history.split_participants(trace, 0, last_id))
        uninformed_by_number = {participant.number: participant for participant in uninformed}
    if newest is None or newest[0] != last_id:
        raise JobError(
            Problem.failed,
            f"Event {last_id} was pruned while it was archived; nothing was archived. Ask again.",
        )
    whole = replace(
        archive,
        through=last_id,
        until=newest[1],
        parts=archive.parts + parts,
        gaps=tuple(gaps.values()),
        assumed=tuple(assumed.values()),
        misfit=misfit or archive.misfit,
        missing=tuple(uninformed_by_number.values()),
    )
    whole.save()
    return _summary(whole, parts)


def _summary(archive: Archive, parts: tuple[ArchiveFile, ...]) -> ArchiveSummary:
    return ArchiveSummary(
        vhost=archive.vhost,
        through=archive.through,
        events=sum(part.events for part in parts),
        files=len(parts),
        bytes=sum(part.bytes for part in parts),
    )


def _render(batch: pa.RecordBatch, chain: Chain) -> bytes:
    del chain
    return stream_of(batch.cast(arrow_schema(EVERY_COLUMN)))


RAW = Renderer(EVERY_COLUMN, _render, write_chunks)


def _write(folder: Path, batches: Iterable[pa.RecordBatch]) -> tuple[ArchiveFile, ...]:
    """Write the batches, and move the files into place when all of them are complete."""
    with disk_errors(folder / "events"):
        folder.mkdir(parents=True, exist_ok=True)
        for leftover in folder.glob(f"{UNFINISHED}*"):
            shutil.rmtree(leftover)
        folder_aside = folder / f"{UNFINISHED}{secrets.token_hex(6)}"
        folder_aside.mkdir()
        try:
            parts = tuple(_files(folder_aside, batches))
            for part in parts:
                target = folder / part.file
                target.parent.mkdir(exist_ok=True)
                (folder_aside / part.file).replace(target)
                sync(target.parent)
        finally:
            shutil.rmtree(folder_aside, ignore_errors=True)
    return parts


def _files(folder: Path, batches: Iterable[pa.RecordBatch]) -> Iterator[ArchiveFile]:
    """One file for each run of events of one day."""
    days = (piece for batch in batches for piece in _by_day(batch))
    piece = next(days, None)
    while piece is not None:
        day, batch = piece
        part = folder / "writing.parquet"
        first_id, events = batch.column("id")[0].as_py(), 0
        with pq.ParquetWriter(part, arrow_schema(EVERY_COLUMN), compression="zstd") as writer:
            while piece is not None and piece[0] == day:
                batch = piece[1]
                writer.write_batch(batch, row_group_size=ROW_GROUP)
                events += batch.num_rows
                last_id = batch.column("id")[-1].as_py()
                piece = next(days, None)
        name = f"day={day}/{first_id}-{last_id}.parquet"
        (folder / name).parent.mkdir(exist_ok=True)
        sync(part)  # archived events may be pruned, and then exist nowhere else
        part.replace(folder / name)
        yield ArchiveFile(name, first_id, last_id, events, (folder / name).stat().st_size)


def _by_day(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The batch in pieces of one day each, still by id."""
    days = pc.divide(batch.column("recorded_at"), DAY).to_numpy()
    begin = 0
    for end in range(1, len(days) + 1):
        if end == len(days) or days[end] != days[begin]:
            day = datetime.fromtimestamp(int(days[begin]) * 86_400, UTC)
            yield f"{day:%Y-%m-%d}", batch.slice(begin, end - begin)
            begin = end
