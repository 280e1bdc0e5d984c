"""Work in Spark's executors: comparing clocks, and rendering events for a file.

Both go through the slices in waves. A wave is one Spark job, whose answer the driver holds until it
is written: waves bound the memory there whatever the chain's length, and progress is reported
between them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql import SparkSession

from spark_jobs.chains.plan import Plan
from spark_jobs.chains.ranges import Range, compare, merge
from spark_jobs.chains.slices import MOST_ROWS, Slice, spans
from spark_jobs.chains.source import Batches, map_slices
from spark_jobs.formats.chain import Chain, Renderer, write_chunks
from spark_jobs.progress import Meter
from spark_jobs.spark.database import DatabaseAddress
from spark_jobs.spark.failures import spark_errors

# How many slices' rendered events the driver may hold at a time, however large the cluster.
MOST_IN_WAVE = 16
# Compared slices have tiny answers.
COMPARED_IN_WAVE = 256
# A Connect server does not say how many tasks it can run at a time.
CONNECT_TASKS = 8

T = TypeVar("T")

CHUNKS = "events bigint, chunk binary"
RANGES = ", ".join(f"{name} bigint" for name in Range._fields)
CLOCKS = ("id", "participant", "height", "seq", "clock")


EMPTY_RENDERER = Renderer((), lambda batch, chain: b"", write_chunks)


def tasks_at_a_time(spark: SparkSession) -> int:
    """The number of tasks that the session can run at once."""
    if hasattr(spark, "_jsparkSession"):
        return int(spark.sparkContext.defaultParallelism)
    return CONNECT_TASKS


def slices_of(spark: SparkSession, trace: int, first_id: int, last_id: int) -> list[Slice]:
    """Equal slices of a span of ids: as many as tasks can run at once, more where it is long."""
    count = max(tasks_at_a_time(spark), -(-(last_id - first_id + 1) // MOST_ROWS))
    return spans(trace, first_id, last_id, count)


def scan(spark: SparkSession, database: DatabaseAddress, plan: Plan, meter: Meter) -> list[Range]:
    """The chain's ranges, found by comparing the clocks of the whole span."""
    slices = slices_of(spark, plan.start.trace, plan.start.id, plan.end.id)
    ranges: list[Range] = []
    for start in range(0, len(slices), COMPARED_IN_WAVE):
        meter.enter("comparing", 5.0 + 30.0 * start / len(slices))
        with spark_errors():
            wave = slices[start : start + COMPARED_IN_WAVE]
            frame = map_slices(spark, database, CLOCKS, wave, _comparer(plan), RANGES)
            table = frame.toArrow()
        ranges += (Range(*row) for row in zip(*table.to_pydict().values(), strict=True))
    return merge(ranges)


def render_slices(
    spark: SparkSession,
    database: DatabaseAddress,
    renderer: Renderer,
    chain: Chain,
    slices: Sequence[Slice],
    meter: Meter,
) -> Iterator[bytes]:
    """The chain's events as the format's chunks, in the order of ids."""
    size = min(2 * tasks_at_a_time(spark), MOST_IN_WAVE)
    render = _renderer(renderer, chain)

    def run(wave: Sequence[Slice]) -> pa.Table:
        with spark_errors():
            return map_slices(spark, database, renderer.columns, wave, render, CHUNKS).toArrow()

    waves = [slices[start : start + size] for start in range(0, len(slices), size)]
    for table in _one_ahead(spark, run, waves):
        counts = table.column("events").to_pylist()
        meter.read(sum(counts))
        for events, chunk in zip(counts, table.column("chunk"), strict=True):
            yield chunk.as_py()
            meter.count_written(events)


def _one_ahead(
    spark: SparkSession, run: Callable[[T], pa.Table], waves: Sequence[T]
) -> Iterator[pa.Table]:
    """The waves' answers in order. While one is written, Spark makes the next."""
    with ThreadPoolExecutor(1, "wave") as pool:
        pending = None
        try:
            for wave in waves:
                submitted = pool.submit(run, wave)
                if pending is not None:
                    yield pending.result()
                pending = submitted
            if pending is not None:
                yield pending.result()
        except BaseException:
            with suppress(Exception):  # Spark may be gone, which whoever reads this learns anyway
                spark.interruptAll()
            raise


def touch(spark: SparkSession, database: DatabaseAddress) -> None:
    """Do what every job does, with no events at all."""
    with spark_errors():
        render = _renderer(EMPTY_RENDERER, Chain())
        no_events = [Slice(trace=0, first_id=0, last_id=0)]
        map_slices(spark, database, CLOCKS, no_events, render, CHUNKS).toArrow()


def _comparer(plan: Plan) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    bounds, start = plan.bounds, plan.start.dot

    def ranges(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            ids, participants, heights, seqs = (batch.column(k).to_numpy() for k in range(4))
            clocks = batch.column(4).to_pylist()
            rows = compare(ids, participants, heights, seqs, clocks, bounds, start)
            yield _as_batch(Range._fields, rows)

    return ranges


def _as_batch(names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True) if rows else ([] for _ in names)
    return pa.RecordBatch.from_arrays(
        [pa.array(list(column), pa.int64()) for column in columns], names=list(names)
    )


def _renderer(renderer: Renderer, chain: Chain) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    render = renderer.render

    def chunks(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.num_rows:
                rows = pa.array([batch.num_rows], pa.int64())
                chunk = pa.array([render(batch, chain)], pa.binary())
                yield pa.RecordBatch.from_arrays([rows, chunk], names=["events", "chunk"])

    return chunks
