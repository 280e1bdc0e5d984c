"""The chain that the service finds at once is the one that Spark finds, on both databases."""

from __future__ import annotations

import asyncio
import random

import pytest
from pyspark.sql import SparkSession

from app.store.causality.chains import Chains
from app.store.database.engine import Database as Engine
from app.stored.causality import ChainPart
from model.event import NOTHING_LARGE
from model.words import Via
from spark_jobs.chains.search import ChainQuestion
from spark_jobs.chains.search_job import find_stored
from spark_jobs.events.history import History as Lookups
from spark_jobs.events.ranges import Ranges
from spark_jobs.progress import Meter, silent
from spark_jobs.spark.database import DatabaseAddress
from tests.spark.histories import History, linked_history, linked_pairs

Ends = tuple[int, int]


@pytest.fixture(scope="module")
def history() -> History:
    return linked_history(random.Random(21), 400, present=6, churn=0.02)


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def url(
    request: pytest.FixtureRequest, history: History, tmp_path_factory: pytest.TempPathFactory
) -> str:
    if request.param == "sqlite":
        return history.write(tmp_path_factory.mktemp("at-once") / "store.db")
    url: str = request.getfixturevalue("postgres_module_url")
    asyncio.run(history.write_postgres(url))
    return url


async def at_once(url: str, ends: list[Ends], via: Via) -> list[ChainPart]:
    engine = Engine(url, 15.0, 1)
    try:
        chains = Chains(engine)
        return [await chains.find(*each, 1_000, NOTHING_LARGE, via) for each in ends]
    finally:
        await engine.close()


@pytest.mark.parametrize("via", Via)
def test_both_find_the_same_chain(
    spark: SparkSession, url: str, history: History, via: Via
) -> None:
    pairs = linked_pairs(random.Random(4), history, 300)
    pairs.sort(key=lambda each: len(history.evident(*each, Via.links)))
    ends = [*pairs[::40], *pairs[-6:]]
    database = DatabaseAddress.from_url(url)
    found = asyncio.run(at_once(url, ends, via))
    lengths = []
    with database.connect() as connection:
        lookups = Lookups(connection)
        for each, chain in zip(ends, found, strict=True):
            spark_chain = find_stored(
                spark, database, lookups, ChainQuestion(each, via, None), Meter(silent)
            )
            ids: list[int] = []
            if spark_chain.ranges:
                trace = history.rows[each[0] - 1]["trace_id"]
                ids = lookups.members(trace, Ranges.from_ranges(spark_chain.ranges))[0].tolist()
            assert [event.id for event in chain.items] == ids
            assert (chain.count, chain.truncated) == (spark_chain.events, False)
            assert chain.participants == len(spark_chain.participants)
            lengths.append(len(ids))
    assert max(lengths) > 5
