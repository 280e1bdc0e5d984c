"""Beyond one machine: chains from PostgreSQL on a standalone cluster and a Connect server."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.errors import OutageError
from app.jobs.process import SparkProcess
from spark_jobs.database import DatabaseAddress
from spark_jobs.history import History as Lookups
from spark_jobs.plan import make_plan
from tests.spark.cluster import SparkCluster
from tests.spark.conftest import Stored, disturb, longest
from tests.spark.histories import random_history
from tests.spark.strangers import command_lines
from tests.spark.test_formats import expected
from tests.spark.test_plan import ids_of, pair, scanned

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def remote(postgres_module_url: str) -> Stored:
    """A history in PostgreSQL."""
    history = random_history(random.Random(9), 1500, present=6, churn=0.05, traces=2)
    disturb(history)
    asyncio.run(history.write_postgres(postgres_module_url))
    return Stored(history, postgres_module_url, *longest(history))


@pytest.fixture(scope="module")
def cluster() -> Iterator[SparkCluster]:
    cluster = SparkCluster()
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.close()


def test_the_planner_tells_the_truth_on_postgresql(remote: Stored) -> None:
    rng = random.Random(4)
    with remote.database.connect() as connection:
        lookups = Lookups(connection)
        for _ in range(40):
            first, second = pair(rng, remote.history)
            truth = remote.history.chain(first, second)
            plan = make_plan(lookups, first, second, "ranges")
            assert plan.is_empty == (not truth)
            if plan.ranges:
                assert ids_of(lookups, plan, plan.ranges) == truth
                assert scanned(remote.database, plan) == plan.ranges


def assert_whole(file: Path, remote: Stored) -> None:
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert lines == [expected(remote.history, each) for each in sorted(remote.chain)]


@pytest.mark.timeout(300)
@pytest.mark.long(40)
def test_spark_submit_runs_a_chain_on_a_standalone_cluster(
    remote: Stored, cluster: SparkCluster, tmp_path: Path
) -> None:
    target = tmp_path / "chain.jsonl"
    ends = ["--from", str(remote.first), "--to", str(remote.last)]
    done = subprocess.run(
        cluster.submit(
            str(ROOT / "spark_jobs" / "chain.py"), *ends, "--output", str(target), "--form", "scan"
        ),
        env={**cluster.environment, "ITC_DATABASE_URL": remote.url},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["plan"]["form"] == "scan"
    assert_whole(target, remote)
    password = DatabaseAddress.from_url(remote.url).password
    assert password
    logs = "".join(
        file.read_text()
        for file in cluster.path.rglob("*")
        if file.is_file() and file.suffix != ".zip" and file.parent.name != "conf"
    )
    assert password not in logs + done.stderr
    assert cluster.secret not in logs + done.stderr


@pytest.mark.timeout(300)
async def test_the_service_runs_a_chain_on_a_standalone_cluster_that_has_its_secret(
    remote: Stored, cluster: SparkCluster, tmp_path: Path
) -> None:
    process = SparkProcess(remote.url, master=cluster.master, memory="512m", secret=cluster.secret)
    target = tmp_path / "chain.jsonl"
    work = {"from": remote.first, "to": remote.last, "output": str(target), "format": "jsonl"}
    try:
        await process.run(1, "chain", {**work, "form": "scan"}, lambda progress: None)
        assert_whole(target, remote)
        assert process.pid is not None
        assert not [line for line in command_lines() if cluster.secret.encode() in line]
    finally:
        await process.stop()


async def test_a_cluster_without_a_secret_is_not_used(cluster: SparkCluster) -> None:
    process = SparkProcess("sqlite:///x", master=cluster.master)
    with pytest.raises(OutageError, match="set ITC_SPARK_SECRET to the cluster's"):
        await process.start()


@pytest.mark.timeout(300)
@pytest.mark.long(33)
async def test_the_service_runs_a_chain_through_a_connect_server(
    remote: Stored, cluster: SparkCluster, tmp_path: Path
) -> None:
    process = SparkProcess(remote.url, master="local[2]", remote=cluster.start_connect())
    target = tmp_path / "chain.jsonl"
    work = {"from": remote.first, "to": remote.last, "output": str(target), "format": "jsonl"}
    try:
        for form in ("scan", "ranges"):
            result = await process.run(1, "chain", {**work, "form": form}, lambda progress: None)
            assert result["events"] == len(remote.chain)
            assert_whole(target, remote)
    finally:
        await process.stop()
