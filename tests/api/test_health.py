"""Probes answer anybody, at once, and give no names away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx2
import pytest

from app.api.readiness import Readiness
from app.errors import OutageError
from tests.api.conftest import World, connected


@pytest.fixture
async def stranger(world: World) -> AsyncIterator[httpx2.AsyncClient]:
    async with connected(world.app()) as client:
        yield client


async def test_a_service_that_can_work_says_so(stranger: httpx2.AsyncClient) -> None:
    live, ready = await stranger.get("/health/live"), await stranger.get("/health/ready")

    assert (live.status_code, live.json()) == (200, {"status": "ok", "checks": {}})
    assert ready.status_code == 200
    assert ready.json() == {
        "status": "ok",
        "checks": {"database": "ok", "broker": "ok", "jobs": "ok"},
    }


async def test_what_is_away_is_named_and_not_where_it_is(
    world: World, stranger: httpx2.AsyncClient
) -> None:
    world.broker.down = True
    ready = await stranger.get("/health/ready")

    assert ready.status_code == 503
    assert ready.json() == {
        "status": "unavailable",
        "checks": {"database": "ok", "broker": "unavailable", "jobs": "ok"},
    }
    assert (await stranger.get("/health/live")).status_code == 200


async def test_a_service_that_stops_is_not_ready(
    world: World, stranger: httpx2.AsyncClient
) -> None:
    world.stop()

    assert (await stranger.get("/health/ready")).status_code == 503


async def test_many_probes_are_one_question() -> None:
    asked = 0

    async def ask() -> None:
        nonlocal asked
        asked += 1
        raise OutageError("away")

    readiness = Readiness(broker=ask)
    answers = await asyncio.gather(*(readiness.checks() for _ in range(50)))

    assert asked == 1
    assert answers == [{"broker": "unavailable"}] * 50
