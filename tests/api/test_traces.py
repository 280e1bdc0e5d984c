"""Traces over HTTP."""

from __future__ import annotations

import httpx2
import pytest

from app.traces.status import TraceStatus
from tests.api.conftest import World
from tests.api.described import described

TRACE = "/itc_db/%2F/undefined/undefined/undefined"
UNKNOWN = "/itc_db/nowhere/undefined/undefined/undefined"


async def test_a_trace_is_started_seen_and_stopped(client: httpx2.AsyncClient) -> None:
    started = await client.put(TRACE, json={"participant": "user"})
    again = await client.put(TRACE)
    running = described(await client.get(TRACE), TraceStatus)
    listed = (await client.get("/itc_db/traces")).json()
    stopped = await client.delete(TRACE)
    after = described(await client.get(TRACE), TraceStatus)

    assert [started.status_code, again.status_code, stopped.status_code] == [201, 204, 204]
    assert started.content == again.content == stopped.content == b""
    assert (running.state, running.participant, running.wanted) == ("running", "user", True)
    assert running.created_at == "2026-01-02T03:04:05.678901Z"
    assert [trace["vhost"] for trace in listed] == ["/"]
    assert after.state == "stopped"


async def test_a_trace_takes_some_exchanges_and_queues_if_it_is_told_to(
    client: httpx2.AsyncClient,
) -> None:
    created = await client.put(TRACE, json={"exchanges": ["", "orders.#"]})
    partial = described(await client.get(TRACE), TraceStatus)

    assert created.status_code == 201
    assert (partial.exchanges, partial.queues) == (["", "orders.#"], None)


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        ({"exchanges": []}, "exchanges is an empty list"),
        ({"queues": []}, "queues is an empty list"),
        ({"queues": ["x" * 248]}, "too long: at most 247 bytes"),
        ({"exchanges": ["a\0b"]}, "no name has"),
        ({"exchanges": ["x"] * 101}, "more than 100 exchanges"),
        ({"exchanges": "orders"}, "array"),
        ({"exchanges": [1]}, "string"),
        ({"later": "perhaps"}, "later"),
    ],
)
async def test_what_cannot_be_taken_is_refused_in_words(
    client: httpx2.AsyncClient, wish: dict[str, object], words: str
) -> None:
    refused = await client.put(TRACE, json=wish)
    assert refused.status_code == 400
    assert words in refused.json()["reason"]


async def test_a_trace_takes_no_bodies_if_it_is_told_to(client: httpx2.AsyncClient) -> None:
    await client.put(TRACE, json={"bodies": False})
    without = described(await client.get(TRACE), TraceStatus)
    refused = await client.put(TRACE, json={"bodies": "perhaps"})

    assert without.bodies is False
    assert refused.status_code == 400


async def test_another_policy_than_the_events_have_is_a_conflict(
    client: httpx2.AsyncClient,
) -> None:
    await client.put(TRACE)
    answer = await client.put(TRACE, json={"participant": "user"})

    assert (answer.status_code, answer.json()["error"]) == (409, "conflict")


@pytest.mark.parametrize("method", ["PUT", "GET", "DELETE"])
async def test_an_unknown_virtual_host_is_not_found(
    world: World, client: httpx2.AsyncClient, method: str
) -> None:
    world.broker.add("admin", "secret", "administrator", "/", "nowhere")
    answer = await client.request(method, UNKNOWN)

    assert (answer.status_code, answer.json()["error"]) == (404, "Object Not Found")
    what = "virtual host" if method == "PUT" else "trace"
    assert answer.json()["reason"].startswith(f"no such {what}: ")

    answer = await client.request(method, UNKNOWN.replace("nowhere", "hidden"))
    assert (answer.status_code, answer.json()["reason"]) == (404, "no such virtual host")


@pytest.mark.parametrize("path", ["participants", "links", "certainty"])
async def test_what_is_asked_of_a_virtual_host_without_a_trace_tells_why_there_is_nothing(
    world: World, client: httpx2.AsyncClient, path: str
) -> None:
    world.broker.add("admin", "secret", "administrator", "/", "nowhere")
    answer = await client.get(f"/itc_db/{path}", params={"vhost": "nowhere"})
    other = await client.get(f"/itc_db/{path}", params={"vhost": "hidden"})

    assert answer.status_code == other.status_code == 404
    assert other.json()["reason"] == "no such virtual host"
    assert answer.json()["reason"] == "no such trace: virtual host 'nowhere' was never traced"


async def test_old_events_are_removed_on_request(world: World, client: httpx2.AsyncClient) -> None:
    await client.put(TRACE)
    preview = await client.delete(
        "/itc_db", params={"vhost": "/", "keep_events": 4, "dry_run": True}
    )
    pruned = await client.delete("/itc_db", params={"vhost": "/", "keep_days": 0.5})
    unbounded = await client.delete("/itc_db", params={"vhost": "/"})
    nowhere = await client.delete("/itc_db")

    assert preview.json() == {"vhost": "/", "events": 3, "participants": 1, "dry_run": True}
    assert pruned.json()["dry_run"] is False
    assert world.traces.pruned == [("/", 4, None, True), ("/", None, 43_200.0, False)]
    assert (unbounded.status_code, nowhere.status_code) == (400, 400)


async def test_whoami_says_who_is_signed_in_and_what_there_is_to_choose(
    world: World, client: httpx2.AsyncClient
) -> None:
    admin = (await client.get("/itc_db/whoami")).json()
    client.auth = httpx2.BasicAuth("watcher", "secret")
    watcher = (await client.get("/itc_db/whoami")).json()

    assert admin == {
        "name": "admin",
        "tags": ["administrator"],
        "vhosts": ["/", "shop"],
        "may_write": True,
    }
    assert (watcher["tags"], watcher["may_write"]) == (["monitoring"], False)
