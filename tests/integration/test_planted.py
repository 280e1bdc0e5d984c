"""What others put into the folder where the service is started is not run, and stops nothing."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import httpx2
import pytest

from tests.integration.conftest import until
from tests.integration.test_capture import send_and_receive
from tools.servers import Broker, Child, free_port, without_settings

PROGRAM = Path(sys.executable).with_name("rabbitmq-itc")
START_SECONDS = 60.0
# Of Python's library, of its start, of ours, and one that Spark's workers need.
MODULES = ("queue", "json", "sitecustomize", "itc/__init__", "app/__init__", "numpy/__init__")


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """A folder that holds modules of such names and folders of ours; the marker tells who ran."""
    folder = tmp_path / "elsewhere" / "here"
    ran = tmp_path / "ran"
    for name in MODULES:
        module = folder / f"{name}.py"
        module.parent.mkdir(parents=True, exist_ok=True)
        module.write_text(f"open({str(ran)!r}, 'a').write({name!r} + '\\n')\nraise SystemExit(9)\n")
    for name in ("model", "spark_jobs", "statements"):
        (folder / name).mkdir()
    # An installation of Spark, where Spark looks for its own first.
    submit = folder.parent / "bin" / "spark-submit"
    submit.parent.mkdir()
    (folder.parent / "jars").mkdir()
    submit.write_text(f"#!/bin/sh\necho spark-submit >> '{ran}'\nexit 9\n")
    submit.chmod(0o755)
    return folder


@pytest.fixture
def address(rabbit: Broker, planted: Path) -> Iterator[str]:
    """Where a service answers that was started there, with a data folder named from there."""
    port = free_port()
    service = Child(
        "the service",
        [PROGRAM, "serve"],
        log=planted.parent / "log",
        env={
            **without_settings(),
            "ITC_AMQP_URL": rabbit.amqp_url("/"),
            "ITC_MANAGEMENT_URL": rabbit.management_url,
            "ITC_DATA_DIR": "data",
            "ITC_DATABASE_URL": "sqlite:///data/events.db",
            "ITC_AUTH": "none",
            "ITC_PORT": str(port),
        },
        cwd=planted,
    )
    place = f"http://127.0.0.1:{port}"

    def answers() -> bool:
        try:
            return httpx2.get(f"{place}/health/live", trust_env=False, timeout=1).is_success
        except httpx2.HTTPError:
            return False

    try:
        service.wait_until(answers, START_SECONDS, "answering")
        yield place
    finally:
        service.signal(signal.SIGTERM)
        service.wait(START_SECONDS)


async def test_nothing_from_there_is_run_and_every_kind_of_job_ends_well(
    rabbit: Broker, vhost: str, address: str, planted: Path
) -> None:
    where = quote(vhost, safe="")
    trace = f"/itc_db/{where}/undefined/undefined/undefined"
    async with httpx2.AsyncClient(base_url=address, timeout=120, trust_env=False) as client:

        async def runs() -> bool:
            return (await client.get(trace)).json()["state"] == "running"

        async def events() -> list[int]:
            listed = (await client.get("/itc_db", params={"vhost": vhost})).json()
            return sorted(each["id"] for each in listed) if len(listed) == 6 else []

        (await client.put(trace)).raise_for_status()
        await until(runs, "the trace runs")
        await send_and_receive(rabbit, vhost, 3)
        ids = await until(events, "all is stored")

        chain = await client.put(f"/itc_db/undefined/{ids[0]}/{ids[-1]}/chain.jsonl")
        assert chain.is_success, chain.text
        restamp = await client.put(
            "/itc_db/restamp", params={"vhost": vhost}, json={"participant": "connection"}
        )
        assert restamp.is_success, restamp.text
    ran = planted.parents[1] / "ran"
    assert not await asyncio.to_thread(ran.exists), await asyncio.to_thread(ran.read_text)
    assert (planted / "data" / "events.db").exists()
