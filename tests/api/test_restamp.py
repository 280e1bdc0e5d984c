"""Restamping over HTTP, by a real process on a real store."""

from __future__ import annotations

import httpx2
import pytest

from app.stored.capture import RestampedTrace, RestampOutcome
from app.tracker import Policy, Publish
from model.jobs import OfJob
from tests.api.conftest import World
from tests.api.described import described
from tests.api.story import BILLED, ORDERED, SHOP, STRAY

URL = "/itc_db/restamp"
SLASH = {"vhost": "/"}
LATER = {"prefer": "respond-async"}


async def test_stored_events_get_other_participants(
    world: World, client: httpx2.AsyncClient
) -> None:
    before = (await client.get("/itc_db", params=SLASH)).json()
    answer = await client.put(URL, params=SLASH, json={"participant": "host"})
    summary = described(answer, (RestampedTrace, RestampOutcome, OfJob))
    after = (await client.get("/itc_db", params=SLASH)).json()
    people = (await client.get("/itc_db/participants", params=SLASH)).json()
    relation = (await client.get(f"/itc_db/compare/{ORDERED}/{BILLED}")).json()["relation"]
    trace = await world.store.traces.find("/")

    assert answer.status_code == 200
    assert (summary.events, summary.participants, summary.assumed) == (STRAY, 3, 0)
    assert world.traces.pauses == ["/"]
    assert trace is not None
    assert (trace.policy, trace.events) == ("host", STRAY)
    assert {person["name"] for person in people} == {
        "shop@10.0.0.1",
        "billing@10.0.0.2",
        "audit@10.0.0.3",
    }
    assert relation == "before"
    kept = ("id", "cause", "match", "payload_bytes")
    assert [[event[name] for name in kept] for event in after] == [
        [event[name] for name in kept] for event in before
    ]


async def test_without_a_body_the_rules_stay(world: World, client: httpx2.AsyncClient) -> None:
    answer = await client.put(URL, params=SLASH)

    assert answer.status_code == 200
    trace = await world.store.traces.find("/")
    assert trace is not None
    assert (answer.json()["participant"], answer.json()["quiet"]) == (
        trace.policy,
        list(trace.quiet),
    )


async def test_messages_are_read_again_by_the_rules_that_hold_now(
    world: World, client: httpx2.AsyncClient
) -> None:
    def naming(headers: dict[str, str], body: str = "{}") -> Publish:
        properties = {"message_id": headers.get("id"), "content_type": "application/json"}
        given = {name: value for name, value in properties.items() if value is not None}
        return Publish(SHOP, "", ("k",), (), {**given, "headers": headers}, body.encode())

    first, by_header, by_body, cut = await world.tell(
        naming({"id": "m1"}, '{"event": {"id": 1}}'),
        naming({"causation_id": "m1"}),
        naming({}, '{"caused_by": 1}'),
        naming({"causation_id": "m1"}, f'{{"caused_by": 1, "more": "{"x" * 1_000}"}}'),
    )
    rule = {
        "kind": "parent",
        "child": "$message.payload#/caused_by",
        "parent": "$message.payload#/event/id",
    }
    assert (await client.put("/itc_db/links/%2F/own", json=rule)).status_code == 201
    kept = await client.put(URL, params=SLASH)
    answer = await client.put(URL, params=SLASH, json={"links": True})
    effects = await client.get(f"/itc_db/events/{first}/effects", params={"via": "links"})
    listed = (await client.get("/itc_db/links", params=SLASH)).json()

    assert (kept.json()["edges"], kept.json()["cut"]) == (None, None)
    assert (answer.json()["edges"], answer.json()["cut"]) == (3, 1)
    assert [each["id"] for each in effects.json()["items"]] == [by_header, by_body, cut]
    assert listed[-1]["name"] == "own"
    assert {(each["state"], each["from_event_id"]) for each in listed} == {("holds", 1)}


async def test_quiet_traffic_is_chosen_anew(world: World, client: httpx2.AsyncClient) -> None:
    answer = await client.put(URL, params=SLASH, json={"quiet": ["exchange:orders"]})
    event = (await client.get(f"/itc_db/events/{BILLED}")).json()
    relation = (await client.get(f"/itc_db/compare/{ORDERED}/{BILLED}")).json()["relation"]

    assert answer.json()["quiet"] == ["exchange:orders"]
    assert (event["quiet"], event["cause"], relation) == (True, ORDERED, "concurrent")


@pytest.mark.parametrize(
    ("vhost", "body", "status"),
    [
        ("/", {"participant": "queue"}, 400),
        ("/", {"quiet": ["audit"]}, 400),
        ("/", {"quiet": ["queue:" + "x" * 301]}, 400),
        ("/", {"quiet": ["queue:a"] * 101}, 400),
        ("/", {"reset": True}, 400),
        ("/", {"links": "some"}, 400),
        ("shop", {"participant": "host"}, 404),
        ("secret", {"participant": "host"}, 404),
    ],
)
async def test_what_cannot_be_is_refused(
    world: World, client: httpx2.AsyncClient, vhost: str, body: dict[str, object], status: int
) -> None:
    answer = await client.put(URL, params={"vhost": vhost}, json=body)

    assert answer.status_code == status
    assert world.spark.runs == 0


async def test_only_one_at_a_time_and_it_can_be_cancelled(
    world: World, client: httpx2.AsyncClient
) -> None:
    world.traces.may_pause.clear()
    first = await client.put(URL, params=SLASH, json={"participant": "host"}, headers=LATER)
    same = await client.put(URL, params=SLASH, json={"participant": "host"}, headers=LATER)
    other = await client.put(URL, params=SLASH, json={"participant": "user"}, headers=LATER)
    cancelled = await client.delete("/itc_db/jobs/1")
    world.traces.may_pause.set()
    job = (await client.get("/itc_db/jobs/1")).json()
    trace = await world.store.traces.find("/")
    again = await client.put(URL, params=SLASH, json={"participant": "user"})

    assert (first.status_code, first.json()["kind"]) == (202, "restamp")
    assert (same.json()["id"], other.status_code) == (1, 409)
    assert other.json()["reason"] == "job 1, a restamp of /, has not ended"
    assert (cancelled.status_code, job["state"]) == (204, "cancelled")
    assert trace is not None
    assert trace.policy == Policy.channel
    assert again.json()["participant"] == "user"


async def test_what_is_archived_is_not_restamped(client: httpx2.AsyncClient) -> None:
    await client.put("/itc_db/archive", params={"vhost": "/", "keep_days": 7})
    answer = await client.put(URL, params=SLASH, json={"participant": "host"})

    assert answer.status_code == 409
    assert "archive" in answer.json()["reason"]


async def test_a_checkpoint_that_cannot_be_read_fails_the_job(
    world: World, client: httpx2.AsyncClient
) -> None:
    await world.store.batches.database.write(
        lambda connection: connection.exec_driver_sql(
            "UPDATE traces SET checkpoint = x'00' WHERE vhost = '/'"
        )
    )
    answer = await client.put(URL, params=SLASH, json={"participant": "host"})

    assert answer.status_code == 500
    assert "rabbitmq-itc trace reset" in answer.json()["reason"]
