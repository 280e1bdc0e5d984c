"""The report ``correlations`` on Spark: one shuffle brings rows of equal values together."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from model.reports.correlations import CorrelationReport
from spark_jobs.events.slices import Slice
from spark_jobs.events.slices_job import map_slices, tasks_at_a_time
from spark_jobs.progress import Meter
from spark_jobs.reports.correlations import correlate
from spark_jobs.reports.period import Period
from spark_jobs.reports.report_request import ReportRequest
from spark_jobs.reports.value_rows import COLUMNS, MATCH_ROW, VALUE_ROW, Gathering, Work
from spark_jobs.spark.database import DatabaseAddress
from spark_jobs.spark.failures import spark_errors


def make(
    spark: SparkSession, request: ReportRequest, period: Period, meter: Meter
) -> CorrelationReport:

    def shuffle(
        database: DatabaseAddress,
        slices: Sequence[Slice],
        make_rows: Work,
        match_rows: Work,
        parts: int,
    ) -> pa.Table:
        with spark_errors():
            rows = map_slices(spark, database, COLUMNS, slices, make_rows, VALUE_ROW)
            table: pa.Table = (
                rows.repartition(parts, F.col("value")).mapInArrow(match_rows, MATCH_ROW).toArrow()
            )
        return table

    return correlate(Gathering(tasks_at_a_time(spark), shuffle), request, period, meter)
