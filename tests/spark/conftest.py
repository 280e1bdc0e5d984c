"""One Spark session for all tests here: a cold one costs many seconds."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from pyspark.sql import SparkSession

from spark_jobs.spark.database import DatabaseAddress
from spark_jobs.spark.session import SparkSettings, open_session
from tests.spark.histories import History, random_history


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = open_session(SparkSettings(master="local[2]", memory="512m"))
    yield session
    session.stop()


@dataclass(frozen=True)
class Stored:
    """A history, where it is stored, and the ends of its longest chain."""

    history: History
    url: str
    first: int
    last: int

    @property
    def database(self) -> DatabaseAddress:
        return DatabaseAddress.from_url(self.url)

    @property
    def chain(self) -> set[int]:
        return self.history.chain(self.first, self.last)


@pytest.fixture(scope="session")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Stored:
    """Two traces of 1500 events with some churn, awkward values among them."""
    history = random_history(random.Random(5), 1500, present=6, churn=0.02, traces=2)
    disturb(history)
    first, last = longest(history)
    return Stored(history, history.write(tmp_path_factory.mktemp("store") / "a b.db"), first, last)


def longest(history: History) -> tuple[int, int]:
    ids = [row["id"] for row in history.rows if row["trace_id"] == 1]
    ends = [(a, b) for a in ids[:20] for b in ids[-20:]]
    return max(ends, key=lambda each: len(history.chain(*each)))


def disturb(history: History) -> None:
    """Values that a careless format would break on, spread over the events."""
    odd = [
        {"payload": None, "payload_bytes": 7},
        {"payload": b"", "payload_bytes": 0},
        {"payload": b"\xff\x00\xfe", "payload_bytes": 3},
        {"payload": b"cut", "payload_bytes": 900, "payload_sha256": b"\x01" * 32},
        {"payload": 'a,"b"\r\nc;\n====\n\u2028end'.encode(), "payload_bytes": 30},
        {"exchange": "", "routing_keys": '["a\\"b","\\u00e9, x"]'},
        {"exchange": 'new\nline "quoted" \\ <b>&#59;', "properties": '{"headers":{"k":[1,null]}}'},
    ]
    for row in history.rows[::9]:
        row.update(odd[row["id"] % len(odd)])
