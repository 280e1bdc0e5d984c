"""Rendering of events for a file, in Spark's executors.

It goes through the slices in waves. A wave is one Spark job, whose answer the driver holds until it
is written: waves bound the memory there whatever the chain's length, and progress is reported
between them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

import pyarrow as pa
from pyspark.sql import SparkSession

from spark_jobs.events.slices import Slice
from spark_jobs.events.slices_job import CLOCKS, map_slices, tasks_at_a_time
from spark_jobs.events.source import Batches
from spark_jobs.formats.renderer import Chain, Renderer, write_chunks
from spark_jobs.progress import Meter
from spark_jobs.spark.database import DatabaseAddress
from spark_jobs.spark.failures import spark_errors

# Slices whose rendered events the driver holds at a time, however large the cluster.
MOST_IN_WAVE = 16

T = TypeVar("T")

CHUNKS = "events bigint, chunk binary"
EMPTY_RENDERER = Renderer((), lambda batch, chain: b"", write_chunks)


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


def _renderer(renderer: Renderer, chain: Chain) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    render = renderer.render

    def chunks(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.num_rows:
                rows = pa.array([batch.num_rows], pa.int64())
                chunk = pa.array([render(batch, chain)], pa.binary())
                yield pa.RecordBatch.from_arrays([rows, chunk], names=["events", "chunk"])

    return chunks
