"""The topology job: who sent what where in a period, counted from events.

Each event becomes some small rows: who published to which exchange, whose message an exchange
routed to which queue, and for a delivery its publisher, its receiver and the time since its
publish. Spark groups them in one pass. Times run from when the publish was traced to when the
delivery was, for first deliveries only, since redelivered and dead-lettered copies have waited for
something else. They are no finer than capture reads its socket; where the broker writes
`timestamp_in_ms` into its messages, a time begins there. Times in programs run from a delivery to
the publishes that name it as their cause, and are not known where none does.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from model.deaths import deaths_of
from model.described import json_of
from model.times import Microseconds
from model.topology import (
    DeathFlow,
    DeliveryFlow,
    ProgramFlow,
    PublishFlow,
    RouteFlow,
    Topology,
    Waits,
)
from model.words import EventType, Match
from spark_jobs.events.slices import Slice
from spark_jobs.events.slices_job import map_slices, slices_of
from spark_jobs.export import write_file
from spark_jobs.progress import Meter, Report, silent
from spark_jobs.reports.period import Period, open_period
from spark_jobs.spark.database import DatabaseAddress
from spark_jobs.spark.failures import spark_errors

Json: TypeAlias = dict[str, Any]

COLUMNS = (
    *("type", "match", "recorded_at", "exchange", "queue", "routed_queues", "user"),
    *("cause_user", "cause_recorded_at", "answered", "by_broker"),
)
KEYS = ("kind", "publisher", "exchange", "queue", "receiver", "origin", "reason")
FLOWS = ", ".join(f"{key} string" for key in KEYS) + ", match string, wait bigint"
SHARES = (0.5, 0.9)
# The most by which the broker's time of a publish may differ from ours (µs): beyond it the clocks
# differ, or capture was behind.
AGREEING = 1_000_000
FLOWS_BY_KIND: dict[str, type[Any]] = {
    "publishes": PublishFlow,
    "routes": RouteFlow,
    "deliveries": DeliveryFlow,
    "deaths": DeathFlow,
    "programs": ProgramFlow,
}
# The bound of each list: the busiest flows are kept.
MOST_FLOWS = 5_000


@dataclass(frozen=True)
class TopologyRequest:
    """The flows of a virtual host from ``since`` to before ``until`` (µs), as a JSON file."""

    database: DatabaseAddress
    vhost: str
    since: int
    until: int
    output: Path


def run(spark: SparkSession, request: TopologyRequest, report: Report = silent) -> Json:
    """Count the flows, write them, and return them with counts in place of lists."""
    meter = Meter(report)
    meter.enter("planning", 0.0)
    with open_period(request.database, request.vhost, request.since, request.until) as period:
        meter.enter("counting", 5.0)
        answer = json_of(topology(spark, request, period))
    meter.enter("finishing", 99.0)
    write_file(request.output, json.dumps(answer).encode() + b"\n")
    counts = {name: len(answer[name]) for name in FLOWS_BY_KIND}
    return {**answer, **counts, "file": request.output.name}


def topology(spark: SparkSession, request: TopologyRequest, period: Period) -> Topology:
    rows: list[Row] = []
    if period.ids is not None:
        slices = slices_of(spark, period.trace, *period.ids)
        with spark_errors():
            rows = _group(_flows(spark, request, slices)).collect()
    flows: dict[str, list[Any]] = {kind: [] for kind in FLOWS_BY_KIND}
    for row in rows:
        flows[row["kind"]].append(_flow(FLOWS_BY_KIND[row["kind"]], row))
    return Topology(
        vhost=request.vhost,
        since=Microseconds(request.since),
        until=Microseconds(request.until),
        gaps=period.gaps,
        **{kind: busiest_flows(kind_flows) for kind, kind_flows in flows.items()},
    )


def _flows(spark: SparkSession, request: TopologyRequest, slices: list[Slice]) -> DataFrame:
    begin, end = request.since, request.until

    def flows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = [
                row
                for event in batch.to_pylist()
                if begin <= event["recorded_at"] < end
                for row in flows_of(event)
            ]
            columns = list(zip(*rows, strict=True)) or [()] * len(FlowRow._fields)
            types = [pa.string()] * (len(KEYS) + 1) + [pa.int64()]
            arrays = [pa.array(c, t) for c, t in zip(columns, types, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, names=list(FlowRow._fields))

    return map_slices(spark, request.database, COLUMNS, slices, flows, FLOWS)


class FlowRow(NamedTuple):
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


def flows_of(event: Json) -> Iterator[FlowRow]:
    """The rows that one event adds."""
    return _publish_rows(event) if event["type"] == EventType.published else _delivery_rows(event)


def _publish_rows(event: Json) -> Iterator[FlowRow]:
    exchange = event["exchange"]
    queues = json.loads(event["routed_queues"] or "[]")
    routed = "routed" if queues else "unroutable"
    yield FlowRow("publishes", event["user"], exchange, match=routed)
    for queue in queues:
        yield FlowRow("routes", event["user"], exchange, queue)
    # A cause that several rules name is one cause.
    for _, delivered_at, queue, user in {
        row[0]: row for row in json.loads(event["answered"] or "[]")
    }.values():
        wait = max(0, event["recorded_at"] - delivered_at)
        yield FlowRow("programs", exchange=exchange, queue=queue, receiver=user, wait=wait)


def _delivery_rows(event: Json) -> Iterator[FlowRow]:
    exchange, queue, match = event["exchange"], event["queue"], Match(event["match"])
    by_broker = json.loads(event["by_broker"] or "{}")
    headers = by_broker.get("headers")
    headers = headers if isinstance(headers, dict) else {}
    yield FlowRow(
        *("deliveries", event["cause_user"], exchange, queue, event["user"]),
        match=match.name,
        wait=_wait(event, headers) if match is Match.routed else None,
    )
    if match in (Match.dead_lettered, Match.unmatched):
        # No publish covers these: the delivery itself names its exchange.
        yield FlowRow("routes", exchange=exchange, queue=queue, match=match.name)
    if match is Match.dead_lettered:
        origin, reason = _last_death(headers)
        yield FlowRow("deaths", exchange=exchange, queue=queue, origin=origin, reason=reason)


def _wait(event: Json, headers: Json) -> int | None:
    """µs from a delivery's publish to it, by the broker's own time where that is plausible."""
    begin: int | None = event["cause_recorded_at"]
    if begin is None:
        return None
    stamped = headers.get("timestamp_in_ms")
    if isinstance(stamped, int) and abs(stamped * 1000 - begin) <= AGREEING:
        begin = stamped * 1000
    end: int = event["recorded_at"]
    return max(0, end - begin)


def _last_death(headers: Json) -> tuple[str | None, str | None]:
    """The queue where a message died last, and why."""
    deaths = deaths_of({"headers": headers})
    return (deaths[0].queue, deaths[0].reason) if deaths else (None, None)


def _group(flows: DataFrame) -> DataFrame:
    def count_of(match: str) -> Any:
        return F.sum(F.when(F.col("match") == match, 1).otherwise(0)).alias(match)

    kinds = ("redelivered", "dead_lettered", "unmatched", "unroutable")
    waits = F.percentile_approx("wait", list(SHARES), 10_000).alias("waits")
    return flows.groupBy(*KEYS).agg(F.count("*").alias("messages"), *map(count_of, kinds), waits)


def _flow(kind: type[Any], row: Row) -> Any:
    """A row as a described flow; of a death, from its queue to the next."""
    values = {**row.asDict(), "seconds": Waits(*row["waits"]) if row["waits"] else None}
    if kind is DeathFlow:
        values |= {"queue": row["origin"], "to": row["queue"]}
    return kind(**{column.name: values[column.name] for column in fields(kind)})


def busiest_flows(flows: list[Any]) -> list[Any]:
    """The flows with the most messages; equal ones in the order of their names."""
    return sorted(flows, key=lambda flow: (-flow.messages, str(flow)))[:MOST_FLOWS]
