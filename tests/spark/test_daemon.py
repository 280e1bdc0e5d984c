"""The Python workers of a local session: they import what is installed, and start with it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyspark
from pyspark.sql import SparkSession

from spark_jobs.daemon import without_archives


def test_only_sparks_own_archives_leave_the_path() -> None:
    spark = ["/spark/python/lib/pyspark.zip", "/spark/jars/spark-core.jar"]
    others = ["", "/tmp/files/rabbitmq_itc_spark.zip", "/usr/lib/python311.zip", "/spark/python"]
    assert without_archives([*spark, *others], "/spark") == others
    assert without_archives([*spark, *others], "") == [*spark, *others]


def test_workers_import_the_installed_pyspark(spark: SparkSession) -> None:
    def seen(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import sys

        import pyspark

        list(batches)
        names = [pyspark.__file__, str("spark_jobs.formats.renderer_job" in sys.modules)]
        yield pa.RecordBatch.from_pydict({"name": names})

    found = spark.range(1, numPartitions=1).mapInArrow(seen, "name string").toArrow()
    assert found.column("name").to_pylist() == [pyspark.__file__, "True"]
