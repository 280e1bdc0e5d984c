"""The kinds of jobs that the worker runs: each from a JSON request to a JSON result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from model.described import json_of
from model.exports import FORMATS, Quota
from model.jobs import Problem
from model.words import Via
from spark_jobs import archive_job, chain
from spark_jobs.chains import touched_job
from spark_jobs.errors import JobError
from spark_jobs.interchange import period_job
from spark_jobs.interchange.period_request import PeriodRequest
from spark_jobs.progress import Report
from spark_jobs.reports import report_job, topology_job
from spark_jobs.reports.report_request import ReportRequest
from spark_jobs.spark.database import DatabaseAddress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Json: TypeAlias = dict[str, Any]


class Kind(NamedTuple):
    """A kind of job: its request, what runs it, and fields that are called otherwise in JSON."""

    request: type[Any]
    run: Callable[[SparkSession, Any, Report], Any]
    names: Mapping[str, str] = {}


KINDS: dict[str, Kind] = {
    "period": Kind(PeriodRequest, period_job.run, {"form": "format"}),
    "touched": Kind(touched_job.TouchedRequest, touched_job.run, {"event_id": "event"}),
    "chain": Kind(chain.ChainRequest, chain.run, {"from_id": "from", "to_id": "to"}),
    "topology": Kind(topology_job.TopologyRequest, topology_job.run),
    "archive": Kind(archive_job.ArchiveRequest, archive_job.run, {"root": "archives"}),
    "report": Kind(ReportRequest, report_job.run),
}
# Fields that are no JSON, in any request.
_READ: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("output", "root", "archives", "key_file"), Path),
    "format": FORMATS.__getitem__,
    "via": Via,
    "quota": lambda values: Quota(**values),
}


def run_job(
    spark: SparkSession, database_url: str, kind: str, request: Json, report: Report
) -> Json:
    """Run one job; raises JobError."""
    if kind not in KINDS:
        raise JobError(Problem.bad_request, f"There are no {kind} jobs.")
    job_request = _request(KINDS[kind], DatabaseAddress.from_url(database_url), request)
    result: Json = json_of(KINDS[kind].run(spark, job_request, report))
    return result


def _request(kind: Kind, database: DatabaseAddress, document: Json) -> Any:
    """A request as its class, with that one's defaults for missing and empty fields."""
    arguments: Json = {"database": database}
    for name in (column.name for column in fields(kind.request)):
        value = document.get(kind.names.get(name, name))
        if value not in (None, ""):
            arguments[name] = _READ.get(name, lambda as_it_is: as_it_is)(value)
    return kind.request(**arguments)
