"""The kinds of jobs that the worker runs: each from a JSON request to a JSON result."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from pyspark.sql import SparkSession

from model.archives import ArchiveSummary
from model.described import shown
from model.exports import FORMATS, ChainSummary, Quota
from model.jobs import Problem
from model.words import Via
from spark_jobs import archive, chain, interchange, reports, topology, touched
from spark_jobs.database import DatabaseAddress
from spark_jobs.errors import JobError
from spark_jobs.interchange.request import Collector, PeriodRequest
from spark_jobs.progress import Report
from spark_jobs.reports.request import ReportRequest

Json: TypeAlias = dict[str, Any]
# A result is described, or JSON already.
Kind: TypeAlias = Callable[[SparkSession, DatabaseAddress, Json, Report], Any]


def run_job(spark: SparkSession, database_url: str, kind: str, request: Json, told: Report) -> Json:
    """Run one job; raises JobError."""
    if kind not in KINDS:
        raise JobError(Problem.bad_request, f"There are no {kind} jobs.")
    result: Json = shown(KINDS[kind](spark, DatabaseAddress.from_url(database_url), request, told))
    return result


def _chain(
    spark: SparkSession, database: DatabaseAddress, request: Json, report: Report
) -> ChainSummary:
    wanted = chain.ChainRequest(
        database=database,
        from_id=request["from"],
        to_id=request["to"],
        output=Path(request["output"]),
        format=FORMATS[request["format"]],
        form=request.get("form"),
        archives=Path(request["archives"]) if request.get("archives") else None,
        quota=Quota(**request["quota"]) if request.get("quota") else None,
        via=Via(request.get("via", Via.any)),
    )
    return chain.run(spark, wanted, report)


def _archive(
    spark: SparkSession, database: DatabaseAddress, request: Json, report: Report
) -> ArchiveSummary:
    wanted = archive.ArchiveRequest(
        database=database,
        vhost=request["vhost"],
        before=request["before"],
        root=Path(request["archives"]),
    )
    return archive.run(spark, wanted, report)


def _topology(
    spark: SparkSession, database: DatabaseAddress, request: Json, report: Report
) -> Json:
    wanted = topology.TopologyRequest(
        database=database,
        vhost=request["vhost"],
        since=request["since"],
        until=request["until"],
        output=Path(request["output"]),
    )
    return topology.run(spark, wanted, report)


def _report(spark: SparkSession, database: DatabaseAddress, request: Json, report: Report) -> Json:
    wanted = ReportRequest(
        database=database,
        report=request["report"],
        id=request["id"],
        vhost=request["vhost"],
        since=request["since"],
        until=request["until"],
        output=Path(request["output"]),
        asked=request["asked"],
    )
    return reports.run(spark, wanted, report)


def _touched(spark: SparkSession, database: DatabaseAddress, request: Json, report: Report) -> Json:
    wanted = touched.TouchedRequest(
        database=database,
        event_id=request["event"],
        output=Path(request["output"]),
        format=FORMATS[request["format"]],
        quota=Quota(**request["quota"]) if request.get("quota") else None,
        key_file=Path(request["key_file"]) if request.get("key_file") else None,
    )
    return touched.run(spark, wanted, report)


def _period(spark: SparkSession, database: DatabaseAddress, request: Json, report: Report) -> Json:
    wanted = PeriodRequest(
        database=database,
        vhost=request["vhost"],
        since=request["since"],
        until=request["until"],
        form=request["format"],
        via=Via(request["via"]),
        output=Path(request["output"]) if request.get("output") else None,
        quota=Quota(**request["quota"]) if request.get("quota") else None,
        collector=Collector(**request["collector"]) if request.get("collector") else None,
        rules=request.get("rules", ()),
    )
    return interchange.run(spark, wanted, report)


KINDS: dict[str, Kind] = {
    "period": _period,
    "touched": _touched,
    "chain": _chain,
    "topology": _topology,
    "archive": _archive,
    "report": _report,
}
