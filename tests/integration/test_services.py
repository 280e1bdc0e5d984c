"""Several services on one PostgreSQL; ``python -m drills.faults`` loses some of them."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aio_pika
import httpx2
import pytest

from app.store import migrate
from drills.service import CHECKOUT, Service
from tests.integration.conftest import until
from tools.servers import Broker, free_port


@asynccontextmanager
async def members(
    rabbit: Broker, database_url: str, folder: Path, count: int
) -> AsyncIterator[list[Service]]:
    """Services on one database, all of them answering."""
    await migrate(database_url)
    async with AsyncExitStack() as stack:
        there = []
        for number in range(count):
            own = folder / f"service-{number}"
            own.mkdir()
            service = Service(rabbit, database_url, own)
            service.start()
            stack.push_async_callback(asyncio.to_thread, service.end, signal.SIGTERM)
            there.append(service)
        for service in there:
            await service.listening()
        yield there


def name_of(service: Service) -> str:
    """What the others know a service by."""
    return f"{os.uname().nodename}:{service.port}"


@pytest.fixture
async def two(rabbit: Broker, postgres_url: str, tmp_path: Path) -> AsyncIterator[list[Service]]:
    async with members(rabbit, postgres_url, tmp_path, count=2) as there:
        yield there


async def _traces(member: Service) -> dict[str, dict[str, Any]]:
    return {each["vhost"]: each for each in await member.get("traces")}


async def _shown(member: Service, vhost: str, state: str) -> dict[str, Any]:
    async def so() -> dict[str, Any] | None:
        found = (await _traces(member)).get(vhost)
        return found if found is not None and found["state"] == state else None

    return await until(so, f"{name_of(member)} shows {vhost} {state}")


async def test_any_service_answers_for_all_traces(
    rabbit: Broker, two: list[Service], postgres_url: str
) -> None:
    with rabbit.fresh_vhost() as first, rabbit.fresh_vhost() as second:
        for vhost in (first, second):
            await two[0].start_trace(vhost)
        shown = [[await _shown(member, v, "running") for v in (first, second)] for member in two]
        holders = [[each["holder"] for each in one] for one in shown]
        assert holders[0] == holders[1]
        assert sorted(holders[0]) == sorted(name_of(member) for member in two)  # they are spread

        # Whoever does not run it follows it all the same.
        other = next(each for each in two if name_of(each) != holders[0][0])
        async with httpx2.AsyncClient(
            base_url=f"http://127.0.0.1:{other.port}", trust_env=False, timeout=60
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
    rabbit: Broker, two: list[Service]
) -> None:
    with rabbit.fresh_vhost() as vhost:
        await two[0].start_trace(vhost)
        holder = (await _shown(two[0], vhost, "running"))["holder"]
        leaving, staying = sorted(two, key=lambda each: name_of(each) != holder)
        await asyncio.to_thread(leaving.end, signal.SIGTERM)
        async with asyncio.timeout(5):
            assert (await _shown(staying, vhost, "running"))["holder"] == name_of(staying)


async def test_a_lone_service_that_was_killed_does_not_wait_for_itself(
    rabbit: Broker, postgres_url: str, tmp_path: Path
) -> None:
    with rabbit.fresh_vhost() as vhost:
        async with members(rabbit, postgres_url, tmp_path, count=1) as (member,):
            await member.start_trace(vhost)
            await _shown(member, vhost, "running")
            await asyncio.to_thread(member.end, signal.SIGKILL)
            member.start()
            await member.listening()
            assert (await _traces(member))[vhost]["holder"] == name_of(member)


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
