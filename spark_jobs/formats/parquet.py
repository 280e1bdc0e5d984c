"""Events as one Parquet file, written batch by batch."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from model.event import Kind
from spark_jobs.formats.fields import DERIVED, EVENT_COLUMNS, EXPORTED, compact, event_fields
from spark_jobs.formats.renderer import Chain, Renderer, Sink

TYPES: dict[Kind | Literal["links"], pa.DataType] = {
    "number": pa.int64(),
    "text": pa.string(),
    "flag": pa.bool_(),
    "time": pa.timestamp("us", tz="UTC"),
    "word": pa.string(),
    "words": pa.list_(pa.string()),
    # A tree of whatever clients put there, and no Parquet type fits it: JSON text.
    "table": pa.string(),
    "links": pa.list_(
        pa.struct([("cause", pa.int64()), ("rule", pa.string()), ("kind", pa.string())])
    ),
}
SCHEMA = pa.schema([pa.field(field.name, TYPES[field.kind]) for field in EXPORTED.values()])
LISTS = [field.name for field in EXPORTED.values() if field.kind in ("words", "links")]
# Fields that are columns as they are stored; the others are made one value at a time.
PLAIN = {
    field.name
    for field in EXPORTED.values()
    if field.name not in DERIVED and field.kind not in ("word", "words")
}
DERIVED_FIELDS = [name for name in EXPORTED if name not in PLAIN]
# Packed, events take a quarter of the bytes from executors to the driver, and half the time in all.
STREAM = pa.ipc.IpcWriteOptions(compression="lz4")
# Batches are gathered into row groups of at least this many events.
ROW_GROUP = 20_000


def _render(batch: pa.RecordBatch, chain: Chain) -> bytes:
    """The events as an Arrow stream."""
    del chain
    fields = event_fields(batch, DERIVED_FIELDS)
    for name in LISTS:
        parsed = {text: _parse(text) for text in set(fields[name])}
        fields[name] = [parsed[text] for text in fields[name]]
    arrays = [
        batch.column(field.name).cast(field.type)
        if field.name in PLAIN
        else pa.array(fields[field.name], field.type)
        for field in SCHEMA
    ]
    return stream_of(pa.RecordBatch.from_arrays(arrays, schema=SCHEMA))


def stream_of(batch: pa.RecordBatch) -> bytes:
    """A batch on its way from an executor to the driver."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=STREAM) as stream:
        stream.write_batch(batch)
    return bytes(sink.getvalue())


def _parse(text: str | None) -> Any:
    return None if text is None else json.loads(text)


def _write(file: Sink, chunks: Iterable[bytes], chain: Chain) -> None:
    write_row_groups(file, chunks, SCHEMA.with_metadata({"chain": compact(dict(chain.facts))}))


def write_row_groups(file: Sink, chunks: Iterable[bytes], schema: pa.Schema) -> None:
    """Write streams of batches as one file, in groups of `ROW_GROUP` rows or more."""
    bare = schema.remove_metadata()
    with pq.ParquetWriter(file, schema, compression="zstd") as writer:
        batches: list[pa.RecordBatch] = []
        for chunk in chunks:
            batches += pa.ipc.open_stream(chunk)
            if sum(batch.num_rows for batch in batches) >= ROW_GROUP:
                writer.write_table(pa.Table.from_batches(batches, bare))
                batches = []
        if batches:
            writer.write_table(pa.Table.from_batches(batches, bare))


PARQUET = Renderer(EVENT_COLUMNS, _render, _write)
