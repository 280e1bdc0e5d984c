"""Rows of values: made of events in one task, brought together by value, compared in another."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa

from model.words import EventType
from spark_jobs.events.ranges import Longs
from spark_jobs.events.slices import Slice
from spark_jobs.events.source import read
from spark_jobs.reports.message_fields import Field, fields_of
from spark_jobs.reports.report_request import Json
from spark_jobs.reports.survey import MOST_ALIKE
from spark_jobs.reports.value_matches import (
    Flags,
    Hits,
    MatchParticipants,
    PairFigures,
    Programs,
    Rows,
    ValueMatches,
    match_values,
)
from spark_jobs.spark.database import DatabaseAddress

MOST_HITS = 400_000
COLUMNS = (
    *("id", "type", "cause_id", "participant", "recorded_at", "exchange", "routing_keys"),
    *("properties", "quiet", "payload_bytes", "body"),
)
VALUE_ROW = (
    "value bigint, path bigint, participant bigint, event bigint, message bigint, spot bigint,"
    " is_publish boolean"
)
_WIDTH = max(len(kind._fields) for kind in (PairFigures, Hits, Programs))
MATCH_ROW = "kind string, " + ", ".join(f"n{k} bigint" for k in range(_WIDTH))

Batches: TypeAlias = Iterable[pa.RecordBatch]
Work: TypeAlias = Callable[[Batches], Iterator[pa.RecordBatch]]


class Gathering(NamedTuple):
    """A way to make rows of slices by one `Work`, and compare those of each value by another.

    ``tasks`` are done at a time.
    """

    tasks: int
    gather: Callable[[DatabaseAddress, Sequence[Slice], Work, Work, int], pa.Table]


def gather_here(
    database: DatabaseAddress,
    slices: Sequence[Slice],
    make_rows: Work,
    match_rows: Work,
    parts: int,
) -> pa.Table:
    """Gather in this process, without Spark, with all rows in memory."""
    del parts
    batches = [
        *match_rows(make_rows(batch for part in slices for batch in read(database, COLUMNS, part)))
    ]
    return pa.Table.from_batches(batches or [_numbered_batch("pairs", (np.empty(0, np.int64),))])


def row_maker(begin: int, end: int, numbers: dict[str, int], aliases: dict[int, int]) -> Work:
    def rows(batches: Batches) -> Iterator[pa.RecordBatch]:
        skipped: Counter[str] = Counter()
        for batch in batches:
            events = (
                event
                for event in batch.to_pylist()
                if begin <= event["recorded_at"] < end and not event["quiet"]
            )
            yield _batch(events, numbers, aliases, skipped)

    return rows


def _batch(
    events: Iterable[Json], numbers: dict[str, int], aliases: dict[int, int], skipped: Counter[str]
) -> pa.RecordBatch:
    """The values of some events at known paths, without those that repeat."""
    texts: list[str] = []
    path_numbers: list[int] = []
    sizes: list[int] = []
    of_events: list[tuple[int, ...]] = []
    spots: list[str] = []
    contents: dict[
        tuple[str, bytes], tuple[Json, list[Field]]
    ] = {}  # deliveries repeat their publish
    for event in events:
        content = event["properties"], event["body"]
        if content not in contents:
            properties = json.loads(content[0])
            fields = fields_of(properties, content[1], skipped)
            contents[content] = properties, [field for field in fields if field[0] in numbers]
        properties, fields = contents[content]
        texts += [value for _, value in fields]
        path_numbers += [numbers[paths] for paths, _ in fields]
        sizes.append(len(fields))
        is_publish = event["type"] == EventType.published
        spots.append(_spot(event, properties, is_publish=is_publish))
        participant, event_id = int(event["participant"]), int(event["id"])
        actor, message = aliases.get(participant, participant), event["cause_id"] or event_id
        of_events.append((actor, event_id, message, is_publish))
    event_index = np.repeat(np.arange(len(sizes)), sizes)
    columns = np.array(of_events, dtype=np.int64).reshape(-1, 4)[event_index]
    targets = np.where(np.array([*map(bool, spots)], dtype=bool), _hash(spots), 0)[event_index]
    values, paths = _hash(texts), np.array(path_numbers, dtype=np.int64)
    is_rare = _rare(values, paths, columns[:, 0])
    arrays = [values, paths, columns[:, 0], columns[:, 1], columns[:, 2], targets]
    arrays.append(columns[:, 3] == 1)
    return pa.RecordBatch.from_arrays(
        [pa.array(array[is_rare]) for array in arrays], names=list(Rows._fields)
    )


def _hash(texts: Sequence[str]) -> Longs:
    hashes = pd.util.hash_array(np.array(texts, dtype=object), categorize=False)
    return np.asarray(hashes.view(np.int64))


def _rare(values: Longs, paths: Longs, participants: Longs) -> Flags:
    """Flag rows with a value that their participant does not have often at their path."""
    order = np.lexsort((participants, paths, values))
    new = np.ones(len(order), dtype=bool)
    for number, column in enumerate((values, paths, participants)):
        differs = np.diff(column[order]) != 0
        new[1:] = differs if not number else new[1:] | differs
    starts = np.flatnonzero(new)
    counts = np.diff(np.append(starts, len(order)))
    rare = np.empty(len(order), dtype=bool)
    rare[order] = np.repeat(counts <= MOST_ALIKE, counts)
    return rare


def _spot(event: Json, properties: Json, *, is_publish: bool) -> str:
    """The queue where replies to a delivery go, or where a publish went."""
    if is_publish:
        keys = [] if event["exchange"] else json.loads(event["routing_keys"])
        return str(keys[0]) if keys else ""
    reply_to = properties.get("reply_to") if isinstance(properties, dict) else None
    return reply_to if isinstance(reply_to, str) else ""


def row_matcher(members: MatchParticipants, is_long: Sequence[bool], one_in: int) -> Work:
    def match_rows(batches: Batches) -> Iterator[pa.RecordBatch]:
        filled = [batch for batch in batches if batch.num_rows]
        if not filled:
            return
        table = pa.Table.from_batches(filled)
        columns = (table.column(name).to_numpy() for name in Rows._fields)
        matches = match_values(Rows(*columns), members, np.array(is_long, dtype=bool), one_in)
        hits = Hits(*(column[:MOST_HITS] for column in matches.hits))
        for name, part in zip(
            ("pairs", "hits", "programs"), matches._replace(hits=hits), strict=True
        ):
            yield _numbered_batch(name, part)

    return match_rows


def _numbered_batch(kind: str, columns: tuple[Longs, ...]) -> pa.RecordBatch:
    size = len(columns[0])
    zeros = np.zeros(size, dtype=np.int64)
    arrays = [pa.array([kind] * size, pa.string())]
    arrays += [pa.array(column, pa.int64()) for column in columns]
    arrays += [pa.array(zeros, pa.int64())] * (_WIDTH - len(columns))
    return pa.RecordBatch.from_arrays(arrays, names=["kind", *(f"n{k}" for k in range(_WIDTH))])


def matches_in(table: pa.Table) -> ValueMatches:
    kinds = np.asarray(table.column("kind").to_pylist(), dtype=object)

    def columns(name: str, count: int) -> Iterator[Longs]:
        rows = table.filter(pa.array(kinds == name, pa.bool_()))
        return (rows.column(f"n{k}").to_numpy() for k in range(count))

    return ValueMatches(
        PairFigures(*columns("pairs", len(PairFigures._fields))),
        Hits(*columns("hits", len(Hits._fields))),
        Programs(*columns("programs", len(Programs._fields))),
    )
