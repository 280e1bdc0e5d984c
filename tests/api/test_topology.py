"""Topology over HTTP, with Spark's place taken by a fake."""

from __future__ import annotations

import os
from pathlib import Path

import httpx2
import pytest

from app.errors import NotFoundError
from app.jobs.reports import MOST_DOCUMENTS, Topologies
from model.topology import Topology
from tests.api.conftest import World
from tests.api.described import conforms

URL = "/itc_db/topology"


async def test_a_topology_is_counted_and_kept(client: httpx2.AsyncClient) -> None:
    period = {"vhost": "/", "since": "2026-01-02T03:00:00Z", "until": "2026-01-02T04:00:00Z"}
    missing = await client.get(URL, params={"vhost": "/"})
    counted = await client.put(URL, params=period)
    last = await client.get(URL, params={"vhost": "/"})
    same = await client.get(URL, params=period)
    other = await client.get(URL, params={**period, "until": "2026-01-02T05:00:00Z"})
    topology = counted.json()
    conforms(topology, Topology)

    assert (missing.status_code, counted.status_code, other.status_code) == (404, 201, 404)
    assert counted.json() == last.json() == same.json()
    assert topology["since"] == "2026-01-02T03:00:00.000000Z"
    assert [flow["publisher"] for flow in topology["deliveries"]] == ["shop", None]


async def test_the_last_hour_is_counted_by_default(
    world: World, client: httpx2.AsyncClient
) -> None:
    accepted = await client.put(URL, params={"vhost": "/"}, headers={"prefer": "respond-async"})
    request = accepted.json()["request"]

    assert accepted.status_code == 202
    assert request["until"] - request["since"] == 3_600_000_000


def fill(topologies: Topologies) -> None:
    """One more than are kept, the periods in the order of their counting."""
    for since in range(MOST_DOCUMENTS + 1):
        output = Path(topologies.request("/", since, since + 1, "ann").work["output"])
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text("{}")
        os.utime(output, (since, since))


async def test_the_oldest_go_though_nobody_waits_for_the_new_one(
    world: World, client: httpx2.AsyncClient
) -> None:
    topologies = Topologies(world.settings.data_dir / "topologies")
    fill(topologies)

    await client.put(URL, params={"vhost": "/"}, headers={"prefer": "respond-async"})

    assert topologies.get("/", 1, 2) == {}
    with pytest.raises(NotFoundError):
        topologies.get("/", 0, 1)


@pytest.mark.parametrize(
    ("parameters", "status"),
    [
        ({}, 400),
        ({"vhost": "/", "since": "2026-01-02", "until": "2026-01-01"}, 400),
        ({"vhost": "/", "since": "1960-01-01", "until": "1961-01-01"}, 400),
        ({"vhost": "shop"}, 404),
        ({"vhost": "secret"}, 404),
    ],
)
async def test_what_cannot_be_counted_is_refused(
    world: World, client: httpx2.AsyncClient, parameters: dict[str, str], status: int
) -> None:
    answer = await client.put(URL, params=parameters)

    assert answer.status_code == status
    assert world.spark.runs == 0
