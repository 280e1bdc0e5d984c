"""Libraries that scripts of operators call the API with, beside the one that the service has."""

from __future__ import annotations

import httpx

from tests.api.conftest import ADMINISTRATOR, World, served


async def test_httpx_reads_lists_errors_and_paths_with_a_slash(world: World) -> None:
    async with (
        served(world.app(), world.settings) as url,
        httpx.AsyncClient(base_url=url, auth=ADMINISTRATOR) as client,
    ):
        events = await client.get("/itc_db", params={"vhost": "/", "page": 1, "page_size": 2})
        assert events.status_code == 200
        assert {"items", "page_count", "total_count"} <= events.json().keys()
        started = await client.put("/itc_db/%2F/undefined/undefined/undefined")
        assert started.status_code in (201, 204)
        state = await client.get("/itc_db/%2F/undefined/undefined/undefined")
        assert (state.status_code, state.json()["vhost"]) == (200, "/")
        missing = await client.get("/itc_db/events/999999")
        assert (missing.status_code, missing.json()["error"]) == (404, "Object Not Found")
