"""Beyond one machine: jobs from PostgreSQL on a standalone cluster and a Connect server."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from pyspark.sql import SparkSession

from app.errors import OutageError
from app.jobs.process import SparkProcess
from app.tracker.links import BUILT_IN, Rules
from bench.orders import BEGIN, SECOND, Orders
from bench.stores import VHOST, fill_timed
from spark_jobs.chains.plan import make_plan
from spark_jobs.events.history import History as Lookups
from spark_jobs.kinds import KINDS, run_job
from spark_jobs.progress import silent
from spark_jobs.reports.report_job import REPORTS
from spark_jobs.spark.database import DatabaseAddress
from tests.spark.conftest import Stored, disturb, longest
from tests.spark.histories import random_history
from tests.spark.strangers import command_lines
from tests.spark.test_formats import expected, without_nulls
from tests.spark.test_plan import ids_of, pair, scanned
from tools.servers import PostgresServer
from tools.servers.spark import SparkCluster

Work: TypeAlias = dict[str, Any]

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
    lines[0]["properties"] = without_nulls(lines[0]["properties"])
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
    target = tmp_path / "chain.jsonl"
    work = {"from": remote.first, "to": remote.last, "output": str(target), "format": "jsonl"}
    with cluster.connect_server() as address:
        process = SparkProcess(remote.url, master="local[2]", remote=address)
        try:
            for form in ("scan", "ranges"):
                result = await process.run(1, "chain", {**work, "form": form}, silent)
                assert result["events"] == len(remote.chain)
                assert_whole(target, remote)
        finally:
            await process.stop()


HOUR = 3_600 * SECOND
PERIOD: Work = {"vhost": VHOST, "since": BEGIN, "until": BEGIN + HOUR}
ASKED: dict[str, Work] = {
    "correlations": {},
    "assertions": {
        "assertions": [{"name": "shipped", "every": "order", "leads_to": "ship", "within": "1h"}],
        "via": "links",
    },
    "expectations": {"via": "links", "wait": 60.0, "share": 0.95, "cases": 20, "rare": 0.01},
    "comparison": {
        "before_since": BEGIN,
        "before_until": BEGIN + 20 * SECOND,
        "via": "links",
        "wait": 60.0,
        "cases": 5,
    },
}
# When something was made, and how large a file is, whose parts the executors decide.
FLEETING = ("made_at", "bytes", "sha256")


def works(folder: Path) -> Iterator[tuple[str, Work]]:
    """A job of each kind but chains, all into one folder."""
    yield "touched", {"event": 5, "output": str(folder / "touched.jsonl"), "format": "jsonl"}
    yield "topology", {**PERIOD, "output": str(folder / "topology.json")}
    for form in ("ocel.json", "otlp.json", "asyncapi.json"):
        written = {"via": "links", "format": form, "output": str(folder / f"period.{form}")}
        yield "period", {**PERIOD, **written}
    for number, (name, asked) in enumerate(ASKED.items(), 1):
        its = {"report": name, "id": number, "asked": asked, "output": str(folder / f"{name}.json")}
        yield "report", {**PERIOD, **its}
    before = {"vhost": VHOST, "before": BEGIN + HOUR, "archives": str(folder / "archives")}
    yield "archive", before


@pytest.fixture(scope="module")
def orders(postgres: PostgresServer) -> Iterator[str]:
    """Orders that services handed on, in PostgreSQL."""
    with postgres.fresh_database() as url:
        asyncio.run(fill_timed(url, Orders(60, 4, seed=3).records(), Rules(BUILT_IN)))
        yield url


def lasting(value: Any) -> Any:
    """JSON without what is another each time, and with its lists in one order."""
    if isinstance(value, list | tuple):
        return sorted(map(lasting, value), key=json.dumps)
    if not isinstance(value, dict):
        return value
    return {
        name: lasting(each)
        for name, each in value.items()
        if name not in FLEETING and not (isinstance(each, dict) and "total" in each)  # seconds
    }


def spans(line: str) -> Iterator[Any]:
    for group in json.loads(line)["resourceSpans"]:
        for scope in group["scopeSpans"]:
            yield from ((group["resource"], scope["scope"], span) for span in scope["spans"])


def written(folder: Path) -> dict[str, Any]:
    """What jobs have written, by the files' names."""
    found: dict[str, Any] = {}
    for file in folder.rglob("*.json*"):
        text = file.read_text()
        if file.name.endswith(".otlp.json"):
            content = [span for line in text.splitlines() for span in spans(line)]
        elif file.suffix == ".jsonl":
            content = [json.loads(line) for line in text.splitlines()]
        else:
            content = json.loads(text)
        found[str(file.relative_to(folder))] = lasting(content)
    return found


@pytest.fixture(scope="module")
def done_here(
    orders: str, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> tuple[list[Any], dict[str, Any]]:
    """The results of those jobs in a local session, and what they have written."""
    folder = tmp_path_factory.mktemp("here")
    results = [
        _shown(run_job(spark, orders, kind, work, silent), folder) for kind, work in works(folder)
    ]
    return results, written(folder)


@pytest.mark.timeout(900)
@pytest.mark.long(60)
@pytest.mark.parametrize("place", ["standalone", "connect"])
async def test_jobs_of_every_kind_do_on_a_cluster_what_they_do_here(
    orders: str,
    cluster: SparkCluster,
    done_here: tuple[list[Any], dict[str, Any]],
    tmp_path: Path,
    place: str,
) -> None:
    """The executors have nothing of ours but what the session ships to them."""
    jobs = [*works(tmp_path)]
    assert {"chain", *(kind for kind, _ in jobs)} == {*KINDS}
    assert {work["report"] for kind, work in jobs if kind == "report"} == {*REPORTS}
    with ExitStack() as stack:
        where: Work = {"master": cluster.master, "secret": cluster.secret, "memory": "512m"}
        if place == "connect":
            where = {"master": "local[2]", "remote": stack.enter_context(cluster.connect_server())}
        process = SparkProcess(orders, **where)
        try:
            found = [
                _shown(await process.run(number, kind, work, silent), tmp_path)
                for number, (kind, work) in enumerate(jobs)
            ]
        finally:
            await process.stop()
    results, files = done_here
    assert found == results
    assert written(tmp_path) == files
    assert len(files) > len(jobs)


def _shown(result: Work, folder: Path) -> Any:
    return lasting(json.loads(json.dumps(result).replace(str(folder), "")))
