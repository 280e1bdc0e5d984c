"""Messages with text that nothing can store: every job reads them, and reports are read again."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.sql import SparkSession

from app.jobs.reports import ReportKind, Reports
from app.tracker import Channel, Deliver, Publish, Record
from app.tracker.links import Rules
from bench.applications import Application
from bench.stores import VHOST, fill
from spark_jobs.kinds import run_job
from spark_jobs.progress import silent

END = 10**16
DEEP = b'{"n":' + b"[" * 20_000 + b"]" * 20_000 + b"}"
HUGE = b'{"n":' + b"9" * 10_000 + b"}"


async def made(
    spark: SparkSession, folder: Path, records: Iterator[Record], kind: ReportKind, **asked: Any
) -> dict[str, Any]:
    """A report, as it is read again from where it is stored."""
    url = f"sqlite+aiosqlite:///{folder}/events.db"
    await fill(url, records, Rules(()))
    reports = Reports(folder / "reports")
    request = reports.request(kind, VHOST, 0, END, "ann", asked)
    run_job(spark, url, "report", request.work, silent)
    return reports.get(request.work["id"])


def flows() -> Iterator[Record]:
    """Orders that a binary UUID holds together, and bodies of half emoji, in names too."""
    for number, record in enumerate(Application("header", 300).records()):
        properties = dict(record.properties)
        headers = dict(properties["headers"])
        octets = hashlib.md5(headers["x-flow"].encode(), usedforsecurity=False).digest()
        headers["x-flow"] = {"base64": base64.b64encode(octets).decode()}
        properties["headers"] = headers
        body = (
            b'{"cut \\ud83d": "half \\ud83d of %d", "nul": "\\u0000%d"}' % (number, number),
            b'{"n\\udfff": {"type": "\\ud800", "not a number": NaN}}',
            DEEP,
            HUGE,
        )[number % 4]
        yield msgspec.structs.replace(record, properties=properties, body=body)


async def test_correlations_are_found_among_odd_texts(spark: SparkSession, tmp_path: Path) -> None:
    report = await made(spark, tmp_path, flows(), ReportKind.correlations)
    [proposal] = report["proposals"]
    place = "$message.header#/x-flow"
    assert (proposal["kind"], proposal["parent"], proposal["child"]) == (
        "conversation",
        place,
        place,
    )
    values = [example["value"] for example in proposal["examples"]]
    assert len({*values}) == len(values) == 10
    assert any("\\x" in value for value in values)
    assert report["left_out"]["bodies not JSON"] > 100


KEYS = [b"\\ud800", b"\\ud801", b"\\u0000", b"\\ud83d\\ude00", b"plain"]


def rivals() -> Iterator[Record]:
    """Two who publish into one queue, twice with each key, and know nothing of each other."""
    for _ in range(2):
        for who in ("ann", "bob"):
            channel = Channel("rabbit@one", f"10.0.0.1:{len(who)}{who} -> 10.0.0.9:5672", 1, who)
            for key in KEYS:
                octets = base64.b64encode(key * 2 + b"\xff").decode()
                said = {"type": who, "headers": {"flow": {"base64": octets}}}
                yield Publish(channel, "", ("q",), ("q",), said, b'{"n":"%b"}' % key)
            for body in (DEEP, HUGE, b'{"n":[NaN]}', b"\xff"):
                yield Publish(channel, "", ("q",), ("q",), {"type": who}, body)
    reader = Channel("rabbit@one", "10.0.0.2:1 -> 10.0.0.9:5672", 1, "cleo")
    yield Deliver(reader, "", ("q",), "q", False, {}, b"\xff")


@pytest.mark.parametrize("key", ["body.n", "header.flow"])
async def test_rivals_are_told_apart_by_odd_keys(
    spark: SparkSession, tmp_path: Path, key: str
) -> None:
    asserted = {"name": "a", "never_concurrent": ["ann", "bob"], "per": key}
    asked = {"via": "links", "assertions": [asserted]}
    report = await made(spark, tmp_path, rivals(), ReportKind.assertions, **asked)
    [result] = report["results"]
    print(result)
    # Of each key two messages by one, and two by the other; the huge number of "body.n" is none.
    assert result["violated"] == 4 * len(KEYS)
