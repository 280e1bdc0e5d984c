"""The topology job: who sent what where in a period, counted from events.

Each event becomes some small rows: who published to which exchange, which exchange routed a copy to
which queue, and for a delivery its publisher, its receiver and the time since its publish. Spark
groups them in one pass. Times run from when the publish was traced to when the delivery was, for
first deliveries only, since redelivered and dead-lettered copies have waited for something else.
They are no finer than capture reads its socket; where the broker writes `timestamp_in_ms` into its
messages, a time begins there. Times in programs run from a delivery to the publishes that name it
as their cause, and are not known where none does.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from model.gaps import Gap
from model.times import iso_time
from model.words import EventType, Match
from spark_jobs import period
from spark_jobs.database import Database
from spark_jobs.executors import tasks_at_a_time
from spark_jobs.export import write_file
from spark_jobs.failures import explained
from spark_jobs.period import Period
from spark_jobs.progress import Meter, Report, silent
from spark_jobs.slices import MOST_ROWS, Slice, spans
from spark_jobs.source import map_slices

Json: TypeAlias = dict[str, Any]

COLUMNS = (
    "type",
    "match",
    "recorded_at",
    "exchange",
    "queue",
    "routed_queues",
    "user",
    "cause_user",
    "cause_recorded_at",
    "answered",
    "by_broker",
)
KEYS = ("kind", "publisher", "exchange", "queue", "receiver", "origin", "reason")
FLOWS = ", ".join(f"{key} string" for key in KEYS) + ", match string, wait bigint"
SHARES = (0.5, 0.95, 0.99)
# How far the broker's clock may be from when a publish was traced, for both to mean the same (µs):
# further off, the clocks differ, or capture was behind.
AGREEING = 1_000_000
# The bound of each of the answer's lists: the busiest flows are kept.
MOST_FLOWS = 5_000


@dataclass(frozen=True)
class TopologyRequest:
    """The flows of a virtual host from ``since`` to before ``until`` (µs), as a JSON file."""

    database: Database
    vhost: str
    since: int
    until: int
    output: Path


def run(spark: SparkSession, request: TopologyRequest, report: Report = silent) -> Json:
    """Count the flows, write them, and return what the file holds except the lists."""
    meter = Meter(report)
    meter.enter("planning", 0.0)
    with period.opened(request.database, request.vhost, request.since, request.until) as opened:
        meter.enter("counting", 5.0)
        lists = topology(spark, request, opened)
    facts = _facts(request, opened.gaps)
    meter.enter("finishing", 99.0)
    write_file(request.output, json.dumps({**facts, **lists}).encode() + b"\n")
    return {
        **facts,
        "file": request.output.name,
        **{name: len(rows) for name, rows in lists.items()},
    }


def topology(
    spark: SparkSession, request: TopologyRequest, opened: Period
) -> dict[str, list[Json]]:
    """Publishes, routes, deliveries, deaths and times in programs, the busiest first."""
    rows: list[Row] = []
    if opened.ids is not None:
        ids = opened.ids
        count = max(tasks_at_a_time(spark), -(-(ids[1] - ids[0] + 1) // MOST_ROWS))
        with explained():
            rows = _grouped(_flows(spark, request, spans(opened.trace, *ids, count))).collect()
    kinds: dict[str, list[Json]] = {kind: [] for kind in SHOWN}
    for row in rows:
        kinds[row["kind"]].append(SHOWN[row["kind"]](row))
    return {kind: _busiest(found) for kind, found in kinds.items()}


def _flows(spark: SparkSession, request: TopologyRequest, slices: list[Slice]) -> DataFrame:
    since, until = request.since, request.until

    def flows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = [
                row
                for event in batch.to_pylist()
                if since <= event["recorded_at"] < until
                for row in flows_of(event)
            ]
            columns = list(zip(*rows, strict=True)) or [()] * len(Flow._fields)
            types = [pa.string()] * (len(KEYS) + 1) + [pa.int64()]
            arrays = [pa.array(c, t) for c, t in zip(columns, types, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, names=list(Flow._fields))

    return map_slices(spark, request.database, COLUMNS, slices, flows, FLOWS)


class Flow(NamedTuple):
    """A row: the columns `KEYS`, how it was matched, and a time in µs."""

    kind: str
    publisher: str | None = None
    exchange: str | None = None
    queue: str | None = None
    receiver: str | None = None
    origin: str | None = None
    reason: str | None = None
    match: str = "routed"
    wait: int | None = None


def flows_of(event: Json) -> Iterator[Flow]:
    """The rows that one event adds."""
    return _published(event) if event["type"] == EventType.published else _received(event)


def _published(event: Json) -> Iterator[Flow]:
    exchange = event["exchange"]
    queues = json.loads(event["routed_queues"] or "[]")
    routed = "routed" if queues else "unroutable"
    yield Flow("publishes", event["user"], exchange, match=routed)
    for queue in queues:
        yield Flow("routes", exchange=exchange, queue=queue)
    # A cause that several rules name is one cause.
    for _, at, queue, user in {
        row[0]: row for row in json.loads(event["answered"] or "[]")
    }.values():
        wait = max(0, event["recorded_at"] - at)
        yield Flow("programs", exchange=exchange, queue=queue, receiver=user, wait=wait)


def _received(event: Json) -> Iterator[Flow]:
    exchange, queue, match = event["exchange"], event["queue"], Match(event["match"])
    said = json.loads(event["by_broker"] or "{}")
    headers = said.get("headers")
    headers = headers if isinstance(headers, dict) else {}
    yield Flow(
        *("deliveries", event["cause_user"], exchange, queue, event["user"]),
        match=match.name,
        wait=_waited(event, headers) if match is Match.routed else None,
    )
    if match in (Match.dead_lettered, Match.unmatched):
        # No publish covers these: the delivery itself says which exchange it came through.
        yield Flow("routes", exchange=exchange, queue=queue, match=match.name)
    if match is Match.dead_lettered:
        origin, reason = _last_death(headers)
        yield Flow("deaths", exchange=exchange, queue=queue, origin=origin, reason=reason)


def _waited(event: Json, headers: Json) -> int | None:
    """µs from a delivery's publish to it, from the broker's own time where that can be believed."""
    since: int | None = event["cause_recorded_at"]
    if since is None:
        return None
    stamped = headers.get("timestamp_in_ms")
    if isinstance(stamped, int) and abs(stamped * 1000 - since) <= AGREEING:
        since = stamped * 1000
    until: int = event["recorded_at"]
    return max(0, until - since)


def _last_death(headers: Json) -> tuple[str | None, str | None]:
    """The queue where a message died last, and why."""
    deaths = headers.get("x-death")
    last = deaths[0] if isinstance(deaths, list) and deaths else None
    if not isinstance(last, dict):
        return None, None
    queue, reason = last.get("queue"), last.get("reason")
    return queue if isinstance(queue, str) else None, reason if isinstance(reason, str) else None


def _grouped(flows: DataFrame) -> DataFrame:
    def counted(match: str) -> Any:
        return F.sum(F.when(F.col("match") == match, 1).otherwise(0)).alias(match)

    kinds = ("redelivered", "dead_lettered", "unmatched", "unroutable")
    waits = F.percentile_approx("wait", list(SHARES), 10_000).alias("waits")
    return flows.groupBy(*KEYS).agg(F.count("*").alias("messages"), *map(counted, kinds), waits)


def _publish(row: Row) -> Json:
    return {
        "publisher": row["publisher"],
        "exchange": row["exchange"],
        "messages": row["messages"],
        "unroutable": row["unroutable"],
    }


def _route(row: Row) -> Json:
    return {
        "exchange": row["exchange"],
        "queue": row["queue"],
        "messages": row["messages"],
        "dead_lettered": row["dead_lettered"],
        "unmatched": row["unmatched"],
    }


def _seconds(row: Row) -> Json | None:
    waits = [wait / 1e6 for wait in row["waits"] or []]
    return dict(zip(("p50", "p95", "p99"), waits, strict=True)) if waits else None


def _death(row: Row) -> Json:
    return {
        "queue": row["origin"],
        "reason": row["reason"],
        "exchange": row["exchange"],
        "to": row["queue"],
        "messages": row["messages"],
    }


def _program(row: Row) -> Json:
    return {
        "receiver": row["receiver"],
        "queue": row["queue"],
        "exchange": row["exchange"],
        "messages": row["messages"],
        "seconds": _seconds(row),
    }


def _delivery(row: Row) -> Json:
    return {
        "publisher": row["publisher"],
        "exchange": row["exchange"],
        "queue": row["queue"],
        "receiver": row["receiver"],
        "messages": row["messages"],
        "redelivered": row["redelivered"],
        "dead_lettered": row["dead_lettered"],
        "unmatched": row["unmatched"],
        "seconds": _seconds(row),
    }


SHOWN = {
    "publishes": _publish,
    "routes": _route,
    "deliveries": _delivery,
    "deaths": _death,
    "programs": _program,
}


def _busiest(rows: list[Json]) -> list[Json]:
    return sorted(rows, key=lambda row: -row["messages"])[:MOST_FLOWS]


def _facts(request: TopologyRequest, gaps: list[Gap]) -> Json:
    return {
        "vhost": request.vhost,
        "since": iso_time(request.since),
        "until": iso_time(request.until),
        "complete": not gaps,
        "gaps": [gap.to_json() for gap in gaps],
    }
