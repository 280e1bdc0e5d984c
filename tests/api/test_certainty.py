"""Every list says how far it is to be relied on, and of which period."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from tests.api.conftest import World
from tests.api.story import UNSOUND

SINCE, WHOLE_SINCE = "2026-01-02T03:04:05.000000Z", "2026-01-02T03:04:05.500000Z"
LISTS = ("/itc_db", "/itc_db/conversations", "/itc_db/failures", "/itc_db/violations",
         "/itc_db/histogram")  # fmt: skip


async def certainty_of(client: httpx2.AsyncClient, path: str, **asked: Any) -> dict[str, Any]:
    """The certainty of a list, of events as a page."""
    page = {"page": 1} if path == "/itc_db" else {}
    answer = await client.get(path, params={**page, **asked})
    assert answer.status_code == 200, answer.text
    values = answer.json()
    return {name: values[name] for name in ("complete", "sound", "period")}


async def open_gap(world: World, vhost: str) -> None:
    trace = await world.store.traces.find(vhost)
    trace = trace or await world.store.traces.create(vhost, "channel")
    await world.store.gaps.open(
        trace.id, after_event_id=3, since=1_767_323_047_500_000, reason="tracing was off"
    )


@pytest.mark.parametrize("path", LISTS)
async def test_a_list_is_complete_where_its_period_has_no_gap(
    world: World, client: httpx2.AsyncClient, path: str
) -> None:
    asked = {"vhost": "/", "since": WHOLE_SINCE, "until": "2026-01-02T03:05:05Z"}
    assert (await certainty_of(client, path, **asked))["complete"]
    await open_gap(world, "/")
    assert not (await certainty_of(client, path, **asked))["complete"]
    before = await certainty_of(client, path, **{**asked, "until": "2026-01-02T03:04:07Z"})
    assert before["complete"]
    assert before["period"]["until"] == "2026-01-02T03:04:07.000000Z"


@pytest.mark.parametrize("path", LISTS)
async def test_a_list_of_all_is_as_certain_as_the_least_certain_of_them(
    world: World, client: httpx2.AsyncClient, path: str
) -> None:
    since = {"since": WHOLE_SINCE}
    assert (await certainty_of(client, path, **since))["complete"]
    await open_gap(world, "shop")
    assert not (await certainty_of(client, path, **since))["complete"]
    assert (await certainty_of(client, path, vhost="/", **since))["complete"]


@pytest.mark.parametrize("path", LISTS)
async def test_a_list_says_whether_participants_are_in_doubt(
    world: World, client: httpx2.AsyncClient, path: str
) -> None:
    assert (await certainty_of(client, path))["sound"]
    await world.tell(*UNSOUND)
    assert not (await certainty_of(client, path))["sound"]


async def test_a_plain_array_says_it_in_a_header(world: World, client: httpx2.AsyncClient) -> None:
    asked = {"since": WHOLE_SINCE, "until": "2026-01-02T03:05:05Z"}
    page = await certainty_of(client, "/itc_db", **asked)
    header = (await client.get("/itc_db", params=asked)).headers["itc-certainty"]
    period = page["period"]
    times = f'since="{period["since"]}", until="{period["until"]}"'
    assert header == f"complete=?1, sound=?1, {times}"
    await open_gap(world, "/")
    changed = (await client.get("/itc_db", params=asked)).headers["itc-certainty"]
    assert changed == f"complete=?0, sound=?1, {times}"


async def test_the_period_begins_where_the_record_does(client: httpx2.AsyncClient) -> None:
    made = (await client.put("/itc_db/%2F/undefined/undefined/undefined")).status_code
    assert made == 201
    of_all = await certainty_of(client, "/itc_db", vhost="/", since="2020-01-01")
    known = (await client.get("/itc_db/certainty", params={"vhost": "/"})).json()["known_since"]
    assert of_all["period"]["since"] == known


async def test_of_more_virtual_hosts_than_one_answer_looks_through_nothing_is_said(
    world: World, client: httpx2.AsyncClient
) -> None:
    vhosts = [f"more-{number}" for number in range(21)]
    for vhost in vhosts:
        await world.store.traces.create(vhost, "channel")
    world.broker.add("many", "secret", "administrator", *vhosts)
    client.auth = ("many", "secret")
    assert await certainty_of(client, "/itc_db") == {
        "complete": None, "sound": None, "period": None,
    }  # fmt: skip
    assert "itc-certainty" not in (await client.get("/itc_db")).headers
