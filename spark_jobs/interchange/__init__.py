"""A period for the tools that people have: OCEL 2.0, OpenTelemetry's protocol, AsyncAPI 3.

Conversations that began in the period become an event log, or spans in a file or at a collector;
what was seen in it becomes a document of channels, operations and messages.
"""

from __future__ import annotations

import json

from pyspark.sql import SparkSession

from model.exports import manifest_of
from model.times import iso_time
from spark_jobs import period
from spark_jobs.chain import Stopwatch, versions
from spark_jobs.export import HashedFile, write_file, written_aside
from spark_jobs.interchange.request import Json, PeriodRequest
from spark_jobs.interchange.writing import WRITERS, send_otlp
from spark_jobs.period import Period
from spark_jobs.progress import Meter, Report, silent


def run(spark: SparkSession, request: PeriodRequest, report: Report = silent) -> Json:
    """Write the file and its manifest, or send; returns what the manifest says.

    Raises `JobError`; then no file is written. Of what was sent, a part may have arrived.
    """
    watch, meter = Stopwatch(), Meter(report)
    meter.enter("planning", 0.0)
    if request.output is None:
        with period.opened(request.database, request.vhost, request.since, request.until) as opened:
            made = send_otlp(spark, request, opened, meter)
        return {**_facts(request, opened, made, watch), "file": None, "bytes": 0, "sha256": None}
    with written_aside(request.output, request.quota) as file:
        with period.opened(request.database, request.vhost, request.since, request.until) as opened:
            made = WRITERS[request.form](spark, request, opened, meter, file)
        manifest = {**_facts(request, opened, made, watch), **_written(request.output.name, file)}
        content = json.dumps(manifest, indent=1).encode() + b"\n"
        write_file(manifest_of(request.output), content)
        meter.enter("finishing", 99.0)
    return manifest


def _facts(request: PeriodRequest, opened: Period, made: Json, watch: Stopwatch) -> Json:
    return {
        "vhost": request.vhost,
        "since": iso_time(request.since),
        "until": iso_time(request.until),
        "via": request.via.value,
        "format": request.form,
        **made,
        "complete": not opened.gaps,
        "gaps": [gap.to_json() for gap in opened.gaps],
        **opened.sound.to_json(),
        "seconds": watch.lap("spark"),
        "versions": versions(),
    }


def _written(name: str, file: HashedFile) -> Json:
    return {"file": name, "bytes": file.bytes, "sha256": file.sha256}
