"""A period for the tools that people have: OCEL 2.0, OpenTelemetry's protocol, AsyncAPI 3.

Conversations that began in the period become an event log, or spans in a file;
its events become a document of channels, operations and messages.
"""

from __future__ import annotations

import json
from typing import cast

from pyspark.sql import SparkSession

from model.described import json_of
from model.exports import manifest_of
from model.interchange import PeriodSummary
from model.times import Microseconds
from model.words import BondWord
from spark_jobs.export import HashedFile, open_whole, write_file
from spark_jobs.interchange.period_request import Json, PeriodRequest
from spark_jobs.interchange.writers_job import WRITERS
from spark_jobs.progress import Meter, Report, Stopwatch, silent
from spark_jobs.reports.period import Period, open_period
from spark_jobs.spark.versions import versions


def run(spark: SparkSession, request: PeriodRequest, report: Report = silent) -> Json:
    """Write the file and its manifest; returns what the manifest says.

    Raises `JobError`; then no file is written.
    """
    watch, meter = Stopwatch(), Meter(report)
    meter.enter("planning", 0.0)
    with open_whole(request.output, request.quota) as file:
        with open_period(request.database, request.vhost, request.since, request.until) as period:
            counts = WRITERS[request.form](spark, request, period, meter, file)
        manifest = {**json_of(_summary(request, period, watch, file)), **json_of(counts)}
        content = json.dumps(manifest, indent=1).encode() + b"\n"
        write_file(manifest_of(request.output), content)
        meter.enter("finishing", 99.0)
    return manifest


def _summary(
    request: PeriodRequest, period: Period, watch: Stopwatch, file: HashedFile
) -> PeriodSummary:
    return PeriodSummary(
        vhost=request.vhost,
        since=Microseconds(request.since),
        until=Microseconds(request.until),
        via=cast(BondWord, request.via.value),
        format=request.form,
        file=request.output.name,
        bytes=file.bytes,
        sha256=file.sha256,
        gaps=period.gaps,
        soundness=period.sound,
        seconds=watch.lap("spark"),
        versions=versions(),
    )
