"""Names of participants, and aliases, over HTTP."""

from __future__ import annotations

import httpx2
import pytest

from tests.api.conftest import World
from tests.api.story import BILLED, BILLING, INVOICED, deliver

BILLING_S = "/itc_db/participants/%2F/2"
OWN_NAME = "billing@10.0.0.2 #2"


async def name_of(client: httpx2.AsyncClient, number: int) -> str:
    listed = (await client.get("/itc_db/participants", params={"vhost": "/"})).json()
    return next(str(each["name"]) for each in listed if each["participant"] == number)


async def test_everything_speaks_of_a_participant_by_its_alias(
    world: World, client: httpx2.AsyncClient
) -> None:
    given = await client.put(BILLING_S, json={"alias": "  Billing, Berlin "})
    [told] = await world.tell(deliver(BILLING, "order.new", "billing"))
    event = (await client.get(f"/itc_db/events/{told}")).json()
    found = (await client.get("/itc_db", params={"participant_name": "Billing, Berlin"})).json()

    assert (given.status_code, given.content) == (204, b"")
    assert await name_of(client, 2) == "Billing, Berlin"
    assert event["participant_name"] == "Billing, Berlin"
    assert "Billing, Berlin" in [entry["name"] for entry in event["clocks"]["vector"]]
    assert [each["id"] for each in found] == [told, INVOICED, BILLED]


async def test_an_alias_is_taken_back(client: httpx2.AsyncClient) -> None:
    await client.put(BILLING_S, json={"alias": "Billing"})
    gone = await client.delete(BILLING_S)
    again = await client.delete(BILLING_S)

    assert (gone.status_code, gone.content, again.status_code) == (204, b"", 404)
    assert again.json()["reason"] == "participant 2 has no alias"
    assert await name_of(client, 2) == OWN_NAME


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "the body says the alias"),
        (b"{}", "body.alias: "),
        (b'{"alias": null}', "body.alias: "),
        (b'{"alias": 7}', "body.alias: "),
        (b'{"alias": "x", "more": 1}', "body.more: "),
        (b'{"alias": ""}', "at least one character"),
        (b'{"alias": "  "}', "at least one character"),
        (b'{"alias": "' + b"x" * 300 + b'"}', "at most 100 characters, not 300"),
        (b'{"alias": "a\\u0007b"}', "no control characters"),
        (b'{"alias": "a\\u0000b"}', "no control characters"),
        (b'{"alias": "a\\u202eb"}', "no control characters"),
        (b'{"alias": "\\ud800"}', "body"),
        (b'{"alias": "12"}', "digits alone"),
        (b"{", "body"),
    ],
)
async def test_what_is_no_alias_is_refused_with_a_reason(
    client: httpx2.AsyncClient, body: bytes, reason: str
) -> None:
    answer = await client.put(BILLING_S, content=body)

    assert (answer.status_code, answer.json()["error"]) == (400, "bad_request")
    assert reason in answer.json()["reason"]
    assert await name_of(client, 2) == OWN_NAME


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/itc_db/participants/%2F/99", 404),
        ("/itc_db/participants/shop/1", 404),
        ("/itc_db/participants/secret/1", 404),
        ("/itc_db/participants/%2F/0", 400),
        ("/itc_db/participants/%2F/x", 400),
        (f"/itc_db/participants/%2F/{2**40}", 400),
    ],
)
async def test_nobody_else_is_named(
    client: httpx2.AsyncClient, method: str, path: str, status: int
) -> None:
    body = {"alias": "Orders"} if method == "PUT" else None
    answer = await client.request(method, path, json=body)

    assert answer.status_code == status


async def test_who_may_only_look_names_nobody(client: httpx2.AsyncClient) -> None:
    client.auth = httpx2.BasicAuth("watcher", "secret")
    answer = await client.put(BILLING_S, json={"alias": "Billing"})

    assert answer.status_code == 401
    assert await name_of(client, 2) == OWN_NAME


async def test_names_are_searched_for_by_regular_expressions(client: httpx2.AsyncClient) -> None:
    asked = {"participant_name": "^billing@", "use_regex": True}
    found = (await client.get("/itc_db", params=asked)).json()

    assert [each["id"] for each in found] == [INVOICED, BILLED]
