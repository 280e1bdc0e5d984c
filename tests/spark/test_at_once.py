"""The chain that the service finds at once is the one that Spark finds, on both databases."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from app.store.chains import Chains
from app.store.engine import Database as Engine
from itc import Relation
from model.words import Via
from spark_jobs.database import Database
from spark_jobs.finding import Wanted, find_stored
from spark_jobs.history import History as Lookups
from spark_jobs.progress import Meter, silent
from spark_jobs.ranges import Ranges
from tests.spark.histories import History, linked_history, linked_pairs


@pytest.fixture(scope="module")
def history() -> History:
    return linked_history(random.Random(21), 400, present=6, churn=0.02)
