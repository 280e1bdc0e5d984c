"""What failed, and reports on order, over HTTP and on the command line."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from app.api.certainty import ListCertainty
from app.stored.failures import FailurePage
from app.tracker import Policy, Record
from model.reports.learning import ExpectationsFacts, ExpectationsReport
from model.sound import Certainty
from tests.api.conftest import World, connected
from tests.api.described import conforms
from tests.api.test_cli import Command, run, url  # noqa: F401  fixtures
from tests.contract.failing import ADMIN, BILLING, death, handed, letter, message
from tests.contract.outbox import tell, tracker_by


@pytest.fixture
async def client(world: World) -> AsyncIterator[httpx2.AsyncClient]:
    async with connected(world.app(), auth=("admin", "secret")) as client:
        yield client


async def rejections(world: World, count: int, vhost: str = "shop") -> list[int]:
    """The ids of some orders that are handed over, rejected, and found among the dead."""
    trace = await world.store.traces.create(vhost, Policy.connection)
    records: list[Record] = []
    for number in range(count):
        order = message(number)
        records += [order, handed(BILLING, order), letter(ADMIN, order, death("orders"))]
    return await tell(world.store, trace.id, tracker_by(Policy.connection), records)


async def test_failures_are_listed_a_page_at_a_time(
    client: httpx2.AsyncClient, world: World
) -> None:
    ids = await rejections(world, 3)
    asked: dict[str, Any] = {"vhost": "shop", "limit": 2}
    first = (await client.get("/itc_db/failures", params=asked)).json()
    conforms(first, (FailurePage, ListCertainty, Certainty))
    assert (first["counted"], first["truncated"], first["next"]) == (3, True, ids[5])
    assert first["items"][0] == {
        "event": ids[8],
        "message": ids[6],
        "vhost": "shop",
        "kind": "died",
        "queue": "orders",
        "reason": "rejected",
        "type": "order.new",
        "exception": None,
        "at": first["items"][0]["at"],
        "by": {"number": 2, "name": "billing@10.0.0.6 #2"},
        "handed_over": ids[7],
        "candidate": None,
        "times": 1,
        "to": "orders.dead",
        "publisher": {"number": 1, "name": "shop@10.0.0.5 #1"},
        "exchange": "",
        "routing_key": "orders",
        "put_back": None,
        "remedy": first["items"][0]["remedy"],
        "correlation_id": None,
    }
    [group] = first["groups"]
    assert (group["count"], group["newest"], group["by"]) == (3, ids[8], ["billing@10.0.0.6 #2"])
    assert sum(span["count"] for span in first["over_time"]["counts"]) == 3
    assert (first["complete"], first["sound"]) == (True, True)
    then = (await client.get("/itc_db/failures", params={**asked, "before": first["next"]})).json()
    assert [item["event"] for item in then["items"]] == [ids[2]]
    assert (then["truncated"], then["next"]) == (False, None)


async def test_without_a_virtual_host_all_that_the_user_sees_are_meant(
    client: httpx2.AsyncClient, world: World
) -> None:
    await rejections(world, 1)
    found = (await client.get("/itc_db/failures", params={"kind": "died"})).json()
    conforms(found, (FailurePage, ListCertainty))
    assert (found["complete"], "gaps" in found) == (False, False)
    assert {item["vhost"] for item in found["items"]} == {"shop"}


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ({"vhost": "none"}, 404),
        ({"kind": "lost"}, 400),
        ({"limit": 0}, 400),
        ({"since": "yesterday"}, 400),
        ({"query": "x"}, 400),
    ],
)
async def test_what_cannot_be_asked_is_refused(
    client: httpx2.AsyncClient, asked: dict[str, Any], status: int
) -> None:
    assert (await client.get("/itc_db/failures", params=asked)).status_code == status


async def test_a_report_is_made_listed_and_read(client: httpx2.AsyncClient) -> None:
    asked = {"vhost": "/", "since": "2026-01-01", "until": "2026-01-02"}
    made = await client.put("/itc_db/reports/expectations", params=asked)
    assert made.status_code == 201
    report = made.json()
    conforms(report, ExpectationsReport)
    [facts] = (await client.get("/itc_db/reports")).json()
    conforms(facts, ExpectationsFacts)
    assert facts["id"] == report["id"]
    assert (await client.get(f"/itc_db/reports/{facts['id']}")).json() == report
    refused = {**asked, "since": "2026-01-02"}
    answer = await client.put("/itc_db/reports/expectations", params=refused)
    assert answer.status_code == 400


async def test_the_command_line_shows_failures(run: Command, world: World) -> None:  # noqa: F811
    await rejections(world, 2)
    listed = (await run("failures", "shop")).out
    assert listed.count("rejected") == 2
    assert "billing@10.0.0.6" in listed
    grouped = (await run("failures", "shop", "--groups")).out
    assert grouped.count("order.new") == 1
    told = json.loads((await run("failures", "shop", "--kind", "died", "--json")).out)
    assert told["counted"] == 2
    remedies = [item["remedy"] for item in told["items"]]
    printed = (await run("failures", "shop", "--put-back")).out.splitlines()
    assert [line for line in printed if line.startswith("rabbitmqadmin --vhost=shop ")] == remedies
    world.broker.admin_script = False
    printed = (await run("failures", "shop", "--put-back")).out
    assert printed.count("rabbitmqadmin publish message --vhost=shop ") == 2
    world.broker.down = True  # its version is unknown then
    assert (await run("failures", "shop", "--put-back")).out.splitlines()[-1] in remedies
