"""Findings, as rows that go from tasks to the driver; and which events are looked at."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from model.assertions.judging import AssertionVerdict, Judgement
from model.message_types import type_of
from model.words import EventType
from spark_jobs.chains.executors import slices_of
from spark_jobs.chains.source import read_slices
from spark_jobs.reports.period import Period
from spark_jobs.reports.request import Json, ReportRequest

FOUND = (
    "assertion int, verdict string, count bigint, event bigint, root bigint, at bigint,"
    " sentence string, others string"
)
TYPE_COLUMNS = ("properties", "exchange", "routing_keys", "envelope")
CLOCK_COLUMNS = ("participant", "height", "clock", "interval")

_SCHEMA = pa.schema(
    [
        ("assertion", pa.int32()),
        ("verdict", pa.string()),
        *((name, pa.int64()) for name in ("count", "event", "root", "at")),
        ("sentence", pa.string()),
        ("others", pa.string()),
    ]
)


def row_of(number: int, finding: Judgement, root: int | None, at: int) -> Json:
    """A finding of the assertion ``number``; of what holds only that it does."""
    is_shown = finding.verdict is not AssertionVerdict.holds
    return {
        "assertion": number,
        "verdict": str(finding.verdict),
        "count": 1,
        "event": finding.event if is_shown else None,
        "root": root if is_shown else None,
        "at": at if is_shown else None,
        "sentence": finding.sentence if is_shown else None,
        "others": json.dumps(finding.others) if is_shown else None,
    }


def batch_of(rows: list[Json]) -> pa.RecordBatch:
    """Rows of findings; those that hold are counted together."""
    held: Counter[int] = Counter(
        row["assertion"] for row in rows if row["verdict"] == AssertionVerdict.holds
    )
    kept = [row for row in rows if row["verdict"] != AssertionVerdict.holds]
    none = dict.fromkeys(_SCHEMA.names)
    kept += [
        {**none, "assertion": number, "verdict": str(AssertionVerdict.holds), "count": count}
        for number, count in held.items()
    ]
    return pa.RecordBatch.from_pylist(kept, schema=_SCHEMA)


def events_of(
    spark: SparkSession, request: ReportRequest, period: Period, columns: Sequence[str]
) -> DataFrame | None:
    """The events of a period; None if there are none."""
    if period.ids is None:
        return None
    slices = slices_of(spark, period.trace, *period.ids)
    return read_slices(spark, request.database, columns, slices)


def is_publish(event: Json) -> bool:
    """Tell whether it is a publish that counts."""
    return event["type"] == EventType.published and not event["quiet"]


def type_in(event: Json) -> str:
    """The type of an event's message, from `TYPE_COLUMNS`."""
    properties = json.loads(event["properties"])
    keys = json.loads(event["routing_keys"])
    return type_of(properties, event["exchange"], keys, event["envelope"])
