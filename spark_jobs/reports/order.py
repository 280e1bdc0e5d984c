"""Reports on order: races and inversions over a period, queue by queue.

A race: two messages were published into one queue, and neither publish was before the other, so
they might as well have come in the other order. An inversion: one was published before the other,
and was handed over from the queue after it. With a key, only messages that share it are compared.

Each task turns its events into one row for each queue: publishes with their clocks, and first
deliveries. Spark brings those of one queue, or of one key in it, together, and `ordering` counts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as F

from model.reports.order import OrderedGroup, OrderedPair, OrderReport
from model.texts import storable
from model.who import Who
from model.words import EventType, Match
from spark_jobs.executors import tasks_at_a_time
from spark_jobs.failures import explained
from spark_jobs.period import Period
from spark_jobs.progress import Meter
from spark_jobs.reports.flattening import bytes_in
from spark_jobs.reports.ordering import MessagePairs, Messages, inversions, races
from spark_jobs.reports.request import Json, ReportRequest
from spark_jobs.slices import MOST_ROWS, spans
from spark_jobs.source import map_slices

REPORTS: dict[str, Callable[[Messages], MessagePairs]] = {"races": races, "inversions": inversions}

# How many pairs are shown, the newest, and how many queues, those with the most.
MOST_ITEMS = 1_000
MOST_GROUPS = 500
# So many publishes and deliveries of one queue, or of one key in it, are compared: the newest.
MOST_TOGETHER = 100_000

HEADER, FIELD = "header.", "body."

_ROWS = (
    "queue string, `key` string, id bigint, is_publish boolean, participant bigint, height bigint,"
    " clock binary, `interval` string, cause bigint, at bigint"
)
_FOUND = (
    "queue string, `key` string, count bigint, counted_all boolean, a bigint, b bigint,"
    " a_by bigint, b_by bigint, handed_a bigint, handed_b bigint, handed_a_by bigint,"
    " handed_b_by bigint, at bigint"
)
_WHO = ("a_by", "b_by", "handed_a_by", "handed_b_by")
_OF_EVENTS = (
    "id",
    "type",
    "match",
    "participant",
    "height",
    "clock",
    "interval",
    "cause_id",
    "recorded_at",
    "queue",
    "routed_queues",
    "quiet",
)


def make(spark: SparkSession, request: ReportRequest, period: Period, meter: Meter) -> OrderReport:
    """The pairs of a period.

    ``asked["key"]`` says what messages share that are compared: ``message_id``,
    ``correlation_id``, ``routing_key``, ``header.NAME`` or ``body.NAME``, a field of a JSON body;
    None: the queue.
    """
    pairs, groups = _pairs_and_groups(spark, request, period)
    numbers = {pair[name] for pair in pairs for name in _WHO if pair[name] is not None}
    who = {
        number: Who(number, name)
        for number, (name, _) in period.history.names(period.trace, numbers).items()
    }
    count = sum(group["pairs"] for group in groups)
    return OrderReport(
        **request.facts(period),
        count=count,
        counted_all=all(group["all"] for group in groups),
        items=[_ordered(pair, who) for pair in pairs],
        groups=[
            OrderedGroup(group["queue"], group["pairs"], group["all"])
            for group in groups[:MOST_GROUPS]
            if group["pairs"] or not group["all"]
        ],
        truncated=count > len(pairs),
    )


def _pairs_and_groups(
    spark: SparkSession, request: ReportRequest, period: Period
) -> tuple[list[Row], list[Row]]:
    """The pairs, newest first, and the queues, those with the most first."""
    if period.ids is None:
        return [], []
    ids, key = period.ids, request.asked["key"]
    count = max(tasks_at_a_time(spark), -(-(ids[1] - ids[0] + 1) // MOST_ROWS))
    columns = (*_OF_EVENTS, *columns_of(key))
    slices = spans(period.trace, *ids, count)
    rows = _rows(period.since, period.until, key)
    with explained():
        frame = map_slices(spark, request.database, columns, slices, rows, _ROWS)
        found = _found(frame, request.report).persist()
        try:
            pairs = (
                found.where(F.col("a").isNotNull())
                .orderBy(F.desc("b"), F.desc("a"), "queue")
                .limit(MOST_ITEMS)
                .collect()
            )
            groups = (
                found.where(F.col("a").isNull())
                .groupBy("queue")
                .agg(F.sum("count").alias("pairs"), F.min("counted_all").alias("all"))
                .orderBy(F.desc("pairs"), "queue")
                .collect()
            )
        finally:
            found.unpersist()
    return pairs, groups


def _found(rows: DataFrame, report: str) -> DataFrame:
    """The pairs of each queue and key, and a row of counts for each that has any."""
    place = Window.partitionBy("queue", "key").orderBy(F.desc("id"))
    newest = rows.withColumn("place", F.row_number().over(place))
    some = newest.where(F.col("place") <= MOST_TOGETHER + 1).drop("place")

    def count(table: pa.Table) -> pa.Table:
        return _counted(table, REPORTS[report])

    return some.groupBy("queue", "key").applyInArrow(count, _FOUND)


def _counted(table: pa.Table, counted: Callable[[Messages], MessagePairs]) -> pa.Table:
    """The matches among the rows of one queue and key."""
    cut = table.num_rows > MOST_TOGETHER
    table = table.sort_by("id")
    if cut:
        table = table.slice(table.num_rows - MOST_TOGETHER)
    is_publish = table.column("is_publish").to_numpy()
    publishes = table.filter(pa.array(is_publish))
    handed, handed_by = _handed(table.filter(pa.array(~is_publish)))
    ids = publishes.column("id").to_numpy()
    who = publishes.column("participant").to_numpy()
    messages = Messages(
        ids=ids,
        participants=who,
        heights=publishes.column("height").to_numpy(),
        clocks=publishes.column("clock").to_pylist(),
        intervals=dict(zip(who.tolist(), publishes.column("interval").to_pylist(), strict=True)),
        handed=np.array([handed.get(each, 0) for each in ids.tolist()], dtype=np.int64),
    )
    pairs = counted(messages)
    is_all = pairs.counted_all and not cut
    if not pairs.count and is_all:
        return _table([])
    shared = {name: table.column(name)[0].as_py() for name in ("queue", "key")}
    at = publishes.column("at").to_pylist()
    rows: list[Json] = [{**shared, "count": pairs.count, "counted_all": is_all}]
    for pair in pairs.shown:
        a, b = int(ids[pair.a]), int(ids[pair.b])
        rows.append(
            {
                **shared,
                "a": a,
                "b": b,
                "a_by": int(who[pair.a]),
                "b_by": int(who[pair.b]),
                "handed_a": handed.get(a),
                "handed_b": handed.get(b),
                "handed_a_by": handed_by.get(a),
                "handed_b_by": handed_by.get(b),
                "at": at[pair.b],
            }
        )
    return _table(rows)


def _handed(deliveries: pa.Table) -> tuple[dict[int, int], dict[int, int]]:
    """Of each publish the first delivery, and whom it went to; the deliveries by id."""
    columns = (deliveries.column(name).to_pylist() for name in ("cause", "id", "participant"))
    first: dict[int, int] = {}
    to: dict[int, int] = {}
    for cause, event_id, participant in zip(*columns, strict=True):
        if cause not in first:
            first[cause], to[cause] = event_id, participant
    return first, to


_SCHEMA = pa.schema(
    [
        ("queue", pa.string()),
        ("key", pa.string()),
        ("count", pa.int64()),
        ("counted_all", pa.bool_()),
        *((name, pa.int64()) for name in ("a", "b", "a_by", "b_by", "handed_a", "handed_b")),
        *((name, pa.int64()) for name in ("handed_a_by", "handed_b_by", "at")),
    ]
)


def _table(rows: list[Json]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=_SCHEMA)


_ARROW = pa.schema(
    [
        ("queue", pa.string()),
        ("key", pa.string()),
        ("id", pa.int64()),
        ("is_publish", pa.bool_()),
        ("participant", pa.int64()),
        ("height", pa.int64()),
        ("clock", pa.binary()),
        ("interval", pa.string()),
        ("cause", pa.int64()),
        ("at", pa.int64()),
    ]
)


def _rows(
    since: int, until: int, key: str | None
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            made = [
                row
                for event in batch.to_pylist()
                if since <= event["recorded_at"] < until
                for row in rows_of(event, key)
            ]
            yield pa.RecordBatch.from_pylist(made, schema=_ARROW)

    return rows


def rows_of(event: Json, key: str | None) -> Iterator[Json]:
    """A publish into each of its queues, or a first delivery; none of quiet traffic."""
    is_publish = event["type"] == EventType.published
    if event["quiet"] or not (is_publish or event["match"] == Match.routed):
        return
    shared = None
    if key is not None:
        shared = key_of(event, key)
        if shared is None:
            return
    queues = json.loads(event["routed_queues"] or "[]") if is_publish else [event["queue"]]
    for queue in queues:
        yield {
            "queue": queue,
            "key": shared,
            "id": event["id"],
            "is_publish": is_publish,
            "participant": event["participant"],
            "height": event["height"],
            "clock": event["clock"] if is_publish else None,
            "interval": event["interval"] if is_publish else None,
            "cause": event["cause_id"],
            "at": event["recorded_at"],
        }


def columns_of(key: str | None) -> tuple[str, ...]:
    """The columns that a key is read from."""
    if key is None:
        return ()
    if key == "routing_key":
        return ("routing_keys",)
    return ("payload",) if key.startswith(FIELD) else ("properties",)


def key_of(event: Mapping[str, Any], key: str) -> str | None:
    """The text of an event's message under a key; None for nothing or for a list or table.

    A byte array of an AMQP table is the text that it spells.
    """
    if key == "routing_key":
        keys = json.loads(event["routing_keys"])
        return keys[0] if keys else None
    table: Any = _table_of(event["payload"] if key.startswith(FIELD) else event["properties"])
    if key.startswith(HEADER):
        table = table.get("headers")
    name = key.removeprefix(FIELD).removeprefix(HEADER)
    value = table.get(name) if isinstance(table, dict) else None
    if not key.startswith(FIELD) and (octets := bytes_in(value)) is not None:
        value = octets
    if value is None or isinstance(value, (dict, list)) or value in ("", b""):
        return None
    return storable(value) if isinstance(value, (str, bytes)) else json.dumps(value)


def _table_of(text: str | bytes | None) -> Json:
    try:
        value = json.loads(text or b"null")
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _ordered(pair: Row, who: Mapping[int, Who]) -> OrderedPair:
    """A row as the report shows it, without what is of counts."""
    found = {each.name: pair[each.name] for each in fields(OrderedPair)}
    acting = {
        name: None if pair[name] is None else who.get(pair[name], Who(pair[name], ""))
        for name in _WHO
    }
    return OrderedPair(**found | acting)
