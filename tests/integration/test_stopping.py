"""The service ends in time, whatever it is waiting for, and by every signal that means it."""

from __future__ import annotations

import asyncio
import signal
import time
from pathlib import Path

import pytest
from sqlalchemy import make_url

from drills.service import Service
from tests.integration.proxy import Proxy
from tests.integration.test_capture import send_and_receive
from tools.servers import Broker

SECONDS = 3.0
# What the database's connections, and the process itself, may take besides on a busy machine; one
# statement that stalls would take 60.
SLACK = 20.0


async def seconds_to_end(service: Service, number: signal.Signals) -> float:
    """Send a signal; returns how long the service takes to end, which it has to do with 0."""
    began = time.monotonic()
    assert await asyncio.to_thread(service.end, number) == 0
    return time.monotonic() - began


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
async def test_a_signal_ends_the_service(
    number: signal.Signals, rabbit: Broker, vhost: str, tmp_path: Path
) -> None:
    service = Service(rabbit, f"sqlite:///{tmp_path / 'itc.db'}", tmp_path)
    async with service.tracing(vhost):
        await send_and_receive(rabbit, vhost, 3)
        assert await seconds_to_end(service, number) < SLACK


async def test_a_database_that_stalls_does_not_keep_the_service_from_ending(
    rabbit: Broker, vhost: str, postgres_url: str, tmp_path: Path
) -> None:
    url = make_url(postgres_url)
    async with Proxy.to(url.port or 5432) as proxy:
        there = url.set(host="127.0.0.1", port=proxy.port).render_as_string(hide_password=False)
        service = Service(rabbit, there, tmp_path)
        service.set("ITC_SHUTDOWN_SECONDS", str(SECONDS))
        async with service.tracing(vhost):
            await send_and_receive(rabbit, vhost, 3)
            proxy.hold()
            await send_and_receive(rabbit, vhost, 3)
            assert await seconds_to_end(service, signal.SIGTERM) < SECONDS + SLACK
