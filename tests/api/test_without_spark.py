"""A service without the packages of the extra ``spark``: all but jobs, and those say what to do."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import httpx2
import pytest
from typer.testing import CliRunner

from app import extras
from app.cli import app
from app.doctor import Grade
from app.errors import NotInstalledError
from app.jobs.manager import JobManager
from model.exports import manifest_of
from tests.api.conftest import World
from tests.api.fakes import ARCHIVED
from tests.api.story import ALONE, INVOICED, ORDERED
from tests.api.test_archive import OLD, forget
from tests.api.test_doctor import away, findings
from tests.api.test_verify import HISTORY, START
from tests.verdicts import touched, written

REMEDY = "pip install 'rabbitmq-itc[spark]'"
PERIOD = {"vhost": "/", "since": "2026-01-01", "until": "2026-01-02"}


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """None of the packages can be imported, as where they are not installed."""
    for name in extras.SPARK:
        monkeypatch.setitem(sys.modules, name, None)


@pytest.mark.parametrize(
    ("url", "parameters"),
    [
        (f"/itc_db/undefined/{ORDERED}/{INVOICED}/order.jsonl", {}),
        (f"/itc_db/touched/{ORDERED}/all.jsonl", {}),
        ("/itc_db/archive", OLD),
        ("/itc_db/topology", PERIOD),
        ("/itc_db/reports/expectations", PERIOD),
        ("/itc_db/periods/%2F/all.ocel.json", {k: PERIOD[k] for k in ("since", "until")}),
    ],
)
@pytest.mark.parametrize("prefer", [{}, {"prefer": "respond-async"}])
async def test_a_job_is_refused_with_what_to_install(
    bare: None,
    world: World,
    client: httpx2.AsyncClient,
    url: str,
    parameters: dict[str, str],
    prefer: dict[str, str],
) -> None:
    answer = await client.put(url, params=parameters, headers=prefer)

    assert (answer.status_code, answer.json()["error"]) == (501, "not_installed")
    assert answer.json()["reason"].endswith(REMEDY)
    assert (await client.get("/itc_db/jobs")).json() == []
    assert world.spark.runs == 0


async def test_one_missing_package_is_named(
    monkeypatch: pytest.MonkeyPatch, client: httpx2.AsyncClient
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    answer = await client.put("/itc_db/archive", params=OLD)

    assert answer.json()["reason"] == (
        f"jobs need packages that are not installed here (pyarrow): {REMEDY}"
    )


async def test_what_needs_no_spark_is_answered(bare: None, client: httpx2.AsyncClient) -> None:
    chain = await client.get(f"/itc_db/chain/{ORDERED}/{INVOICED}")
    none = await client.put(f"/itc_db/undefined/{INVOICED}/{ALONE}/none.jsonl")

    assert (chain.status_code, chain.json()["count"]) == (200, 3)
    assert (none.status_code, none.json()["relation"]) == (200, "concurrent")


async def test_the_service_is_ready_and_says_what_to_install(
    bare: None, world: World, client: httpx2.AsyncClient
) -> None:
    ready = await client.get("/health/ready")

    assert (ready.status_code, ready.json()["status"]) == (200, "ok")
    assert ready.json()["checks"]["jobs"].endswith(REMEDY)


async def test_archives_let_go_of_what_they_have(
    monkeypatch: pytest.MonkeyPatch, world: World, client: httpx2.AsyncClient
) -> None:
    """Their manifests say how far they go; only their events take Arrow to be read."""
    await client.put("/itc_db/%2F/undefined/undefined/undefined")
    await client.put("/itc_db/archive", params=OLD)
    for name in extras.SPARK:
        monkeypatch.setitem(sys.modules, name, None)
    for name in [each for each in sys.modules if each.partition(".")[0] == "spark_jobs"]:
        monkeypatch.delitem(sys.modules, name)
    pruned = await client.delete("/itc_db", params={"vhost": "/", "archived": True})

    await forget(world, through=max(ARCHIVED))
    chain = await client.put(f"/itc_db/undefined/{ORDERED}/{INVOICED}/x.jsonl")

    assert (pruned.status_code, world.traces.through) == (200, [2])
    assert (chain.status_code, chain.json()["error"]) == (501, "not_installed")


async def test_spark_is_not_started_with_the_service(
    bare: None, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    async with world.services() as services:
        jobs = JobManager(services.store.jobs, world.spark, start_spark=True)  # type: ignore[arg-type]
        await jobs.start()
        await asyncio.sleep(0)
        await jobs.stop()

    assert REMEDY in caplog.text


async def test_the_doctor_says_what_to_install_and_asks_for_no_java(
    bare: None, tmp_path: Path
) -> None:
    found = await findings(away("127.0.0.1:1", tmp_path))

    assert (found["spark"].grade, found["spark"].advice) == (Grade.better, REMEDY)
    assert "java" not in found


def test_a_file_of_parquet_is_not_verified(bare: None, tmp_path: Path) -> None:
    lines = written(tmp_path, *touched(HISTORY, START))
    file = lines.rename(lines.with_suffix(".parquet"))
    manifest_of(lines).rename(manifest_of(file))
    ended = CliRunner().invoke(app, ["verify", str(file)])

    assert isinstance(ended.exception, NotInstalledError)
    assert str(ended.exception).startswith("Parquet files need ")
