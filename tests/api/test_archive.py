"""Archives over HTTP, with Spark's place taken by a fake that archives the first two events."""

from __future__ import annotations

import asyncio
import sqlite3

import httpx2
import pytest

from model.archives import ArchiveSummary
from model.jobs import OfJob
from tests.api.conftest import World
from tests.api.described import conforms
from tests.api.fakes import ARCHIVED
from tests.api.story import INVOICED, ORDERED

URL = "/itc_db/archive"
OLD = {"vhost": "/", "keep_days": 7}


async def change(world: World, statement: str) -> None:
    """Change the store from outside, while the service goes on, and ends what it writes."""

    def run() -> None:
        with sqlite3.connect(world.folder / "itc.db") as connection:
            connection.execute(statement)

    await asyncio.to_thread(run)


async def forget(world: World, through: int) -> None:
    """What pruning does to the events."""
    await change(world, f"DELETE FROM events WHERE id <= {through:d}")


async def test_old_events_are_archived_once(client: httpx2.AsyncClient) -> None:
    made = await client.put(URL, params=OLD)
    again = await client.put(URL, params={"vhost": "/", "before": "2026-01-03"})
    summary = made.json()
    conforms(summary, (ArchiveSummary, OfJob))

    assert (made.status_code, again.status_code) == (201, 200)
    assert (summary["events"], summary["through"]) == (2, 2)
    assert again.json()["events"] == 0


async def test_archiving_is_a_job_that_need_not_be_waited_for(client: httpx2.AsyncClient) -> None:
    accepted = await client.put(URL, params=OLD, headers={"prefer": "respond-async"})

    assert accepted.status_code == 202
    assert accepted.json()["kind"] == "archive"
    assert accepted.headers["location"] == "/itc_db/jobs/1"


@pytest.mark.parametrize(
    ("parameters", "status"),
    [
        ({}, 400),
        ({"vhost": "/"}, 400),
        ({"vhost": "/", "keep_days": "7", "before": "2026-01-01"}, 400),
        ({"vhost": "/", "keep_days": "0"}, 400),
        ({"vhost": "/", "before": "1960-01-01"}, 400),
        ({"vhost": "shop", "keep_days": "7"}, 404),
        ({"vhost": "secret", "keep_days": "7"}, 404),
    ],
)
async def test_what_cannot_be_archived_is_refused(
    world: World, client: httpx2.AsyncClient, parameters: dict[str, str], status: int
) -> None:
    assert (await client.put(URL, params=parameters)).status_code == status
    assert world.spark.runs == 0


async def test_only_what_is_archived_is_pruned(world: World, client: httpx2.AsyncClient) -> None:
    await client.put("/itc_db/%2F/undefined/undefined/undefined")
    wanted = {"vhost": "/", "archived": True}
    unarchived = await client.delete("/itc_db", params=wanted)
    await client.put(URL, params=OLD)
    pruned = await client.delete("/itc_db", params={**wanted, "keep_days": 3})

    assert (unarchived.status_code, pruned.status_code) == (404, 200)
    assert world.traces.through == [2]


async def test_a_damaged_archive_lets_nothing_go(world: World, client: httpx2.AsyncClient) -> None:
    await client.put(URL, params=OLD)
    [file] = world.settings.archives.rglob("*.parquet")
    file.write_bytes(file.read_bytes()[:-1])
    answer = await client.delete("/itc_db", params={"vhost": "/", "archived": True})

    assert answer.status_code == 409
    assert "missing or cut short" in answer.json()["reason"]
    assert world.traces.pruned == []


async def test_another_stores_archive_lets_nothing_go(
    world: World, client: httpx2.AsyncClient
) -> None:
    await client.put(URL, params=OLD)
    await change(world, "UPDATE events SET recorded_at = recorded_at + 1 WHERE id = 2")
    answer = await client.delete("/itc_db", params={"vhost": "/", "archived": True})

    assert answer.status_code == 409
    assert "of another store" in answer.json()["reason"]


async def test_a_chain_may_begin_with_an_archived_event(
    world: World, client: httpx2.AsyncClient
) -> None:
    url = f"/itc_db/undefined/{ORDERED}/{INVOICED}/x.jsonl"
    await client.put(URL, params=OLD)
    await forget(world, through=max(ARCHIVED))
    made = await client.put(url)
    client.auth = httpx2.BasicAuth("outsider", "secret")
    world.broker.add("outsider", "secret", "administrator", "shop")

    assert made.status_code == 201
    assert (await client.put(url)).status_code == 404


async def test_an_event_in_neither_place_is_unknown(
    world: World, client: httpx2.AsyncClient
) -> None:
    await forget(world, through=max(ARCHIVED))
    answer = await client.put(f"/itc_db/undefined/{ORDERED}/{INVOICED}/x.jsonl")

    assert answer.status_code == 404
    assert world.spark.runs == 0
