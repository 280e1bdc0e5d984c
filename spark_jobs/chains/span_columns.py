"""Reading what is followed event by event: some columns of events, with links and conversations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from model.jobs import Problem
from model.words import EdgeKind, Via
from spark_jobs.chains.in_memory import LinkColumns, SpanColumns, positions_of
from spark_jobs.errors import JobError
from spark_jobs.events.causes import link_rows
from spark_jobs.events.ranges import Longs
from spark_jobs.spark.columns import arrow_schema

COLUMNS = ("id", "type", "participant", "height", "seq", "cause_id", "quiet", "links")
# A span is held in the driver: about 200 bytes per event while it is followed.
MOST_EVENTS = 20_000_000


def columns_for(via: Via) -> tuple[str, ...]:
    """The columns that are read of each event."""
    return (*COLUMNS, "conversations") if via is Via.conversation else COLUMNS


def span_of(batches: Iterable[pa.RecordBatch], via: Via) -> tuple[SpanColumns, int]:
    """Events by id in the columns of `columns_for`, and how many of them are of quiet traffic.

    Raises `JobError` for more than `MOST_EVENTS`.
    """
    table = pa.Table.from_batches(_check_size(batches), arrow_schema(columns_for(via)))
    table = table.combine_chunks()
    # Quiet traffic joins nothing.
    quiet = table.column("quiet")
    causes = pc.if_else(quiet, None, table.column("cause_id")).fill_null(0)
    links = pc.if_else(quiet, None, table.column("links"))
    ids: Longs = table.column("id").to_numpy()
    keys = LinkColumns(_no_longs(), _no_longs())
    if via is Via.conversation:
        keys = _conversations(pc.if_else(quiet, None, table.column("conversations")))
    span = SpanColumns(
        ids=ids,
        types=table.column("type").to_numpy(),
        participants=table.column("participant").to_numpy(),
        heights=table.column("height").to_numpy(),
        seqs=table.column("seq").to_numpy(),
        causes=causes.to_numpy(),
        links=_links(ids, links, candidates=False),
        candidates=_links(ids, links, candidates=True),
        conversations=keys,
    )
    return span, pc.sum(quiet).as_py() or 0


def _check_size(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    events = 0
    for batch in batches:
        events += batch.num_rows
        if events > MOST_EVENTS:
            raise JobError(
                Problem.bad_request,
                f"More than {MOST_EVENTS} events lie between the two, too many to follow one by"
                " one; choose nearer ones.",
            )
        yield batch


def _links(ids: Longs, texts: pa.ChunkedArray, *, candidates: bool) -> LinkColumns:
    """The links whose causes are among the events, or the candidates."""
    effects: list[int] = []
    causes: list[int] = []
    for effect, text in _present(texts):
        for row in link_rows(text):
            if (row[2] == EdgeKind.candidate) is candidates:
                effects.append(effect)
                causes.append(row[0])
    positions = positions_of(ids, np.array(causes, dtype=np.int64)) if len(ids) else _no_longs()
    inside = np.flatnonzero(positions >= 0)
    return LinkColumns(positions[inside], np.array(effects, dtype=np.int64)[inside])


def _conversations(texts: pa.ChunkedArray) -> LinkColumns:
    """The conversations of each event, numbered as they come."""
    numbers: dict[str, int] = {}
    events: list[int] = []
    keys: list[int] = []
    for event, text in _present(texts):
        for key in text.split(","):
            events.append(event)
            keys.append(numbers.setdefault(key, len(numbers)))
    return LinkColumns(np.array(events, dtype=np.int64), np.array(keys, dtype=np.int64))


def _present(texts: pa.ChunkedArray) -> Iterator[tuple[int, str]]:
    """The texts that there are, with the position of their events: of most there is none."""
    positions = pc.indices_nonzero(pc.is_valid(texts))
    return zip(positions.to_pylist(), texts.drop_null().to_pylist(), strict=True)


def _no_longs() -> Longs:
    return np.zeros(0, dtype=np.int64)
