"""Findings as rows that go from tasks to the driver, and the columns that they are made of."""

from __future__ import annotations

import json
from collections import Counter

import pyarrow as pa

from model.assertions.judging import AssertionVerdict, Judgement
from model.message_types import type_of
from model.words import EventType
from spark_jobs.reports.report_request import Json

TYPE_COLUMNS = ("properties", "exchange", "routing_keys", "envelope")
CLOCK_COLUMNS = ("participant", "height", "clock", "interval")

FINDINGS = pa.schema(
    [
        ("assertion", pa.int32()),
        ("verdict", pa.string()),
        *((name, pa.int64()) for name in ("count", "event", "root", "at")),
        ("sentence", pa.string()),
        ("others", pa.string()),
    ]
)


def row_of(number: int, judgement: Judgement, root: int | None, recorded_at: int) -> Json:
    """A judgement of the assertion ``number``; details only where it does not hold."""
    is_shown = judgement.verdict is not AssertionVerdict.holds
    return {
        "assertion": number,
        "verdict": str(judgement.verdict),
        "count": 1,
        "event": judgement.event if is_shown else None,
        "root": root if is_shown else None,
        "at": recorded_at if is_shown else None,
        "sentence": judgement.sentence if is_shown else None,
        "others": json.dumps(judgement.witnesses) if is_shown else None,
    }


def batch_of(rows: list[Json]) -> pa.RecordBatch:
    """Rows of findings; those that hold are counted together."""
    counts: Counter[int] = Counter(
        row["assertion"] for row in rows if row["verdict"] == AssertionVerdict.holds
    )
    findings = [row for row in rows if row["verdict"] != AssertionVerdict.holds]
    empty = dict.fromkeys(FINDINGS.names)
    findings += [
        {**empty, "assertion": number, "verdict": str(AssertionVerdict.holds), "count": count}
        for number, count in counts.items()
    ]
    return pa.RecordBatch.from_pylist(findings, schema=FINDINGS)


def is_publish(event: Json) -> bool:
    return event["type"] == EventType.published and not event["quiet"]


def type_in(event: Json) -> str:
    """The type of an event's message, from `TYPE_COLUMNS`."""
    properties = json.loads(event["properties"])
    keys = json.loads(event["routing_keys"])
    return type_of(properties, event["exchange"], keys, event["envelope"])
