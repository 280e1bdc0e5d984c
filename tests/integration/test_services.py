"""Several services on one PostgreSQL; ``python -m drills.services`` loses more of them."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aio_pika
import httpx2
import pytest

from app.store import migrate
from drills.service import CHECKOUT, Service
from drills.services import Member, drill, members
from tests.integration.conftest import until
from tools.servers import Broker, free_port


# kill -9, then SIGSTOP and a partition as well
@pytest.mark.parametrize("faults", [1, pytest.param(3, marks=pytest.mark.long(50))])
async def test_nothing_is_lost_doubled_or_wrong_when_services_are_lost(
    rabbit: Broker, postgres_url: str, tmp_path: Path, faults: int
) -> None:
    reports, gone = await drill(rabbit, postgres_url, faults, tmp_path)
    for report in reports:
        assert report.wrong == 0, report
        assert report.events > 100
    # How soon is for the drill to say: this machine has other tests to run.
    assert len(gone) == faults, "each is replaced"


@pytest.fixture
async def two(rabbit: Broker, postgres_url: str, tmp_path: Path) -> AsyncIterator[list[Member]]:
    await migrate(postgres_url)
    async with members(rabbit, postgres_url, tmp_path, count=2) as there:
        yield there


async def _traces(member: Member) -> dict[str, dict[str, Any]]:
    return {each["vhost"]: each for each in await member.service.get("traces")}


async def _shown(member: Member, vhost: str, state: str) -> dict[str, Any]:
    async def so() -> dict[str, Any] | None:
        found = (await _traces(member)).get(vhost)
        return found if found is not None and found["state"] == state else None

    return await until(so, f"{member.name} shows {vhost} {state}")


async def test_any_service_answers_for_all_traces(
    rabbit: Broker, two: list[Member], postgres_url: str
) -> None:
    with rabbit.fresh_vhost() as first, rabbit.fresh_vhost() as second:
        for vhost in (first, second):
            await two[0].service.start_trace(vhost)
        shown = [[await _shown(member, v, "running") for v in (first, second)] for member in two]
        holders = [[each["holder"] for each in one] for one in shown]
        assert holders[0] == holders[1]
        assert sorted(holders[0]) == sorted(member.name for member in two)  # they are spread

        # Whoever does not run it follows it all the same.
        other = next(each for each in two if each.name != holders[0][0])
        async with httpx2.AsyncClient(
            base_url=f"http://127.0.0.1:{other.service.port}", trust_env=False, timeout=60
        ) as client:
            params: dict[str, str | int] = {"after": 0, "wait": 30, "vhost": first}
            waiting = asyncio.create_task(client.get("/itc_db", params=params))
            await asyncio.sleep(1)
            assert not waiting.done()
            async with await aio_pika.connect(rabbit.amqp_url(first)) as connection:
                channel = await connection.channel()
                await channel.default_exchange.publish(aio_pika.Message(b"now"), "nowhere")
                (event,) = (await waiting).json()
            assert event["payload"] == "now"

            answer = await client.delete("/itc_db", params={"vhost": first, "keep_events": 1})
            assert (answer.status_code, answer.json()["error"]) == (409, "conflict")
            assert holders[0][0] in answer.json()["reason"]

            path = f"/itc_db/{first}/undefined/undefined/undefined"
            assert (await client.delete(path)).status_code == 204
        for member in two:
            stopped = await _shown(member, first, "stopped")
            assert (stopped["holder"], stopped["wanted"]) == (None, False)


async def test_a_service_that_is_stopped_in_order_hands_its_traces_over_at_once(
    rabbit: Broker, two: list[Member]
) -> None:
    with rabbit.fresh_vhost() as vhost:
        await two[0].service.start_trace(vhost)
        holder = (await _shown(two[0], vhost, "running"))["holder"]
        leaving, staying = sorted(two, key=lambda each: each.name != holder)
        await asyncio.to_thread(leaving.service.end, signal.SIGTERM)
        async with asyncio.timeout(5):
            assert (await _shown(staying, vhost, "running"))["holder"] == staying.name


async def test_a_lone_service_that_was_killed_does_not_wait_for_itself(
    rabbit: Broker, postgres_url: str, tmp_path: Path
) -> None:
    await migrate(postgres_url)
    with rabbit.fresh_vhost() as vhost:
        async with members(rabbit, postgres_url, tmp_path, count=1) as (member,):
            await member.service.start_trace(vhost)
            await _shown(member, vhost, "running")
            await member.kill()
            await member.revive()
            await member.service.listening()
            assert (await _traces(member))[vhost]["holder"] == member.name


async def test_a_second_service_on_a_sqlite_file_ends_with_one_sentence(
    rabbit: Broker, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path / 'itc.db'}"
    service = Service(rabbit, url, tmp_path)
    service.start()
    try:
        await service.listening()
        second = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-m", "app.cli", "serve", "--port", str(free_port())],
            env={**service.environment, "ITC_LOG_LEVEL": "error"},
            cwd=CHECKOUT,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert second.returncode != 0
        (line,) = second.stderr.strip().splitlines()
        assert "another service" in line
        assert "Traceback" not in line
    finally:
        await asyncio.to_thread(service.end, signal.SIGTERM)
