"""Files of touched events over HTTP, with a fake for Spark."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from model.evidence import TouchedSummary
from model.jobs import Served
from tests.api.conftest import World, connected
from tests.api.described import conforms
from tests.api.story import ORDERED
from tests.api.test_chains import ASYNC, ended, files

URL = f"/itc_db/touched/{ORDERED}/all.jsonl"


async def test_a_file_is_made_downloaded_and_removed(
    world: World, client: httpx.AsyncClient
) -> None:
    made = await client.put(URL)
    conforms(made.json(), (TouchedSummary, Served))
    download = await client.get(made.headers["location"])
    manifest = await client.get(f"{URL}.manifest.json")
    again = await client.get(URL, headers={"if-none-match": download.headers["etag"]})
    usage = (await client.get("/itc_db/exports")).json()
    removed = await client.delete(URL)

    assert (made.status_code, made.json()["location"]) == (201, URL)
    assert download.content == b'{"id": 1}\n'
    assert download.headers["content-disposition"] == 'attachment; filename="all.jsonl"'
    assert manifest.json()["events"] == 1
    assert again.status_code == 304
    assert usage == []
    assert removed.status_code == 204
    assert (await client.get(URL)).status_code == 404
    assert files(world) == []


@pytest.mark.parametrize(
    ("url", "status"),
    [
        ("/itc_db/touched/1/x.csv", 400),
        ("/itc_db/touched/1/x.jsonl.manifest.json", 400),
        ("/itc_db/touched/1/.jsonl", 400),
        ("/itc_db/touched/99/x.jsonl", 404),
        ("/itc_db/touched/8/x.jsonl", 404),  # of a virtual host that is not seen
    ],
)
async def test_what_cannot_be_written_is_refused(
    world: World, client: httpx.AsyncClient, url: str, status: int
) -> None:
    assert (await client.put(url)).status_code == status
    assert (files(world), world.spark.runs) == ([], 0)


async def test_readers_download_and_do_not_write(world: World) -> None:
    async with connected(world.app(), auth=("watcher", "secret")) as client:
        assert (await client.put(URL)).status_code == 401
        assert (await client.put(URL, auth=("admin", "secret"))).status_code == 201
        assert (await client.get(URL)).status_code == 200
        assert (await client.delete(URL)).status_code == 401


async def test_a_file_that_is_being_made_is_not_there_yet(
    world: World, client: httpx.AsyncClient
) -> None:
    world.spark.go.clear()
    job = (await client.put(URL, headers=ASYNC)).json()
    early = await client.get(URL)
    world.spark.go.set()
    done: Any = await ended(client, job["id"])
    assert (early.status_code, job["kind"]) == (409, "touched")
    assert (done["state"], done["result"]["location"]) == ("succeeded", URL)
